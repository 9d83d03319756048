"""The systolic tensor array (paper, Fig. 5a, b and d) behind AXI4-Stream."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, ResetSignal, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.formats import E8M0, FloatFormat, MXFormat, has_special_codes
from mxsafe.rtl.arithmetic.bits import gated_or, named
from mxsafe.rtl.arithmetic.pipeline import delayed
from mxsafe.rtl.array.sub_matrix_unit import PU, code_layout, pu_name
from mxsafe.rtl.array.token import Token
from mxsafe.rtl.mac.decoder import Side
from mxsafe.rtl.mac.operand_dot import LaneDecoder
from mxsafe.rtl.mac.special_codes import SpecialCodes
from mxsafe.rtl.unit import Unit, place
from mxsafe.validation import require_positive_integer

__all__ = ["STA"]


class STA(Unit):
    """An output-stationary array of sub-matrix units that multiplies matrices tile by tile.

    A beat of the two operand streams holds `lanes` values of k for every array row and column. It
    enters the sub-matrix unit in the corner first and reaches its neighbours a clock later, so the
    edges are skewed; the caller never sees that. Beats are taken together, when both streams have
    one. Results leave one array row a beat, row 0 first, while the next tile computes.

    Lines of sub-matrix units have the rows of the array in turn: with four lines, row 5 is the
    second of the second line. The caller never sees that either.

    Beats wait in only two cases, so that nothing is ever lost: a block must end at least
    `block_cycles` after the block before it, and a tile at least as many cycles after the tile
    before it as the array has rows. A result that is not taken stops the clock enable of the whole
    array.

    Parameters
    ----------
    format, arithmetic, lanes, block, units, pipeline, scale_stages, add_stages, dsp
        See `PU`.
    pu_rows, pu_columns : int
        Sub-matrix units.
    rows, columns : int
        MACs of a sub-matrix unit.

    Attributes
    ----------
    s_axis_a_tdata : In(struct)
        ``codes``: for each array row `lanes` element codes; ``scales``: its E8M0 byte, the same in
        every beat of a block. A code for NaN or Inf counts as a NaN scale of its block. With `bf16`
        there are only codes, of bfloat16 numbers.
    s_axis_a_tuser : In(2)
        Bit 0 `first`: the beat starts a tile, accumulators begin at +0. Without it a tile goes on
        from the results of the tile before it; in the middle of a tile it drops what came before.
        Bit 1 `block_last`: it ends a block.
    s_axis_a_tlast : In(1)
        The beat ends the tile (and its block).
    s_axis_w_tdata, s_axis_w_tlast : In
        The same for the array columns.
    m_axis_c_tdata : Out(array of 32)
        One binary32 for each array column.
    m_axis_c_tlast : Out(1)
        Last row of the tile.
    m_axis_c_tuser : Out(2)
        What has gone wrong since the last reset. Bit 0 `out_of_step`: `tlast` of the two operand
        streams has disagreed, so they have lost step and no result can be trusted; the tile ends
        where `s_axis_a` says. Bit 1 `overlong`: a block has had more than ``ceil(block / lanes)``
        beats, and its sums may have wrapped (only with `exact`). Every row of the
        tile in which it happens is flagged, as are later ones and perhaps earlier ones.
    latency : int
        Clocks from the last beat of a tile to its first result row, without stalls.
    block_cycles : int
        Least number of cycles from the end of a block to the end of the next.

    Raises
    ------
    ValueError
        If a parameter is not a positive integer or does not fit the others, or `tdata` of an
        operand stream would not be whole bytes, as AXI4-Stream demands (elements of 6 and 4 bits).

    Notes
    -----
    Some paths through the handshakes are combinational: `m_axis_c_tready` reaches the clock enable
    of the whole array and both `s_axis_*_tready`; each operand stream's `tready` depends on the
    `tvalid` of the other, and `s_axis_*_tready` on `tlast`, `block_last` and `rst`. A source
    must not wait for `tready` before it shows `tvalid`, or the two operand streams wait for each
    other for ever. Where timing is tight, put a register slice (skid buffer) on `m_axis_c`, and one
    on each operand stream.
    """

    def __init__(
        self,
        *,
        format: MXFormat | None = None,
        arithmetic: str = "fp12",
        pu_rows: int = 4,
        pu_columns: int = 4,
        rows: int = 4,
        columns: int = 4,
        lanes: int = 4,
        block: int | None = None,
        units: int | None = None,
        pipeline: int | None = None,
        scale_stages: int | None = None,
        add_stages: int | None = None,
        dsp: bool = False,
    ) -> None:
        pu_rows = require_positive_integer("pu_rows", pu_rows)
        pu_columns = require_positive_integer("pu_columns", pu_columns)
        self._pu_parameters: dict[str, Any] = {
            "format": format,
            "arithmetic": arithmetic,
            "rows": rows,
            "columns": columns,
            "lanes": lanes,
            "block": block,
            "units": units,
            "pipeline": pipeline,
            "scale_stages": scale_stages,
            "add_stages": add_stages,
            "dsp": dsp,
        }
        probe = PU(**self._pu_parameters)
        if not probe.walks_out or pu_rows > columns:
            self._pu_parameters["row_interval"] = pu_rows
            probe = PU(**self._pu_parameters)
        self._tile_cycles = rows * probe.parameters["row_interval"]
        self.pu_rows, self.pu_columns = pu_rows, pu_columns
        self.rows, self.columns = rows, columns
        self.array_rows, self.array_columns = pu_rows * rows, pu_columns * columns
        self.block_cycles = probe.block_cycles
        self._block_beats = probe.block_beats

        def operand(stream: str, count: int) -> data.StructLayout:
            fields = {"codes": code_layout(format, lanes, count)}
            if format is not None:
                fields["scales"] = data.ArrayLayout(E8M0.width, count)
            layout = data.StructLayout(fields)
            if layout.size % 8:
                raise ValueError(f"{stream}_tdata must be whole bytes, not {layout.size} bits")
            return layout

        parameters = {
            **probe.parameters,
            "pu_rows": pu_rows,
            "pu_columns": pu_columns,
            "block_cycles": self.block_cycles,
        }
        super().__init__(
            {
                "s_axis_a_tdata": In(operand("s_axis_a", self.array_rows)),
                "s_axis_a_tvalid": In(1),
                "s_axis_a_tready": Out(1),
                "s_axis_a_tlast": In(1),
                "s_axis_a_tuser": In(data.StructLayout({"first": 1, "block_last": 1})),
                "s_axis_w_tdata": In(operand("s_axis_w", self.array_columns)),
                "s_axis_w_tvalid": In(1),
                "s_axis_w_tready": Out(1),
                "s_axis_w_tlast": In(1),
                "m_axis_c_tdata": Out(data.ArrayLayout(32, self.array_columns)),
                "m_axis_c_tvalid": Out(1),
                "m_axis_c_tready": In(1),
                "m_axis_c_tlast": Out(1),
                "m_axis_c_tuser": Out(data.StructLayout({"out_of_step": 1, "overlong": 1})),
            },
            module_name=pu_name("sta", parameters, pipeline),
            parameters=parameters,
            latency=probe.latency + (pu_columns - 1) + 1,
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        en = named(m, "en", 1, ~self.m_axis_c_tvalid | self.m_axis_c_tready)
        token = self._admit(m, en)
        units = self._place_units(m, platform, en, token)
        self._collect(m, en, units)
        return m

    def _admit(self, m: Module, en: Signal) -> Token:
        """Take beats of both streams together, and hold those back that would come too early."""
        ends_tile = self.s_axis_a_tlast
        ends_block = self.s_axis_a_tuser.block_last | ends_tile
        early: list[Value] = []
        take = Signal()
        for kind, ends, cycles in (
            ("block", ends_block, self.block_cycles),
            ("tile", ends_tile, self._tile_cycles),
        ):
            if kind == "tile" and cycles <= self.block_cycles:
                break  # a tile ends a block
            wait = Signal(range(max(cycles, 2)), name=f"{kind}_wait")
            early.append(named(m, f"{kind}_too_early", 1, ends & wait.any()))
            with m.If(take & ends):
                m.d.sync += wait.eq(cycles - 1)
            with m.Elif(en & wait.any()):
                m.d.sync += wait.eq(wait - 1)
        ready = named(m, "is_ready", 1, en & ~Cat(*early).any() & ~ResetSignal())
        open_ = named(m, "is_open", 1, ready & self.s_axis_a_tvalid)
        # Whether a beat comes too early shows once s_axis_a holds it: both streams wait for it.
        m.d.comb += [
            take.eq(open_ & self.s_axis_w_tvalid),
            self.s_axis_a_tready.eq(take),
            self.s_axis_w_tready.eq(open_),
        ]
        differ = named(m, "tlast_differ", 1, self.s_axis_a_tlast ^ self.s_axis_w_tlast)
        with m.If(take & differ):
            m.d.sync += self.m_axis_c_tuser.out_of_step.eq(1)
        if self._block_beats is not None:
            self._watch_blocks(m, take, ends_block, self._block_beats)

        token = Token(Signal(Token, name="token"))
        m.d.comb += [
            token.valid.eq(take),
            token.first.eq(self.s_axis_a_tuser.first),
            token.block_last.eq(self.s_axis_a_tuser.block_last),
            token.last.eq(self.s_axis_a_tlast),
        ]
        return token

    def _watch_blocks(self, m: Module, take: Signal, ends_block: Value, longest: int) -> None:
        """Count the beats of a block, and flag one that sums cannot hold."""
        block_beats = Signal(range(longest + 1))
        before = named(
            m, "beats_before", len(block_beats), Mux(self.s_axis_a_tuser.first, 0, block_beats)
        )
        full = named(m, "is_full", 1, before == longest)
        with m.If(take):
            m.d.sync += block_beats.eq(Mux(ends_block, 0, before + ~full))
        with m.If(take & full):
            m.d.sync += self.m_axis_c_tuser.overlong.eq(1)

    def _place_units(self, m: Module, platform: object, en: Signal, token: Token) -> list[list[PU]]:
        """The sub-matrix units, their neighbours' beats, and the skewed edges."""
        units = [
            [PU(**self._pu_parameters) for _ in range(self.pu_columns)] for _ in range(self.pu_rows)
        ]
        data_a, data_w = self.s_axis_a_tdata, self.s_axis_w_tdata
        for i, line in enumerate(units):
            # All lines complete their first row, then all their second: those are neighbours.
            mine = range(i, self.array_rows, self.pu_rows)
            codes = Cat(*(data_a.codes[row].as_value() for row in mine))
            scales = self._scales(data_a, mine)
            flags = delayed(m, en, f"token_{i}_skew", token.as_value(), i, reset=True)
            skewed = delayed(m, en, f"a_{i}_skew", Cat(codes, scales), i)
            for j, unit in enumerate(line):
                place(m, platform, f"pu_{i}_{j}", unit)
                m.d.comb += [unit.en.eq(en)]
                entrance = Cat(unit.token.as_value(), unit.operand("a"))
                if j == 0:
                    entering = self._entering(m, platform, "a", i, en, flags, skewed, len(codes))
                    m.d.comb += entrance.eq(Cat(flags, entering))
                else:
                    left = line[j - 1]
                    m.d.comb += entrance.eq(
                        Cat(left.token_next.as_value(), left.operand("a", "_next"))
                    )
        for j in range(self.pu_columns):
            columns = range(j * self.columns, (j + 1) * self.columns)
            codes = Cat(*(data_w.codes[column].as_value() for column in columns))
            scales = self._scales(data_w, columns)
            skewed = delayed(m, en, f"w_{j}_skew", Cat(codes, scales), j)
            for i in range(self.pu_rows):
                unit = units[i][j]
                entrance = unit.operand("w")
                if i == 0:
                    entering = self._entering(
                        m, platform, "w", j, en, unit.token.as_value(), skewed, len(codes)
                    )
                    m.d.comb += entrance.eq(entering)
                else:
                    m.d.comb += entrance.eq(units[i - 1][j].operand("w", "_next"))
        return units

    def _scales(self, tdata: Any, lines: range) -> Value:
        """Scale bytes of some rows or columns; nothing with `bf16`."""
        if self._pu_parameters["format"] is None:
            return Cat()
        return Cat(*(tdata.scales[line] for line in lines))

    def _entering(
        self,
        m: Module,
        platform: object,
        side: Side,
        line: int,
        en: Signal,
        flags: Value,
        beat: Value,
        code_bits: int,
    ) -> Value:
        """What a line of sub-matrix units takes for the codes and scales of a beat."""
        codes, scales = beat[:code_bits], beat[code_bits:]
        elements = self._elements(m, platform, side, line, codes)
        return Cat(elements, self._guarded(m, platform, side, line, en, flags, codes, scales))

    def _elements(self, m: Module, platform: object, side: Side, line: int, codes: Value) -> Value:
        """What the sub-matrix units take for codes: decoded operands of floats with `exact`."""
        fmt: MXFormat | None = self._pu_parameters["format"]
        if self.parameters["arithmetic"] != "exact" or fmt is None:
            return codes
        if not isinstance(fmt.element, FloatFormat):
            return codes
        decode = LaneDecoder(
            format=fmt,
            side=None if self._pu_parameters["dsp"] else side,
            count=len(codes) // fmt.element.width,
        )
        place(m, platform, f"decode_{side}_{line}", decode)
        m.d.comb += decode.codes.as_value().eq(codes)
        return decode.operands.as_value()

    def _guarded(
        self,
        m: Module,
        platform: object,
        side: Side,
        line: int,
        en: Signal,
        flags: Value,
        codes: Value,
        scales: Value,
    ) -> Value:
        """The scales, NaN for blocks with codes for NaN or Inf if the format has such codes."""
        fmt: MXFormat | None = self._pu_parameters["format"]
        if fmt is None or not has_special_codes(fmt):
            return scales
        guard = SpecialCodes(
            format=fmt,
            lanes=self._pu_parameters["lanes"],
            count=len(scales) // E8M0.width,
            held=self.parameters["arithmetic"] == "exact",
        )
        place(m, platform, f"special_{side}_{line}", guard)
        if guard.clocked:
            token = Token(flags)
            m.d.comb += [
                guard.en.eq(en),
                guard.valid.eq(token.valid),
                guard.first.eq(token.first),
            ]
        m.d.comb += [
            guard.codes.as_value().eq(codes),
            guard.scales.as_value().eq(scales),
        ]
        return guard.guarded.as_value()

    def _collect(self, m: Module, en: Signal, units: list[list[PU]]) -> None:
        """Pick up whole array rows as the sub-matrix units show them.

        A line shows its rows a clock after the line above it, and takes at least as long from row
        to row as there are lines: so no two lines of a column are ever done together.
        """
        columns = []
        for j in range(self.pu_columns):
            row = gated_or((line[j].done, line[j].results.as_value()) for line in units)
            columns.append(delayed(m, en, f"c_{j}_skew", row, self.pu_columns - j))
        done = Cat(line[-1].done for line in units).any()
        valid = delayed(m, en, "c_valid", done, 1, reset=True)
        row_number = Signal(range(max(self.array_rows, 2)))
        last = named(m, "is_last_row", 1, row_number == self.array_rows - 1)
        with m.If(en & valid):
            m.d.sync += row_number.eq(Mux(last, 0, row_number + 1))
        m.d.comb += [
            self.m_axis_c_tdata.as_value().eq(Cat(*columns)),
            self.m_axis_c_tvalid.eq(valid),
            self.m_axis_c_tlast.eq(last),
        ]
