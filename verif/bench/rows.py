"""Files of arrays between tests and benches, which know no NumPy.

NumPy's import takes longer than all else that a short simulation does. For a bench an array is a
list of numbers: of a row of bytes the number that they are, the least significant first. On the
side of the tests there is `verif.support.rows`.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["Rows", "read", "write"]

Rows = tuple[int, Sequence[int]]
"""Bytes of a row, and rows."""


def read(path: str) -> dict[str, list[int]]:
    """Arrays in a file, by name."""
    found = json.loads(Path(path).read_text())
    return {n: _unpacked(one) if isinstance(one, dict) else one for n, one in found.items()}


def _unpacked(one: dict[str, Any]) -> list[int]:
    data, size = bytes.fromhex(one["rows"]), one["bytes"]
    if size == 1:
        return list(data)
    return [int.from_bytes(data[at : at + size], "little") for at in range(0, len(data), size)]


def write(path: str, rows: Mapping[str, Rows], **numbers: Any) -> None:
    """Write arrays of rows, and others of numbers or single ones, to a file."""
    assert not rows.keys() & numbers, f"{sorted(rows.keys() & numbers)} are there twice"
    log = dict(numbers)
    for name, (size, words) in rows.items():
        data = b"".join(word.to_bytes(size, "little") for word in words)
        log[name] = {"bytes": size, "rows": data.hex()}
    Path(path).write_text(json.dumps(log))
