"""Interface of an array's arithmetic: operand layouts, the MAC, and the addition of sums.

An arithmetic is one object. It owns its MAC, the layout of its operands, what stands at the edge of
the array for them, how long everything takes, and the accumulators behind the MACs. There are
`Fp12`, `Exact`, `Window` and `Bf16`; another one is another file like theirs.

Tested by `verif/rtl/array/test_systolic_array.py`.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from amaranth.hdl import Cat, Module, ShapeLike, Value
from amaranth.lib import data

from mxsafe.formats import FormatSet, has_special_codes
from mxsafe.products import OperandFormats
from mxsafe.rtl.arithmetic.bits import delayed
from mxsafe.rtl.array.scale_distances import ScaleDistancesConfiguration
from mxsafe.rtl.array.shape import UnitShape
from mxsafe.rtl.array.token import Token
from mxsafe.rtl.mac.operand import Side
from mxsafe.rtl.mac.operand_decoder import LaneDecoderConfiguration
from mxsafe.rtl.mac.special_codes import SpecialCodesConfiguration
from mxsafe.rtl.unit import Configuration, Options, Unit, place


@dataclass(frozen=True)
class EnteredBeat:
    """A beat as it enters the MACs of a sub-matrix unit.

    Attributes
    ----------
    en : Value
        Clock enable of every register.
    token : Token
        Flags of the beat.
    scales : dict
        By side the scale codes of all rows (``a``) or columns (``w``); none without scales.
    offset : Value, optional
        What the exponents of the block lack, where formats are chosen at run time.
    anchors : dict
        By side the anchors of all rows or columns, if there are such.
    phase : Value, optional
        Whose turn it is, where MACs serve several columns: see `SubMatrixUnit`.
    """

    en: Value
    token: Token
    scales: dict[Side, list[Value]]
    offset: Value | None = None
    anchors: dict[Side, list[Value]] = field(default_factory=dict)
    phase: Value | None = None


@dataclass(frozen=True)
class Completion:
    """Results of a tile.

    Attributes
    ----------
    done : Value
        They are there in this cycle.
    results : list of Value
        Those of all MACs, or of one row where rows complete one after the other.
    """

    done: Value
    results: list[Value]


class Arithmetic(Options, ABC):
    """How an array multiplies and adds, with all options that go with it."""

    name: ClassVar[str]
    """Name on the command line and in the manifest."""
    label: ClassVar[str] = ""
    """Name within module names; empty for the paper's arithmetic."""
    scales_stay: ClassVar[bool] = False
    """Whether only the scales of a block's last beat count, and stay until the next."""

    @property
    def parameters(self) -> dict[str, Any]:
        """The arithmetic's name and its fields, in values that JSON can hold."""
        return {"arithmetic": self.name, **super().parameters}

    def base(self, unit: str) -> str:
        """Name of a unit of this arithmetic in its default configuration."""
        return "_".join(filter(None, (self.prefix, unit, self.label)))

    def settled(self, shape: UnitShape) -> Self:
        """The same with values for what depends on the shape of a sub-matrix unit.

        Raises
        ------
        ValueError
            If the arithmetic does not work with that shape; the message gives the numbers.
        """
        made = copy(self)
        made._settle_for(shape)
        return made

    @abstractmethod
    def _settle_for(self, shape: UnitShape) -> None:
        """Fill in and check what depends on the shape."""

    @property
    def runs_free(self) -> bool:
        """Whether nothing stops an array of it, and its results wait in a queue."""
        return False

    @property
    def turns(self) -> int:
        """Columns of results that a MAC serves, one after the other."""
        return 1

    @property
    def groups(self) -> int:
        """Groups of lanes of a MAC, each of which has a beat of its own at a time."""
        return self.turns

    def group_lanes(self, lanes: int) -> int:
        """Products of such a group a cycle, with beats of so many values of k."""
        return lanes * self.turns // self.groups

    @property
    def rows_together(self) -> int:
        """Rows of MACs that lie side by side: if the array runs free they share a copy of `w`."""
        return 1

    @property
    @abstractmethod
    def prefix(self) -> str:
        """Name of the operands' format or formats."""

    @abstractmethod
    def code_width(self, side: Side) -> int:
        """Bits of an operand's code, as it comes to the array."""

    def scale_width(self, side: Side) -> int:
        """Bits of a scale; 0 if there are none."""
        return 0

    def anchor_width(self, side: Side) -> int:
        """Bits of the anchor that comes with the scale of each row or column; 0 without anchors."""
        return 0

    def distances(self, count: int) -> ScaleDistancesConfiguration | None:
        """Return the configuration of scale distances at the edge of the array, if there are such.

        Behind it they are what the sub-matrix units have for scales.
        """
        return None

    def format_set(self, side: Side) -> FormatSet | None:
        """Formats of an operand that a mode beside each beat chooses from; None of a single one."""
        return None

    @property
    def offset_width(self) -> int:
        """Bits of what the exponents of a block lack by the modes; 0 without modes."""
        return 0

    def operand_shape(self, side: Side) -> ShapeLike:
        """An operand as the MACs take it."""
        return self.code_width(side)

    def decoder(self, side: Side, count: int) -> LaneDecoderConfiguration | None:
        """Return the configuration of the decoder at the array's edge, if codes need one."""
        return None

    def guard(self, side: Side, *, lanes: int, count: int) -> SpecialCodesConfiguration | None:
        """Return the configuration that turns NaN and Inf codes into NaN scales at the edge."""
        return None

    @abstractmethod
    def mac(self, lanes: int) -> Configuration:
        """Configuration of a MAC."""

    @abstractmethod
    def build_mac(self, lanes: int) -> Unit[Any]:
        """A MAC: ports `en`, `a`, `w`, and what `accumulate` takes."""

    def multiply(
        self, m: Module, platform: object, *, en: Value, macs: Sequence[Unit[Any]], shape: UnitShape
    ) -> None:
        """Put in place what several MACs multiply with together, if there is such."""
        return

    def block_cycles(self, shape: UnitShape) -> int:
        """Least number of cycles from the end of a block to the end of the next."""
        return 1

    def block_beats(self, lanes: int) -> int | None:
        """Most beats of a block that sums hold; None if any block goes."""
        return None

    def tile_beats(self, lanes: int) -> int | None:
        """Most beats of a tile that sums hold; None if any tile goes."""
        return None

    def completes_rows(self, shape: UnitShape) -> bool:
        """Whether rows of results can complete one after the other, as many cycles as columns."""
        return False

    @abstractmethod
    def latency(self, shape: UnitShape, *, by_row: bool) -> int:
        """Enabled cycles from a tile's last beat, as it enters the MACs, to the first results."""

    @abstractmethod
    def accumulate(
        self,
        m: Module,
        platform: object,
        *,
        beat: EnteredBeat,
        macs: Sequence[Unit[Any]],
        shape: UnitShape,
        by_row: bool,
    ) -> Completion:
        """Put accumulators behind the MACs.

        Parameters
        ----------
        m : amaranth.hdl.Module
            The sub-matrix unit.
        platform : object
        beat : EnteredBeat
            The beat that enters the MACs.
        macs : sequence of Unit
            The MACs, row by row.
        shape : UnitShape
            Size of the sub-matrix unit.
        by_row : bool
            Whether rows of results complete one after the other.
        """


class BlockArithmetic(Arithmetic):
    """An arithmetic of MX formats: element codes in blocks that share a scale.

    Parameters
    ----------
    formats : OperandFormats
        Formats of both operands. Results of a block with codes for NaN or Inf are any numbers,
        unless its scale is NaN: see `SpecialCodes`.

    Raises
    ------
    ValueError
        If the hardware does not take the scales of a format.
    """

    formats: OperandFormats

    def __post_init__(self) -> None:
        self.formats.require_scales()

    @property
    def prefix(self) -> str:
        return self.formats.name

    def code_width(self, side: Side) -> int:
        return self.formats.of(side).width

    def scale_width(self, side: Side) -> int:
        return self.formats.of(side).scale.width

    def guard(self, side: Side, *, lanes: int, count: int) -> SpecialCodesConfiguration | None:
        """Return the configuration that turns NaN and Inf codes into NaN scales of a block."""
        format = self.formats.of(side)
        if isinstance(format, FormatSet) or not has_special_codes(format):
            return None
        return SpecialCodesConfiguration(
            format=format, lanes=lanes, count=count, held=self.scales_stay
        )


class BeatArithmetic(Arithmetic):
    """An arithmetic whose sums leave the MACs every cycle, to an accumulator for each."""

    @abstractmethod
    def accumulator(self, lanes: int) -> Configuration:
        """Configuration of an accumulator."""

    @abstractmethod
    def build_accumulator(self, lanes: int) -> Unit[Any]:
        """An accumulator: ports `en`, `valid`, `first`, `partial_sum`, scales if any, and `acc`."""

    def latency(self, shape: UnitShape, *, by_row: bool) -> int:
        return self.mac(shape.lanes).latency + self.accumulator(shape.lanes).latency

    def accumulate(
        self,
        m: Module,
        platform: object,
        *,
        beat: EnteredBeat,
        macs: Sequence[Unit[Any]],
        shape: UnitShape,
        by_row: bool,
    ) -> Completion:
        """Put an accumulator behind each MAC; see `Arithmetic.accumulate`."""
        after = macs[0].latency
        valid, first, last = (
            delayed(m, beat.en, f"{name}_after", beat.token[name], after, reset=True)
            for name in ("valid", "first", "last")
        )
        scales = {
            side: data.ArrayLayout(self.scale_width(side), len(lines))(
                delayed(m, beat.en, f"scale_{side}_after", Cat(*lines), after)
            )
            for side, lines in beat.scales.items()
        }
        results: list[Value] = []
        for index, mac in enumerate(macs):
            accumulate = self.build_accumulator(shape.lanes)
            place(m, platform, f"accumulate_{index}", accumulate)
            row, column = divmod(index, shape.columns)
            m.d.comb += [
                accumulate.en.eq(beat.en),
                accumulate.valid.eq(valid),
                accumulate.first.eq(first),
                accumulate.partial_sum.eq(mac.partial_sum),
                *(
                    getattr(accumulate, f"scale_{side}").eq(lines[row if side == "a" else column])
                    for side, lines in scales.items()
                ),
            ]
            results.append(accumulate.acc)
        after_mac = self.accumulator(shape.lanes).latency
        done = delayed(m, beat.en, "ends_after", valid & last, after_mac, reset=True)
        return Completion(done, results)
