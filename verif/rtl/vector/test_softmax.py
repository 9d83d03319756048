"""Softmax behind streams, in both orientations: values of all kinds, masks, stalls, resets."""

from pathlib import Path

import numpy as np
import pytest

from mxsafe.rtl.arithmetic.target import Target
from mxsafe.rtl.vector.softmax import Softmax
from mxsafe.tables.softmax import LONGEST_ROW
from verif.rtl.vector.softmax_checks import (
    RESETS,
    Rows,
    check_overlong_row,
    check_softmax,
    corner_rows,
    edge_rows,
    random_rows,
    shape_of,
    small_softmax,
)
from verif.support.generated import generated
from verif.support.published import published
from verif.support.simulators import lint
from verif.support.tests import Tally, Volume, available, refused

ALONG = ("lanes", "beats")


def _items(jobs: list[Rows]) -> int:
    return sum(rows.values.size for rows in jobs)


@pytest.mark.parametrize("along", ["lanes", pytest.param("beats", marks=pytest.mark.full)])
def test_many_rows(along: str, tmp_path: Path, tally: Tally, volume: Volume) -> None:
    """Rows of up to the whole memory, pauses on both sides, resets in between."""
    # Three lanes are added in two groups.
    module = small_softmax(tmp_path, along, 3 if along == "lanes" else 2)
    jobs = random_rows(module, 1, volume(30, 60, 60), beats=16) + corner_rows(module)
    jobs += edge_rows(module, 2, 10, 8)
    stalls = {"stall_in": 0.1, "stall_out": 0.3}
    check_softmax(available("verilator"), module, jobs, resets_after=range(1, 80, 16), **stalls)
    tally("verilator", f"softmax along {along}", _items(jobs))


@pytest.mark.parametrize(
    ("along", "target"), [*((along, "asic") for along in ALONG), ("beats", "fpga")]
)
def test_rows_back_to_back(along: str, target: Target, tmp_path: Path, tally: Tally) -> None:
    """The cycles that rows take: those of their two passes, and the pauses between."""
    module = small_softmax(tmp_path, along, target=target)
    lanes, depth = module.parameters["lanes"], module.parameters["depth"]
    rng = np.random.default_rng(4)
    jobs = [
        Rows(values=rng.normal(size=shape_of(module, beats)).astype(np.float32))
        for beats in (depth, *5 * [depth // 2])
    ]
    streamed = check_softmax(available("icarus"), module, jobs)
    assert streamed.left[0] - streamed.taken[depth - 1] == module.latency
    left = streamed.left[depth:].reshape(5, depth // 2)
    assert (np.diff(left, axis=1) == 1).all()
    period = depth + sum(module.parameters["pauses"])
    assert (np.diff(left[1:, 0]) == period).all()
    tally("icarus", f"softmax along {along}", streamed.left.size * lanes)


@pytest.mark.parametrize(
    ("along", "target"),
    [
        ("beats", "fpga"),
        *(pytest.param(along, "asic", marks=pytest.mark.variant) for along in ALONG),
    ],
)
def test_on_icarus(along: str, target: Target, tmp_path: Path, tally: Tally) -> None:
    """Rows of different factors, with pauses on both sides."""
    module = small_softmax(tmp_path, along, target=target)
    assert lint(module) == ""
    jobs = random_rows(module, 3, 10, beats=8) + corner_rows(module)[::8]
    stalls = {"stall_in": 0.3, "stall_out": 0.1}
    check_softmax(available("icarus"), module, jobs, resets_after=RESETS, **stalls)
    tally("icarus", f"softmax along {along}", _items(jobs))


@pytest.mark.variant
@pytest.mark.parametrize("name", published(Softmax))
def test_published_ones(name: str, tally: Tally) -> None:
    """A few rows in all lanes, one of them with a NaN, with pauses on both sides."""
    simulator, module = available("icarus"), published(Softmax)[name]
    jobs = random_rows(module, 8, 3, beats=4) + corner_rows(module)[11:12]
    assert np.isnan(jobs[-1].values).any()
    check_softmax(
        simulator, module, jobs, stall_in=0.1, stall_out=0.3, resets_after=(5,), still=True
    )
    tally(simulator, f"softmax along {module.parameters['along']}", _items(jobs))


@pytest.mark.full
@pytest.mark.parametrize("name", published(Softmax))
def test_many_rows_of_published_ones(name: str, tally: Tally) -> None:
    """Rows of all kinds and lengths, with pauses on both sides, resets in between.

    One does not fit.
    """
    simulator, module = available("verilator"), published(Softmax)[name]
    longest = min(module.parameters["depth"], LONGEST_ROW // shape_of(module, 1)[1])
    jobs = random_rows(module, 9, 240, beats=4) + random_rows(module, 10, 6, beats=longest)
    jobs += corner_rows(module)
    jobs += [rows for beats in (3, 7) for rows in edge_rows(module, beats, 20, beats)]
    stalls = {"stall_in": 0.1, "stall_out": 0.3}
    check_softmax(simulator, module, jobs, resets_after=range(1, 80, 16), **stalls)
    check_overlong_row(simulator, module)
    tally(simulator, f"softmax along {module.parameters['along']}", _items(jobs))


@pytest.mark.full
@pytest.mark.parametrize("along", ALONG)
def test_sixteen_lanes(along: str, simulator: str, tmp_path: Path, tally: Tally) -> None:
    """The default size, and rows as long as they may be."""
    module = generated(Softmax(along=along), tmp_path)
    many = simulator == "verilator"
    jobs = random_rows(module, 6, 40 if many else 3, beats=40 if many else 3)
    if many:
        jobs += corner_rows(module) + random_rows(module, 7, 8, beats=256)
    check_softmax(simulator, module, jobs, stall_in=0.1, stall_out=0.1)
    tally(simulator, f"softmax along {along}", _items(jobs))


@pytest.mark.one_simulator("icarus")
def test_a_row_that_does_not_fit(simulator: str, tmp_path: Path, tally: Tally) -> None:
    module = small_softmax(tmp_path, "lanes")
    streamed = check_overlong_row(simulator, module)
    tally(simulator, "softmax along lanes", streamed.left.size * 2)


test_configurations_that_cannot_work = refused(
    Softmax,
    [
        ({"lanes": 0}, "lanes must be a positive integer, not 0"),
        ({"along": "rows"}, "along must be one of lanes, beats, not 'rows'"),
        ({"depth": 48}, "depth must be a power of two, not 48"),
    ],
)
