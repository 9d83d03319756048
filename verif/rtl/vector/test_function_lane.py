"""Lanes of functions against the model: 700,000 arguments, with variants more than a million."""

import pytest

from mxsafe.rtl.vector.activation import Activation
from mxsafe.rtl.vector.function_lane import FUNCTIONS, FunctionLane, most_stages
from mxsafe.tables import Grade
from verif.rtl.vector.function_checks import check_lane, check_stages, lanes_are_clean
from verif.support.tests import Volume, refused

EVERY = "+".join(FUNCTIONS)


@pytest.mark.parametrize("grade", ["compact", pytest.param("fine", marks=pytest.mark.variant)])
def test_every_function_on_verilator(grade: Grade, volume: Volume) -> None:
    """Numbers of bfloat16, every exponent next to borders, and random words.

    In the default run a third of those of bfloat16, else all.
    """
    every, lane = volume(3, 1, 1), FunctionLane(functions=EVERY, grade=grade)
    compared = check_lane("verilator", lane, 2_000, every)
    assert compared >= volume(700_000, 1_000_000, 1_000_000)


LANES = {
    "relu+gelu+silu+tanh": range(7),
    "gelu+rsqrt+relu_derivative": range(6),
    "reciprocal": range(6),
    "exp": range(10),
    "sigmoid+silu_derivative": range(10),
    EVERY: range(10),
}
"""Registers by functions."""
SOME = {("relu+gelu+silu+tanh", 6), ("gelu+rsqrt+relu_derivative", 4), (EVERY, 8)}


@pytest.mark.parametrize(
    "every", [False, pytest.param(True, marks=pytest.mark.full)], ids=["some", "all"]
)
def test_every_number_of_registers(every: bool) -> None:
    for functions, stages in LANES.items():
        assert stages == range(most_stages(functions) + 1)
    lanes = {
        f"lane_{number}_{stages}": Activation(functions=functions, width=1, pipeline=stages)
        for number, (functions, each) in enumerate(LANES.items())
        for stages in each
        if every or (functions, stages) in SOME
    }
    lanes["relu"] = Activation(functions="relu_derivative+relu", width=1, pipeline=3)
    for number in range(3, 10, 3) if every else (8,):
        lanes[f"fine_{number}"] = Activation(
            functions=EVERY, width=1, pipeline=number, grade="fine"
        )
    check_stages("icarus", lanes, 300)


@pytest.mark.variant
def test_the_verilog_is_clean() -> None:
    lanes = [
        FunctionLane(functions="relu+tanh", pipeline=2),
        FunctionLane(),
        FunctionLane(functions="exp", pipeline=8),
        FunctionLane(functions="rsqrt", pipeline=4),
        FunctionLane(functions=EVERY, pipeline=8),
    ]
    lanes_are_clean(lanes)


test_configurations_that_cannot_work = refused(
    FunctionLane,
    [
        (
            {"functions": "gelu+sine"},
            f"functions must be different ones of {', '.join(FUNCTIONS)}, not 'sine'",
        ),
        (
            {"functions": ("gelu", "gelu")},
            f"functions must be different ones of {', '.join(FUNCTIONS)}, not 'gelu'",
        ),
        (
            {"functions": ()},
            f"functions must be different ones of {', '.join(FUNCTIONS)}, not ''",
        ),
        ({"pipeline": 7}, "pipeline must be an integer from 0 to 6, not 7"),
        (
            {"functions": "rsqrt", "pipeline": 6},
            "pipeline must be an integer from 0 to 5, not 6",
        ),
        ({"grade": "rough"}, "grade must be one of compact, fine, not 'rough'"),
        ({"functions": "exp", "pipeline": -1}, "pipeline must be an integer from 0 to 9, not -1"),
    ],
)
