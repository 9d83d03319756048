"""A layer of a network: array, stages such as an activation, converter, packer; AXI4-Stream."""

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from itertools import pairwise
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from mxsafe.formats import FormatSet, MXFormat
from mxsafe.rtl.arithmetic.bits import gated_or, kept, named, noted, truncated, update
from mxsafe.rtl.array.arithmetic import Arithmetic, BlockArithmetic
from mxsafe.rtl.array.exact import Exact
from mxsafe.rtl.array.fp12 import Fp12
from mxsafe.rtl.array.shape import ArrayShape
from mxsafe.rtl.array.systolic_array import SystolicArray
from mxsafe.rtl.mac.operand import SIDES
from mxsafe.rtl.stream.axi_stream import AxiStream
from mxsafe.rtl.stream.converter import BeatBlocks, Converter
from mxsafe.rtl.stream.operand_packer import OperandPacker
from mxsafe.rtl.unit import Configuration, Part, Ports, Unit, place
from mxsafe.rtl.vector.activation import ACTIVATIONS, ActivationConfiguration
from mxsafe.rtl.vector.vector_arithmetic import VectorArithmetic
from mxsafe.rtl.vector.vector_function import VectorFunction
from mxsafe.validation import about, one_of, require_one_of

_DEFAULT_STAGES = ("activation",)
_OPERAND = "s_axis_operand"
"""The stream of numbers that a stage adds, by its name in the stage."""
STAGES: tuple[str, ...] = ("bias", "activation", "residual")
"""Kinds of stages, see `LayerConfiguration`."""


class LayerConfiguration(Configuration):
    """A `Layer`.

    Parameters
    ----------
    shape : ArrayShape
        Size of the array.
    arithmetic : Fp12 or Exact
        What the array computes with: weights are its operand `a`, samples its operand `w`, whose
        format the results have too. Sums of `Exact` are made to hold blocks of the results as well,
        for those are the next layer's samples.
    result_block : int or tuple of int, optional
        Blocks of the results: a length along the features, with a scale for every sample, or a
        shape ``(features, samples)`` of tiles; by default that of the format.
    activation : str
        ``none`` or one of `mxsafe.rtl.vector.activation.ACTIVATIONS`.
    stages : sequence of str, or str
        What happens to results before they are converted, in this order: ``bias`` adds a number to
        each feature, ``activation`` applies the function, ``residual`` adds a number to each
        result; as a sequence or joined by ``+``.
    """

    unnamed = frozenset({"activation", "stages"})  # see `differences`

    shape: ArrayShape = field(default_factory=ArrayShape)
    arithmetic: Arithmetic
    result_block: int | tuple[int, int] | None = None
    activation: str = "relu"
    stages: tuple[str, ...] | str = _DEFAULT_STAGES

    def __post_init__(self) -> None:
        arithmetic = self.arithmetic
        if not isinstance(arithmetic, BlockArithmetic):
            known = Fp12.name, Exact.name
            raise ValueError(f"arithmetic must be {one_of(known, arithmetic.name)}")
        for side in SIDES:
            if isinstance(fmt := arithmetic.formats.of(side), FormatSet):
                raise ValueError(f"format of {side} must be a single one, not the set {fmt.name}")
        require_one_of("activation", self.activation, ("none", *ACTIVATIONS))
        self._set(stages=checked_stages(self.stages))
        if "activation" not in self.stages:
            self._set(activation="none")
        elif self.activation == "none":
            self._set(stages=tuple(name for name in self.stages if name != "activation"))
        self._settle(result_block=(self.format.block, 1))
        if not isinstance(self.result_block, tuple | list):
            self._set(result_block=(self.result_block, 1))
        self._set(result_block=tuple(self.result_block))  # type: ignore[arg-type]
        with about(block="result_block"):
            self._settle_block()
            _ = self.converter, self.packer  # which check what they are given

    def _settle_block(self) -> None:
        """Let blocks of the results fit the array, and its sums hold them."""
        arithmetic = self.arithmetic
        length = BeatBlocks.of(self.block_shape, self.columns).beats
        if isinstance(arithmetic, Fp12) and length % self.shape.lanes:
            raise ValueError(
                f"block must have a multiple of lanes {self.shape.lanes} along the features with "
                f"fp12, not {length}"
            )
        if self.columns * self.format.element.width % 8:
            raise ValueError(
                "pu_columns * columns must make whole bytes of elements of "
                f"{self.format.element.width} bits, not {self.columns}"
            )
        if isinstance(arithmetic, Exact) and length > arithmetic.block:
            self._set(arithmetic=replace(arithmetic, block=length))
        self._set(arithmetic=self.array.arithmetic)

    @property
    def base(self) -> str:
        return self.arithmetic.base("layer")

    @property
    def differences(self) -> list[str]:
        """Parts of a name: what is not at its default; stages by what they do."""
        if (self.stages, self.activation) == (_DEFAULT_STAGES, "relu"):
            return super().differences
        names = [self.activation if name == "activation" else name for name in self.stages]
        return super().differences + (names or ["none"])

    @property
    def format(self) -> MXFormat:
        """Format of samples and results; weights may have another."""
        assert isinstance(self.arithmetic, BlockArithmetic)
        format = self.arithmetic.formats.w
        assert isinstance(format, MXFormat)
        return format

    @property
    def columns(self) -> int:
        """Columns of the array: samples side by side."""
        return self.shape.array_columns

    @property
    def block_shape(self) -> tuple[int, int]:
        """Features and samples of a block of results."""
        assert isinstance(self.result_block, tuple)
        return self.result_block

    array = Part(SystolicArray)
    converter = Part(
        Converter,
        format=lambda c: c.format,
        block=lambda c: c.block_shape,
        width=lambda c: c.columns,
    )

    @property
    def stage_units(self) -> dict[str, Unit[Any]]:
        """By name what stands between the array and the converter."""
        return {
            name: stage_unit(name, columns=self.columns, activation=self.activation)
            for name in self.stages
        }

    packer = Part(
        OperandPacker,
        format=lambda c: c.format,
        width=lambda c: c.columns,
        lanes=lambda c: c.shape.lanes,
        groups=lambda c: c.converter.blocks.groups,
    )

    @property
    def tile(self) -> data.StructLayout:
        """Flags of a tile: whether it ends its strip, and its last row that is a feature."""
        rows = range(max(self.shape.array_rows, 2))
        return data.StructLayout({"strip_last": 1, "last_row": rows})

    @property
    def latency(self) -> int:
        """Cycles from the last operand beats of a strip to its last beat out, without stalls.

        Of a strip that has whole tiles, and whole blocks that `lanes` divides.
        """
        stages = sum(unit.latency for unit in self.stage_units.values())
        return self.array.last_row + stages + self.converter.latency

    @property
    def properties(self) -> Mapping[str, Any]:
        return self.array.properties


class Layer(Unit[LayerConfiguration]):
    """Operands to operands of the next layer: array, stages, converter, packer.

    The transposed layer is computed, ``Y^T = W^T X^T``: rows of the array are output features, with
    weights on `s_axis_a`; columns are samples, on `s_axis_w`. A result of the array is then one
    feature of all its columns, and features are k of the next layer: with the tiles of one strip of
    samples in the order of features, results are quantised as they come, and `lanes` of them are a
    beat of `s_axis_w` of the next layer.

    Rows of a strip's last tile that are not features are dropped. So what comes out is the
    quantised matrix itself, ``quantize(activation(matmul(weights, samples)))``, cut into beats as
    the array takes them; a ragged edge is a shorter block. Each stage takes a beat a cycle.

    Attributes
    ----------
    s_axis_a_tdata, s_axis_a_tlast : In
        Weights, as of `SystolicArray`.
    s_axis_a_tuser : In(struct)
        ``first`` and ``block_last`` as of `SystolicArray`. ``strip_last``: the tile is the last of
        its strip of samples; ``last_row``: its last row that is a feature. Both are read with
        `tlast`, and ``last_row`` with ``strip_last`` only.
    s_axis_w_tdata, s_axis_w_tlast : In
        Samples, as of `SystolicArray`.
    s_axis_bias_tdata : In(array)
        With a stage ``bias``: the binary32 number that is added to a feature; all features of a
        strip in their order, for every strip.
    s_axis_bias_tuser : In(struct)
        ``last_lane``: the last column that is a sample. Those beyond get no bias and stay zero.
    s_axis_residual_tdata : In(array)
        With a stage ``residual``: a binary32 number for every column, in the same order; zero for
        those that are no samples.
    m_axis_tdata : Out(struct)
        The layout of `s_axis_w_tdata`.
    m_axis_tlast : Out(1)
        The beat ends a strip.
    m_axis_tuser : Out(struct)
        ``block_last``: the beat ends a block. ``out_of_step``, ``overlong``: the array's flags; in
        every beat with results of the tile in which it happens, in later ones and perhaps in
        earlier ones.

    Notes
    -----
    A tile whose sums go on in another must not be cut here: its results leave as features.

    `m_axis_tready` reaches the clock enable of the whole array through packer and converter, and
    what depends on it in `SystolicArray`; for an FPGA it ends at the queue of rows. Where
    timing is tight, put a register slice on `m_axis`.
    `s_axis_bias_tvalid` and `s_axis_residual_tvalid` reach it too.
    """

    def ports(self) -> Ports:
        config = self.config
        begins = data.StructLayout({"first": 1, "block_last": 1, **config.tile.members})
        flags = data.StructLayout({"block_last": 1, "out_of_step": 1, "overlong": 1})
        operands = {
            f"s_axis_{name}": unit.signature.members[_OPERAND]
            for name, unit in config.stage_units.items()
            if _OPERAND in unit.signature.members
        }
        return {
            "s_axis_a": In(AxiStream(config.array.operand("a"), user=begins)),
            "s_axis_w": In(AxiStream(config.array.operand("w"))),
            **operands,
            "m_axis": Out(AxiStream(config.packer.operand, user=flags)),
        }

    def fill(self, m: Module, platform: object) -> None:
        array = place(m, platform, "array", SystolicArray(self.config.array))
        chain = self._place_chain(m, platform)
        self._feed(m, array, chain[0].s_axis, self._admit(m, array))
        for before, after in pairwise(chain):
            wiring.connect(m, before.m_axis, after.s_axis)
        self._put_out(m, array, chain[-1])

    def _place_chain(self, m: Module, platform: object) -> list[Unit[Any]]:
        """Everything that results pass, in a row: stages, converter, packer."""
        chain: list[Unit[Any]] = []
        for name, unit in self.config.stage_units.items():
            place(m, platform, name, unit)
            if _OPERAND in unit.signature.members:
                operand = getattr(self, f"s_axis_{name}")
                wiring.connect(m, wiring.flipped(operand), getattr(unit, _OPERAND))
            chain.append(unit)
        converter = place(m, platform, "converter", Converter(self.config.converter))
        return [*chain, converter, place(m, platform, "pack", OperandPacker(self.config.packer))]

    def _admit(self, m: Module, array: SystolicArray) -> data.View:
        """Let operands in, and keep what is to be known of the rows of tiles; return the oldest.

        There is room for as many tiles as are in flight at a time: the array does not let their
        last beats in any closer than their rows leave.
        """
        layout, room = self.config.tile, self.config.array.tiles_under_way
        user = self.s_axis_a.tuser
        tiles = [Signal(layout.size, name=f"tile_{age}", reset_less=True) for age in range(room)]
        under_way = Signal(range(room + 1), name="tiles_under_way")
        noted(
            tiles[0],
            "The last beats of a tile come long before its rows: what is said there is kept, "
            "newest first, for as many tiles as the array can have in flight.",
        )
        enters = named(m, "tile_enters", 1, self.s_axis_a.tready & self.s_axis_a.tlast)
        row_leaves = named(m, "row_leaves", 1, array.m_axis_c.tvalid & array.m_axis_c.tready)
        leaves = named(m, "tile_leaves", 1, row_leaves & array.m_axis_c.tlast)
        m.d.sync += under_way.eq(under_way + enters - leaves)
        update(m, Cat(*tiles), (enters, Cat(user.strip_last, user.last_row, *tiles[:-1])))
        wiring.connect(m, wiring.flipped(self.s_axis_w), array.s_axis_w)
        # The array takes two of the flags beside a beat; the others stay here.
        for port in ("tdata", "tvalid", "tlast"):
            into, out_of = getattr(array.s_axis_a, port), getattr(self.s_axis_a, port)
            m.d.comb += Value.cast(into).eq(Value.cast(out_of))
        m.d.comb += [
            array.s_axis_a.tuser.first.eq(user.first),
            array.s_axis_a.tuser.block_last.eq(user.block_last),
            self.s_axis_a.tready.eq(array.s_axis_a.tready),
        ]
        ages = Cat(under_way == age + 1 for age in range(room))
        oldest = named(m, "is_oldest", room, ages)
        return data.View(layout, gated_or(m, "tile_of_row", zip(oldest, tiles, strict=True)))

    def _feed(self, m: Module, array: SystolicArray, into: Any, tile: data.View) -> None:
        """Results that are features into the chain, with the ends of strips."""
        row = Signal(tile.last_row.shape(), name="row")
        drops = Signal(name="drops_rows")
        last_row = named(m, "is_last_row", 1, (row == tile.last_row) | array.m_axis_c.tlast)
        ends = named(m, "strip_ends", 1, tile.strip_last & last_row)
        next_row = truncated(m, "next_row", len(row), row + 1)
        row_taken = named(m, "row_taken", 1, array.m_axis_c.tvalid & array.m_axis_c.tready)
        noted(
            drops, "What follows the last feature of a strip in its tile is padding: it is dropped."
        )
        with m.If(row_taken):
            m.d.sync += [
                row.eq(Mux(array.m_axis_c.tlast, 0, next_row)),
                drops.eq((drops | ends) & ~array.m_axis_c.tlast),
            ]
        m.d.comb += [
            into.tdata.as_value().eq(array.m_axis_c.tdata.as_value()),
            into.tvalid.eq(array.m_axis_c.tvalid & ~drops),
            into.tlast.eq(ends),
            array.m_axis_c.tready.eq(into.tready | drops),
        ]

    def _put_out(self, m: Module, array: SystolicArray, pack: Unit[Any]) -> None:
        """Operand beats, with the array's flags."""
        moves = ~self.m_axis.tvalid | self.m_axis.tready  # a beat on offer must not change
        flags = kept(m, moves, "flags", array.m_axis_c.tuser.as_value(), reset=True)
        for port in ("tdata", "tvalid", "tlast"):
            into, out_of = getattr(self.m_axis, port), getattr(pack.m_axis, port)
            m.d.comb += Value.cast(into).eq(Value.cast(out_of))
        m.d.comb += [
            pack.m_axis.tready.eq(self.m_axis.tready),
            self.m_axis.tuser.as_value().eq(Cat(pack.m_axis.tuser.block_last, flags)),
        ]


def stage_unit(name: str, *, columns: int, activation: str) -> Unit[Any]:
    """The unit of a stage, for beats of one feature of so many columns.

    Returns
    -------
    Unit
        With a stream of binary32 numbers in, `s_axis`, and one out, `m_axis`, and perhaps one of
        second operands, `s_axis_operand`. Its latency is that of the stage.

    Raises
    ------
    ValueError
        If it is an activation and there is no such function.
    """
    if name == "activation":
        return VectorFunction(lanes=ActivationConfiguration(functions=activation, width=columns))
    if name == "residual":
        return VectorArithmetic(operations=("add",), lanes=columns)
    # A bias belongs to a feature: it is one number for the whole beat, but not for columns that are
    # no samples: these stay zero, or they would count in the scales of tiles.
    return VectorArithmetic(operations=("add",), operand="beat", ragged=True, lanes=columns)


def checked_stages(given: Sequence[str] | str) -> tuple[str, ...]:
    """Names of stages, from a sequence of them or joined by ``+``.

    Raises
    ------
    ValueError
        If one is not of `STAGES`, or is there twice.
    """
    names = tuple(filter(None, given.split("+")) if isinstance(given, str) else given)
    if any(name not in STAGES for name in names) or len(set(names)) < len(names):
        raise ValueError(f"stages must be some of {', '.join(STAGES)}, each once, not {given!r}")
    return names
