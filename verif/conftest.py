"""Fixtures of all tests: simulators, the generated Verilog, and the tally printed at the end."""

import gc
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from hypothesis import settings

from verif.support import coverage, manifest, simulations
from verif.support.checkers import COMPARED
from verif.support.simulators import SIMULATED, SIMULATORS
from verif.support.tests import Tally, Volume, available, on_one_simulator

# Speeds vary on shared machines; a failure prints how to repeat it.
settings.register_profile("mxsafe", deadline=None, print_blob=True)
settings.load_profile("mxsafe")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run the heavier sweeps too")
    parser.addoption("--variants", action="store_true", help="run variants of cases too")
    parser.addoption(
        "--yosys", action="store_true", help="run tests with the Yosys of synthesis alone"
    )


def _marks(item: pytest.Item) -> set[str]:
    return {mark.name for mark in item.iter_markers()}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    given, with_yosys = list(items), config.getoption("--yosys")
    if with_yosys:
        items[:] = [item for item in items if "yosys" in _marks(item)]
    if not config.getoption("--full"):
        items[:] = [item for item in items if "full" not in _marks(item)]
        is_named = any("[" in argument for argument in config.args)
        if not (config.getoption("--variants") or is_named):
            left_out = {"variant"} if with_yosys else {"variant", "yosys"}
            items[:] = on_one_simulator([item for item in items if not left_out & _marks(item)])
    kept = set(items)
    config.hook.pytest_deselected(items=[item for item in given if item not in kept])
    is_recorded = "MXSAFE_RECORD" in os.environ
    if is_recorded or coverage.is_asked():
        # Verilator drives the same pins, for longer, and Icarus counts nothing.
        names = {item.nodeid for item in items}
        items[:] = [
            item
            for item in items
            if "icarus" not in item.nodeid
            or item.nodeid.replace("icarus", "verilator") not in names
        ]
    if is_recorded:  # proofs drive no pins
        items[:] = [item for item in items if "yosys" not in _marks(item)]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Look for no garbage while pytest collects, and never in what exists then.

    Units that tests generate are many objects that live on, so later it is looked for seldom.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(50_000, 20, 20)
        gc.enable()


def pytest_sessionfinish() -> None:
    """End simulators that wait, and write what coverage.py counts here, if it does.

    A worker may be ended before its exit.
    """
    simulations.close_all()
    counting = sys.modules.get("coverage")
    running = counting.Coverage.current() if counting else None
    if running is not None:
        running.stop()
        running.save()


@pytest.fixture(params=SIMULATORS)
def simulator(request: pytest.FixtureRequest) -> str:
    """Each simulator; skipped where its programs are missing, except in CI, where that fails."""
    name = str(request.param)
    return available(name)


@pytest.fixture(scope="session")
def modules() -> dict[str, manifest.Module]:
    """The generated modules, as committed."""
    return manifest.generated()


@pytest.fixture(scope="session")
def volume(pytestconfig: pytest.Config) -> Volume:
    """How many random cases, as :class:`Volume` says."""

    def count(default: int, full: int, variants: int | None = None) -> int:
        if pytestconfig.getoption("--full"):
            return full
        if pytestconfig.getoption("--variants") and variants is not None:
            return variants
        return default

    return count


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Count what a test compares with simulations, as `assert_equal` has counted it."""
    COMPARED.clear()
    SIMULATED.clear()
    result = yield
    if SIMULATED and (items := COMPARED.total()):
        unit = item.path.stem.removeprefix("test_")
        kind = "compared", (" and ".join(sorted(SIMULATED)), unit, items)
        item.user_properties.append(kind)
    return result


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Tally:
    """Count what is compared with another library: the sums end the test report, too."""

    def add(simulator: str, unit: str, items: int) -> None:
        request.node.user_properties.append(("compared", (simulator, unit, items)))

    return add


@pytest.fixture
def report(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Text that ends the test report."""
    return lambda text: request.node.user_properties.append(("report", text))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    counts: Counter[tuple[str, str]] = Counter()
    texts = []
    for passed in terminalreporter.stats.get("passed", []):
        for kind, value in passed.user_properties:
            if kind == "compared":
                simulator, unit, items = value
                counts[unit, simulator] += items
            elif kind == "report":
                texts.append(value)
    if counts:
        terminalreporter.section("compared with the model, bit for bit")
        for (unit, simulator), items in sorted(counts.items()):
            terminalreporter.write_line(f"{unit:<40} {simulator:<12}{items:>12,}")
    for text in texts:
        terminalreporter.section("real data")
        terminalreporter.write_line(text)
    failed = [one for kind in ("error", "failed") for one in terminalreporter.stats.get(kind, [])]
    if failed:  # pytest's own lines end with the terminal's
        terminalreporter.section("what failed, in a line each")
        for one in failed:
            crash = getattr(one.longrepr, "reprcrash", None)
            said = str(one.longrepr if crash is None else crash.message).strip().splitlines()
            line = said[-1 if crash is None else 0] if said else ""
            terminalreporter.write_line(f"{one.nodeid}: {line}")
