"""The sub-matrix unit: MACs side by side and the accumulators behind them (paper, Fig. 5b)."""

from collections.abc import Mapping
from typing import Any

from amaranth.hdl import Cat, Module, Mux, ShapeLike, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.formats import E8M0, MXFormat, require_positive_integer
from mxsafe.rtl.accumulator import Accumulator
from mxsafe.rtl.block_accumulate import BlockAccumulate
from mxsafe.rtl.decoder import operand_layout
from mxsafe.rtl.operand_dot import OperandDot
from mxsafe.rtl.pipeline import delayed
from mxsafe.rtl.safe_mac import SafeMac
from mxsafe.rtl.scaler import WIDEST
from mxsafe.rtl.token import Token
from mxsafe.rtl.unit import Unit, place

__all__ = ["PU", "code_layout", "pu_name"]


def code_layout(format: MXFormat, lanes: int, count: int) -> data.ArrayLayout:
    """Element codes of `count` rows or columns, `lanes` values of k each."""
    return data.ArrayLayout(data.ArrayLayout(format.element.width, lanes), count)


class PU(Unit):
    """``rows x columns`` MACs, each with a binary32 accumulator.

    Operands are registered at the entrance, broadcast to the MACs and handed on to the next
    sub-matrix unit one clock later. Results of a finished tile shift upwards, row by row, while the
    next tile computes: the first row leaves at once, the others wait in drain registers, into which
    the rows of the unit below follow. So a unit below has to finish one clock later.

    Only flags are reset.

    Parameters
    ----------
    format : MXFormat
        Format of both operands: floating-point elements without special codes.
    arithmetic : {"fp12", "exact"}
        ``fp12``: FP12 adder tree, scale and accumulate every cycle, an accumulator a MAC.
        ``exact``: integer sums within a block, scale and accumulate once a block.
    rows, columns : int
        MACs.
    lanes : int
        Products a MAC and cycle.
    block : int, optional
        ``exact`` only: longest block in k that sums must hold, by default 64.
    units : int, optional
        ``exact`` only: scale-and-accumulate units that the MACs share, by default 1; it divides
        their number. A block must last at least ``rows * columns / units`` cycles.
    pipeline : int, optional
        Register stages of the MACs; by default their own.

    Attributes
    ----------
    en : In(1)
        Clock enable of every register.
    token, a, w, scale_a, scale_w : In
        A beat: flags, elements of the rows and columns, and the scale byte of each. Elements are
        codes with `fp12`, and with `exact` what `OperandDecoder` makes of them, once for the whole
        array.
    token_next, a_next, w_next, scale_a_next, scale_w_next : Out
        The same, one clock later, for the neighbours.
    done : Out(1)
        `above` holds row 0 of a finished tile; the other rows follow, one an enabled clock.
    below : In(array of 32), above : Out(array of 32)
        Rows that shift in from below and out above.
    latency : int
        Enabled clocks from the last beat of a tile until `done`.
    block_cycles : int
        Least number of cycles from the end of a block to the end of the next.
    block_beats : int or None
        Most beats of a block that sums hold; None if any block goes (`fp12`).

    Raises
    ------
    ValueError
        If a parameter is not as above; the message gives the numbers.

    Notes
    -----
    With `exact` a MAC needs its accumulator once a block, so few units serve many MACs. Gate
    equivalents of 4x4 MACs with one register stage (yosys 0.70 to NanGate 45 nm, buffers inserted
    by abc), the longest path between registers, and the shortest block taken without waiting:

    =====  ======  =======  ====  ================
    units  GE      per MAC  ns    shortest block
    =====  ======  =======  ====  ================
    1      71,044  4,440    2.48  16 beats, 1x64
    2      74,604  4,663    2.51  8 beats, 1x32
    8      96,313  6,020    2.46  2 beats, 8x8
    =====  ======  =======  ====  ================

    So one unit is the least that keeps the full rate for 1x64 blocks, eight for 8x8 tiles. The
    longest paths are chains of buffers behind flags with hundreds of sinks. With `fp12`, which
    takes any block at the full rate, a unit is 130,795 GE, 8,175 for each MAC, and takes 3.83 ns.

    Steps on the way, for one unit of `exact`, without and with clock gates (yosys ``clockgate``) in
    place of enables:

    =====================================================  ======  ======  ====
    step                                                   GE      gated   ns
    =====================================================  ======  ======  ====
    everything reset, scales for each MAC, drain down      74,914          4.65
    data not reset, scales held once, adder cut, drain up  72,750  67,472  2.37
    decoded outside, sign applied after the register       71,044  64,190  2.48
    the same, a buffer for each 12 sinks                   73,304          2.06
    =====================================================  ======  ======  ====
    """

    def __init__(
        self,
        *,
        format: MXFormat,
        arithmetic: str,
        rows: int = 4,
        columns: int = 4,
        lanes: int = 4,
        block: int | None = None,
        units: int | None = None,
        pipeline: int | None = None,
    ) -> None:
        if arithmetic not in ("fp12", "exact"):
            raise ValueError(f"arithmetic must be one of fp12, exact, not {arithmetic!r}")
        for name, given in {"block": block, "units": units}.items():
            if arithmetic == "fp12" and given is not None:
                raise ValueError(f"{name} goes with arithmetic exact, but {given} was given")
        block = 64 if block is None else block
        units = 1 if units is None else units
        rows = require_positive_integer("rows", rows)
        columns = require_positive_integer("columns", columns)
        block = require_positive_integer("block", block)
        units = require_positive_integer("units", units)
        macs = rows * columns
        if macs % units:
            raise ValueError(f"units must divide the {rows} * {columns} = {macs} MACs, not {units}")
        self.format = format
        self.arithmetic = arithmetic
        self.rows, self.columns, self.lanes = rows, columns, lanes
        self._mac_options: dict[str, Any] = {} if pipeline is None else {"pipeline": pipeline}
        self._units = units
        probe = self._mac()
        tail = Accumulator().latency
        self.block_cycles = 1
        self.block_beats: int | None = None
        if isinstance(probe, OperandDot):
            self._dot_bits = len(probe.value)
            longest = lanes << (WIDEST + 1 - self._dot_bits)
            if block > longest:
                raise ValueError(
                    f"block must be at most {longest}, which sums of {WIDEST} bits hold, "
                    f"not {block}"
                )
            self.block_beats = -(-block // lanes)
            self._sum_bits = self._dot_bits + (self.block_beats - 1).bit_length()
            self._unit_exponent = probe.unit_exponent
            self.block_cycles = macs // units
            tail = self._block_accumulate().latency
        self.element: ShapeLike = format.element.width
        if arithmetic == "exact":
            self.element = operand_layout(format)
        a, w = (
            data.ArrayLayout(data.ArrayLayout(self.element, lanes), count)
            for count in (rows, columns)
        )
        scale_a = data.ArrayLayout(E8M0.width, rows)
        scale_w = data.ArrayLayout(E8M0.width, columns)
        row = data.ArrayLayout(32, columns)
        beat = {"token": Token, "a": a, "w": w, "scale_a": scale_a, "scale_w": scale_w}
        parameters = {
            "format": format.name,
            "arithmetic": arithmetic,
            "rows": rows,
            "columns": columns,
            "lanes": lanes,
            "pipeline": probe.latency,
        }
        if arithmetic == "exact":
            parameters |= {"block": block, "units": units}
        super().__init__(
            {
                "en": In(1),
                **{name: In(shape) for name, shape in beat.items()},
                **{f"{name}_next": Out(shape) for name, shape in beat.items()},
                "done": Out(1),
                "below": In(row),
                "above": Out(row),
            },
            module_name=pu_name("pu", parameters, pipeline),
            parameters=parameters,
            latency=1 + probe.latency + tail,
        )

    def _mac(self) -> SafeMac | OperandDot:
        unit = SafeMac if self.arithmetic == "fp12" else OperandDot
        return unit(format=self.format, lanes=self.lanes, **self._mac_options)

    def _block_accumulate(self) -> BlockAccumulate:
        return BlockAccumulate(
            macs=self.block_cycles,
            dot_bits=self._dot_bits,
            sum_bits=self._sum_bits,
            unit_exponent=self._unit_exponent,
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        operands = ("a", "w", "scale_a", "scale_w")
        for name in ("token", *operands):
            entered = delayed(
                m, self.en, name, getattr(self, name).as_value(), 1, reset=name == "token"
            )
            m.d.comb += getattr(self, f"{name}_next").as_value().eq(entered)

        macs = []
        for row in range(self.rows):
            for column in range(self.columns):
                mac = self._mac()
                place(m, platform, f"mac_{row}_{column}", mac, reset=False)
                m.d.comb += [
                    mac.en.eq(self.en),
                    mac.a.as_value().eq(self.a_next[row].as_value()),
                    mac.w.as_value().eq(self.w_next[column].as_value()),
                ]
                macs.append(mac)

        # The flags and scales that belong to what the MACs put out.
        flags = {name: self.token_next[name] for name in ("valid", "first", "block_last", "last")}
        if self.arithmetic == "fp12":
            del flags["block_last"]  # scales are applied every cycle
        latency = macs[0].latency
        flags_out = {
            name: delayed(m, self.en, f"{name}_after", flag, latency, reset=True)
            for name, flag in flags.items()
        }
        held = None if self.arithmetic == "fp12" else self._block_ends(m, latency)
        scale_a, scale_w = (
            data.ArrayLayout(E8M0.width, count)(self._scales_after(m, name, latency, held))
            for name, count in (("scale_a", self.rows), ("scale_w", self.columns))
        )
        scales = [
            (scale_a[row], scale_w[column])
            for row in range(self.rows)
            for column in range(self.columns)
        ]
        if self.arithmetic == "fp12":
            results = self._accumulate_lanes(m, platform, macs, flags_out, scales)
        else:
            results = self._accumulate_blocks(m, platform, macs, flags_out, scales)

        # Row 0 leaves at once, the others follow through the drain registers.
        rows = [
            Cat(*results[row * self.columns : (row + 1) * self.columns]) for row in range(self.rows)
        ]
        following: Value = self.below.as_value()
        for row in reversed(range(1, self.rows)):
            register = Signal(32 * self.columns, name=f"drain_{row}", reset_less=True)
            with m.If(self.en):
                m.d.sync += register.eq(Mux(self.done, rows[row], following))
            following = register
        m.d.comb += self.above.as_value().eq(Mux(self.done, rows[0], following))
        return m

    def _block_ends(self, m: Module, latency: int) -> Value:
        """The beat that `_scales_after` takes its scales from ends a block."""
        ends = self.token_next.valid & (self.token_next.block_last | self.token_next.last)
        return delayed(m, self.en, "ends_after", ends, latency - 1, reset=True)

    def _scales_after(self, m: Module, name: str, latency: int, held: Value | None) -> Value:
        """The scales that belong to what the MACs put out; those of a block's end are held."""
        scales = getattr(self, f"{name}_next").as_value()
        before = delayed(m, self.en, f"{name}_after", scales, latency - 1)
        register = Signal(len(before), name=f"{name}_after_{latency}", reset_less=True)
        with m.If(self.en if held is None else self.en & held):
            m.d.sync += register.eq(before)
        return register

    def _accumulate_lanes(
        self,
        m: Module,
        platform: object,
        macs: list[SafeMac | OperandDot],
        token: dict[str, Value],
        scales: list[tuple[Value, Value]],
    ) -> list[Value]:
        results: list[Value] = []
        for index, (mac, (scale_a, scale_w)) in enumerate(zip(macs, scales, strict=True)):
            accumulate = Accumulator()
            place(m, platform, f"accumulate_{index}", accumulate)
            m.d.comb += [
                accumulate.en.eq(self.en),
                accumulate.valid.eq(token["valid"]),
                accumulate.first.eq(token["first"]),
                accumulate.partial_sum.eq(mac.partial_sum),
                accumulate.scale_a.eq(scale_a),
                accumulate.scale_w.eq(scale_w),
            ]
            results.append(accumulate.acc)
        ends = token["valid"] & token["last"]
        m.d.comb += self.done.eq(
            delayed(m, self.en, "ends_after", ends, accumulate.latency, reset=True)
        )
        return results

    def _accumulate_blocks(
        self,
        m: Module,
        platform: object,
        macs: list[SafeMac | OperandDot],
        token: dict[str, Value],
        scales: list[tuple[Value, Value]],
    ) -> list[Value]:
        results: list[Value] = []
        for unit in range(self._units):
            accumulate = self._block_accumulate()
            place(m, platform, f"accumulate_{unit}", accumulate)
            m.d.comb += accumulate.en.eq(self.en)
            m.d.comb += [accumulate.token[name].eq(flag) for name, flag in token.items()]
            share = range(unit * self.block_cycles, (unit + 1) * self.block_cycles)
            for index, mac in enumerate(share):
                m.d.comb += [
                    accumulate.dots[index].eq(macs[mac].value),
                    accumulate.negate[index].eq(macs[mac].negate),
                    accumulate.scale_a[index].eq(scales[mac][0]),
                    accumulate.scale_w[index].eq(scales[mac][1]),
                ]
                results.append(accumulate.acc[index])
        m.d.comb += self.done.eq(accumulate.done)
        return results


def pu_name(base: str, parameters: Mapping[str, object], pipeline: int | None) -> str:
    """Module name of a unit or an array: the paper's is plain, others say what differs.

    Parameters
    ----------
    base : str
        ``pu`` or ``sta``.
    parameters : Mapping
        Its parameters.
    pipeline : int or None
        Register stages of the MACs, if they are not their own.
    """
    parts = [str(parameters["format"]), base]
    if parameters["arithmetic"] == "exact":
        parts.append("exact")
    names = ("pu_rows", "pu_columns", "rows", "columns", "lanes")
    sizes = [parameters[name] for name in names if name in parameters]
    if any(size != 4 for size in sizes):
        parts.append("x".join(map(str, sizes)))
    if pipeline is not None:
        parts.append(f"stages{pipeline}")
    for name, usual in (("block", 64), ("units", 1)):
        if parameters.get(name, usual) != usual:
            parts.append(f"{name}{parameters[name]}")
    return "_".join(parts)
