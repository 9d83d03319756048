"""Layer and RMS normalisation of rows of a stream."""

from typing import ClassVar, Literal

from mxsafe.rtl.vector.rows import Rows, RowsConfiguration
from mxsafe.validation import Alike


class NormaliseConfiguration(RowsConfiguration):
    """A `Normalise`: fields that are not listed keep their defaults.

    Parameters
    ----------
    lanes, along, centre, gain, bias, depth, statistics, optional, dividers, grade, target
        See `RowsConfiguration`.
    """

    fixed: ClassVar = frozenset({"softmax", "norms", "sums", "registered", "sweeps"})

    softmax: bool = False
    along: Literal["lanes", "beats"] = "lanes"
    optional: bool = False
    sums: bool = False
    dividers: Alike = 1


class Normalise(Rows):
    """Rows to rows with mean 0 and mean square 1: layer normalisation, or without a mean, RMS.

    `Rows` of norms alone.

    Attributes
    ----------
    centred : In(1)
        If a mean is `optional`: it is subtracted. Steady.
    epsilon : In(32)
        A binary32 that is added to variances; steady. A subnormal counts as 0, its sign as none.
    s_axis_tdata : In(array)
        `lanes` binary32 of one row, or of as many rows.
    s_axis_tlast : In(1)
        The beat ends the row, or the rows. Of more than `depth` beats the first `depth` give NaN,
        and the others any number.
    s_axis_gain, s_axis_bias, m_axis, m_axis_statistics
        As of `NormaliseCore`.
    """

    _configuration = NormaliseConfiguration
