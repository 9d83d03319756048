"""Sums over rows: the model's order whatever stalls, rows of any length, resets."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxsafe.model.row_dot import row_dot, row_sum
from mxsafe.rtl.vector.row_dot import RowDot
from verif.support.checkers import assert_equal
from verif.support.generated import generated
from verif.support.manifest import Module
from verif.support.simulators import lint
from verif.support.stream_job import Streamed, run_stream
from verif.support.tests import Tally, available
from verif.support.vector_checks import random_floats


def check_rows(
    simulator: str, module: Module, lengths: np.ndarray, seed: int, **options: Any
) -> Streamed:
    """Rows of so many numbers have the sums of the model."""
    rng = np.random.default_rng(seed)
    p = module.parameters
    lanes, names = p["lanes"], ["s_axis"] + ["s_axis_factor"] * p["multiply"]
    beats = -(-lengths // lanes)
    parts: dict[str, list[np.ndarray]] = {name: [] for name in names}
    expected = []
    for length in lengths:
        rows = [random_floats(rng, (length,)) for _ in names]
        if rng.random() < 0.8:  # else a NaN or Inf decides most rows
            rows = [
                np.where(abs(np.nan_to_num(row)) < 1e6, row, 1).astype(np.float32) for row in rows
            ]
            rows = [np.nan_to_num(row) for row in rows]
        order = {"lanes": lanes, "partials": p["partials"]}
        expected.append(row_dot(*rows, **order) if p["multiply"] else row_sum(*rows, **order))
        for name, row in zip(names, rows, strict=True):
            parts[name].append(np.pad(row, (0, -length % lanes)))
    job = {
        f"{name}_tdata": np.concatenate(rows).view(np.uint8).reshape(-1, 4 * lanes)
        for name, rows in parts.items()
    }
    last = np.zeros(beats.sum(), np.bool_)
    last[np.cumsum(beats) - 1] = True
    job["s_axis_tlast"] = module.ports["s_axis_tlast"].words(last)
    clocks = int(np.maximum(beats, p["partials"]).sum())
    streamed = run_stream(simulator, module, job, clocks=clocks, **options)
    got = streamed.words["m_axis_tdata"].view(np.uint32)[:, 0]
    assert_equal(module.name, got, np.array(expected).view(np.uint32), length=lengths)
    return streamed


SMALL = {"lanes": 2, "partials": 4}


@pytest.mark.parametrize(
    ("simulator", "parameters", "count"),
    [
        ("icarus", {**SMALL, "multiply_stages": 1, "add_stages": 3}, 20),
        ("icarus", {"lanes": 1, "partials": 2, "multiply": False, "add_stages": 0}, 20),
        pytest.param("verilator", {"lanes": 4}, 400, marks=pytest.mark.full),
    ],
    ids=["products", "smallest", "usual"],
)
def test_rows(
    simulator: str, parameters: dict[str, Any], count: int, tmp_path: Path, tally: Tally
) -> None:
    """Rows shorter and longer than partial sums, back to back and with pauses."""
    module = generated(RowDot(**parameters), tmp_path, in_one_run=True)
    available("verilator")
    assert lint(module) == ""
    lanes, partials = module.parameters["lanes"], module.parameters["partials"]
    lengths = np.random.default_rng(1).integers(1, 4 * lanes * partials, count)
    lengths[::3] = np.minimum(lengths[::3], lanes * partials // 2 + 1)
    stalls = {"stall_in": 0.25, "stall_out": 0.2, "resets_after": range(5, 60, 12)}
    check_rows(available(simulator), module, lengths, 2, **stalls)
    tally(simulator, "rows of sums", count)


def test_a_beat_a_clock(tmp_path: Path) -> None:
    """Rows of as many beats as there are partial sums follow each other without a pause."""
    module = generated(RowDot(**SMALL, multiply=False), tmp_path, in_one_run=True)
    lengths = np.array([8, 8, 15, 20, 8, 9])
    streamed = check_rows(available("icarus"), module, lengths, 3)
    assert (np.diff(streamed.taken) == 1).all()
    ends = np.cumsum(-(-lengths // 2)) - 1
    assert (streamed.left - streamed.taken[ends] == module.latency).all()


@pytest.mark.parametrize(
    ("parameters", "message"),
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
def test_configurations_that_cannot_work(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:
        RowDot(**parameters)
    assert str(error.value) == message
