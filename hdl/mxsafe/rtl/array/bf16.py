"""Arithmetic ``bf16``: bfloat16 products and binary32 sums, the paper's baseline.

Tested by `verif/rtl/mac/test_formats.py`.
"""

from typing import Any

from mxsafe.formats import BF16
from mxsafe.rtl.array.accumulator import BF16Accumulator, BF16AccumulatorConfiguration
from mxsafe.rtl.array.arithmetic import BeatArithmetic
from mxsafe.rtl.array.shape import UnitShape
from mxsafe.rtl.mac.bf16_mac import BF16Mac, BF16MacConfiguration
from mxsafe.rtl.mac.operand import Side
from mxsafe.rtl.unit import describe


class Bf16(BeatArithmetic):
    """bfloat16 numbers without scales; products and sums in binary32.

    Parameters
    ----------
    pipeline : int, optional
        Register stages of the MACs; by default their own.
    first_behind : bool
        See `BF16AccumulatorConfiguration`: so that a sub-matrix unit reaches 500 MHz.

    Notes
    -----
    The longest path of a sub-matrix unit goes from the flag of a tile's first beat, which drives
    all accumulators, through an adder into a sum: 2.08 ns (4x4 MACs, the fastest netlist, NanGate
    45 nm). The loop of an accumulator is one cycle, so that another register has place in front of
    it alone. Two were tried. One in the MACs' last addition (`pipeline` 4) is not on that path:
    2.51 ns. One in front of each accumulator, 2,900 GE more, gives 2.02 ns: synthesis makes one
    register of the flags that are equal, which drives them all as before. Neither was kept. With
    `first_behind` the flag has the time of the addition to get everywhere, and no cycle is added:
    16 such accumulators by themselves take 1.91 ns, and 2.07 ns without it. A copy of the flag for
    each of them, in a module that synthesis has to keep apart, would do as well (1.88 ns).
    """

    name = "bf16"
    shown_if_not_default = frozenset({"first_behind"})

    pipeline: int | None = None
    first_behind: bool = False

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
        return BF16AccumulatorConfiguration(first_behind=self.first_behind)

    def build_accumulator(self, lanes: int) -> BF16Accumulator:
        return BF16Accumulator(self.accumulator(lanes))
