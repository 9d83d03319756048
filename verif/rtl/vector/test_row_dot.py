"""Sums over rows: the model's order whatever stalls, rows of any length, resets."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxsafe.rtl.vector.row_dot import RowDot
from verif.rtl.vector.row_dot_checks import RESETS, check_row_sums, random_lengths, small_row_dot
from verif.support.generated import generated
from verif.support.published import published
from verif.support.simulators import lint
from verif.support.tests import Tally, available, refused

SMALL = {"lanes": 2, "partials": 4}


@pytest.mark.parametrize(
    ("simulator", "parameters", "count"),
    [
        ("icarus", {**SMALL, "multiply_stages": 1, "add_stages": 3}, 20),
        ("icarus", {"lanes": 1, "partials": 2, "multiply": False, "add_stages": 0}, 20),
        pytest.param("verilator", {"lanes": 4}, 400, marks=pytest.mark.full),
    ],
    ids=["products", "smallest", "default"],
)
def test_rows(
    simulator: str, parameters: dict[str, Any], count: int, tmp_path: Path, tally: Tally
) -> None:
    """Rows shorter and longer than partial sums, back to back and with pauses."""
    module = generated(RowDot(**parameters), tmp_path)
    available("verilator")
    assert lint(module) == ""
    lengths = random_lengths(module, 1, count)
    stalls = {"stall_in": 0.25, "stall_out": 0.2, "resets_after": range(5, 60, 12)}
    check_row_sums(available(simulator), module, lengths, 2, **stalls)
    tally(simulator, "rows of sums", count)


@pytest.mark.variant
@pytest.mark.parametrize("name", published(RowDot))
def test_published_ones(name: str, tally: Tally) -> None:
    """Rows of one number up to four of each partial sum, with pauses; a reset before the sum."""
    simulator, module = available("icarus"), published(RowDot)[name]
    lengths = random_lengths(module, 4, 6)
    lengths[3:5] = module.parameters["lanes"] * module.parameters["partials"] + np.arange(2)
    stalls = {"stall_in": 0.05, "stall_out": 0.3, "resets_after": (module.latency + 2,)}
    check_row_sums(simulator, module, lengths, 5, still=True, **stalls)
    tally(simulator, "rows of sums", len(lengths))


@pytest.mark.full
@pytest.mark.parametrize("name", published(RowDot))
def test_many_rows_of_published_ones(name: str, tally: Tally) -> None:
    """Rows of all lengths, with pauses on both sides, resets in between."""
    simulator, module = available("verilator"), published(RowDot)[name]
    lengths = random_lengths(module, 6, 100)
    stalls = {"stall_in": 0.1, "stall_out": 0.2, "resets_after": range(5, 60, 12)}
    check_row_sums(simulator, module, lengths, 7, **stalls)
    tally(simulator, "rows of sums", len(lengths))


def test_resets_about_the_first_sum(tmp_path: Path, tally: Tally) -> None:
    module = small_row_dot(tmp_path)
    lengths = random_lengths(module, 1, 20)
    stalls = {"stall_in": 0.25, "stall_out": 0.2, "resets_after": RESETS}
    check_row_sums(available("icarus"), module, lengths, 2, **stalls)
    tally("icarus", "rows of sums", len(lengths))


def test_a_beat_a_clock(tmp_path: Path) -> None:
    """Rows of as many beats as there are partial sums follow each other without a pause."""
    module = generated(RowDot(**SMALL, multiply=False), tmp_path)
    lengths = np.array([8, 8, 15, 20, 8, 9])
    streamed = check_row_sums(available("icarus"), module, lengths, 3)
    assert (np.diff(streamed.taken) == 1).all()
    ends = np.cumsum(-(-lengths // 2)) - 1
    assert (streamed.left - streamed.taken[ends] == module.latency).all()


test_configurations_that_cannot_work = refused(
    RowDot,
    [
        ({"lanes": 3}, "lanes must be a power of two, not 3"),
        ({"partials": 6}, "partials must be a power of two, not 6"),
        ({"partials": 1}, "partials must be a power of two from 2 on, not 1"),
        ({"multiply_stages": 5}, "multiply_stages must be an integer from 0 to 4, not 5"),
        (
            {"partials": 2, "add_stages": 2},
            "add_stages must be an integer from 0 to 1, not 2",
        ),
    ],
)
