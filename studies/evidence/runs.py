"""Runs: named measurements whose results are kept, so that none is made twice.

The result of a run is a JSON file named after it. It is written whole or not at all, and stands for
as long as function and parameters of the run are the same: what was interrupted goes on where it
was.
"""

import importlib
import json
import os
import platform
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import mxsafe
from mxsafe.atomic import write_atomically
from mxsafe.executors import Workers

Result = dict[str, Any]
"""Record of a run: `name`, `function`, `parameters`, `versions`, `seconds`, `numbers`."""

_NAME = re.compile(r"[a-z0-9][a-z0-9_.,-]*(/[a-z0-9][a-z0-9_.,-]*)*")
_VERSIONS = ("numpy", "numba", "torch")


class RunError(Exception):
    """Some runs raised an error; the results of the others are kept."""


@dataclass(frozen=True)
class Run:
    """A measurement.

    Attributes
    ----------
    name : str
        What it is, and where its result is kept: such as ``direct-cast/smollm2/mxsf/1x64``.
    function : str
        Module and function that measure, such as ``studies.evidence.language:measure``. It is
        called with the parameters as keywords, and with `folder`, a path of its own that may not
        exist yet, for what is to survive an interruption (checkpoints); it returns what JSON can
        hold.
    parameters : Mapping
        What JSON can hold too. A run with other parameters is another run, whatever its name.
    cost : float
        Roughly how many seconds it takes: for the time that is left, and for nothing else.

    Raises
    ------
    ValueError
        If the name or the function is not of that form.
    """

    name: str
    function: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    cost: float = 1.0

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"name must be words of a-z, 0-9 with / between, not {self.name!r}")
        if not re.fullmatch(r"[\w.]+:\w+", self.function):
            raise ValueError(f"function must be module:name, not {self.function!r}")


def path_of(run: Run, out: Path) -> Path:
    """Where the result of a run is kept."""
    return out / f"{run.name}.json"


def kept(run: Run, out: Path) -> Result | None:
    """The result of a run, if one of this very function and these parameters is there."""
    try:
        found = json.loads(path_of(run, out).read_text())
    except (OSError, ValueError):
        return None
    if not isinstance(found, dict) or "numbers" not in found:
        return None
    wanted = {"function": run.function, "parameters": json.loads(json.dumps(dict(run.parameters)))}
    return found if all(found.get(key) == value for key, value in wanted.items()) else None


def load(runs: Iterable[Run], out: Path) -> list[Result]:
    """Results of all runs that have been made, in their order."""
    return [result for run in runs if (result := kept(run, out)) is not None]


def perform(run: Run, folder: Path) -> Result:
    """Make a run, wherever this is called."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # runs are what is spread over cores
    module, name = run.function.split(":")
    function = getattr(importlib.import_module(module), name)
    start = time.monotonic()
    numbers = function(**run.parameters, folder=folder)
    return {
        "name": run.name,
        "function": run.function,
        "parameters": dict(run.parameters),
        "versions": _versions(),
        "seconds": round(time.monotonic() - start, 2),
        "numbers": numbers,
    }


def _versions() -> dict[str, str]:
    """Versions of what numbers depend on."""
    found = {"mxsafe": mxsafe.__version__, "python": platform.python_version()}
    for name in _VERSIONS:
        if name in sys.modules:
            found[name] = metadata.version(name)
    return found


def execute(
    runs: Sequence[Run],
    out: Path,
    workers: Workers,
    *,
    progress: Callable[[str], None] = lambda line: None,
) -> list[Result]:
    """Make all runs that have not been made, and keep each result at once.

    Parameters
    ----------
    runs : sequence of Run
        What to measure, in this order.
    out : Path
        Folder of results; it is created.
    workers : Workers
        Where runs are made. Results are written here, by this process.
    progress : callable
        Called with a line for every result.

    Returns
    -------
    list of dict
        A result for every run, in their order.

    Raises
    ------
    ValueError
        If two runs have one name.
    RunError
        If runs raised errors, after all others have been made.
    """
    names = [run.name for run in runs]
    if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise ValueError(f"names of runs must differ, not {twice[0]} twice")
    found: dict[str, Result | None] = {run.name: kept(run, out) for run in runs}
    todo = [run for run in runs if found[run.name] is None]
    if before := len(runs) - len(todo):
        progress(f"{before} of {len(runs)} runs made before")
    errors: list[str] = []
    clock = _Clock(todo)
    running: dict[Future[Result], Run] = {}
    while todo or running:
        while todo and len(running) < workers.count:
            run = todo.pop(0)
            running[workers.executor.submit(perform, run, out / run.name)] = run
        finished, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in finished:
            run = running.pop(future)
            left = clock.after(run)
            error = future.exception()
            if error is not None:
                errors.append(f"{run.name}: {type(error).__name__}: {error}")
                progress(errors[-1])
                continue
            result = future.result()
            _keep(path_of(run, out), result)
            found[run.name] = result
            done = len(found) - list(found.values()).count(None)
            progress(f"[{done}/{len(runs)}] {result['seconds']:8.1f} s  {run.name}, {left}")
    if errors:
        raise RunError("\n".join(errors))
    return [one for one in found.values() if one is not None]


def _keep(path: Path, result: Result) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(result, indent=1, allow_nan=False) + "\n"
    write_atomically(path, text)


class _Clock:
    """How long the rest will take, as the runs so far took."""

    def __init__(self, todo: Sequence[Run]) -> None:
        self.start = time.monotonic()
        self.done = 0.0
        self.left = sum(run.cost for run in todo)

    def after(self, run: Run) -> str:
        """Note that a run has been made; says what is left."""
        self.done += run.cost
        self.left -= run.cost
        seconds = (time.monotonic() - self.start) * max(self.left, 0.0) / self.done
        minutes, seconds = divmod(round(seconds), 60)
        return f"{minutes} min {seconds:02} s left"
