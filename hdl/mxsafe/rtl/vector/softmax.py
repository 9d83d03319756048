"""Softmax behind AXI4-Stream."""

from dataclasses import fields
from typing import ClassVar, Literal

from mxsafe.rtl.vector.rows import Rows, RowsConfiguration

_OWN = frozenset({"lanes", "along", "depth", "grade", "target"})


class SoftmaxConfiguration(RowsConfiguration):
    """A `Softmax`: fields that are not listed keep their defaults.

    Parameters
    ----------
    lanes, along, depth, grade, target
        See `RowsConfiguration`.
    """

    fixed: ClassVar = frozenset(each.name for each in fields(RowsConfiguration)) - _OWN

    norms: bool = False
    along: Literal["lanes", "beats"] = "lanes"
    optional: bool = False


class Softmax(Rows):
    """``exp(scale * x) / sum(exp(scale * x))`` of rows of at most 4,096 values.

    `Rows` of softmax alone. A beat enters a cycle, if there is room; a row begins to enter when the
    one before begins to leave.

    Attributes
    ----------
    s_axis_tdata : In(array)
        Values of a row (or, along beats, a value of each lane's row), binary32.
    s_axis_tlast : In(1)
        The beat ends the row. Of more than `depth` beats the first `depth` give NaN, and the others
        any numbers.
    s_axis_tuser : In(struct)
        The same in all beats of a row. ``factor``: binary32 number ``scale * log2(e)``, from
        ``2^-120`` to ``2^121``, see `mxsafe.model.softmax.softmax_factor`. ``length``: how many
        values of the row count, from the first on; the others are as -Inf. Along beats ``causal``:
        lane ``i`` has a row of ``length + i`` values that count.
    m_axis_tdata : Out(array)
        Results, binary32, in the layout of the values.
    m_axis_tlast : Out(1)
        The beat ends the row.
    """

    _configuration = SoftmaxConfiguration
