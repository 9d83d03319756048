"""Jobs and logs between tests and benches: JSON, in which arrays are the hex of their bytes.

NumPy's import takes longer than all else that a short simulation does. For a bench an array is a
list of numbers: of a row of bytes the number that they are, the least significant first. On the
side of the tests there is `verif.support.simulators.run_bench`.
"""

import gc
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def begin() -> None:
    """Wait for jobs, and return in a process of its own for each, in its folder.

    A bench calls this before anything else. `verif.support.simulations` sends the jobs, as folders
    in a line each of the pipe ``MXSAFE_JOBS``, and is told how each process has ended.
    """
    sent, answers = (Path(os.environ[f"MXSAFE_{pipe}"]) for pipe in ("JOBS", "ANSWERS"))
    with sent.open() as jobs, answers.open("w") as told:
        gc.freeze()  # or each process would copy all objects when it ends, to look for garbage
        print("ready", file=told, flush=True)
        while place := jobs.readline().rstrip("\n"):
            number = os.fork()
            if not number:
                os.chdir(place)
                log = os.open("run.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
                for said in (1, 2):
                    os.dup2(log, said)
                os.environ.update(json.loads(Path("variables.json").read_text()))
                return
            _, status = os.waitpid(number, 0)
            print(os.waitstatus_to_exitcode(status), file=told, flush=True)
    os._exit(0)  # this process has simulated nothing


def job() -> Any:
    """The job of MXSAFE_JOB, in a process of its own."""
    begin()
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
