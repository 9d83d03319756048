"""A bench that fails is an error with the end of its log, under pytest and without it."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from verif.support.manifest import Module
from verif.support.simulators import SIMULATORS, simulate
from verif.support.tests import on_one_simulator


@pytest.mark.parametrize("under_pytest", [True, False])
def test_a_failed_bench_is_an_error(
    simulator: str,
    under_pytest: bool,
    modules: dict[str, Module],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = modules["mxsf_decoder"]
    with monkeypatch.context() as patch:
        if not under_pytest:
            patch.delenv("PYTEST_CURRENT_TEST")
        with pytest.raises(AssertionError) as error:
            simulate(simulator, module.name, module.sources, "verif.bench.lockstep", {})
    lines = str(error.value).splitlines()
    assert lines[0] == f"verif.bench.lockstep failed on {simulator}:"
    assert any("KeyError: 'MXSAFE_STIMULUS'" in line for line in lines)


def test_tests_import_from_support_only() -> None:
    """What two tests need stands in support, so that a test can be read and moved by itself."""
    found = {
        path.name: names
        for path in Path(__file__).parent.rglob("*.py")
        if (
            names := re.findall(r"^\s*(?:from|import) (verif\S*\.test_\w+)", path.read_text(), re.M)
        )
    }
    assert found == {}


@dataclass(frozen=True)
class _Item:
    """What the choice of simulators looks at in a test."""

    nodeid: str
    marker: str = ""

    def get_closest_marker(self, name: str) -> str | None:
        return name if name == self.marker else None


def test_cases_take_turns_on_simulators() -> None:
    items = [
        *(_Item(f"test_one[{simulator}]") for simulator in SIMULATORS),
        *(_Item(f"test_three[{s}-{case}]") for s in SIMULATORS for case in ("a", "b", "c")),
        *(_Item(f"test_all[{s}-{case}]", "both_simulators") for s in SIMULATORS for case in "ab"),
        _Item("test_some[icarus-a]"),
        _Item("test_some[verilator-b]"),
        _Item("test_none"),
    ]
    kept = on_one_simulator(cast("list[pytest.Item]", items))
    assert [item.nodeid for item in kept] == [
        "test_one[icarus]",
        "test_one[verilator]",
        "test_three[icarus-b]",
        "test_three[verilator-a]",
        "test_three[verilator-c]",
        "test_all[icarus-a]",
        "test_all[icarus-b]",
        "test_all[verilator-a]",
        "test_all[verilator-b]",
        "test_some[icarus-a]",
        "test_some[verilator-b]",
        "test_none",
    ]
