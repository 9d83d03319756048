"""Jobs and logs between tests and benches: JSON, in which arrays are the hex of their bytes.

NumPy's import takes longer than all else that a short simulation does. For a bench an array is a
list of numbers: of a row of bytes the number that they are, the least significant first. On the
side of the tests there is `verif.support.simulators.run_bench`.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def job() -> Any:
    """The job of MXSAFE_JOB."""
    return json.loads(Path(os.environ["MXSAFE_JOB"]).read_text(), object_hook=_unpacked)


def _unpacked(one: dict[str, Any]) -> Any:
    if one.keys() != {"bytes", "rows"}:
        return one
    data, size = bytes.fromhex(one["rows"]), one["bytes"]
    if size == 1:
        return list(data)
    return [int.from_bytes(data[at : at + size], "little") for at in range(0, len(data), size)]


def packed(bits: int, words: Sequence[int]) -> dict[str, Any]:
    """An array of a log: numbers of so many bits."""
    size = -(-bits // 8)
    return {"bytes": size, "rows": b"".join(word.to_bytes(size, "little") for word in words).hex()}


def write_log(log: Any) -> None:
    """Write the log to MXSAFE_LOG."""
    Path(os.environ["MXSAFE_LOG"]).write_text(json.dumps(log))
