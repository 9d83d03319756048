"""Arithmetic ``fp12``: the paper's FP12 adder tree, scaled and accumulated every cycle.

Tested by `verif/rtl/array/test_sub_matrix_unit.py`.
"""

from mxsafe.rtl.array.accumulator import Accumulator, AccumulatorConfiguration
from mxsafe.rtl.array.arithmetic import BeatArithmetic, BlockArithmetic
from mxsafe.rtl.array.shape import UnitShape
from mxsafe.rtl.mac.safe_mac import SafeMac, SafeMacConfiguration


class Fp12(BlockArithmetic, BeatArithmetic):
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

    pipeline: int | None = None
    dsp: bool = False

    def __post_init__(self) -> None:
        _ = self.formats.float_elements  # which refuses integers and sets
        super().__post_init__()

    def _settle_for(self, shape: UnitShape) -> None:
        default = SafeMacConfiguration(formats=self.formats, lanes=shape.lanes).pipeline
        self._settle(pipeline=default)
        self._set(pipeline=self.mac(shape.lanes).pipeline)

    def mac(self, lanes: int) -> SafeMacConfiguration:
        return SafeMacConfiguration(
            formats=self.formats, lanes=lanes, pipeline=self.pipeline, dsp=self.dsp, finite=True
        )

    def build_mac(self, lanes: int) -> SafeMac:
        return SafeMac(self.mac(lanes))

    def accumulator(self, lanes: int) -> AccumulatorConfiguration:
        return AccumulatorConfiguration(sum_format=self.formats.fp12_format(lanes))

    def build_accumulator(self, lanes: int) -> Accumulator:
        return Accumulator(self.accumulator(lanes))
