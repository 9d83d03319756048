"""Checks of a unit that gives rows several times: rows, and the model's answer to them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxsafe.model.row_replay import replay_rows
from mxsafe.rtl.stream.row_replay import RowReplay
from verif.support.manifest import Module
from verif.support.stream_job import Streamed, check_stream
from verif.support.units import generated, random_words


def row_replay(**parameters: Any) -> Module:
    """A small one, generated into `folder`."""
    sizes: dict[str, Any] = {"beat_bits": 24, "depth": 8, "summary_bits": 9} | parameters
    return generated(RowReplay(**sizes))


def rows_of(lengths: Sequence[int]) -> NDArray[np.bool_]:
    """Whether a beat ends its row, of rows of these lengths."""
    last = np.zeros(sum(lengths), np.bool_)
    last[np.cumsum(lengths) - 1] = True
    return last


def rows_of_all_lengths(module: Module, rows: int) -> NDArray[np.bool_]:
    """Rows of up to `depth` beats, and a few that do not fit."""
    depth = module.parameters["depth"]
    lengths = np.random.default_rng(3).integers(1, depth + 1, rows)
    lengths[10::10] += depth  # cut once
    lengths[0] = max(depth // 2, 1)
    return rows_of(lengths.tolist())


def check_rows(
    simulator: str,
    module: Module,
    last: NDArray[np.bool_],
    *,
    skip: bool = False,
    stop: bool = False,
    **options: Any,
) -> Streamed:
    """Rows come out as the model has them; without their first pass, or with that alone."""
    config = module.parameters
    steady = {"skip": skip, "stop": stop, "stream": False}
    passes = 1 if stop else config["passes"] - skip
    rng = np.random.default_rng(1)
    beats = rng.integers(0, 256, (len(last), config["beat_bits"] // 8)).astype(np.uint8)
    summaries = random_words(rng, config["summary_bits"], len(last))
    expected = replay_rows(last, passes=passes, depth=config["depth"])
    ends = np.flatnonzero(last) + 1
    flags = {
        "number": expected.number + skip,
        "first": expected.first,
        "overlong": expected.overlong,
    }
    port = module.ports["m_axis_tuser"]
    words = {
        name: summaries[expected.summary]
        if name == "summary"
        else np.asarray(flags[name], np.uint8)[:, None]
        for name, _, _ in port.fields
    }
    return check_stream(
        simulator,
        module,
        {"s_axis_tdata": beats, "s_axis_tlast": last}
        | ({"s_axis_tuser": summaries} if config["summary_bits"] else {}),
        {
            "m_axis_tdata": beats[expected.beat],
            "m_axis_tuser": port.join_words(words),
            "m_axis_tlast": expected.last,
        },
        clocks=len(expected.beat) + config["depth"] + 2 * len(ends),
        probe=(int(ends[0]), passes),
        steady={n: int(v) for n, v in steady.items() if config[f"may_{n}"]},
        silent="target" in config,  # for FPGAs it takes beats during reset too
        **options,
    )
