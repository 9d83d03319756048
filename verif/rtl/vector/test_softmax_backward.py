"""Backward passes of softmax in both orientations: numbers of all kinds, stalls, resets."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxsafe.rtl.vector.softmax_backward import SoftmaxBackward
from verif.rtl.vector.backward_checks import (
    RESETS,
    check_softmax_backward,
    paired_rows,
    small_softmax_backward,
)
from verif.support.simulators import lint
from verif.support.tests import Tally, available, refused
from verif.support.units import generated, published

ALONG = ("lanes", "beats")


@pytest.mark.parametrize("along", ["lanes", pytest.param("beats", marks=pytest.mark.full)])
def test_on_icarus(along: str, tmp_path: Path, tally: Tally) -> None:
    """Rows that are short, long and too long, pauses on all sides, resets about first results."""
    module = small_softmax_backward(tmp_path, along=along)
    assert lint(module) == ""
    rows = paired_rows(module, 1, 24)
    stalls = {"stall_in": 0.1, "stall_out": 0.2, "resets_after": RESETS}
    streamed = check_softmax_backward(available("icarus"), module, rows, **stalls)
    tally("icarus", f"softmax backward along {along}", streamed.left.size * 2)


@pytest.mark.full
@pytest.mark.parametrize(
    ("parameters", "count"),
    [
        ({"lanes": 1, "partials": 4, "scale": False}, 100),
        ({"lanes": 16, "depth": 16, "partials": 8}, 400),
        ({"along": "beats", "lanes": 4, "depth": 16}, 400),
    ],
    ids=["smallest", "lanes", "beats"],
)
def test_many_rows(parameters: dict[str, Any], count: int, tmp_path: Path, tally: Tally) -> None:
    module = small_softmax_backward(tmp_path, **parameters)
    rows = paired_rows(module, 2, count)
    stalls = {"stall_in": 0.05, "stall_out": 0.1, "resets_after": range(1, 80, 16)}
    streamed = check_softmax_backward(available("verilator"), module, rows, scale=-1e-3, **stalls)
    lanes = module.parameters["lanes"]
    tally("verilator", "softmax backward of other sizes", streamed.left.size * lanes)


@pytest.mark.parametrize("along", [pytest.param("lanes", marks=pytest.mark.full), "beats"])
def test_a_beat_a_clock(along: str, tmp_path: Path, tally: Tally) -> None:
    """A row enters while the one before leaves, without a pause, if the memory holds both."""
    module = small_softmax_backward(tmp_path, along=along, depth=128)
    row = paired_rows(module, 3, 1)[0]
    rows = [tuple(np.tile(part, (24, 1)) for part in row)] * 5
    streamed = check_softmax_backward(available("icarus"), module, rows)
    assert (np.diff(streamed.taken) == 1).all()
    assert (np.diff(streamed.left) == 1).all()
    assert 0 <= module.latency - (streamed.left[0] - streamed.taken[47]) < 2
    tally("icarus", f"softmax backward along {along}", streamed.left.size * 2)


@pytest.mark.variant
@pytest.mark.parametrize("name", published(SoftmaxBackward))
def test_published_ones(name: str, tally: Tally) -> None:
    """A few short rows in all lanes, with pauses on both sides."""
    simulator, module = available("icarus"), published(SoftmaxBackward)[name]
    rows = paired_rows(module, 5, 4)
    streamed = check_softmax_backward(
        simulator, module, rows, stall_in=0.1, stall_out=0.3, resets_after=(5,), still=True
    )
    items = streamed.left.size * module.parameters["lanes"]
    tally(simulator, f"softmax backward along {module.parameters['along']}", items)


@pytest.mark.full
@pytest.mark.parametrize("name", published(SoftmaxBackward))
def test_many_rows_of_published_ones(name: str, tally: Tally) -> None:
    """Rows of all kinds and lengths, with pauses on both sides, resets in between.

    The scales have a 0 and a 1 in all bits but those of the largest numbers.
    """
    simulator, module = available("verilator"), published(SoftmaxBackward)[name]
    stalls = {"stall_in": 0.05, "stall_out": 0.1, "resets_after": range(1, 80, 16)}
    scales = np.array([0x2AAAAAAA, 0xB5555555], np.uint32).view(np.float32)
    for seed, scale in enumerate(scales.tolist(), start=6):
        rows = paired_rows(module, seed, 40)
        streamed = check_softmax_backward(simulator, module, rows, scale=scale, **stalls)
        items = streamed.left.size * module.parameters["lanes"]
        tally(simulator, f"softmax backward along {module.parameters['along']}", items)


@pytest.mark.full
@pytest.mark.parametrize("along", ALONG)
def test_sixteen_lanes(along: str, simulator: str, tmp_path: Path, tally: Tally) -> None:
    """The default size, and rows as long as they may be."""
    module = generated(SoftmaxBackward(along=along), tmp_path)
    rows = paired_rows(module, 4, 12)[: None if simulator == "verilator" else 6]
    streamed = check_softmax_backward(simulator, module, rows, stall_in=0.1, stall_out=0.1)
    tally(simulator, f"softmax backward along {along}", streamed.left.size * 16)


test_configurations_that_cannot_work = refused(
    SoftmaxBackward,
    [
        ({"lanes": 3}, "lanes must be a power of two, not 3"),
        ({"partials": 1}, "partials must be a power of two from 2 on, not 1"),
        ({"along": "rows"}, "along must be one of lanes, beats, not 'rows'"),
        ({"depth": 48}, "depth must be a power of two, not 48"),
    ],
)
