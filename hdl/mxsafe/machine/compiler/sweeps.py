"""Rows that are longer than the machine reduces in one piece: one sweep after the other.

A row that fits into the vector buffer lies there as a whole, and each sweep takes it in one
descriptor; longer ones come in pieces: see `mxsafe.machine.compiler.pieces`.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mxsafe.machine.compiler.tensors import Placed, Rows
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.description import DESCRIPTORS, FOLLOWING
from mxsafe.tables import MOST_IN_ROW

if TYPE_CHECKING:
    from mxsafe.machine.compiler.emitter import Pass


def longest_row(configuration: MachineConfiguration) -> tuple[int, str]:
    """Values of the longest row that a program can reduce, and what they are, in words."""
    if configuration.sweeps:
        return MOST_IN_ROW, "the most that sweeps over a row take"
    return configuration.reduction_beats, "reduction_beats of a machine without sweeps"


def whole_row(configuration: MachineConfiguration) -> int:
    """Beats of the longest row that is reduced in the vector buffer as a whole."""
    _, most = DESCRIPTORS["vector"].field("beats").bounds(configuration)
    return min(most, configuration.vector_beats // 2)


def sweeps(
    x: Rows, work: "Pass", d: Rows | None, out: Placed | None, configuration: MachineConfiguration
) -> Iterator[tuple[Rows, dict[str, Any]]]:
    """Sweeps of a pass over long rows, one row after the other.

    Yields
    ------
    x : Rows
        A row.
    arguments : dict
        Further arguments of `Emitter.compute`.
    """
    for row in range(x.count):
        one = range(row, row + 1)
        part = work if work.y is None else replace(work, y=work.y.some(one))
        if work.causal is not None:
            part = replace(part, causal=work.causal + row * configuration.vector_lanes)
        for sweep in FOLLOWING[work.reduction]:
            arguments: dict[str, Any] = {"work": replace(part, sweep=sweep)}
            if sweep == FOLLOWING[work.reduction][-1]:
                arguments["d"] = None if d is None else d.some(one)
                arguments["out"] = None if out is None else out.some(one)
            else:
                arguments["work"] = replace(part, sweep=sweep, affine=None)
            yield x.some(one), arguments
