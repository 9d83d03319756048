"""The unit that gives rows several times: lengths, stalls, resets, rows that do not fit."""

from typing import Any

import numpy as np
import pytest

from mxsafe.rtl.stream.row_replay import RowReplay
from verif.rtl.stream.replay_checks import check_rows, row_replay, rows_of, rows_of_all_lengths
from verif.support.tests import refused
from verif.support.units import published


def test_a_row_enters_while_another_leaves(simulator: str) -> None:
    """With room for two, what leaves leaves no gap: a beat a cycle, `passes` for each that came."""
    module = row_replay()
    streamed = check_rows(simulator, module, rows_of([4] * 12))
    assert streamed.left[0] - streamed.taken[3] == module.latency
    assert (np.diff(streamed.left) == 1).all()


@pytest.mark.parametrize(("stall_in", "stall_out"), [(0.3, 0.1), (0.1, 0.3)])
def test_rows_of_all_lengths(stall_in: float, stall_out: float, simulator: str) -> None:
    """Rows that fit and rows that do not, with pauses on either side, resets in between."""
    module = row_replay()
    check_rows(
        simulator,
        module,
        rows_of_all_lengths(module, 60),
        stall_in=stall_in,
        stall_out=stall_out,
        resets_after=range(1, 24) if stall_in > stall_out else (),
    )


@pytest.mark.parametrize(
    "parameters",
    [
        {"passes": 3, "depth": 4, "rows": 3},
        {"passes": 1, "depth": 2, "rows": 1},
        # That of the block converter, whose own tests do not fill it.
        {"passes": 1, "depth": 128, "rows": 3, "beat_bits": 136, "summary_bits": 65},
    ],
)
def test_other_sizes(parameters: dict[str, Any]) -> None:
    module = row_replay(**parameters)
    check_rows(
        "icarus",
        module,
        rows_of_all_lengths(module, 60),
        stall_in=0.2,
        stall_out=0.2,
        resets_after=range(1, 16),
    )


def test_rows_that_go_once(simulator: str) -> None:
    module = row_replay(passes=3, may_stop=True)
    for stop in (True, False):
        check_rows(simulator, module, rows_of_all_lengths(module, 20), stall_out=0.3, stop=stop)


@pytest.mark.variant
@pytest.mark.parametrize("name", published(RowReplay))
def test_published_ones(name: str) -> None:
    """Rows that fill the memory and that do not fit; more rows than there is room for.

    They begin and end at all kinds of addresses. Summaries come with each beat, of which that of
    the last one counts.
    """
    module = published(RowReplay)[name]
    depth, rows = module.parameters["depth"], module.parameters["rows"]
    few = [3] + [1] * (rows + 2)
    short = np.random.default_rng(6).integers(1, max(depth // 16, 4), 48).tolist()
    lengths: dict[str, list[int]] = {"": [depth, *few, depth + 1, *[1, 2] * rows, *short]}
    lengths |= {n: few for n in ("skip", "stop") if module.parameters[f"may_{n}"]}
    for way, each in lengths.items():
        check_rows(
            "icarus",
            module,
            rows_of(each),
            stall_in=0.05,
            stall_out=0.3,
            resets_after=(2, 4, 7, 9),
            skip=way == "skip",
            stop=way == "stop",
        )


test_configurations_that_cannot_work = refused(
    RowReplay,
    [
        ({"depth": 12}, "depth must be a power of two, not 12"),
        ({"depth": 1}, "depth must be 2 or more, not 1"),
        ({"passes": 0}, "passes must be a positive integer, not 0"),
        ({"rows": 0}, "rows must be a positive integer, not 0"),
        ({"summary_bits": -1}, "summary_bits must be a non-negative integer, not -1"),
        ({"beat_bits": 12}, "beat_bits must make s_axis_tdata whole bytes, not 12 bits"),
    ],
)
