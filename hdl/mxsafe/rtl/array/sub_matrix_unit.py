"""The sub-matrix unit: MACs side by side and the accumulators behind them (paper, Fig. 5b)."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from amaranth.hdl import Cat, Module, ShapeLike, Value, unsigned
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.rtl.arithmetic.bits import delayed, gated_or, kept, named, noted
from mxsafe.rtl.arithmetic.register_copy import RegisterCopy
from mxsafe.rtl.array.arithmetic import Arithmetic, Completion, EnteredBeat
from mxsafe.rtl.array.shape import UnitShape
from mxsafe.rtl.array.token import Token
from mxsafe.rtl.mac.operand import SIDES, Side
from mxsafe.rtl.unit import Configuration, Ports, Unit, place
from mxsafe.validation import Alike


class SubMatrixUnitConfiguration(Configuration):
    """A `SubMatrixUnit`.

    Parameters
    ----------
    shape : UnitShape
        Its size.
    row_interval : int, optional
        Enabled cycles from one row of a tile's results to the next, by default as many as there are
        columns: as often as a single accumulator completes a row. Others hold rows back in
        registers. At least as many as sub-matrix units stand above each other.
    arithmetic : Arithmetic
        `Fp12`, `Exact`, `Window` or `Bf16`.

    Raises
    ------
    ValueError
        If the arithmetic does not work with the shape; the message gives the numbers.
    """

    shape: UnitShape = field(default_factory=UnitShape)
    row_interval: Alike | None = None
    arithmetic: Arithmetic

    def __post_init__(self) -> None:
        self._settle(row_interval=self.row_steps)
        self._set(arithmetic=self.arithmetic.settled(self.shape))

    @property
    def base(self) -> str:
        return self.arithmetic.base("pu")

    @property
    def row_steps(self) -> int:
        """MACs of a row: so many cycles take the results of one where they come one by one."""
        return self.shape.columns // self.arithmetic.turns

    @property
    def by_row(self) -> bool:
        """Whether rows leave as they complete, and need no registers."""
        in_time = self.row_interval == self.row_steps
        return in_time and self.arithmetic.completes_rows(self.shape)

    @property
    def block_cycles(self) -> int:
        """Least number of cycles from the end of a block to the end of the next."""
        return self.arithmetic.block_cycles(self.shape)

    def operands(self, side: Side) -> list[str]:
        """Names of the ports of codes: those of groups of lanes, where MACs have several.

        MACs that serve several columns have as many times more lanes, and are as many times fewer.
        """
        groups = self.arithmetic.groups
        return [side] if groups == 1 else [f"{side}_{group}" for group in range(groups)]

    @property
    def latency(self) -> int:
        """Enabled cycles from the last beat of a tile until `done`."""
        return 1 + self.arithmetic.latency(self.shape, by_row=self.by_row)

    @property
    def properties(self) -> Mapping[str, Any]:
        """The least distance of blocks' ends."""
        return {"block_cycles": self.block_cycles}


class SubMatrixUnit(Unit[SubMatrixUnitConfiguration]):
    """``rows x columns`` MACs with binary32 accumulators.

    Operands are registered at the entrance, broadcast to the MACs and handed on to the next
    sub-matrix unit one cycle later. Results of a finished tile leave row by row while the next tile
    computes. Where one accumulator serves all MACs, it completes them row by row anyway, and the
    row is there on the last registers of its ring; else all are complete together, and all rows but
    the first are copied and held until their turn. For an FPGA the MACs take operands from their
    own registers, a cycle behind the entrance.

    With `Exact` and `Window` only flags are reset.

    Where a MAC serves several columns (`Arithmetic.turns`) operands of a row stay for as many
    cycles, in which the columns have their turns, and the MAC has lanes for as many beats. With
    `Window` it has a group of lanes for each, and `phase` tells which of them the beat of this
    cycle is for; so a group works on one beat while the next group works on the one behind it.
    `a_0` and `w_0`, `a_1`... are operands of the groups: those of `w` are of the column whose turn
    it is. With `Exact` the beats of a round come together, in its last phase, when the first column
    has its turn. Scales and anchors are those of all columns. Lanes without a beat are given zeros.

    Attributes
    ----------
    en : In(1)
        Clock enable of every register.
    token, a, w, scale_a, scale_w : In
        A beat: flags, elements of the rows and columns, and the scale byte of each, if there are
        scales. Elements are codes; with `Exact` and `Window` they are what `OperandDecoder` makes
        of them, once for the whole array, unless both operands are integers. With `Window` a scale
        is its distance from the anchor, see `ScaleDistances`.
    anchor_a, anchor_w : In
        With `Window`: the anchor of each row and column, which counts with a tile's last beat.
    scale_offset : In
        What the exponents of a block lack, with formats chosen at run time.
    token_next, a_next, w_next, scale_a_next, scale_w_next, scale_offset_next, ... : Out
        The same, one cycle later, for the neighbours.
    done : Out(1)
        `results` is a row of a finished tile: row 0 first, another every `row_interval` enabled
        cycles.
    results : Out(array of 32)
        One row; anything while not `done`.

    Notes
    -----
    With `Exact` a MAC needs its accumulator once a block, so few accumulators serve many MACs: one
    is the least that keeps the full rate for 1x64 blocks (a block lasts 16 beats), eight for 8x8
    tiles (two beats), or one for each MAC that serves two columns. Figures are in
    ``docs/synthesis.md``, what was tried in ``docs/experiments.md``.
    """

    synthesised_once = True

    def ports(self) -> Ports:
        beat = self._beat_shapes()
        return {
            "en": In(1),
            **{name: In(shape) for name, shape in beat.items()},
            **{f"{name}_next": Out(shape) for name, shape in beat.items()},
            "done": Out(1),
            "results": Out(data.ArrayLayout(32, self.config.shape.columns)),
        }

    def _beat_shapes(self) -> dict[str, ShapeLike]:
        shape, arithmetic = self.config.shape, self.config.arithmetic
        counts = {"a": shape.rows, "w": shape.columns}
        macs = {"a": shape.rows, "w": self.config.row_steps}
        beat: dict[str, ShapeLike] = {"token": Token}
        if arithmetic.turns > 1:
            beat["phase"] = range(arithmetic.turns)
        for side in SIDES:
            lanes = data.ArrayLayout(
                arithmetic.operand_shape(side), arithmetic.group_lanes(shape.lanes)
            )
            for name in self.config.operands(side):
                beat[name] = data.ArrayLayout(lanes, macs[side])
        for side in SIDES:
            distances = arithmetic.distances(counts[side])
            width = distances.distance_bits if distances else arithmetic.scale_width(side)
            if width:
                beat[f"scale_{side}"] = data.ArrayLayout(width, counts[side])
        for side in SIDES:
            if width := arithmetic.anchor_width(side):
                beat[f"anchor_{side}"] = data.ArrayLayout(width, counts[side])
        if arithmetic.offset_width:
            beat["scale_offset"] = unsigned(arithmetic.offset_width)
        return beat

    def operand(self, side: Side, suffix: str = "") -> Value:
        """One operand at the entrance, or with ``_next`` at the exit, with scales and anchors.

        What the exponents of blocks lack goes along with `a`, and so does the phase.
        """
        names = [*self.config.operands(side), f"scale_{side}", f"anchor_{side}"]
        names += ["phase", "scale_offset"] if side == "a" else []
        present = self._beat_shapes()
        return Cat(
            Value.cast(getattr(self, f"{name}{suffix}")) for name in names if name in present
        )

    def fill(self, m: Module, platform: object) -> None:
        shape, arithmetic = self.config.shape, self.config.arithmetic
        beat = self._enter(m)
        groups = [
            (getattr(self, f"{a}_next"), self._copies_of_w(m, platform, getattr(self, f"{w}_next")))
            for a, w in zip(self.config.operands("a"), self.config.operands("w"), strict=True)
        ]
        # Decoded once at the edge of the array: one decoder serves every MAC of a row or column.
        macs: list[Unit[Any]] = []
        for row in range(shape.rows):
            operands = [(a[row].as_value(), operands_w[row]) for a, operands_w in groups]
            if arithmetic.runs_free:
                operands = [(delayed(m, self.en, f"a_{row}_near", a, 1), w) for a, w in operands]
            for column in range(self.config.row_steps):
                for group, (a, w) in enumerate(operands):
                    mac = arithmetic.build_mac(arithmetic.group_lanes(shape.lanes))
                    name = f"mac_{row}_{column}{f'_{group}' * (len(groups) > 1)}"
                    place(m, platform, name, mac, reset=False)
                    m.d.comb += [
                        mac.en.eq(self.en),
                        mac.a.as_value().eq(a),
                        mac.w.as_value().eq(w[column].as_value()),
                    ]
                    macs.append(mac)
        arithmetic.multiply(m, platform, en=self.en, macs=macs, shape=shape)
        completion = arithmetic.accumulate(
            m, platform, beat=beat, macs=macs, shape=shape, by_row=self.config.by_row
        )
        # A ring of accumulators shows a row at a time by itself.
        if self.config.by_row:
            m.d.comb += [
                self.done.eq(completion.done),
                self.results.as_value().eq(Cat(*completion.results)),
            ]
        else:
            self._hold_results(m, completion)

    def _copies_of_w(self, m: Module, platform: object, w: Any) -> list[Any]:
        """Operands of the columns, for each row of MACs.

        On an FPGA the DSP blocks lie in rows far from each other. So what MACs take comes from
        other registers than what goes on to the next unit, and from one near them.
        """
        shape, arithmetic = self.config.shape, self.config.arithmetic
        if not arithmetic.runs_free:
            return [w] * shape.rows
        copies: list[Any] = []
        for row in range(0, shape.rows, arithmetic.rows_together):
            near = RegisterCopy(bits=len(w.as_value()))
            place(m, platform, f"w_near_{row}", near, reset=False)
            m.d.comb += [near.en.eq(self.en), near.value.eq(w.as_value())]
            view = data.View(w.shape(), near.copy)
            copies += [view] * min(arithmetic.rows_together, shape.rows - row)
        return copies

    def _enter(self, m: Module) -> EnteredBeat:
        """Register a beat at the entrance."""
        scales: dict[Side, list[Value]] = {}
        anchors: dict[Side, list[Value]] = {}
        ends = named(m, "ends", 1, self.token.valid & (self.token.block_last | self.token.last))
        # By name the phase in which operands of a row are taken.
        held: dict[str, int] = {}
        arithmetic = self.config.arithmetic
        if arithmetic.turns > 1:
            # A single group takes a whole round of beats, with the last of them.
            before = arithmetic.turns - arithmetic.groups
            held = {name: before + group for group, name in enumerate(self.config.operands("a"))}
        for name in self._beat_shapes():
            stays = name.startswith("scale") and self.config.arithmetic.scales_stay
            enable = self.en
            if stays:
                enable = named(m, f"{name}_enters", 1, self.en & ends)
                noted(enable, "Scales are taken at the end of a block, and stay for all its steps.")
            if name.startswith("anchor"):
                ends_tile = self.token.valid & self.token.last
                enable = named(m, f"{name}_enters", 1, self.en & ends_tile)
            if name in held:
                enable = named(m, f"{name}_enters", 1, self.en & (self.phase == held[name]))
                noted(enable, "Operands of a row stay while the columns have their turns.")
            entered = delayed(
                m, enable, name, Value.cast(getattr(self, name)), 1, reset=name == "token"
            )
            m.d.comb += Value.cast(getattr(self, f"{name}_next")).eq(entered)
        for side in SIDES:
            if self.config.arithmetic.scale_width(side):
                scales[side] = list(getattr(self, f"scale_{side}_next"))
            if self.config.arithmetic.anchor_width(side):
                anchors[side] = list(getattr(self, f"anchor_{side}_next"))
        offset = self.scale_offset_next if self.config.arithmetic.offset_width else None
        phase = self.phase_next if self.config.arithmetic.turns > 1 else None
        return EnteredBeat(self.en, self.token_next, scales, offset, anchors, phase)

    def _hold_results(self, m: Module, completion: Completion) -> None:
        """Row 0 leaves at once, the others from copies, `row_interval` apart."""
        shape, interval = self.config.shape, self.config.row_interval
        assert interval is not None
        copies = named(m, "copies_rows", 1, self.en & completion.done)
        leaves = [completion.done]
        rows: list[Value] = [Cat(*completion.results[: shape.columns])]
        for row in range(1, shape.rows):
            name = f"row_{row}"
            leaves.append(delayed(m, self.en, name, leaves[-1], interval, reset=True))
            first = row * shape.columns
            row_held = Cat(*completion.results[first : first + shape.columns])
            rows.append(kept(m, copies, f"{name}_held", row_held))
            noted(
                rows[-1], "Accumulators go on with the next tile while the rows of this one leave."
            )
        m.d.comb += [
            self.done.eq(Cat(*leaves).any()),
            self.results.as_value().eq(gated_or(m, "row", zip(leaves, rows, strict=True))),
        ]
