"""The page of vector units: fresh, and what it measures."""

import numpy as np
import pytest

from studies.function_errors.errors import BOUNDS
from studies.function_errors.models import MODELS
from studies.pages.vector import CURVES, Measured, measured, norms, values
from studies.synthesised import find, load
from studies.tables.activation import PROMISED


@pytest.fixture(scope="module")
def found() -> list[Measured]:
    return measured()


def test_real_inputs_stay_within_the_bounds(found: list[Measured]) -> None:
    bounds = {"softmax": 2.0**-9, "layer_norm": 2.0**-9, "rms_norm": 2.0**-9}
    assert len(found) == 5
    for each in found:
        assert 0 < each.largest <= bounds.get(each.name, 2.0**-10), each
        assert each.codes < each.values / 15, each


@pytest.mark.parametrize("name", CURVES)
def test_curves_stay_below_their_bounds_and_those_of_others_do_not(name: str) -> None:
    curve = CURVES[name]
    x = curve.points(300)
    assert len(x) == 300
    for grade, bound in PROMISED.items():
        assert 0 < curve.own(x, grade).max() <= bound
    for other in (curve.others or {}).values():
        assert np.nanmax(curve.errors(x, other(x))) > PROMISED["fine"]


def test_power_of_a_clock_is_that_of_its_results() -> None:
    result = find(load(), "activation of four functions, 1 lane")
    clock, each = result["power"]["clock"], result["power"]["result"]
    joules = clock["total_pj"] * clock["clocks"] / each["count"]
    assert each["total_pj"] == pytest.approx(joules, abs=1e-3)


def test_what_limits_each_norm_is_known() -> None:
    for norm in norms(load()):
        assert not norm["limit"].startswith("from `"), norm


def test_all_functions_are_proved() -> None:
    proved = values()["proved"]
    assert list(proved) == list(MODELS)
    shown = {name: each for name, each in proved.items() if each["bound"]}
    assert shown.keys() == BOUNDS.keys()
    assert all(0.1 < each["error"] < 1 for each in shown.values())
