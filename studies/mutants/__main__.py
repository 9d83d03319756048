"""``python -m studies.mutants [MODULE...]``: a mutation score of the benches.

Breaks modules of ``gen/`` at random and asks whether a test notices; names may have ``*`` in them,
and without one all modules are taken: small ones first, while one job takes large ones, so that no
job ends long before the others. If one is due, all tests of the Verilog run and what they drive is
recorded, in ``sim_build/mutants``, which takes a quarter of an hour or more; with ``--tests`` those
of these files alone. Results go to ``docs/mutation.json`` module by module, and at the end to the
page ``docs/mutation.md`` and, as a score, to ``docs/trust.md``. What is interrupted goes on where
it was: files of tests that were recorded and modules with a result are left out, unless the module
has changed since then; that tests have changed is not noticed. With ``--anew`` modules with a
result are tried once more, but for what is proved to be equivalent; that goes on after an interrupt
too, if no modules are named. Without ``docs/mutation.json`` all is tried from nothing.
"""

import argparse
import fnmatch
import os
import resource
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any

from mxsafe.cli.arguments import parse_positive
from studies import pages
from studies.mutants import record
from studies.mutants.designs import Design, load, module_without_parameters
from studies.mutants.designs import record as record_tests
from studies.mutants.reasons import reason
from studies.mutants.trial import ALIVE, EQUIVALENT, LATER, put_to_trial, tried_in
from studies.prose import parser_of
from verif.support import manifest
from verif.support.manifest import Module

FOLDER = Path("sim_build/mutants")


def _file(text: str) -> Path:
    path = Path(text)
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"must be a file of tests that exists, not {text!r}")
    return path.absolute()


def _parser() -> argparse.ArgumentParser:
    parser = parser_of("mutants", __doc__)
    parser.add_argument("names", nargs="*", metavar="MODULE", help="of gen/")
    parser.add_argument(
        "--jobs", type=parse_positive, default=os.cpu_count() or 1, help="(all cores)"
    )
    parser.add_argument(
        "--minutes", type=parse_positive, help="begin no more modules after so many minutes"
    )
    parser.add_argument(
        "--again",
        action="store_true",
        help="try modules again that have mutants alive without a reason, or left",
    )
    parser.add_argument(
        "--anew",
        action="store_true",
        help="try all mutants again but those that are proved to be equivalent",
    )
    records = parser.add_mutually_exclusive_group()
    records.add_argument(
        "--recorded", action="store_true", help="record no more tests; take those that there are"
    )
    records.add_argument(
        "--tests",
        nargs="+",
        type=_file,
        default=[],
        metavar="FILE",
        help="record these files alone, and take them and what there is",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="build one large design at most, and run short programs alone and no tests of "
        "large designs; what is left is for later",
    )
    parser.add_argument(
        "--reasons",
        action="store_true",
        help="try mutants that have a reason to live as long as others",
    )
    return parser


def _due(
    names: Sequence[str],
    modules: Mapping[str, Module],
    done: Mapping[str, Any],
    options: argparse.Namespace,
) -> list[str]:
    """Modules that have to be tried, again those of which something lives without a reason.

    With `--reasons` those of which something lives at all.
    """
    wanted = [name for name in modules if not names or any(fnmatch.fnmatch(name, n) for n in names)]
    due = []
    for name in wanted:
        found = done.get(name)
        fresh = found is not None and found["digest"] == modules[name].digest
        alive = found[ALIVE] + found[LATER] if found else []
        left = [m for m in alive if options.reasons or not reason(name, m)]
        if not fresh or options.anew or (options.again and left):
            due.append(name)
    return due


def _try(
    module: Module,
    designs: Sequence[Design],
    beside: Mapping[str, Sequence[Module]],
    known: Mapping[str, Any],
    options: argparse.Namespace,
) -> dict[str, Any] | None:
    fresh = known.get("digest") == module.digest
    proved = [mutant["number"] for mutant in known[EQUIVALENT]] if fresh else []
    left = [mutant["number"] for mutant in known[ALIVE] + known[LATER]] if fresh else []
    numbers = range(1, known["mutants"] + 1) if fresh else []
    goes_on = fresh and not options.anew
    before = _seconds()
    result = put_to_trial(
        module,
        designs,
        FOLDER / "work",
        count=record.COUNT,
        seed=record.SEED,
        beside=beside,
        quick=options.quick,
        thorough=options.reasons,
        proved=proved,
        killed=[number for number in numbers if number not in proved + left],
        alive=left if goes_on else None,
    )
    if result is None:
        return None
    tried: list[str] = list(known["designs"]) if goes_on else []
    tried += [design for design in result["designs"] if design not in tried]
    seconds = (known.get("seconds", 0.0) if goes_on else 0.0) + _seconds() - before
    return result | {"designs": tried, "seconds": round(seconds, 1)}


def _seconds() -> float:
    """Time of a processor that this process and its children have had."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(times.ru_utime + times.ru_stime for times in used)


class _Anew:
    """Names of modules that were tried anew, kept until all are, so that an interrupt goes on.

    Parameters
    ----------
    path : Path
        Where they are kept.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def __contains__(self, name: str) -> bool:
        return self._path.exists() and name in self._path.read_text().split()

    def add(self, name: str) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as file:
            file.write(f"{name}\n")

    def forget(self) -> None:
        self._path.unlink(missing_ok=True)


def _write(results: Mapping[str, Any]) -> None:
    record.write(results)
    pages.write("mutation")
    pages.write("trust")  # which has the score


def _finished(
    tried: Future[dict[str, Any] | None], name: str, results: dict[str, Any], progress: str
) -> bool:
    """Keep the result of a module, or say why there is none; whether there is one."""
    try:
        result = tried.result()
    except AssertionError as error:
        print(f"{progress} {name}: {str(error).splitlines()[0]}", flush=True)
        return False
    if result is None:
        print(f"{progress} {name}: no test simulates it", flush=True)
        return False
    results["modules"][name] = result
    record.write(results)
    numbers = f"{result['killed']} of {result['mutants']} killed"
    for fate in (EQUIVALENT, ALIVE, LATER):
        numbers += f", {len(result[fate])} {fate}" if result[fate] else ""
    print(f"{progress} {name}: {numbers}", flush=True)
    return True


def _next(
    left: Sequence[str], running: Collection[str], places: Mapping[str, Sequence[Design]]
) -> str:
    """The largest module left if only smaller ones than that are running, else the smallest one.

    The smallest one is of a design that no running one has, if there is any: modules of one design
    would wait for each other to build it.

    Parameters
    ----------
    left : sequence of str
        Small ones first.
    running : collection of str
    places : Mapping
        The designs of each module.
    """
    taken = {places[name][0].name for name in running}
    if running and all(places[name][0].size < places[left[-1]][0].size for name in running):
        return left[-1]
    return next((name for name in left if places[name][0].name not in taken), left[0])


def _try_all(
    names: Sequence[str],
    places: Mapping[str, Sequence[Design]],
    modules: Mapping[str, Module],
    results: dict[str, Any],
    options: argparse.Namespace,
    started: float,
) -> Iterator[str]:
    """Try modules; yields those that have a new result, which is written."""
    done = results["modules"]
    inside: dict[str, list[Module]] = {}
    for name, own in places.items():
        for design in own:
            inside.setdefault(design.name, []).append(modules[name])
    left, count = list(names), 0
    with ProcessPoolExecutor(options.jobs) as pool:
        running: dict[Future[dict[str, Any] | None], str] = {}
        while True:
            late = options.minutes is not None and time.monotonic() - started > 60 * options.minutes
            while left and not late and len(running) < options.jobs:
                name = _next(left, running.values(), places)
                left.remove(name)
                own, known = places[name], done.get(name, {})
                beside = {design.name: inside[design.name] for design in own}
                job = pool.submit(_try, modules[name], own, beside, known, options)
                running[job] = name
            if not running:
                break
            for job in wait(running, return_when=FIRST_COMPLETED).done:
                name, count = running.pop(job), count + 1
                minutes = (time.monotonic() - started) / 60
                if _finished(job, name, results, f"{minutes:5.1f} min {count}/{len(names)}"):
                    yield name


def _record(options: argparse.Namespace, started: float) -> None:
    """Record tests, and say which."""
    recorded = record_tests(FOLDER / "records", options.tests, jobs=options.jobs)
    for file, number, of in recorded:
        minutes = (time.monotonic() - started) / 60
        print(f"{minutes:5.1f} min {number}/{of} {file.name} recorded", flush=True)


def _without_tests(
    names: Sequence[str], due: Sequence[str], places: Mapping[str, Sequence[Design]]
) -> list[str]:
    """Names of which modules are due, and none of them is simulated by a test."""
    found = {name: [places[one] for one in fnmatch.filter(due, name)] for name in names}
    return [name for name, designs in found.items() if designs and not any(designs)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    modules = {
        name: module_without_parameters(module, FOLDER / "without_parameters")
        for name, module in manifest.generated().items()
    }
    for name in options.names:
        if not fnmatch.filter(modules, name):
            parser.error(f"MODULE must be one of gen/, not {name!r}")
    results = record.read()
    for name in results["modules"].keys() - modules.keys():  # it was in gen/ once
        del results["modules"][name]
    anew = _Anew(FOLDER / "anew") if options.anew and not options.names else None
    due = _due(options.names, modules, results["modules"], options)
    due = [name for name in due if not anew or name not in anew]
    if not due:
        print("all modules have a result; with --anew they are tried once more")
        if anew:
            anew.forget()
        return 0
    started = time.monotonic()
    if not options.recorded:
        _record(options, started)
    designs = load(FOLDER / "records")
    places = {name: tried_in(module, designs) for name, module in modules.items()}
    results["of"] = len(modules)
    if options.recorded or options.tests:
        missing = _without_tests(options.names or ["*"], due, places)
        if missing:
            parser.error(f"MODULE must be one that a recorded test simulates, not {missing[0]!r}")
    else:
        results["unseen"] = [name for name, own in places.items() if not own]
    firsts = {name: places[name][0] for name in due if places[name]}
    left = sorted(firsts, key=lambda name: (firsts[name].size, firsts[name].name))
    print(f"{len(due)} modules are due, {len(left)} of them simulated by tests", flush=True)
    try:
        for name in _try_all(tuple(left), places, modules, results, options, started):
            left.remove(name)
            if anew:
                anew.add(name)
    finally:  # an interrupt leaves pages that show what there is
        _write(results)
    if anew and not left:
        anew.forget()
    return 0


if __name__ == "__main__":
    sys.exit(main())
