"""Simulators that have started and run job after job, each from where the simulation begins.

Python, cocotb and a bench take longer to start than most jobs take. So a simulator is started once
for a design and a bench. The bench waits in `verif.bench.job.begin`, from where it goes on in a
process of its own for each job: registers, memories and the time are there as they were at first.
"""

import contextlib
import json
import os
import tempfile
import threading
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path

from cocotb_tools.runner import get_results

Start = Callable[[Path, Mapping[str, str]], object]
"""Takes the folder to run in and variables for the bench.

In the folder what the simulator says is in ``run.log``, and results are in ``results.xml``. It
returns when the simulator has ended, or raises what cocotb's runner raises."""
_MOST = 8
"""Simulators that wait: tests of a unit take turns between a few designs."""
_ENDED = "ended\n"
_waiting: dict[Hashable, "Started"] = {}


class Started:
    """A simulator that waits for jobs.

    Parameters
    ----------
    folder : Path
        Where it has a folder of its own, ``place``, that it runs in.
    start : callable
        `Start`.
    """

    def __init__(self, folder: Path, start: Start) -> None:
        self._own = tempfile.TemporaryDirectory(dir=folder, prefix="run-")
        self._pipes = tempfile.TemporaryDirectory(prefix="mxsafe-")  # not every disk has pipes
        self.place = Path(self._own.name)
        jobs, answers = (Path(self._pipes.name) / name for name in ("jobs", "answers"))
        for pipe in (jobs, answers):
            os.mkfifo(pipe)
        # Who has opened both ends waits for nobody, and is told even if the simulator is gone.
        self._jobs, self._answers = (os.open(pipe, os.O_RDWR) for pipe in (jobs, answers))
        self._told = os.fdopen(self._answers, closefd=False)
        variables = {"MXSAFE_JOBS": str(jobs), "MXSAFE_ANSWERS": str(answers)}

        def run() -> None:
            try:
                with contextlib.suppress(RuntimeError, SystemExit):  # results tell what was wrong
                    start(self.place, variables)
            finally:
                os.write(self._answers, _ENDED.encode())

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()
        self._answer()

    def _answer(self) -> str:
        answer = self._told.readline()
        self.waits = answer != _ENDED
        return answer

    def run(self, place: Path, variables: Mapping[str, str]) -> bool:
        """Run a job in a folder, with variables for the bench; returns whether it has passed.

        What the simulator said and the results are in the folder as `Start` has them.
        """
        results = place / "results.xml"
        given = {**variables, "COCOTB_RESULTS_FILE": str(results)}
        (place / "variables.json").write_text(json.dumps(given))
        os.write(self._jobs, f"{place}\n".encode())
        if self._answer() != "0\n":
            return False
        try:
            tests, failed = get_results(results)
        except RuntimeError:  # there are none
            return False
        return tests > 0 and not failed

    def close(self) -> None:
        """End the simulator."""
        os.write(self._jobs, b"\n")
        self._thread.join()
        self._told.close()
        for pipe in (self._jobs, self._answers):
            os.close(pipe)
        self._own.cleanup()
        self._pipes.cleanup()


def started(key: Hashable, folder: Path, start: Start) -> Started:
    """A simulator that waits for jobs: one that has been started with this key, or a new one.

    Parameters
    ----------
    key : hashable
        All that the simulator is started with.
    folder : Path
        As `Started` takes it, and `start` too.
    """
    simulator = _waiting.pop(key, None)
    if simulator is None or not simulator.waits:
        if simulator is not None:
            simulator.close()
        while len(_waiting) >= _MOST:
            close(next(iter(_waiting)))
        simulator = Started(folder, start)
    _waiting[key] = simulator  # the last one used is the last one closed
    return simulator


def close(key: Hashable) -> None:
    """End a simulator that has been started with this key."""
    _waiting.pop(key).close()


def close_all() -> None:
    """End all simulators."""
    for key in list(_waiting):
        close(key)
