"""Softmax behind streams, in both orientations: values of all kinds, masks, stalls, resets."""

import numpy as np
import pytest

from mxsafe.rtl.timing import Target
from mxsafe.rtl.vector.softmax import Softmax
from mxsafe.tables import Grade
from mxsafe.tables.softmax import LONGEST_ROW
from verif.rtl.vector.softmax_checks import (
    Rows,
    check_overlong_row,
    check_softmax,
    corner_rows,
    edge_rows,
    random_rows,
    shape_of,
)
from verif.support.manifest import Module
from verif.support.simulators import lint
from verif.support.tests import Volume, refused
from verif.support.units import generated, published

RESETS = (1, 14, *range(20, 28), *range(21, 29))
"""Cycles to reset after: about the first results of `small_softmax`, of one cycle and of more."""


def small_softmax(along: str, lanes: int = 2, **options: str) -> Module:
    """One that builds quickly, generated into `folder`."""
    return generated(Softmax(along=along, lanes=lanes, depth=16, **options))


ALONG = ("lanes", "beats")


def _items(jobs: list[Rows]) -> int:
    return sum(rows.values.size for rows in jobs)


@pytest.mark.parametrize(
    ("along", "grade"),
    [
        ("lanes", "compact"),
        pytest.param("beats", "compact", marks=pytest.mark.full),
        *(pytest.param(along, "fine", marks=pytest.mark.variant) for along in ALONG),
    ],
)
def test_many_rows(along: str, grade: Grade, volume: Volume) -> None:
    """Rows of up to the whole memory, pauses on both sides, resets in between."""
    # Three lanes are added in two groups.
    module = small_softmax(along, 3 if along == "lanes" else 2, grade=grade)
    jobs = random_rows(module, 1, volume(30, 60, 60), beats=16) + corner_rows(module)
    jobs += edge_rows(module, 2, 10, 8)
    stalls = {"stall_in": 0.1, "stall_out": 0.3}
    check_softmax("verilator", module, jobs, resets_after=range(1, 80, 16), **stalls)


@pytest.mark.parametrize(
    ("along", "target"), [*((along, "asic") for along in ALONG), ("beats", "fpga")]
)
def test_rows_back_to_back(along: str, target: Target) -> None:
    """The cycles that rows take: those of their two passes, and the pauses between."""
    module = small_softmax(along, target=target)
    depth = module.parameters["depth"]
    rng = np.random.default_rng(4)
    jobs = [
        Rows(values=rng.normal(size=shape_of(module, beats)).astype(np.float32))
        for beats in (depth, *5 * [depth // 2])
    ]
    streamed = check_softmax("icarus", module, jobs)
    assert streamed.left[0] - streamed.taken[depth - 1] == module.latency
    left = streamed.left[depth:].reshape(5, depth // 2)
    assert (np.diff(left, axis=1) == 1).all()
    period = depth + sum(module.parameters["pauses"])
    assert (np.diff(left[1:, 0]) == period).all()


@pytest.mark.parametrize(
    ("along", "target", "grade"),
    [
        ("beats", "fpga", "compact"),
        ("lanes", "asic", "fine"),
        *(
            pytest.param(along, target, grade, marks=pytest.mark.variant)
            for along, target, grade in (
                ("lanes", "asic", "compact"),
                ("beats", "asic", "compact"),
                ("beats", "asic", "fine"),
                ("beats", "fpga", "fine"),
            )
        ),
    ],
)
def test_on_icarus(along: str, target: Target, grade: Grade) -> None:
    """Rows of different factors, with pauses on both sides."""
    module = small_softmax(along, target=target, grade=grade)
    assert lint(module) == ""
    jobs = random_rows(module, 3, 10, beats=8) + corner_rows(module)[::8]
    stalls = {"stall_in": 0.3, "stall_out": 0.1}
    check_softmax("icarus", module, jobs, resets_after=RESETS, **stalls)


@pytest.mark.variant
@pytest.mark.parametrize("name", published(Softmax))
def test_published_ones(name: str) -> None:
    """A few rows in all lanes, one of them with a NaN, with pauses on both sides."""
    module = published(Softmax)[name]
    jobs = random_rows(module, 8, 3, beats=4) + corner_rows(module)[11:12]
    assert np.isnan(jobs[-1].values).any()
    check_softmax(
        "icarus", module, jobs, stall_in=0.1, stall_out=0.3, resets_after=(5,), still=True
    )


@pytest.mark.full
@pytest.mark.parametrize("name", published(Softmax))
def test_many_rows_of_published_ones(name: str) -> None:
    """Rows of all kinds and lengths, with pauses on both sides, resets in between.

    One does not fit.
    """
    module = published(Softmax)[name]
    longest = min(module.parameters["depth"], LONGEST_ROW // shape_of(module, 1)[1])
    jobs = random_rows(module, 9, 240, beats=4) + random_rows(module, 10, 6, beats=longest)
    jobs += corner_rows(module)
    jobs += [rows for beats in (3, 7) for rows in edge_rows(module, beats, 20, beats)]
    stalls = {"stall_in": 0.1, "stall_out": 0.3}
    check_softmax("verilator", module, jobs, resets_after=range(1, 80, 16), **stalls)
    check_overlong_row("verilator", module)


@pytest.mark.full
@pytest.mark.parametrize("along", ALONG)
def test_sixteen_lanes(along: str, simulator: str) -> None:
    """The default size, and rows as long as they may be."""
    module = generated(Softmax(along=along))
    many = simulator == "verilator"
    jobs = random_rows(module, 6, 40 if many else 3, beats=40 if many else 3)
    if many:
        jobs += corner_rows(module) + random_rows(module, 7, 8, beats=256)
    check_softmax(simulator, module, jobs, stall_in=0.1, stall_out=0.1)


@pytest.mark.one_simulator("icarus")
def test_a_row_that_does_not_fit(simulator: str) -> None:
    module = small_softmax("lanes")
    check_overlong_row(simulator, module)


test_configurations_that_cannot_work = refused(
    Softmax,
    [
        ({"lanes": 0}, "lanes must be a positive integer, not 0"),
        ({"along": "rows"}, "along must be one of lanes, beats, not 'rows'"),
        ({"depth": 48}, "depth must be a power of two, not 48"),
        ({"grade": "coarse"}, "grade must be one of compact, fine, not 'coarse'"),
    ],
)
