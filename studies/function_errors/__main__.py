"""``python -m studies.function_errors [NAME...]``: prove errors over all binary32 numbers.

Every one of the 2^32 arguments goes through the model of each function of these names, or of all;
``gelu`` is that of the compact grade, ``gelu_fine`` that of the fine one.
Errors must stay within the bound, and what else is promised must hold; the first argument where it
does not ends the sweep of that function, and the program then fails. Lanes of ``gen/`` that have
the function get all arguments too, and must give what the model gives. Results of functions that
are done go to ``docs/function_errors.json``, and with ``--check`` are compared with what is there.
A core takes one to five minutes a function. What is interrupted goes on where it was, unless lanes,
tables or results of the model have changed since then; the next run after the end begins anew.
"""

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any

from mxsafe.cli.arguments import parse_positive
from studies.function_errors import promises, record
from studies.function_errors.errors import Worst
from studies.function_errors.lanes import Lane, compiled, lanes_of
from studies.function_errors.models import MODELS, function_of
from studies.function_errors.record import RESULTS, State
from studies.function_errors.sweep import FIELDS, Found, examine, sample
from studies.prose import parser_of

STATE = Path("sim_build/function_errors.json")
_EVERY = 5.0
"""Seconds between two lines of progress, and between two states."""
_TIME = {"seconds": 0.0}
_Task = tuple[str, int]


def _function(text: str) -> str:
    if text not in MODELS:
        raise argparse.ArgumentTypeError(f"must be one of {', '.join(MODELS)}, not {text!r}")
    return text


def _file(text: str) -> Path:
    path = Path(text)
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(f"must be a file in a folder that exists, not {text!r}")
    return path


def _parser() -> argparse.ArgumentParser:
    parser = parser_of("function_errors", __doc__)
    parser.add_argument("names", nargs="*", type=_function, metavar="NAME", help="of functions")
    parser.add_argument(
        "--check",
        action="store_true",
        help="fail where results are not the published ones, and do not write them",
    )
    parser.add_argument(
        "--processes",
        type=parse_positive,
        default=os.cpu_count() or 1,
        help="that work (all cores)",
    )
    parser.add_argument("--state", type=_file, default=STATE, help=f"file to go on from ({STATE})")
    return parser


class Sweep:
    """Exponent fields of functions, shared out among processes.

    Attributes
    ----------
    failed : dict of str to str
        Functions that do not keep what they promise, and how.
    """

    def __init__(self, state: State, names: Sequence[str]) -> None:
        self._state = state
        self._left = {
            name: [field for field in range(FIELDS) if field not in state.done.get(name, set())]
            for name in names
        }
        self._worst: dict[str, Worst] = {}
        self._lanes: dict[str, list[Lane]] = {}
        self.failed: dict[str, str] = {}
        self._all = sum(len(each) for each in self._left.values())
        self._start = self._told = self._written = time.monotonic()

    def run(self, processes: int) -> None:
        """Examine all that is left; the state is written now and then, and in the end."""
        tasks = self._tasks()
        try:
            # A fresh interpreter for each process: nothing is shared by accident.
            context = multiprocessing.get_context("spawn")
            with ProcessPoolExecutor(processes, mp_context=context) as pool:
                running: dict[Future[Found], _Task] = {}
                for name, field in tasks:
                    known = self._worst[name]
                    job = pool.submit(examine, name, field, known, self._lanes[name])
                    running[job] = name, field
                    # Few are in flight, so that each knows the largest error before it.
                    while len(running) > processes:
                        self._collect(running)
                while running:
                    self._collect(running)
        finally:
            self._write()

    def _tasks(self) -> Iterator[_Task]:
        for name, fields in self._left.items():
            if not fields:
                continue
            self._lanes[name] = [compiled(lane, function_of(name)) for lane in lanes_of(name)]
            for lane in self._lanes[name]:
                print(f"{name}: beside the model {lane.name} gets all arguments", flush=True)
            self._worst[name] = sample(name)
            if name in self._state.found:
                self._worst[name] = self._worst[name].over(self._state.found[name].worst)
            for field in tuple(fields):  # what is done leaves the list
                if name not in self.failed:
                    yield name, field

    def _collect(self, running: dict[Future[Found], _Task]) -> None:
        """Take what is done from what is in flight."""
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            name, field = running.pop(future)
            try:
                found = future.result()
            except promises.BrokenPromiseError as violation:
                self.failed[name] = str(violation)
            else:
                self._take(name, field, found)
            if name in self.failed:
                self._left[name].clear()
                self._state.forget([name])
            self._tell(name)

    def _take(self, name: str, field: int, found: Found) -> None:
        """Note what was found."""
        if found.worst.error > 1 and name not in self.failed:
            worst = found.worst
            self.failed[name] = (
                f"{name} exceeds its bound: {worst.error:.10g} of it at 0x{worst.word:08x}"
            )
        if name not in self.failed:
            self._worst[name] = self._worst[name].over(found.worst)
            self._state.add(name, field, found)
            self._left[name].remove(field)

    def _tell(self, name: str) -> None:
        now = time.monotonic()
        left = sum(len(each) for each in self._left.values())
        if now - self._told >= _EVERY or not self._left[name]:
            done = self._all - left
            rest = (now - self._start) / done * left
            print(
                f"{name}: {len(self._left[name])} exponents to go, {self._worst[name]}; "
                f"all: {done} of {self._all}, {now - self._start:.0f} s, about {rest:.0f} s to go",
                flush=True,
            )
            self._told = now
        if now - self._written >= _EVERY:
            self._write()

    def _write(self) -> None:
        self._state.write()
        self._written = time.monotonic()


def _different(name: str, found: Mapping[str, Any]) -> bool:
    """Whether results are not the published ones, but for the time that they took."""
    known = record.published().get(name, {})
    return {**found, **_TIME} != {**known, **_TIME}


def _everything(state: State, names: Sequence[str], processes: int, *, check: bool) -> int:
    """Sweep all arguments, and publish what comes out, or compare it with what is published."""
    for name in state.stale:
        print(f"{name}: tables, model or lanes have changed, {state.path} is not used")
    for name in (name for name in names if name in state.done):
        print(f"{name}: goes on, {len(state.done[name])} of {FIELDS} exponents were done")
    sweep = Sweep(state, names)
    sweep.run(processes)
    done = {
        name: record.entry(name, state.found[name], state.fingerprints[name])
        for name in names
        if state.complete(name)
    }
    for name in names:
        each = done.get(name, {})
        print(sweep.failed.get(name) or f"{name}: {each['arguments']:,}, {state.found[name].worst}")
    failed = bool(sweep.failed)
    if check:
        for name in (name for name in done if _different(name, done[name])):
            print(f"{name}: results are not those of {RESULTS}", file=sys.stderr)
            failed = True
    else:
        # The same results in another time leave the file as it is.
        record.write_published({name: done[name] for name in done if _different(name, done[name])})
    state.forget(done)
    state.write()
    return int(failed)


def main(arguments: Sequence[str]) -> int:
    """Sweep the functions of these names, or all."""
    parser = _parser()
    options = parser.parse_args(arguments)
    names = list(dict.fromkeys(options.names)) or list(MODELS)
    try:
        missing = [name for name in names if name not in record.published()]
        # What the state says of other functions is kept.
        state = State.load(options.state, MODELS)
    except ValueError as error:
        parser.error(str(error))
    if options.check and missing:
        parser.error(f"check needs results of {missing[0]} in {RESULTS}")
    return _everything(state, names, options.processes, check=options.check)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit("interrupted; the same command goes on")
