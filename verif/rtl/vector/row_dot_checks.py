"""What sums over rows are held to: rows of numbers, and the model's sums."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxsafe.model.row_dot import row_dot, row_sum
from mxsafe.rtl.vector.row_dot import RowDot
from verif.rtl.vector.vector_checks import random_floats
from verif.support.checkers import assert_equal
from verif.support.generated import generated
from verif.support.manifest import Module
from verif.support.stream_job import Streamed, run_stream

__all__ = ["RESETS", "check_row_sums", "random_lengths", "small_row_dot"]

RESETS = (*range(9, 22), *range(10, 23))
"""Clocks to reset after: about the first sum of `small_row_dot`, of one clock and of more."""


def small_row_dot(folder: Path) -> Module:
    """One that simulates quickly, generated into `folder`."""
    return generated(RowDot(lanes=1, partials=4, multiply_stages=1), folder)


def random_lengths(module: Module, seed: int, rows: int) -> NDArray[np.int64]:
    """Numbers in rows shorter and longer than all partial sums."""
    lanes, partials = module.parameters["lanes"], module.parameters["partials"]
    lengths = np.random.default_rng(seed).integers(1, 4 * lanes * partials, rows)
    lengths[::3] = np.minimum(lengths[::3], lanes * partials // 2 + 1)
    return lengths


def check_row_sums(
    simulator: str, module: Module, lengths: NDArray[np.int64], seed: int, **options: Any
) -> Streamed:
    """Rows of so many numbers have the sums of the model.

    Further options are those of `run_stream`.
    """
    rng = np.random.default_rng(seed)
    p = module.parameters
    lanes, names = p["lanes"], ["s_axis"] + ["s_axis_factor"] * p["multiply"]
    beats = -(-lengths // lanes)
    parts: dict[str, list[NDArray[np.float32]]] = {name: [] for name in names}
    expected = []
    for length in lengths:
        rows = [random_floats(rng, (length,)) for _ in names]
        kind = rng.random()
        if kind < 0.4:  # else a few numbers are so large that others do not matter
            rows = [rng.standard_normal(length).astype(np.float32) for _ in names]
        elif kind < 0.9:  # else a NaN or Inf decides most rows
            rows = [
                np.where(abs(np.nan_to_num(row)) < 1e6, row, 1).astype(np.float32) for row in rows
            ]
            rows = [np.nan_to_num(row) for row in rows]
        if len(expected) % 6 in (3, 4):  # sums of zeros are -0 only where all are; some are short
            signs = np.float32([-0.0] if len(expected) % 6 == 3 else [-0.0, 0.0])
            rows = [rng.choice(signs, length), *(np.ones_like(row) for row in rows[1:])]
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
