"""A layer of a network: array, activation, converter and packer, behind AXI4-Stream."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.formats import MXFormat
from mxsafe.rtl.arithmetic.bits import gated_or, named
from mxsafe.rtl.array.systolic_array import STA
from mxsafe.rtl.stream.converter import BeatBlocks, Converter
from mxsafe.rtl.stream.operand_packer import OperandPacker, operand_layout
from mxsafe.rtl.unit import Unit, place
from mxsafe.rtl.vector.activation import ACTIVATIONS, Activation

__all__ = ["Layer"]

_LONGEST_BLOCK = 64


class Layer(Unit):
    """Operands to operands of the next layer: array, activation, converter, packer.

    The transposed layer is computed, ``Y^T = W^T X^T``: rows of the array are output features, with
    weights on `s_axis_a`; columns are samples, on `s_axis_w`. A result of the array is then one
    feature of all its columns, and features are k of the next layer: with the tiles of one strip of
    samples in the order of features, results are quantised as they come, and `lanes` of them are a
    beat of `s_axis_w` of the next layer.

    Rows of a strip's last tile that are not features are dropped. So what comes out is the
    quantised matrix itself, ``quantize(activation(matmul(weights, samples)))``, cut into beats as
    the array takes them; a ragged edge is a shorter block.

    Parameters
    ----------
    format : MXFormat
        Format of operands and results.
    arithmetic : {"fp12", "exact"}
        See `STA`.
    activation : str
        ``none`` or one of `mxsafe.rtl.vector.activation.ACTIVATIONS`.
    block : int or tuple of int, optional
        Blocks of the results: a length along the features, with a scale for every sample, or a
        shape ``(features, samples)`` of tiles; by default the format's usual length. With `exact`
        sums hold blocks of 64 in k or, if that is longer, of this length.
    pu_rows, pu_columns, rows, columns, lanes, units, pipeline, scale_stages, add_stages, dsp
        See `STA`.

    Attributes
    ----------
    s_axis_a_tdata, s_axis_a_tlast : In
        Weights, as of `STA`.
    s_axis_a_tuser : In(struct)
        ``first`` and ``block_last`` as of `STA`. ``strip_last``: the tile is the last of its strip
        of samples; ``last_row``: its last row that is a feature. Both are read with `tlast`, and
        ``last_row`` with ``strip_last`` only.
    s_axis_w_tdata, s_axis_w_tlast : In
        Samples, as of `STA`.
    m_axis_tdata : Out(struct)
        The layout of `s_axis_w_tdata`.
    m_axis_tlast : Out(1)
        The beat ends a strip.
    m_axis_tuser : Out(struct)
        ``block_last``: the beat ends a block. ``out_of_step``, ``overlong``: the array's flags; in
        every beat with results of the tile in which it happens, in later ones and perhaps in
        earlier ones.
    latency : int
        Clocks from the last operand beats of a strip, which has whole tiles, and whole blocks that
        `lanes` divides, to its last beat out, without stalls.
    array : STA
    converter : Converter

    Raises
    ------
    ValueError
        If the parts refuse their parameters or do not fit each other.

    Notes
    -----
    A tile whose sums go on in another must not be cut here: its results leave as features.

    `m_axis_tready` reaches the clock enable of the whole array through packer and converter, and
    what depends on it in `STA`. Where timing is tight, put a register slice on `m_axis`.
    """

    def __init__(
        self,
        *,
        format: MXFormat,
        arithmetic: str = "fp12",
        activation: str = "relu",
        block: int | tuple[int, int] | None = None,
        pu_rows: int = 4,
        pu_columns: int = 4,
        rows: int = 4,
        columns: int = 4,
        lanes: int = 4,
        units: int | None = None,
        pipeline: int | None = None,
        scale_stages: int | None = None,
        add_stages: int | None = None,
        dsp: bool = False,
    ) -> None:
        if arithmetic not in ("fp12", "exact"):
            raise ValueError(f"arithmetic must be one of fp12, exact, not {arithmetic!r}")
        functions = ("none", *ACTIVATIONS)
        if activation not in functions:
            raise ValueError(
                f"activation must be one of {', '.join(functions)}, not {activation!r}"
            )
        shape = _block_shape(format.block if block is None else block)
        options: dict[str, Any] = {
            "format": format,
            "arithmetic": arithmetic,
            "pu_rows": pu_rows,
            "pu_columns": pu_columns,
            "rows": rows,
            "columns": columns,
            "lanes": lanes,
            "units": units,
            "pipeline": pipeline,
            "scale_stages": scale_stages,
            "add_stages": add_stages,
            "dsp": dsp,
        }
        columns_of_array = STA(**options).array_columns
        length = BeatBlocks.of(shape, columns_of_array).beats
        if arithmetic == "fp12" and length % lanes:
            raise ValueError(
                f"block must have a multiple of lanes {lanes} along the features with fp12, "
                f"not {length}"
            )
        if columns_of_array * format.element.width % 8:
            raise ValueError(
                f"pu_columns * columns must make whole bytes of elements of {format.element.width} "
                f"bits, not {columns_of_array}"
            )
        if arithmetic == "exact" and length > _LONGEST_BLOCK:
            options["block"] = length
        self.array = STA(**options)
        self.converter = Converter(format=format, block=shape, width=columns_of_array)
        self.activation, self.format = activation, format
        self._row_shape = range(max(self.array.array_rows, 2))
        row_interval = self.array.parameters["row_interval"]
        last_row = self.array.latency + (rows - 1) * row_interval + pu_rows - 1
        self._tiles = last_row // max(rows * row_interval, self.array.block_cycles) + 1
        ports = {
            name: member
            for name, member in self.array.signature.members.items()
            if name.startswith("s_axis")
        }
        flags = {"first": 1, "block_last": 1, "strip_last": 1, "last_row": self._row_shape}
        ports["s_axis_a_tuser"] = In(data.StructLayout(flags))
        super().__init__(
            ports
            | {
                "m_axis_tdata": Out(operand_layout(format, columns_of_array, lanes)),
                "m_axis_tvalid": Out(1),
                "m_axis_tready": In(1),
                "m_axis_tlast": Out(1),
                "m_axis_tuser": Out(
                    data.StructLayout({"block_last": 1, "out_of_step": 1, "overlong": 1})
                ),
            },
            module_name=_module_name(self.array.module_name, format, shape, activation),
            parameters={
                **{
                    "longest_block" if name == "block" else name: value
                    for name, value in self.array.parameters.items()
                },
                "activation": activation,
                "block": list(shape),
            },
            latency=last_row + self.converter.latency,
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        place(m, platform, "array", self.array)
        place(m, platform, "converter", self.converter)
        tile = self._admit(m)
        self._quantise(m, platform, tile)
        self._put_out(m, platform)
        return m

    def _admit(self, m: Module) -> data.View:
        """Let operands in, and keep what is to be known of the rows of tiles; return the oldest.

        There is room for as many tiles as are under way at a time: the array does not let their
        last beats in any closer than their rows leave.
        """
        array, user = self.array, self.s_axis_a_tuser
        layout = data.StructLayout({"strip_last": 1, "last_row": self._row_shape})
        tiles = [
            Signal(layout.size, name=f"tile_{age}", reset_less=True) for age in range(self._tiles)
        ]
        under_way = Signal(range(self._tiles + 1), name="tiles_under_way")
        enters = named(m, "tile_enters", 1, self.s_axis_a_tready & self.s_axis_a_tlast)
        row_leaves = array.m_axis_c_tvalid & array.m_axis_c_tready
        leaves = named(m, "tile_leaves", 1, row_leaves & array.m_axis_c_tlast)
        m.d.sync += under_way.eq(under_way + enters - leaves)
        with m.If(enters):
            m.d.sync += Cat(*tiles).eq(Cat(user.strip_last, user.last_row, *tiles[:-1]))
        for port in ("a_tdata", "a_tvalid", "a_tlast", "w_tdata", "w_tvalid", "w_tlast"):
            name = f"s_axis_{port}"
            m.d.comb += Value.cast(getattr(array, name)).eq(Value.cast(getattr(self, name)))
        m.d.comb += [
            array.s_axis_a_tuser.first.eq(user.first),
            array.s_axis_a_tuser.block_last.eq(user.block_last),
            self.s_axis_a_tready.eq(array.s_axis_a_tready),
            self.s_axis_w_tready.eq(array.s_axis_w_tready),
        ]
        oldest = gated_or((under_way == age + 1, tile) for age, tile in enumerate(tiles))
        return data.View(layout, named(m, "tile", layout.size, oldest))

    def _quantise(self, m: Module, platform: object, tile: data.View) -> None:
        """Results that are features through the activation into the converter."""
        array, converter = self.array, self.converter
        row = Signal(self._row_shape, name="row")
        drops = Signal(name="drops_rows")
        last_row = named(m, "is_last_row", 1, (row == tile.last_row) | array.m_axis_c_tlast)
        ends = named(m, "strip_ends", 1, tile.strip_last & last_row)
        with m.If(array.m_axis_c_tvalid & array.m_axis_c_tready):
            m.d.sync += [
                row.eq(Mux(array.m_axis_c_tlast, 0, row + 1)),
                drops.eq((drops | ends) & ~array.m_axis_c_tlast),
            ]
        results = array.m_axis_c_tdata
        if self.activation != "none":
            activate = Activation(function=self.activation, width=array.array_columns)
            place(m, platform, "activate", activate)
            m.d.comb += activate.values.as_value().eq(results.as_value())
            results = activate.results
        m.d.comb += [
            converter.s_axis_tdata.as_value().eq(results.as_value()),
            converter.s_axis_tvalid.eq(array.m_axis_c_tvalid & ~drops),
            converter.s_axis_tlast.eq(ends),
            array.m_axis_c_tready.eq(converter.s_axis_tready | drops),
        ]

    def _put_out(self, m: Module, platform: object) -> None:
        """Beats of the converter as operand beats, with the array's flags."""
        converter = self.converter
        pack = OperandPacker(
            format=self.format,
            width=self.array.array_columns,
            lanes=self.array.parameters["lanes"],
            groups=converter.blocks.groups,
        )
        place(m, platform, "pack", pack)
        for port in ("tdata", "tvalid", "tlast", "tuser"):
            into, out_of = getattr(pack, f"s_axis_{port}"), getattr(converter, f"m_axis_{port}")
            m.d.comb += Value.cast(into).eq(Value.cast(out_of))
        flags = Signal(2, name="flags")
        with m.If(~self.m_axis_tvalid | self.m_axis_tready):  # a beat on offer must not change
            m.d.sync += flags.eq(self.array.m_axis_c_tuser.as_value())
        m.d.comb += [
            converter.m_axis_tready.eq(pack.s_axis_tready),
            pack.m_axis_tready.eq(self.m_axis_tready),
            self.m_axis_tdata.as_value().eq(pack.m_axis_tdata.as_value()),
            self.m_axis_tvalid.eq(pack.m_axis_tvalid),
            self.m_axis_tlast.eq(pack.m_axis_tlast),
            self.m_axis_tuser.as_value().eq(Cat(pack.m_axis_tuser.block_last, flags)),
        ]


def _block_shape(block: int | tuple[int, int]) -> tuple[int, int]:
    """Features and samples of a block."""
    if isinstance(block, tuple | list):
        return tuple(block)  # type: ignore[return-value]
    return block, 1


def _module_name(array: str, format: MXFormat, block: tuple[int, int], activation: str) -> str:
    """That of the array, and what else is not usual."""
    parts = [f"{format.name}_layer{array.removeprefix(f'{format.name}_sta')}"]
    if block != (format.block, 1):
        parts.append("x".join(map(str, block)))
    if activation != "relu":
        parts.append(activation)
    return "_".join(parts)
