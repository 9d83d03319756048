"""Backward passes of layer and RMS normalisation: numbers of all kinds, stalls, resets."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxsafe.rtl.vector.normalise_backward import NormaliseBackward
from verif.rtl.vector.backward_checks import (
    RESETS,
    check_normalise_backward,
    normalised_rows,
    small_normalise_backward,
)
from verif.support.simulators import lint
from verif.support.tests import Tally, Volume, available, refused
from verif.support.units import generated, published

CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "layer with gain": {"gain": True},
    "layer": {"partials": 4, "depth": 16},
    "RMS with gain": {"centre": False, "gain": True, "lanes": 4},
    "RMS": {"centre": False, "lanes": 1},
}


@pytest.mark.parametrize(
    "name",
    [
        name if name == "layer with gain" else pytest.param(name, marks=pytest.mark.full)
        for name in CONFIGURATIONS
    ],
)
def test_on_icarus(name: str, tmp_path: Path, tally: Tally, volume: Volume) -> None:
    """Rows that are short, long and too long, pauses on all sides, resets about first results."""
    module = small_normalise_backward(tmp_path, **CONFIGURATIONS[name])
    assert lint(module) == ""
    rows = normalised_rows(module, 1, volume(12, 20, 20))
    stalls = {"stall_in": 0.1, "stall_out": 0.2, "resets_after": RESETS}
    streamed = check_normalise_backward(available("icarus"), module, rows, **stalls)
    tally("icarus", "normalise backward", streamed.left.size * module.parameters["lanes"])


@pytest.mark.variant
@pytest.mark.parametrize("name", published(NormaliseBackward))
def test_published_ones(name: str, tally: Tally) -> None:
    """A few short rows in all lanes, with pauses on all sides."""
    simulator, module = available("icarus"), published(NormaliseBackward)[name]
    rows = normalised_rows(module, 5, 5)
    stalls = {"stall_in": 0.1, "stall_out": 0.2, "resets_after": (5,), "still": True}
    streamed = check_normalise_backward(simulator, module, rows, **stalls)
    tally(simulator, "normalise backward", streamed.left.size * module.parameters["lanes"])


@pytest.mark.full
@pytest.mark.parametrize("name", published(NormaliseBackward))
def test_many_rows_of_published_ones(name: str, tally: Tally) -> None:
    """Rows of all kinds and lengths, with pauses on all sides, resets in between."""
    simulator, module = available("verilator"), published(NormaliseBackward)[name]
    stalls = {"stall_in": 0.05, "stall_out": 0.1, "resets_after": range(1, 80, 16)}
    rows = normalised_rows(module, 6, 40)
    streamed = check_normalise_backward(simulator, module, rows, **stalls)
    tally(simulator, "normalise backward", streamed.left.size * module.parameters["lanes"])


@pytest.mark.variant
def test_without_gain_or_mean(tmp_path: Path, tally: Tally) -> None:
    """The entry then lets values through as they come."""
    module = small_normalise_backward(tmp_path, centre=False, lanes=1)
    rows = normalised_rows(module, 2, 60)
    stalls = {"stall_in": 0.05, "stall_out": 0.1, "resets_after": range(1, 60, 12)}
    streamed = check_normalise_backward(available("verilator"), module, rows, **stalls)
    tally("verilator", "normalise backward", streamed.left.size)


@pytest.mark.full
def test_a_beat_a_clock(tmp_path: Path) -> None:
    """A row enters while the one before leaves, without a pause, if the memory holds both."""
    module = small_normalise_backward(tmp_path, lanes=1, depth=128)
    values, gradients, gains, statistics = normalised_rows(module, 3, 1)[0]
    parts = [np.tile(part, (24, 1)) for part in (values, gradients, gains)]
    rows = [(parts[0], parts[1], parts[2], statistics)] * 5
    streamed = check_normalise_backward(available("icarus"), module, rows)
    assert (np.diff(streamed.taken) == 1).all()
    assert (np.diff(streamed.left) == 1).all()
    assert 0 <= module.latency - (streamed.left[0] - streamed.taken[47]) < 2


@pytest.mark.full
@pytest.mark.parametrize("centre", [True, False])
def test_sixteen_lanes(centre: bool, simulator: str, tmp_path: Path, tally: Tally) -> None:
    """The default size, and rows as long as they may be."""
    module = generated(NormaliseBackward(centre=centre, gain=True), tmp_path)
    rows = normalised_rows(module, 4, 12)[: None if simulator == "verilator" else 6]
    streamed = check_normalise_backward(simulator, module, rows, stall_in=0.1, stall_out=0.1)
    tally(simulator, "normalise backward", streamed.left.size * 16)


test_configurations_that_cannot_work = refused(
    NormaliseBackward,
    [
        ({"lanes": 3}, "lanes must be a power of two, not 3"),
        ({"partials": 6}, "partials must be a power of two, not 6"),
        ({"depth": 48}, "depth must be a power of two, not 48"),
    ],
)
