"""Lanes of functions from the table against the model: more than a million arguments."""

from pathlib import Path

import pytest

from mxsafe.rtl.vector.table_lane import MOST_TABLE_STAGES, TABLE_FUNCTIONS, TableLane
from verif.support.function_checks import check_lane, check_stages, lanes_are_clean
from verif.support.tests import Tally, Volume, available


def test_every_function_on_verilator(tmp_path: Path, tally: Tally, volume: Volume) -> None:
    """All numbers of bfloat16, every exponent next to borders, and random words."""
    lane = TableLane(functions="+".join(TABLE_FUNCTIONS))
    compared = check_lane(available("verilator"), lane, tmp_path, volume(6_000, 23_000))
    assert compared >= volume(500_000, 1_000_000)
    tally("verilator", "table lane", compared)


LANES = {
    "0": "+".join(TABLE_FUNCTIONS),
    "1": "tanh",
    "2": "relu+gelu+silu+tanh",
    "3": "silu_derivative+relu",
    "4": "gelu+tanh_derivative",
}
"""Functions by the number of registers."""


@pytest.mark.parametrize(
    "some", [("2", "4"), pytest.param(tuple(LANES), marks=pytest.mark.full)], ids=["2,4", "all"]
)
def test_every_number_of_registers(some: tuple[str, ...], tmp_path: Path, tally: Tally) -> None:
    assert list(map(int, LANES)) == list(range(MOST_TABLE_STAGES + 1))
    lanes = {
        stages: TableLane(functions=functions, pipeline=int(stages))
        for stages, functions in LANES.items()
        if stages in some
    }
    lanes["relu"] = TableLane(functions="relu_derivative+relu", pipeline=3)
    simulator = available("icarus")
    tally(simulator, "table lane", check_stages(simulator, lanes, tmp_path, 300))


def test_the_verilog_is_clean(tmp_path: Path) -> None:
    available("verilator")
    lanes_are_clean([TableLane(functions="relu+tanh", pipeline=2), TableLane()], tmp_path)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"functions": "gelu+exp"},
            f"functions must be different ones of {', '.join(TABLE_FUNCTIONS)}, not 'exp'",
        ),
        (
            {"functions": ("gelu", "gelu")},
            f"functions must be different ones of {', '.join(TABLE_FUNCTIONS)}, not 'gelu'",
        ),
        (
            {"functions": ()},
            f"functions must be different ones of {', '.join(TABLE_FUNCTIONS)}, not ''",
        ),
        ({"pipeline": 5}, "pipeline must be an integer from 0 to 4, not 5"),
    ],
)
def test_configurations_that_cannot_work(parameters: dict, message: str) -> None:
    with pytest.raises(ValueError) as error:
        TableLane(**parameters)
    assert str(error.value) == message
