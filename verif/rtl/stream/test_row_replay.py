"""The unit that gives rows several times: lengths, stalls, resets, rows that do not fit."""

from pathlib import Path

import numpy as np
import pytest

from mxsafe.model.row_replay import replay_rows
from mxsafe.rtl.stream.beat_memory import BeatMemory
from mxsafe.rtl.stream.row_replay import RowReplay
from verif.support.checkers import assert_equal
from verif.support.generated import generated
from verif.support.manifest import Module
from verif.support.stream_job import Streamed, run_stream
from verif.support.tests import Tally, available


def _check(
    simulator: str, module: Module, last: np.ndarray, *, seed: int = 1, **options: object
) -> Streamed:
    """Rows come out as the model has them."""
    config, ports = module.parameters, module.ports
    rng = np.random.default_rng(seed)
    beats = rng.integers(0, 1 << config["beat_bits"], len(last))
    summaries = rng.integers(0, 1 << config["summary_bits"], len(last))
    expected = replay_rows(last, passes=config["passes"], depth=config["depth"])
    # A probe is a row that fits, after the first row: it leaves once for each pass.
    ends = np.flatnonzero(last) + 1
    streamed = run_stream(
        simulator,
        module,
        {
            "s_axis_tdata": ports["s_axis_tdata"].words(beats),
            "s_axis_tlast": ports["s_axis_tlast"].words(last),
            "s_axis_tuser": ports["s_axis_tuser"].words(summaries),
        },
        clocks=len(expected.beat) + config["depth"] + 2 * len(ends),
        probe=(int(ends[0]), config["passes"]),
        seed=seed,
        **options,
    )
    index = np.arange(len(expected.beat))
    words = streamed.words
    got = ports["m_axis_tdata"].numbers(words["m_axis_tdata"])
    assert_equal("beats", got, beats[expected.beat], beat=index)
    port = ports["m_axis_tuser"]
    names = [name for name, _, _ in port.fields]
    flags = dict(zip(names, port.split(words["m_axis_tuser"]).T, strict=True))
    for name, model in (
        ("number", expected.number),
        ("first", expected.first),
        ("overlong", expected.overlong),
        ("summary", summaries[expected.summary]),
    ):
        assert_equal(name, flags[name], model.astype(np.int64), beat=index)
    ends_pass = words["m_axis_tlast"][:, 0]
    assert_equal("m_axis_tlast", ends_pass, expected.last.astype(np.uint8), beat=index)
    return streamed


def _rows(lengths: list[int]) -> np.ndarray:
    last = np.zeros(sum(lengths), np.bool_)
    last[np.cumsum(lengths) - 1] = True
    return last


def _replay(folder: Path, **parameters: int) -> Module:
    sizes = {"beat_bits": 24, "depth": 8, "summary_bits": 9} | parameters
    return generated(RowReplay(**sizes), folder)


def test_a_row_enters_while_another_leaves(simulator: str, tmp_path: Path, tally: Tally) -> None:
    """With room for two, what leaves leaves no gap: a beat a clock, `passes` for each that came."""
    module = _replay(tmp_path)
    streamed = _check(simulator, module, _rows([4] * 12))
    assert streamed.left[0] - streamed.taken[3] == module.latency
    assert (np.diff(streamed.left) == 1).all()
    tally(simulator, "beats of rows replayed", len(streamed.left))


@pytest.mark.parametrize(("stall_in", "stall_out"), [(0.3, 0.1), (0.1, 0.3)])
def test_rows_of_all_lengths(
    stall_in: float, stall_out: float, simulator: str, tmp_path: Path, tally: Tally
) -> None:
    module = _replay(tmp_path)
    beats = _check_all_lengths(simulator, module, stall_in, stall_out)
    tally(simulator, "beats of rows replayed", beats)


@pytest.mark.parametrize(
    "parameters", [{"passes": 3, "depth": 4, "rows": 3}, {"passes": 1, "depth": 2, "rows": 1}]
)
def test_other_sizes(parameters: dict[str, int], tmp_path: Path, tally: Tally) -> None:
    module = _replay(tmp_path, **parameters)
    beats = _check_all_lengths(available("icarus"), module, 0.2, 0.2)
    tally("icarus", "beats of rows replayed", beats)


def _check_all_lengths(simulator: str, module: Module, stall_in: float, stall_out: float) -> int:
    """Rows that fit and rows that do not, with pauses on either side, resets in between."""
    depth = module.parameters["depth"]
    lengths = np.random.default_rng(3).integers(1, depth + 1, 60)
    lengths[20::10] += depth  # cut once
    lengths[0] = max(depth // 2, 1)
    streamed = _check(
        simulator,
        module,
        _rows(lengths.tolist()),
        stall_in=stall_in,
        stall_out=stall_out,
        resets_after=range(1, 24) if stall_in >= stall_out else (),
    )
    return len(streamed.left)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"depth": 12}, "depth must be a power of two, not 12"),
        ({"depth": 1}, "depth must be 2 or more, not 1"),
        ({"passes": 0}, "passes must be a positive integer, not 0"),
        ({"rows": 0}, "rows must be a positive integer, not 0"),
        ({"summary_bits": 0}, "summary_bits must be a positive integer, not 0"),
        ({"beat_bits": 12}, "s_axis_tdata must be whole bytes, not 12 bits"),
    ],
)
def test_configurations_that_cannot_work(parameters: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError) as error:
        RowReplay(**parameters)
    assert str(error.value) == message


def test_memories_that_cannot_work() -> None:
    with pytest.raises(ValueError) as error:
        BeatMemory(depth=1)
    assert str(error.value) == "depth must be 2 or more, not 1"
