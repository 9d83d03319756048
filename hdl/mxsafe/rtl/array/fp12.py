"""Arithmetic ``fp12``: the paper's FP12 adder tree, scaled and accumulated every cycle."""

from dataclasses import dataclass

from mxsafe.formats import FormatSet, has_special_codes
from mxsafe.products import OperandFormats
from mxsafe.rtl.array.accumulator import Accumulator, AccumulatorConfiguration
from mxsafe.rtl.array.arithmetic import BeatArithmetic
from mxsafe.rtl.array.shape import UnitShape
from mxsafe.rtl.mac.operand import Side
from mxsafe.rtl.mac.safe_mac import SafeMac, SafeMacConfiguration
from mxsafe.rtl.mac.special_codes import SpecialCodesConfiguration

__all__ = ["Fp12"]


@dataclass(frozen=True, kw_only=True)
class Fp12(BeatArithmetic):
    """FP12 adder tree; an accumulator for each MAC scales its sum and adds it every cycle.

    Parameters
    ----------
    formats : OperandFormats
        Formats of both operands: floating-point elements. Results of a block with codes for NaN or
        Inf are any numbers, unless its scale is NaN: see `SpecialCodes`.
    pipeline : int, optional
        Register stages of the MACs; by default their own.
    dsp : bool
        Multiply with ``*``, which FPGA tools map to DSP blocks, instead of by digits (see
        `mxsafe.rtl.arithmetic.radix4`).

    Raises
    ------
    ValueError
        If a format has integer elements.
    """

    name = "fp12"
    unnamed = frozenset({"formats"})

    formats: OperandFormats
    pipeline: int | None = None
    dsp: bool = False

    def __post_init__(self) -> None:
        _ = self.formats.float_elements  # which refuses integers and sets
        self.formats.require_scales()

    def _settle_for(self, shape: UnitShape) -> None:
        usual = SafeMacConfiguration(formats=self.formats, lanes=shape.lanes).pipeline
        self._settle(pipeline=usual)
        self._set(pipeline=self.mac(shape.lanes).pipeline)

    @property
    def prefix(self) -> str:
        """Name of the operands' format or formats."""
        return self.formats.name

    def code_width(self, side: Side) -> int:
        """Bits of an operand's code."""
        return self.formats.of(side).width

    def scale_width(self, side: Side) -> int:
        """Bits of a scale."""
        return self.formats.of(side).scale.width

    def guard(self, side: Side, *, lanes: int, count: int) -> SpecialCodesConfiguration | None:
        """What makes NaN scales of codes for NaN and Inf, beat by beat."""
        fmt = self.formats.of(side)
        if isinstance(fmt, FormatSet) or not has_special_codes(fmt):
            return None
        return SpecialCodesConfiguration(format=fmt, lanes=lanes, count=count, held=False)

    def mac(self, lanes: int) -> SafeMacConfiguration:
        """Configuration of a MAC."""
        return SafeMacConfiguration(
            formats=self.formats, lanes=lanes, pipeline=self.pipeline, dsp=self.dsp, finite=True
        )

    def build_mac(self, lanes: int) -> SafeMac:
        """A MAC."""
        return SafeMac(self.mac(lanes))

    def accumulator(self, lanes: int) -> AccumulatorConfiguration:
        """Configuration of an accumulator."""
        return AccumulatorConfiguration(sum_format=self.formats.fp12_format(lanes))

    def build_accumulator(self, lanes: int) -> Accumulator:
        """An accumulator."""
        return Accumulator(self.accumulator(lanes))
