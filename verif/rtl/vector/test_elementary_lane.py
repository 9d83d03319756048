"""Lanes of exponential, sigmoid, reciprocal and reciprocal square root against the model."""

from pathlib import Path

import pytest

from mxsafe.rtl.vector.elementary_lane import (
    ELEMENTARY_FUNCTIONS,
    MOST_ELEMENTARY_STAGES,
    ElementaryLane,
)
from verif.support.function_checks import check_lane, check_stages, lanes_are_clean
from verif.support.tests import Tally, available


@pytest.mark.full
def test_every_function_on_verilator(tmp_path: Path, tally: Tally) -> None:
    """All numbers of bfloat16, every exponent next to borders, and random words."""
    lane = ElementaryLane(functions="+".join(ELEMENTARY_FUNCTIONS))
    compared = check_lane(available("verilator"), lane, tmp_path, 20_000)
    assert compared >= 400_000
    tally("verilator", "elementary lane", compared)


LANES = {
    "0": "exp",
    "1": "sigmoid",
    "2": "reciprocal",
    "3": "rsqrt",
    "4": "rsqrt+reciprocal",
    "5": "+".join(ELEMENTARY_FUNCTIONS),
    "6": "exp+sigmoid",
}
"""Functions by the number of registers."""


@pytest.mark.parametrize(
    "stages", ["5", pytest.param("", marks=pytest.mark.full)], ids=["5", "all"]
)
def test_every_number_of_registers(stages: str, tmp_path: Path, tally: Tally) -> None:
    assert list(map(int, LANES)) == list(range(MOST_ELEMENTARY_STAGES + 1))
    lanes = {
        key: ElementaryLane(functions=functions, pipeline=int(key))
        for key, functions in LANES.items()
        if stages in ("", key)
    }
    simulator = available("icarus")
    tally(simulator, "elementary lane", check_stages(simulator, lanes, tmp_path, 400))


def test_the_verilog_is_clean(tmp_path: Path) -> None:
    available("verilator")
    every = "+".join(ELEMENTARY_FUNCTIONS)
    lanes_are_clean([ElementaryLane(), ElementaryLane(functions=every, pipeline=6)], tmp_path)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"functions": "relu"},
            f"functions must be different ones of {', '.join(ELEMENTARY_FUNCTIONS)}, not 'relu'",
        ),
        ({"pipeline": -1}, "pipeline must be an integer from 0 to 6, not -1"),
    ],
)
def test_configurations_that_cannot_work(parameters: dict, message: str) -> None:
    with pytest.raises(ValueError) as error:
        ElementaryLane(**parameters)
    assert str(error.value) == message
