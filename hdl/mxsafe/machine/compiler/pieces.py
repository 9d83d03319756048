"""Reductions of rows that do not fit into the vector buffer: one piece of a row after the other.

A row is in memory, and its results go there. For each sweep all of its pieces come into the vector
buffer; those of the last sweep leave it again. Sums of sweeps are exact, so the bits are those of
the whole row.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from mxsafe.machine.compiler.emitter import Emitter, Pass
from mxsafe.machine.compiler.placement import load_beats
from mxsafe.machine.compiler.products import store_sums
from mxsafe.machine.compiler.tensors import Rows, Vectors
from mxsafe.machine.compiler.units import cut
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.description import FOLLOWING

_SHARE = 8
"""Pieces of which the vector buffer has room, so that some come while others leave."""
_MOST = 512
"""Beats of a piece, at most: more would not make a descriptor much longer."""


@dataclass(frozen=True)
class LongRow:
    """Rows of one strip.

    Attributes
    ----------
    length : int
        Beats.
    work : Pass
        The reduction; with `causal` that of the first beat.
    load : callable
        Puts some of the beats into the vector buffer.
    hidden : callable
        The same of as many beats that softmax does not count.
    affine : callable or None
        The same of gains of some beats, and behind them biases.
    """

    length: int
    work: Pass
    load: Callable[[range], Rows]
    hidden: Callable[[int], Rows]
    affine: Callable[[range], Rows] | None = None


def reduce_in_pieces(e: Emitter, row: LongRow, target: Vectors, strip: int) -> None:
    """Reduce rows of a strip, and store what they give as a strip of the target."""
    strips = range(strip, strip + 1)
    spans = cut(row.length, _beats(e.configuration))
    counted = [span for span in spans if not _is_hidden(row, span)]
    *before, last = FOLLOWING[row.work.reduction]
    for sweep in before:
        for span in counted:
            e.compute(row.load(span), _work(row, span, sweep, ends=span == counted[-1]))
    within = row.affine is not None and e.configuration.affine
    for span in spans:
        x = row.load(span) if span in counted else row.hidden(len(span))
        if row.work.reduction != "sum":
            affine = row.affine(span) if within and row.affine is not None else None
            e.compute(x, replace(_work(row, span, last), affine=affine), d=x)
            store_sums(e, target, strips, span, x)
        elif span == spans[-1]:
            total = e.rows(1, 1, "sums")
            e.compute(x, _work(row, span, last, ends=True), d=total)
            store_sums(e, target, strips, range(1), total)
        else:
            e.compute(x, _work(row, span, last))
    if row.affine is not None and not within:
        for span in spans:
            _apply(e, row.affine(span), target, strip, span)


def _apply(e: Emitter, affine: Rows, target: Vectors, strip: int, span: range) -> None:
    """Multiply results by gains and add biases, as between the pieces of a row nothing may be."""
    layout, half = target.layout, affine.beats // 2
    start = target.address + strip * layout.strip_bytes
    x = e.rows(len(span), 1, target.name)
    load_beats(e, start + np.array([span]) * layout.beat_bytes, x)
    for name, first in (("multiply", 0), ("add", half)):
        numbers = affine.cut(first, half)
        e.compute(x, Pass(arithmetic=name, y=numbers, y_mode="numbers"), d=x)
    store_sums(e, target, range(strip, strip + 1), span, x)


def _beats(c: MachineConfiguration) -> int:
    """Beats of a piece: a multiple of the lanes, as numbers for each beat stand in lanes."""
    fit = min(_MOST, c.vector_beats // _SHARE)
    return max(fit // c.vector_lanes, 1) * c.vector_lanes


def _is_hidden(row: LongRow, span: range) -> bool:
    """Whether none of some beats count: as pieces are multiples of lanes, for all rows or none."""
    return row.work.causal is not None and span.start > row.work.causal


def _work(row: LongRow, span: range, sweep: str, *, ends: bool = False) -> Pass:
    """A piece's part of a sweep, which perhaps ends with it."""
    causal = row.work.causal
    if causal is not None:
        # Of a piece that is hidden all are -Inf; no more than all of a piece need count.
        causal = None if _is_hidden(row, span) else min(causal - span.start, len(span))
    return replace(row.work, causal=causal, sweep=sweep, first=span.start == 0, last=ends)
