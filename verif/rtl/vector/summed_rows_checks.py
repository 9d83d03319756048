"""What rows with sums are held to: rows of all lengths, their beats and the models' sums."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxsafe.model.row_dot import row_dot, row_sum
from mxsafe.model.row_replay import ReplayedBeats, replay_rows
from verif.rtl.stream.replay_checks import rows_of
from verif.rtl.vector.backward_checks import PairedRow
from verif.support.checkers import assert_equal
from verif.support.manifest import Module
from verif.support.published import random_words
from verif.support.stream_job import Streamed, run_stream

__all__ = ["check_summed_rows"]

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
    p, ports = module.parameters, module.ports
    last = rows_of([len(left) for left, _ in pairs])
    left, right = (np.concatenate([pair[side] for pair in pairs]) for side in (0, 1))
    beats = np.concatenate([left, right], axis=1).view(np.uint8)
    rows = replay_rows(last, passes=1, depth=p["depth"])
    ends = rows.beat[rows.last]
    summaries = random_words(np.random.default_rng(seed), p["summary_bits"], len(last))
    summary = {"s_axis_tuser": summaries} if p["summary_bits"] else {}
    streamed = run_stream(
        simulator,
        module,
        {"s_axis_tdata": beats, "s_axis_tlast": ports["s_axis_tlast"].words(last), **summary},
        beside=["m_axis_sums"],
        beside_first=True,
        clocks=len(last) + len(ends) * module.latency,
        probe=(len(pairs[0][0]), 1),
        seed=seed,
        **options,
    )
    words, index = streamed.words, np.arange(len(last))
    assert_equal("beats", words["m_axis_tdata"], beats, beat=index)
    assert_equal("tlast", words["m_axis_tlast"][:, 0], rows.last.astype(np.uint8), beat=index)
    number, first, overlong = ports["m_axis_tuser"].split(words["m_axis_tuser"]).T
    assert_equal("number", number, np.zeros_like(number), beat=index)
    assert_equal("first", first, rows.first.astype(np.int64), beat=index)
    assert_equal("overlong", overlong, rows.overlong.astype(np.int64), beat=index)
    expected = [
        np.concatenate([sums[name] for name in sums]).view(np.uint8)
        for sums in _sums(module, left, right, rows)
    ]
    sums = np.stack(expected)
    if summary:
        sums = np.concatenate([sums, summaries[ends]], axis=1)
    assert_equal("sums", words["m_axis_sums_tdata"], sums, row=np.arange(len(sums)))
    ones = np.ones(len(sums), np.uint8)
    assert_equal("tlast of sums", words["m_axis_sums_tlast"][:, 0], ones, row=np.arange(len(sums)))
    return streamed
