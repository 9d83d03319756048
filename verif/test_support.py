"""A bench that fails is an error with the end of its log, under pytest and without it."""

import re
from pathlib import Path

import pytest

from verif.support.manifest import Module
from verif.support.simulators import simulate


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
