"""Rows of the vector buffer from and to memory, in programs that tests write by hand."""

import numpy as np

from mxsafe.machine.compiler.emitter import Emitter
from mxsafe.machine.compiler.placement import load_beats
from mxsafe.machine.compiler.products import store_sums
from mxsafe.machine.compiler.tensors import Rows, Vectors


def load_rows(e: Emitter, vectors: Vectors, strips: range, rows: Rows) -> None:
    """Add a load of strips of memory to rows."""
    layout = vectors.layout
    starts = vectors.address + np.arange(strips.start, strips.stop) * layout.strip_bytes
    load_beats(e, starts[:, None] + np.arange(rows.beats) * layout.beat_bytes, rows)


def store_rows(e: Emitter, vectors: Vectors, strips: range, rows: Rows) -> None:
    """Add a store of rows to strips of memory."""
    store_sums(e, vectors, strips, range(rows.beats), rows)
