"""The sub-matrix unit: MACs side by side and the accumulators behind them (paper, Fig. 5b)."""

from collections.abc import Mapping
from typing import Any

from amaranth.hdl import Cat, Module, ShapeLike, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.formats import BF16, E8M0, FloatFormat, IntFormat, MXFormat
from mxsafe.products import WIDEST_SUM
from mxsafe.rtl.arithmetic.bits import chosen, gated_or, named
from mxsafe.rtl.arithmetic.float32_adder import MOST_ADD_STAGES
from mxsafe.rtl.arithmetic.pipeline import delayed
from mxsafe.rtl.arithmetic.scaler import MOST_SCALE_STAGES, block_exponent, is_nan_scale
from mxsafe.rtl.array.accumulator import Accumulator
from mxsafe.rtl.array.block_accumulator import BlockAccumulate
from mxsafe.rtl.array.block_sequencer import BlockWalk
from mxsafe.rtl.array.token import Token
from mxsafe.rtl.mac.bf16_mac import BF16Accumulator, BF16Mac
from mxsafe.rtl.mac.decoder import SIDES, operand_layout
from mxsafe.rtl.mac.operand_dot import OperandDot
from mxsafe.rtl.mac.safe_mac import SafeMac
from mxsafe.rtl.unit import Unit, dsp_parameter, place
from mxsafe.validation import require_positive_integer

__all__ = ["PU", "code_layout", "operand_format", "pu_name"]


def operand_format(format: MXFormat | None) -> FloatFormat | IntFormat:
    """What the codes of operands are: elements, or bfloat16 numbers without a format."""
    return BF16 if format is None else format.element


def code_layout(format: MXFormat | None, lanes: int, count: int) -> data.ArrayLayout:
    """Operand codes of `count` rows or columns, `lanes` values of k each."""
    return data.ArrayLayout(data.ArrayLayout(operand_format(format).width, lanes), count)


def _check_format(arithmetic: str, format: MXFormat | None) -> None:
    if arithmetic not in ("fp12", "exact", "bf16"):
        raise ValueError(f"arithmetic must be one of fp12, exact, bf16, not {arithmetic!r}")
    if (format is None) != (arithmetic == "bf16"):
        given = "none" if format is None else format.name
        raise ValueError(
            f"format goes with arithmetics fp12 and exact, but {given} was given with {arithmetic}"
        )


class PU(Unit):
    """``rows x columns`` MACs, each with a binary32 accumulator.

    Operands are registered at the entrance, broadcast to the MACs and handed on to the next
    sub-matrix unit one clock later. Results of a finished tile leave row by row while the next tile
    computes. Where one unit accumulates for all MACs, it completes them row by row anyway, and the
    row is there on the last registers of its ring; else all are complete together, and all rows but
    the first are copied and held until their turn.

    With `exact` only flags are reset.

    Parameters
    ----------
    format : MXFormat
        Format of both operands; none with `bf16`. With `fp12` its elements are floating-point.
        Results of a block with codes for NaN or Inf are any numbers, unless its scale is NaN: see
        `SpecialCodes`.
    arithmetic : {"fp12", "exact", "bf16"}
        ``fp12``: FP12 adder tree, scale and accumulate every cycle, an accumulator a MAC.
        ``exact``: integer sums within a block, scale and accumulate once a block.
        ``bf16``: bfloat16 products, binary32 sums, no scales.
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
    scale_stages, add_stages : int, optional
        ``exact`` only: registers within the units' scaler, 0 to 4, and adder, 1 to 4, fewer than
        its MACs unless that is one; by default as `usual_stages` has them.
    dsp : bool
        Multiply with ``*``, which FPGA tools map to DSP blocks, instead of by digits (see
        `mxsafe.rtl.arithmetic.radix4`); no matter for integer elements.
    row_interval : int, optional
        Enabled clocks from one row of a tile's results to the next, by default as many as there are
        columns: as often as a single unit completes a row. Others hold rows back in registers. At
        least as many as sub-matrix units stand above each other.

    Attributes
    ----------
    en : In(1)
        Clock enable of every register.
    token, a, w, scale_a, scale_w : In
        A beat: flags, elements of the rows and columns, and the scale byte of each, if there are
        scales. Elements are codes, except of floats with `exact`: those are what `OperandDecoder`
        makes of them, once for the whole array.
    token_next, a_next, w_next, scale_a_next, scale_w_next : Out
        The same, one clock later, for the neighbours.
    done : Out(1)
        `results` is a row of a finished tile: row 0 first, another every `row_interval` enabled
        clocks.
    results : Out(array of 32)
        One row; anything while not `done`.
    latency : int
        Enabled clocks from the last beat of a tile until `done`.
    walks_out : bool
        Whether rows leave as one unit completes them, and need no registers.
    block_cycles : int
        Least number of cycles from the end of a block to the end of the next.
    block_beats : int or None
        Most beats of a block that sums hold; None if any block goes (`fp12`, `bf16`).

    Raises
    ------
    ValueError
        If a parameter is not as above; the message gives the numbers.

    Notes
    -----
    With `exact` a MAC needs its accumulator once a block, so few units serve many MACs: one is the
    least that keeps the full rate for 1x64 blocks (a block lasts 16 beats), eight for 8x8 tiles
    (two beats). Figures of today are on the page `make synth` writes; the way there, for one unit,
    as gate equivalents and longest path (yosys 0.70 to NanGate 45 nm, typical):

    ============================================================  ======  ====
    step                                                          GE      ns
    ============================================================  ======  ====
    everything reset, scales for each MAC, rows shifted down      74,914  4.65
    data not reset, scales held once, adder cut, rows up          72,750  2.37
    operands decoded outside, signs applied after the register    71,044  2.48
    clock gates in place of enables                               64,190
    rows taken from the ring, scales looked up before the sums,
    waiting sums copied once instead of shifted, one shifter for
    both directions in the scaler                                 56,285  2.81
    no register before the scaler                                 55,778  2.74
    buffers in trees, gates sized                                 55,236  2.48
    two registers in the scaler and two in the adder              55,906  2.33
    multiplication by digits                                      52,340  2.34
    a MAC's last addition made with that to the sum before        54,993  2.12
    three registers in the adder, trees of 24 pins                54,578  2.06
    the same, gates sized for 1.5 ns                              56,303  1.92
    three registers in the MACs, four in scaler and adder each,
    logic balanced and mapped for speed                           83,135  1.04
    ============================================================  ======  ====

    Scaler and adder made smaller since (their docstrings say how), and ABC's passes changed with
    them (`mxsafe.synthesis.targets`): 55,269 and 1.87. With eight units those two are what counts: from
    78,652 and 2.65 ns to 76,139 and 2.16; a loop of two clocks leaves room for one register in the
    adder.

    Tried and not kept: full adder cells for the sum of four products and that of a block (784 GE
    and 2.18 ns instead of 814 and 2.02), shifters by other steps (128 and 143 GE instead of 116).
    """

    def __init__(
        self,
        *,
        format: MXFormat | None = None,
        arithmetic: str,
        rows: int = 4,
        columns: int = 4,
        lanes: int = 4,
        block: int | None = None,
        units: int | None = None,
        pipeline: int | None = None,
        scale_stages: int | None = None,
        add_stages: int | None = None,
        row_interval: int | None = None,
        dsp: bool = False,
    ) -> None:
        _check_format(arithmetic, format)
        if dsp and arithmetic == "bf16":
            raise ValueError("dsp goes with arithmetics fp12 and exact, but it was given with bf16")
        own_to_exact = {
            "block": block,
            "units": units,
            "scale_stages": scale_stages,
            "add_stages": add_stages,
        }
        for name, given in own_to_exact.items():
            if arithmetic != "exact" and given is not None:
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
        if dsp:
            self._mac_options["dsp"] = dsp
        row_interval = columns if row_interval is None else row_interval
        row_interval = require_positive_integer("row_interval", row_interval)
        self.walks_out = arithmetic == "exact" and units == 1 and row_interval == columns
        self._units = units
        usual_scale_stages, usual_add_stages = usual_stages(macs // units)
        self._scale_stages = usual_scale_stages if scale_stages is None else scale_stages
        self._add_stages = usual_add_stages if add_stages is None else add_stages
        if arithmetic == "exact":
            self._check_stages(macs // units)
        probe = self._mac()
        after_mac = (BF16Accumulator if arithmetic == "bf16" else Accumulator)().latency
        self.block_cycles = 1
        self.block_beats: int | None = None
        if isinstance(probe, OperandDot):
            self._dot = probe
            longest = lanes << (WIDEST_SUM + 1 - probe.dot_bits)
            if block > longest:
                raise ValueError(
                    f"block must be at most {longest}, which sums of {WIDEST_SUM} bits hold, "
                    f"not {block}"
                )
            self.block_beats = -(-block // lanes)
            self._sum_bits = probe.dot_bits + (self.block_beats - 1).bit_length()
            self.block_cycles = macs // units
            self._done_every = columns if self.walks_out else self.block_cycles
            after_mac = self._walk().latency - probe.latency
        elements: list[ShapeLike] = [operand_format(format).width] * 2
        if arithmetic == "exact" and format is not None:
            elements = [operand_layout(format, None if dsp else side) for side in SIDES]
        a, w = (
            data.ArrayLayout(data.ArrayLayout(element, lanes), count)
            for element, count in zip(elements, (rows, columns), strict=True)
        )
        scale_a = data.ArrayLayout(E8M0.width, rows)
        scale_w = data.ArrayLayout(E8M0.width, columns)
        beat: dict[str, ShapeLike] = {"token": Token, "a": a, "w": w}
        if arithmetic != "bf16":
            beat |= {"scale_a": scale_a, "scale_w": scale_w}
        self._beat = tuple(beat)
        parameters = {
            "format": BF16.name if format is None else format.name,
            "arithmetic": arithmetic,
            "rows": rows,
            "columns": columns,
            "lanes": lanes,
            "pipeline": probe.latency,
            "row_interval": row_interval,
            **dsp_parameter(dsp),
        }
        if arithmetic == "exact":
            parameters |= {
                "block": block,
                "units": units,
                "scale_stages": self._scale_stages,
                "add_stages": self._add_stages,
            }
        super().__init__(
            {
                "en": In(1),
                **{name: In(shape) for name, shape in beat.items()},
                **{f"{name}_next": Out(shape) for name, shape in beat.items()},
                "done": Out(1),
                "results": Out(data.ArrayLayout(32, columns)),
            },
            module_name=pu_name("pu", parameters, pipeline),
            parameters=parameters,
            latency=1 + probe.latency + after_mac,
        )

    def _check_stages(self, share: int) -> None:
        most_add_stages = min(MOST_ADD_STAGES, max(share - 1, 1))
        for name, stages, least, most in (
            ("scale_stages", self._scale_stages, 0, MOST_SCALE_STAGES),
            ("add_stages", self._add_stages, 1, most_add_stages),
        ):
            if not isinstance(stages, int) or isinstance(stages, bool):
                raise ValueError(f"{name} must be an integer, not {stages!r}")
            if not least <= stages <= most:
                raise ValueError(
                    f"{name} must be from {least} to {most} with {share} MACs a unit, not {stages}"
                )

    def operand(self, side: str, suffix: str = "") -> Value:
        """Elements and scales of one operand at the entrance, or with ``_next`` at the exit."""
        names = [name for name in (side, f"scale_{side}") if name in self._beat]
        return Cat(getattr(self, f"{name}{suffix}").as_value() for name in names)

    def _mac(self) -> SafeMac | OperandDot | BF16Mac:
        if self.arithmetic == "bf16":
            return BF16Mac(lanes=self.lanes, **self._mac_options)
        options: dict[str, Any] = {"format": self.format, "lanes": self.lanes} | self._mac_options
        if self.arithmetic == "fp12":
            return SafeMac(finite=True, **options)
        return OperandDot(**options)

    def _block_accumulate(self) -> BlockAccumulate:
        return BlockAccumulate(
            macs=self.block_cycles,
            halves=self._dot.half_count,
            half_bits=len(self._dot.halves[0]),
            sum_bits=self._sum_bits,
            unit_exponent=self._dot.unit_exponent,
            scaling=self._scale_stages,
            adding=self._add_stages,
            shown=self._done_every,
        )

    def _walk(self) -> BlockWalk:
        accumulate = self._block_accumulate()
        return BlockWalk(
            macs=self.block_cycles,
            mac_latency=self._dot.latency,
            step_latency=accumulate.step_latency,
            latency_after=accumulate.latency,
            done_every=self._done_every,
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        ends = self.token.valid & (self.token.block_last | self.token.last)
        for name in self._beat:
            # With `exact` only the scales of a block's last beat count, and they stay.
            stays = self.arithmetic == "exact" and name.startswith("scale")
            enable = named(m, f"{name}_enters", 1, self.en & ends) if stays else self.en
            entered = delayed(
                m, enable, name, getattr(self, name).as_value(), 1, reset=name == "token"
            )
            m.d.comb += getattr(self, f"{name}_next").as_value().eq(entered)

        macs: list[Any] = []
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
        if self.arithmetic == "exact":
            self._accumulate_blocks(m, platform, macs)
        else:
            self._accumulate_beats(m, platform, macs)
        return m

    def _hold_results(self, m: Module, results: list[Value], complete: Value) -> None:
        """Row 0 leaves at once, the others from copies, `row_interval` apart."""
        interval = self.parameters["row_interval"]
        leaves = [complete]
        rows: list[Value] = [Cat(*results[: self.columns])]
        for row in range(1, self.rows):
            name = f"row_{row}"
            leaves.append(delayed(m, self.en, name, leaves[-1], interval, reset=True))
            first = row * self.columns
            held = Signal(32 * self.columns, name=f"{name}_held", reset_less=True)
            with m.If(self.en & complete):
                m.d.sync += held.eq(Cat(*results[first : first + self.columns]))
            rows.append(held)
        m.d.comb += [
            self.done.eq(Cat(*leaves).any()),
            self.results.as_value().eq(gated_or(zip(leaves, rows, strict=True))),
        ]

    def _accumulate_beats(self, m: Module, platform: object, macs: list[Any]) -> None:
        """An accumulator for each MAC, which takes a partial sum every cycle."""
        mac_latency = macs[0].latency
        valid, first, last = (
            delayed(m, self.en, f"{name}_after", self.token_next[name], mac_latency, reset=True)
            for name in ("valid", "first", "last")
        )
        scales = self._scales_after(m, mac_latency)
        results: list[Value] = []
        for index, mac in enumerate(macs):
            accumulate: Accumulator | BF16Accumulator
            if scales is None:
                accumulate = BF16Accumulator()
            else:
                accumulate = Accumulator(sum_format=mac.sum_format)
                m.d.comb += [
                    accumulate.scale_a.eq(scales[0][index // self.columns]),
                    accumulate.scale_w.eq(scales[1][index % self.columns]),
                ]
            place(m, platform, f"accumulate_{index}", accumulate)
            m.d.comb += [
                accumulate.en.eq(self.en),
                accumulate.valid.eq(valid),
                accumulate.first.eq(first),
                accumulate.partial_sum.eq(mac.partial_sum),
            ]
            results.append(accumulate.acc)
        complete = delayed(m, self.en, "ends_after", valid & last, accumulate.latency, reset=True)
        self._hold_results(m, results, complete)

    def _scales_after(self, m: Module, latency: int) -> tuple[Any, Any] | None:
        """The scales of rows and columns that belong to what the MACs put out, if there are any."""
        if self.arithmetic == "bf16":
            return None
        layout_a = data.ArrayLayout(E8M0.width, self.rows)
        layout_w = data.ArrayLayout(E8M0.width, self.columns)
        return (
            layout_a(delayed(m, self.en, "scale_a_after", self.scale_a_next.as_value(), latency)),
            layout_w(delayed(m, self.en, "scale_w_after", self.scale_w_next.as_value(), latency)),
        )

    def _accumulate_blocks(self, m: Module, platform: object, macs: list[Any]) -> None:
        """Units that walk the MACs after the end of a block."""
        walk = self._walk()
        place(m, platform, "walk", walk)
        m.d.comb += [walk.en.eq(self.en), walk.token.eq(self.token_next)]
        scales_a = [self.scale_a_next[row] for row in range(self.rows)]
        scales_w = [self.scale_w_next[column] for column in range(self.columns)]
        results: list[Value] = []
        for unit in range(self._units):
            accumulate = self._block_accumulate()
            place(m, platform, f"accumulate_{unit}", accumulate)
            share = range(unit * self.block_cycles, (unit + 1) * self.block_cycles)
            scale_a = chosen(
                m, f"scale_a_{unit}", walk.index, [scales_a[mac // self.columns] for mac in share]
            )
            scale_w = chosen(
                m, f"scale_w_{unit}", walk.index, [scales_w[mac % self.columns] for mac in share]
            )
            exponent = block_exponent(m, scale_a, scale_w)
            nan = is_nan_scale(m, scale_a, scale_w)
            latency = self._dot.latency + 1  # from the scales' look-up to the turn
            m.d.comb += [
                accumulate.en.eq(self.en),
                *(
                    getattr(accumulate, flag).eq(getattr(walk, flag))
                    for flag in ("valid", "starts", "turn", "steps", "first")
                ),
                accumulate.block_exponent.eq(
                    delayed(m, self.en, f"exponent_{unit}", exponent, latency)
                ),
                accumulate.nan.eq(delayed(m, self.en, f"nan_{unit}", nan, latency)),
            ]
            for index, mac in enumerate(share):
                m.d.comb += [
                    accumulate.dots[index].as_value().eq(macs[mac].halves.as_value()),
                    accumulate.negate[index].eq(macs[mac].negate),
                ]
            results += [accumulate.acc[index] for index in range(self._done_every)]
        if self.walks_out:
            m.d.comb += [self.done.eq(walk.done), self.results.as_value().eq(Cat(*results))]
        else:
            self._hold_results(m, results, walk.done)


def usual_stages(macs: int) -> tuple[int, int]:
    """Registers of the scaler and of the adder that so many MACs share.

    Where one unit is for many MACs registers are cheap; the adder has as many as its ring has room.
    """
    return (2 if macs > 2 else 1), min(3, max(macs - 1, 1))


def pu_name(base: str, parameters: Mapping[str, Any], pipeline: int | None) -> str:
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
    if base == "pu" and parameters["row_interval"] != parameters["columns"]:
        parts.append(f"interval{parameters['row_interval']}")
    usual: dict[str, object] = {"block": 64, "units": 1}
    if "units" in parameters:
        share = parameters["rows"] * parameters["columns"] // parameters["units"]
        usual["scale_stages"], usual["add_stages"] = usual_stages(share)
    for name, value in usual.items():
        short = name.removesuffix("_stages")
        if parameters.get(name, value) != value:
            parts.append(f"{short}{parameters[name]}")
    if parameters.get("dsp"):
        parts.append("dsp")
    return "_".join(parts)
