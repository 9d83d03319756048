"""Shared parts of the arithmetics whose block sums are integers: `Exact` and `Window`.

Tested by `verif/rtl/array/test_sub_matrix_unit.py`.
"""

from abc import abstractmethod
from typing import Annotated

from amaranth.hdl import ShapeLike

from mxsafe.formats import FormatSet
from mxsafe.products import WIDEST_SUM
from mxsafe.rtl.array.arithmetic import BlockArithmetic
from mxsafe.rtl.array.shape import UnitShape
from mxsafe.rtl.mac.operand import SIDES, Side, factor_of, operand_layout
from mxsafe.rtl.mac.operand_decoder import LaneDecoderConfiguration
from mxsafe.rtl.mac.operand_dot import OperandDot, OperandDotConfiguration
from mxsafe.validation import limited, require_positive_integer


class IntegerArithmetic(BlockArithmetic):
    """An arithmetic whose MACs are `OperandDot` units, and whose sums of blocks are integers.

    Parameters
    ----------
    formats : OperandFormats
        As of `BlockArithmetic`.
    block : int
        Longest block in k that sums must hold.
    """

    scales_stay = True

    block: Annotated[int, limited(require_positive_integer, 1 << 64)] = 64

    def _require_single_formats(self, what: str) -> None:
        """Refuse formats chosen at run time where they do not work with something."""
        for side in SIDES:
            if isinstance(fmt := self.formats.of(side), FormatSet):
                raise ValueError(
                    f"format_{side} must be a single one for {what}, not the set {fmt.name}"
                )

    def _require_block(self, shape: UnitShape) -> None:
        """Refuse blocks that the widest sums do not hold."""
        lanes = self.group_lanes(shape.lanes)
        longest = lanes << (WIDEST_SUM + 1 - self.mac(lanes).dot_bits)
        if self.block > longest:
            raise ValueError(
                f"block must be at most {longest}, which sums of {WIDEST_SUM} bits hold, "
                f"not {self.block}"
            )

    @property
    def _multiplies_by_dsp(self) -> bool:
        """Whether products are made by ``*`` in place of digits."""
        return False

    def operand_shape(self, side: Side) -> ShapeLike:
        """An operand as `OperandDecoder` makes it, once for the whole array."""
        return operand_layout(self.formats, side, dsp=self._multiplies_by_dsp)

    def decoder(self, side: Side, count: int) -> LaneDecoderConfiguration | None:
        """Return the operand decoder's configuration; two integers need none."""
        if self.formats.has_integers:
            return None
        factor = factor_of(self.formats, side, dsp=self._multiplies_by_dsp)
        return LaneDecoderConfiguration(format=self.formats.of(side), factor=factor, count=count)

    @abstractmethod
    def mac(self, lanes: int) -> OperandDotConfiguration:
        """Configuration of a MAC."""

    def build_mac(self, lanes: int) -> OperandDot:
        return OperandDot(self.mac(lanes))

    def block_beats(self, lanes: int) -> int:
        """Most beats of a block that sums hold: whole beats of the stream, of packed codes too."""
        sets = [self.format_set(side) for side in SIDES]
        packed = max((max(formats.packed) for formats in sets if formats), default=1)
        return -(-self.block // (lanes * packed)) * packed

    def _sum_bits(self, shape: UnitShape) -> int:
        """Bits of the sum of a block, sign included."""
        lanes = self.group_lanes(shape.lanes)
        beats = self.block_beats(lanes)
        return self.mac(lanes).dot_bits + (beats - 1).bit_length()
