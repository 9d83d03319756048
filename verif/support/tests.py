"""Shared parts of tests: simulators that are there, and the count of compared items."""

import re
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import pytest

from verif.support.simulators import SIMULATORS, require_tools

INTEGERS = (
    "format must have floating-point elements for arithmetic fp12, not mxint8: products of "
    "integers are integers, which arithmetic exact adds without loss and in less hardware"
)
"""The error where integers meet floating-point arithmetic: of units, the model and vectors."""

Tally = Callable[[str, str, int], None]
"""Count compared items: ``tally(simulator, unit, items)``; the sums end the test report."""


class Volume(Protocol):
    """Number of random cases: the first one in the default run, the second in the full one.

    A third one is taken with variants, so by the inputs that are recorded for mutants.
    """

    def __call__(self, default: int, full: int, variants: int | None = None) -> int: ...


def available(name: str) -> str:
    """The name of a simulator or a linter, if its programs are there."""
    require_tools(name)
    return name


def raises(
    error: type[Exception] | tuple[type[Exception], ...], message: str
) -> pytest.RaisesExc[Exception]:
    """Return a context in which an error with this message, and with nothing else, is raised."""
    return pytest.raises(error, match=rf"\A{re.escape(message)}\Z")


def refused(
    unit: Callable[..., object], cases: Iterable[tuple[dict[str, Any], str]], **usual: Any
) -> Callable[..., None]:
    """A test that parameters are refused, each with its message."""
    cases = list(cases)
    assert cases, f"{unit.__name__} refuses nothing"

    @pytest.mark.parametrize(("parameters", "message"), cases)
    def test(parameters: dict[str, Any], message: str) -> None:
        with raises(ValueError, message):
            unit(**usual | parameters)

    return test


def some(cases: Iterable[object], every: int = 2, *, with_variants: bool = False) -> list[object]:
    """The first of every so many cases of a test; all of them in the full run.

    With variants, the default run has the very first alone; the others of these are variants.
    """
    marked = _all_but_first(cases, every, pytest.mark.full)
    if with_variants:
        for index in range(every, len(marked), every):
            marked[index] = pytest.param(marked[index], marks=pytest.mark.variant)
    return marked


def typical(cases: Iterable[object], every: int = 2) -> list[object]:
    """Cases of a test, of which all but the first of every so many are variants.

    Variants are much like the cases before them: another size, or a module of ``gen/`` of the same
    unit. The default run leaves them out; the full run has them, and so have the inputs that are
    recorded for mutants.
    """
    return _all_but_first(cases, every, pytest.mark.variant)


def _all_but_first(cases: Iterable[object], every: int, mark: pytest.MarkDecorator) -> list[object]:
    """Cases, with a mark on all but the first of every so many."""
    return [
        pytest.param(case, marks=mark) if index % every else case
        for index, case in enumerate(cases)
    ]


def on_one_simulator(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Tests without those whose case is on the other simulator too.

    Cases of a test take turns, so that it runs on both. Which one is first depends on the name of
    the test: so tests that have the same cases do not have each of them on the same simulator. A
    test with no parameter but the simulator stays on both, and so does one that is marked
    ``both_simulators``. One that is marked ``one_simulator("icarus")`` is on that one alone.
    """
    others = set()
    cases: dict[str, dict[str, dict[str, pytest.Item]]] = defaultdict(lambda: defaultdict(dict))
    for item in items:
        name, _, case = item.nodeid.partition("[")
        one = item.get_closest_marker("one_simulator")
        for simulator in SIMULATORS:
            if simulator not in case or item.get_closest_marker("both_simulators") is not None:
                continue
            if one is None:
                cases[name][case.replace(simulator, "")][simulator] = item
                continue
            (name_of_one,) = one.args
            assert name_of_one in SIMULATORS, f"{item.nodeid} is for {name_of_one} alone"
            if name_of_one != simulator:
                others.add(item)
    for name, found in cases.items():
        for turn, both in enumerate(found.values(), start=zlib.crc32(name.encode())):
            if len(found) > 1 and len(both) > 1:
                others.add(both[SIMULATORS[turn % 2]])
    return [item for item in items if item not in others]
