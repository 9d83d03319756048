"""The trial of one module: its mutants, the designs they are put into, the benches, the proofs."""

import ast
import hashlib
import os
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

from mxsafe.host.verilator import locked
from studies.mutants.designs import Design, designs_with, needs_full_run
from studies.mutants.equivalence import is_equivalent, unread
from studies.mutants.limits import run_within
from studies.mutants.mutation import Mutant, Mutants, mutate
from studies.mutants.reasons import reason
from studies.mutants.replay import build, replay
from verif.rtl.datapaths import (
    datapath,
    is_of_ports,
    is_wrong_at_ports,
    prove_datapath,
)
from verif.rtl.frames import is_lane
from verif.rtl.pipelines import PIPELINES
from verif.support.manifest import Module

KILLED, EQUIVALENT, ALIVE, LATER = "killed", "equivalent", "alive", "later"
"""Outcomes of a mutant; `LATER` if it still has to go to the benches themselves."""
LARGEST = 6_000_000
"""Characters of Verilog that are compiled for a design that is built, see `Design.size`."""
_FIRST_ROWS = 4096
"""Rows of a run that are replayed first; programs with more are run after proofs."""
_REPLAY_SECONDS, _PROGRAMS_SECONDS, _QUICK_SECONDS = 900.0, 1800.0, 300.0
"""Time limits of replays of a design, of a machine that runs programs to their end, and of both in
a quick trial."""
_DESIGNS, _OWN, _SMALL = 3, 2, 5
"""Designs that a module is tried in, at most, so many more of the tests of its unit, and so many
more that are soon built."""
_SOON_BUILT = 300_000
"""Characters of Verilog of such ones."""
_MOST_TESTS = 6
"""Tests that a mutant is put to that only handshakes tell, at most."""
SECONDS = 300.0
"""Time of a processor after which a simulation has not ended, and so has failed."""
_PROOF_SECONDS, _SHORT_SECONDS, _ENDLESS = 60.0, 5.0, 2
"""Time limit of a proof, the limit after some that took more, and how many these are."""
_TESTS = Path(__file__).parents[2] / "verif" / "rtl"
_REFUTED = "proof did fail"
"""Status of a proof that has ended, with a counterexample or without success."""
_UNREAD_SECONDS = 120.0
"""Time limit of the search for bits that nothing reads."""
_LARGER, _FEW = 20, 8
"""How much larger a design may be than the first one, unless so few mutants are left."""


def own_tests(module: Module) -> Path | None:
    """The file of tests that has the name of a module's unit."""
    found = {file.stem.removeprefix("test_"): file for file in _TESTS.rglob("test_*.py")}
    names = [name for name in found if re.search(rf"(^|_){name}(_|$)", module.unit)]
    return found[max(names, key=len)] if names else None


def tried_in(module: Module, designs: Sequence[Design]) -> list[Design]:
    """Designs with a module that are not too large to build: small ones, then of its own tests.

    What is left then of its mutants is put into more small ones.
    """
    found = designs_with(designs, module.sources[0])
    found = [design for design in found if design.size <= LARGEST]
    tests = own_tests(module)
    own = [
        design
        for design in found[_DESIGNS:]
        if tests and any(Path(run.test.split("::")[0]).name == tests.name for run in design.runs)
    ]
    chosen = found[:_DESIGNS] + own[:_OWN]
    more = [d for d in found if d not in chosen and d.size <= _SOON_BUILT]
    return chosen + more[:_SMALL]


def proofs_of(module: Module) -> list[str]:
    """Tests that prove something of a module's Verilog: those of its unit, and of its function.

    Left out is what a specification says alone, of one that `is_specified`.
    """
    tests = own_tests(module)
    names = [] if tests is None else _functions(tests)
    found = [f"{tests}::{name}" for name in names if name.endswith("_proved")]
    found = [name for name in found if "_wrong_" not in name]
    kinds = {
        "pipelines": module.unit in PIPELINES,
        "datapaths": datapath(module) is not None and not is_specified(module),
        "frames": is_lane(module),
    }
    page = f"{_TESTS / 'test_proofs.py'}::test_all_of_the_page_is_proved"
    return found + [f"{page}[{kind}-{module.unit}]" for kind, there in kinds.items() if there]


def is_specified(module: Module) -> bool:
    """Whether a module that is proved to keep its specification can be told from no other one.

    Where a specification has no registers but the module has, the proof is about no reset. One of
    words is about a module with parameters, which has no mutants. One with parts that may do
    anything says of results what comes of theirs.
    """
    path = datapath(module)
    if path is None or path.words or path.free:
        return False
    return path.steps or module.latency == 0


def _functions(file: Path) -> list[str]:
    return [
        node.name for node in ast.parse(file.read_text()).body if isinstance(node, ast.FunctionDef)
    ]


def put_to_trial(
    module: Module,
    designs: Sequence[Design],
    folder: Path,
    *,
    count: int,
    seed: int,
    quick: bool,
    beside: Mapping[str, Sequence[Module]] | None = None,
    proved: Collection[int] = (),
    killed: Collection[int] = (),
    alive: Collection[int] | None = None,
    most_rows: int = 1 << 18,
    thorough: bool = False,
) -> dict[str, Any] | None:
    """Return the outcomes of a module's mutants; None if no recorded test simulates it.

    Parameters
    ----------
    module : Module
    designs : sequence of Design
        What tests simulate.
    folder : Path
        Where files are written; builds of designs are found there again.
    count, seed : int
        See `mutate`.
    beside : Mapping of str to sequence of Module, optional
        By name of a design, modules in it that have mutants in the same build: it is built once.
    quick : bool
        Build one large design at most, run short programs alone, and no tests of large designs.
        What is left is for `LATER`.
    proved : collection of int
        Mutants that are known to be equivalent.
    killed : collection of int
        Those that were killed once: they are put to a proof only if nothing kills them now, not
        even a proof of the tests.
    alive : collection of int, optional
        Those that are left of an earlier trial; the others that are not equivalent were killed.
    most_rows : int
        Rows of each run that are replayed.
    thorough : bool
        Try mutants that have a reason to live as long as others: without, they are put to the first
        rows of the first design alone.
    """
    found = tried_in(module, designs)
    if not found:
        return None
    own = folder / module.name
    mutants = mutate(module, own, count=count, seed=seed)
    excused: set[int] = set()
    if not thorough:
        excused = {m.number for m in mutants.mutants if reason(module.unit, _described(m))}
    trial = _Trial(
        module,
        mutants,
        own,
        excused=excused,
        killed=killed,
        quick=quick,
        most_rows=most_rows,
        is_first=alive is None,
    )
    if alive is not None:
        others = {m.number for m in mutants.mutants} - set(alive)
        trial.fates |= dict.fromkeys(others, KILLED)
    trial.fates |= dict.fromkeys(proved, EQUIVALENT)
    used = []
    for at, design in enumerate(found):
        left = trial.left
        wanted = [number for number in left if number not in excused or not at]
        if not wanted or (len(left) > _FEW and design.size > _LARGER * found[0].size):
            break
        if quick and at and design.size > _SOON_BUILT:
            continue
        used.append(design.top)
        together = {one.name: one for one in [module, *(beside or {}).get(design.name, ())]}
        several = [
            mutate(one, folder / name, count=count, seed=seed)
            for name, one in sorted(together.items())
        ]
        trial.try_in(design, several, folder / "designs" / design.name, wanted, proves=not at)
    trial.end()
    fates = trial.fates
    return {
        "digest": module.digest,
        "designs": used,
        "mutants": len(mutants.mutants),
        "killed": sum(fate == KILLED for fate in fates.values()),
        **{
            fate: [_described(m) for m in mutants.mutants if fates[m.number] == fate]
            for fate in (EQUIVALENT, ALIVE, LATER)
        },
    }


class _Trial:
    """Fates of mutants of one module, see `put_to_trial`."""

    def __init__(
        self,
        module: Module,
        mutants: Mutants,
        folder: Path,
        *,
        excused: Collection[int],
        killed: Collection[int],
        quick: bool,
        most_rows: int,
        is_first: bool,
    ) -> None:
        self.fates: dict[int, str] = {}
        self._module, self._mutants, self._folder = module, mutants, folder
        self._excused, self._killed = set(excused), set(killed)
        self._quick, self._most_rows, self._is_first = quick, most_rows, is_first
        self._tests: dict[int, list[_Bench]] = {}
        self._proofs = _Proofs(module, mutants, folder)
        self._claims = _Claims(module, mutants, folder)

    @property
    def left(self) -> list[int]:
        """Mutants without a fate."""
        return [m.number for m in self._mutants.mutants if m.number not in self.fates]

    def try_in(
        self,
        design: Design,
        several: Sequence[Mutants],
        place: Path,
        wanted: Sequence[int],
        *,
        proves: bool,
    ) -> None:
        """Put mutants into a design; in the first one also to proofs, unless it is a later trial.

        Most are killed soon; a proof is cheaper than another design, or long programs, and so are
        the benches.
        """
        program = build(several, design, place)
        is_large = design.size > _SOON_BUILT
        seconds = _PROGRAMS_SECONDS if design.runs_programs else _REPLAY_SECONDS
        if self._quick:
            seconds = _QUICK_SECONDS
        before_proofs = _FIRST_ROWS if design.runs_programs else self._most_rows
        rounds = (_FIRST_ROWS, self._most_rows)
        for most in rounds[:1] if self._quick and design.runs_programs else rounds:
            if design.runs_programs and most == self._most_rows:
                self._put_to_benches()
            left = [number for number in wanted if number not in self.fates]
            if not left:
                break
            wanted = [number for number in wanted if number not in self._excused]
            seen = replay(
                program,
                self._module.name,
                left,
                design,
                self._folder / "rows",
                most_rows=most,
                seconds=seconds,
            )
            self.fates |= dict.fromkeys(seen.killed, KILLED)
            for number, where in seen.other.items():
                benches_of = self._tests.setdefault(number, [])
                benches_of += [_Bench(test, place, is_large) for test in where]
            if seen.other and not (self._quick and is_large):
                _choose(several, place)
            if proves and most == before_proofs:
                if not is_large:  # whose benches are cheaper than proofs
                    self._put_to_benches()
                self._prove(left)
        self._put_to_benches()

    def _put_to_benches(self) -> None:
        """Put to benches what only handshakes tell, but for a quick trial not to large designs."""
        for number in sorted(self._tests.keys() - self.fates.keys() - self._excused):
            tests = self._tests[number]
            if self._quick and any(bench.is_large for bench in tests):
                continue
            del self._tests[number]
            if _killed_by_benches(self._mutants, number, tests):
                self.fates[number] = KILLED

    def _prove(self, numbers: Sequence[int]) -> None:
        """Fates by the specification, where there is one.

        Else, in a first trial, those are proved equivalent that are not put to benches, excused, or
        killed before.
        """
        if is_specified(self._module):
            left = [number for number in numbers if number not in self.fates]
            found = {number: self._claims.fate(number) for number in left}
            self.fates |= {number: fate for number, fate in found.items() if fate}
        if not self._is_first:
            return
        others = self.fates.keys() | self._tests.keys() | self._excused | self._killed
        for number in numbers:
            if number not in others and self._proofs.succeed(number):
                self.fates[number] = EQUIVALENT

    def end(self) -> None:
        """Give a fate to all that are left."""
        for number in self.left:
            self.fates[number] = self._last_fate(number)

    def _last_fate(self, number: int) -> str:
        if number in self._excused:
            return ALIVE
        if self._quick:
            untold = number not in self._tests and self._proofs.succeed(number)
            return EQUIVALENT if untold else LATER
        # Those killed once are refuted once more, so that a proof of equivalence would fail.
        if number in self._killed and self._claims.fate(number) == KILLED:
            return KILLED
        if self._proofs.succeed(number):
            return EQUIVALENT
        return self._claims.fate(number) or ALIVE


def _described(mutant: Mutant) -> dict[str, Any]:
    hidden = ("of_clock", "is_idle")
    return {name: value for name, value in asdict(mutant).items() if name not in hidden}


class _Proofs:
    """Proofs of mutants of one module, short ones when some of them have no end."""

    def __init__(self, module: Module, mutants: Mutants, folder: Path) -> None:
        self._module, self._mutants, self._folder = module, mutants, folder
        self._size = sum(len(source.read_text()) for source in module.sources)
        self._unread: frozenset[int] | None = None
        self._endless = 0
        self._known: dict[int, bool] = {}

    def succeed(self, number: int) -> bool:
        """Whether a mutant is equivalent: by a proof, or since nothing changes or reads the bit."""
        if number not in self._known:
            self._known[number] = self._succeed(number)
        return self._known[number]

    def _succeed(self, number: int) -> bool:
        mutant = self._mutants.mutants[number - 1]
        if mutant.is_idle or mutant.of_clock:
            return mutant.is_idle
        if self._unread is None:
            self._unread = unread(
                self._module, self._mutants, self._folder / "unread", seconds=_UNREAD_SECONDS
            )
        if number in self._unread:
            return True
        proved = is_equivalent(
            self._module,
            self._mutants,
            number,
            self._folder / "proof",
            seconds=_PROOF_SECONDS if self._endless < _ENDLESS else _SHORT_SECONDS,
            size=self._size,
        )
        self._endless += proved is None
        return bool(proved)


class _Claims:
    """What its specification says and tests prove of a module, with a mutant in its place.

    A proof that has no time left says nothing.
    """

    def __init__(self, module: Module, mutants: Mutants, folder: Path) -> None:
        self._module, self._mutants, self._tests = module, mutants, proofs_of(module)
        self._alone = folder / "alone"
        self._hold_without = False
        self._kept_without: bool | None = None
        self._endless = 0
        self._known: dict[int, str | None] = {}

    def fate(self, number: int) -> str | None:
        """`KILLED` if a proof fails with a mutant, while all succeed without one.

        `EQUIVALENT` if it keeps to a specification, and that says what the module does. That it
        does not kills it only if the specification says it by nothing but ports.
        """
        if number not in self._known:
            fate = self._by_specification(number)
            # What a specification says that holds is all that tests could prove.
            self._known[number] = fate if self._kept_without else fate or self._by_tests(number)
        return self._known[number]

    def _by_specification(self, number: int) -> str | None:
        # Proofs know no other edge of the clock.
        if not is_specified(self._module) or self._mutants.mutants[number - 1].of_clock:
            return None
        if self._kept_without is None:
            kept = self._keeps_specification(0)
            assert kept is not False, f"{self._module.name} breaks its specification by itself"
            self._kept_without = bool(kept)
        if not self._kept_without:  # where that takes longer, it does so with mutants
            return None
        path = datapath(self._module)
        has_steps = path is not None and path.steps
        tells = is_of_ports(self._module)
        # A result that is wrong is found sooner than that there is none.
        if tells and has_steps and self._is_wrong_at_ports(number):
            return KILLED
        keeps = self._keeps_specification(number)
        self._endless += keeps is None
        if keeps is False and tells and not has_steps:
            return KILLED
        return EQUIVALENT if keeps else None

    @property
    def _seconds(self) -> int:
        """Limit of a proof."""
        return round(_PROOF_SECONDS if self._endless < _ENDLESS else _SHORT_SECONDS)

    def _is_wrong_at_ports(self, number: int) -> bool:
        folder = self._alone / "proof"
        return is_wrong_at_ports(self._unit(number), folder, seconds=self._seconds)

    def _unit(self, number: int) -> Module:
        file = self._written(number)
        sources = (file if one.name == file.name else one for one in self._module.sources)
        return replace(self._module, sources=tuple(sources))

    def _keeps_specification(self, number: int) -> bool | None:
        folder = self._alone / "proof"
        try:
            prove_datapath(self._unit(number), folder, seconds=self._seconds)
        except AssertionError as error:
            return False if _REFUTED in str(error) else None
        return True

    def _by_tests(self, number: int) -> str | None:
        if not self._tests:
            return None
        code, output = self._try(number)
        if code == 0 or _REFUTED not in output:
            return None
        if not self._hold_without:
            assert self._try(0)[0] == 0, f"{self._tests} fail without a mutant"
            self._hold_without = True
        return KILLED

    def _try(self, number: int) -> tuple[int, str]:
        self._written(number)
        return _run(["--full", *self._tests], {"MXSAFE_PROVED": str(self._alone.absolute())})

    def _written(self, number: int) -> Path:
        """The module's file with a mutant, alone in a folder."""
        self._alone.mkdir(parents=True, exist_ok=True)
        # Tests find a unit's modules by what the heads of files say.
        lines = self._module.sources[0].read_text().splitlines(keepends=True)
        head = "".join(takewhile(lambda line: line.startswith("//"), lines))
        text = head + self._mutants.alone(number)
        file = self._alone / f"{self._module.name}.v"
        file.write_text(text)
        return file


class _Bench(NamedTuple):
    """A test that simulates a design with mutants.

    Attributes
    ----------
    test : str
    place : Path
        With the modules that have mutants.
    is_large : bool
        One build of the design is cheaper than what an interpreter takes for each mutant.
    """

    test: str
    place: Path
    is_large: bool

    @property
    def simulators(self) -> tuple[str, ...]:
        """Simulators that the test runs on in turn, the last one of its own choice."""
        return ("verilator", "") if self.is_large else ("",)


def _choose(several: Sequence[Mutants], place: Path) -> None:
    """Write modules of a design with mutants that words for a simulator choose."""
    with locked(place):
        (place / "chosen").mkdir(exist_ok=True)
        for mutants in several:
            (place / "chosen" / f"{mutants.module}.v").write_text(mutants.chosen_by_argument())


def _killed_by_benches(mutants: Mutants, number: int, tests: Sequence[_Bench]) -> bool:
    """Whether one of the tests that a mutant may disturb fails; they pass without it."""
    first = list(dict.fromkeys(tests))[:_MOST_TESTS]
    for place in dict.fromkeys(bench.place for bench in first):
        benches = [bench for bench in first if bench.place == place]
        several = [bench.test for bench in benches]
        for simulator in benches[0].simulators:
            if not _fail(mutants.argument(number), several, place, simulator):
                continue
            named = "\n".join([*sorted(several), simulator])
            digested = hashlib.sha256(named.encode()).hexdigest()[:12]
            pass_without = place / f"passes-{digested}"
            if not pass_without.exists():
                passes = not _fail("", several, place, simulator)
                assert passes or simulator, f"{several} fail without a mutant"
                if not passes:  # they are for the simulator of their choice alone
                    continue
                pass_without.touch()
            return True
    return False


def _fail(chosen: str, tests: Sequence[str], place: Path, simulator: str) -> bool:
    """Whether one of some tests fails with a mutant in the place of its module.

    The netlists have all mutants, so that a simulator builds a design once for them.
    """
    variables = {
        "MXSAFE_MUTANT": str((place / "chosen").absolute()),
        "MXSAFE_ARGUMENTS": chosen,
        "MXSAFE_SIMULATOR": simulator,
    }
    default = [test for test in tests if not needs_full_run(test)]
    longer = [test for test in tests if needs_full_run(test)]
    return (bool(default) and _one_fails(["--variants", *default], variables)) or (
        bool(longer) and _one_fails(["--full", *longer], variables)
    )


def _one_fails(tests: Sequence[str], variables: Mapping[str, str]) -> bool:
    return _run(tests, variables)[0] == 1


def _run(tests: Sequence[str], variables: Mapping[str, str]) -> tuple[int, str]:
    """Exit code of some tests, 0 or 1, and what they print, with variables of the environment."""
    words = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    code, output, _ = run_within(SECONDS, words, environment=os.environ | variables)
    assert code in (0, 1), f"{tests} were not run:\n{output[-2000:]}"
    return code, output
