"""Rows with sums: beats, flags, sums and summaries, rows that do not fit, stalls, resets."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mxsafe.model.row_dot import row_dot, row_sum
from mxsafe.model.row_replay import ReplayedBeats, replay_rows
from mxsafe.rtl.vector.summed_rows import SummedRows
from verif.rtl.stream.replay_checks import rows_of
from verif.rtl.vector.backward_checks import PairedRow, paired_rows
from verif.support.manifest import Module
from verif.support.simulators import lint
from verif.support.stream_job import Streamed, check_stream
from verif.support.tests import Tally, available, refused
from verif.support.units import generated, published, random_words

Floats = NDArray[np.float32]


def _sums(
    module: Module, left: Floats, right: Floats, rows: ReplayedBeats
) -> Iterator[dict[str, Floats]]:
    """By name the sums of each row that leaves, shape (sums,)."""
    p = module.parameters
    along_lanes = p["along"] == "lanes"
    order = {"lanes": p["lanes"] if along_lanes else 1, "partials": p["partials"]}
    for first, last in zip(rows.beat[rows.first], rows.beat[rows.last], strict=True):
        of_row = [part[first : last + 1] for part in (left, right)]
        pair = [part.reshape(1, -1) if along_lanes else part.T for part in of_row]
        sums = {"products": row_dot(*pair, **order)}
        if p["totals"]:
            sums["totals"] = row_sum(pair[0], **order)
        yield sums


def check_summed_rows(
    simulator: str, module: Module, pairs: Sequence[PairedRow], seed: int, **options: Any
) -> Streamed:
    """Beats come out as they went in, with flags, and the sums of the model beside each row.

    Summaries and pauses depend on a seed. Further options are those of `run_stream`.
    """
    p = module.parameters
    last = rows_of([len(left) for left, _ in pairs])
    left, right = (np.concatenate([pair[side] for pair in pairs]) for side in (0, 1))
    beats = np.concatenate([left, right], axis=1).view(np.uint8)
    rows = replay_rows(last, passes=1, depth=p["depth"])
    ends = rows.beat[rows.last]
    sums = np.stack(
        [
            np.concatenate(list(each.values())).view(np.uint8)
            for each in _sums(module, left, right, rows)
        ]
    )
    job = {"s_axis_tdata": beats, "s_axis_tlast": last}
    if p["summary_bits"]:
        summaries = random_words(np.random.default_rng(seed), p["summary_bits"], len(last))
        job["s_axis_tuser"] = summaries
        sums = np.concatenate([sums, summaries[ends]], axis=1)
    return check_stream(
        simulator,
        module,
        job,
        {
            "m_axis_tdata": beats,
            "m_axis_tlast": rows.last,
            "m_axis_tuser": np.stack([0 * rows.first, rows.first, rows.overlong], axis=1),
            "m_axis_sums_tdata": sums,
            "m_axis_sums_tlast": np.ones(len(sums), np.bool_),
        },
        beside=["m_axis_sums"],
        beside_first=True,
        clocks=len(last) + len(ends) * module.latency,
        probe=(len(pairs[0][0]), 1),
        seed=seed,
        **options,
    )


STALLS = {"stall_in": 0.1, "stall_out": 0.2, "resets_after": range(1, 80, 13)}


@pytest.mark.parametrize(
    "parameters",
    [{"totals": True, "summary_bits": 9}, {"along": "beats"}],
    ids=["lanes", "beats"],
)
def test_rows(parameters: dict[str, Any], tmp_path: Path, tally: Tally) -> None:
    """Rows that are short, long and too long, pauses on all sides, resets in between."""
    module = generated(SummedRows(lanes=2, depth=8, **parameters), tmp_path)
    assert lint(module) == ""
    streamed = check_summed_rows(
        available("icarus"), module, paired_rows(module, 1, 40), 2, **STALLS
    )
    tally("icarus", "beats of rows with sums", len(streamed.left))


@pytest.mark.parametrize(
    ("partials", "depth"),
    [
        (2, 8),
        pytest.param(2, 2, marks=pytest.mark.variant),
        *(pytest.param(few, 8, marks=pytest.mark.full) for few in (4, 8)),
    ],
)
def test_rows_that_leave_little_room(
    partials: int, depth: int, tmp_path: Path, tally: Tally
) -> None:
    """The next row pushes their partial sums out, as far as there is room for its beats."""
    module = generated(SummedRows(lanes=2, depth=depth, partials=partials, totals=True), tmp_path)
    rows = paired_rows(module, 1, 56, (8, 1, 7, 1, 8, 4, 7, 4, 6, 1, 5, 2, 6, 4))
    beats = 0
    for seed, stalls in enumerate(({}, {"stall_in": 0.3}, {"stall_out": 0.4})):
        streamed = check_summed_rows(available("icarus"), module, rows, seed, **stalls)
        beats += len(streamed.left)
    tally("icarus", "beats of rows with sums", beats)


@pytest.mark.full
@pytest.mark.parametrize("name", published(SummedRows))
def test_published_ones(name: str, tally: Tally) -> None:
    """Rows of all lengths up to that of the memory, and beyond.

    Then, as fast as they are taken, short ones, of which many wait for their sums together, and
    those that leave little room or none. At last one that does not fit comes first after a reset.
    """
    simulator, module = available("verilator"), published(SummedRows)[name]
    depth = module.parameters["depth"]
    fast = [*[1] * 12, depth - 1, 4, depth, 1, depth - 2, 1]
    for rows, stalls in (
        (paired_rows(module, 3, 40), STALLS),
        (paired_rows(module, 4, 2 * len(fast), fast), {"stall_out": 0.2}),
        (paired_rows(module, 6, 3, [depth + 1]), {}),
    ):
        streamed = check_summed_rows(simulator, module, rows, 5, **stalls)
        tally(simulator, "beats of rows with sums", len(streamed.left))


test_configurations_that_cannot_work = refused(
    SummedRows,
    [
        ({"lanes": 12}, "lanes must be a power of two, not 12"),
        ({"along": "rows"}, "along must be one of lanes, beats, not 'rows'"),
        ({"depth": 1}, "depth must be 2 or more, not 1"),
        ({"summary_bits": -1}, "summary_bits must be a non-negative integer, not -1"),
    ],
)


def test_short_rows_are_counted_in() -> None:
    """With more partial sums than beats a row takes longer, and fewer gates are needed without."""
    default, more = SummedRows().config, SummedRows(partials=8).config
    assert default.latency < more.latency
    assert SummedRows(along="beats").config.products.lanes == 1
