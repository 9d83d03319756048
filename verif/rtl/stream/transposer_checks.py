"""Checks of a transposer: rows of tiles, and the model's answers to them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxsafe.model.transposer import transpose_beats
from mxsafe.rtl.stream.transposer import Transposer
from verif.support.manifest import Module
from verif.support.stream_job import Streamed, check_stream
from verif.support.units import generated

Rows = tuple[NDArray[np.int64], NDArray[np.bool_]]
"""Rows of tiles, shape (beats, size), and whether each ends a packet."""


def transposer(*, size: int, element_bits: int) -> Module:
    """A transposer, generated into `folder`."""
    unit = Transposer(size=size, element_bits=element_bits)
    return generated(unit)


def numbered_tiles(module: Module, tiles: int) -> Rows:
    """One packet of whole tiles; elements of a tile differ, as far as their bits allow."""
    size, bits = module.parameters["size"], module.parameters["element_bits"]
    count = tiles * size * size
    rows = (np.arange(count) * 5 + np.arange(count) // (size * size)) & ((1 << bits) - 1)
    last = np.zeros(tiles * size, np.bool_)
    last[-1] = True
    return rows.reshape(-1, size), last


def random_packets(module: Module, seed: int, packets: int) -> Rows:
    """Packets of up to four tiles, the last of each with any number of rows."""
    size, bits = module.parameters["size"], module.parameters["element_bits"]
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 4 * size + 1, packets)
    lengths[:size] = np.arange(1, size + 1)[:packets]
    last = np.zeros(lengths.sum(), np.bool_)
    last[np.cumsum(lengths) - 1] = True
    return rng.integers(0, 1 << bits, (len(last), size)), last


def check_rows(simulator: str, module: Module, rows: Rows, **options: Any) -> Streamed:
    """Columns come out as the model has them."""
    values, last = rows
    columns, ends = transpose_beats(values, last)
    return check_stream(
        simulator,
        module,
        {"s_axis_tdata": values, "s_axis_tlast": last},
        {"m_axis_tdata": columns, "m_axis_tlast": ends},
        **options,
    )
