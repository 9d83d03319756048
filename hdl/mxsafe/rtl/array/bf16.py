"""Arithmetic ``bf16``: bfloat16 products and binary32 sums, the paper's baseline.

Tested by `verif/rtl/mac/test_formats.py`.
"""

from dataclasses import dataclass
from typing import Any

from mxsafe.formats import BF16
from mxsafe.rtl.array.accumulator import BF16Accumulator, BF16AccumulatorConfiguration
from mxsafe.rtl.array.arithmetic import BeatArithmetic
from mxsafe.rtl.array.shape import UnitShape
from mxsafe.rtl.configuration import describe
from mxsafe.rtl.mac.bf16_mac import BF16Mac, BF16MacConfiguration
from mxsafe.rtl.mac.operand import Side


@dataclass(frozen=True, kw_only=True)
class Bf16(BeatArithmetic):
    """bfloat16 numbers without scales; products and sums in binary32.

    Parameters
    ----------
    pipeline : int, optional
        Register stages of the MACs; by default their own.
    """

    name = "bf16"

    pipeline: int | None = None

    def _settle_for(self, shape: UnitShape) -> None:
        self._settle(pipeline=BF16MacConfiguration(lanes=shape.lanes).pipeline)
        self._set(pipeline=self.mac(shape.lanes).pipeline)

    @property
    def prefix(self) -> str:
        return BF16.name

    @property
    def parameters(self) -> dict[str, Any]:
        """The arithmetic's name, its format and its fields."""
        return {**super().parameters, "format": describe(BF16)}

    def code_width(self, side: Side) -> int:
        return BF16.width

    def mac(self, lanes: int) -> BF16MacConfiguration:
        return BF16MacConfiguration(lanes=lanes, pipeline=self.pipeline)

    def build_mac(self, lanes: int) -> BF16Mac:
        return BF16Mac(self.mac(lanes))

    def accumulator(self, lanes: int) -> BF16AccumulatorConfiguration:
        return BF16AccumulatorConfiguration()

    def build_accumulator(self, lanes: int) -> BF16Accumulator:
        return BF16Accumulator()
