"""Operands of products out of their buffers: tile by tile, a beat of both sides a cycle."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Member, Out

from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.rtl.arithmetic.bits import any_of, kept, named, noted, truncated, update
from mxsafe.rtl.mac.operand import SIDES, Side
from mxsafe.rtl.machine.control.queues import descriptor_layout
from mxsafe.rtl.machine.gemm.anchor_scan import AnchorScan, AnchorScanConfiguration
from mxsafe.rtl.machine.gemm.strip_walk import strip_address
from mxsafe.rtl.machine.part import PartConfiguration
from mxsafe.rtl.timing import at, held
from mxsafe.rtl.unit import Ports, Unit, place

_GEMM = descriptor_layout("gemm")
_STRIDES = {
    "a_codes": "a_stride",
    "a_scales": "a_scale_stride",
    "w_codes": "w_stride",
    "w_scales": "w_scale_stride",
}


class OperandFeedConfiguration(PartConfiguration, eq=False):
    """An `OperandFeed`.

    For an FPGA whose array takes a beat in two cycles or more, what depends on the loops'
    state is known from registers (`paced`); in four, what is read is told from registers, too, a
    cycle later. For an array that wants `anchors` it has these for so many rows.
    """

    shown_if_not_default = frozenset({"target", "paced", "later", "anchors"})

    decided_by = ("a_beats", "w_beats", "a_entries", "w_entries", "target")

    @classmethod
    def sizes(cls, machine: MachineConfiguration) -> dict[str, Any]:
        """Buffers of operands, the target, whether beats come so slowly, and anchors."""
        parts = machine.array_parts if at(machine, "pause", of="OperandFeed") else 1
        return {
            **super().sizes(machine),
            "paced": parts > 1,
            "later": parts > 2,
            "anchors": machine.rows if machine.anchored else 0,
        }

    @property
    def paced(self) -> bool:
        """Whether two beats are two cycles apart at least."""
        return bool(self.decisive["paced"])

    @property
    def later(self) -> bool:
        """Whether what is read is told a cycle later."""
        return bool(self.decisive["later"])

    @property
    def anchors(self) -> AnchorScanConfiguration | None:
        """Configuration of the unit that finds anchors, if there are any."""
        return AnchorScanConfiguration(machine=self.machine) if self.decisive["anchors"] else None

    @property
    def latency(self) -> int:
        """Cycles from a descriptor until the memories show its first beat, without anchors.

        With anchors it takes a cycle more for each block of a tile.
        """
        return 2 + self.paced + self.later

    @property
    def reads_anything(self) -> bool:
        """Whether memories are read at addresses outside, too: nobody sees what they show then."""
        return bool(at(self, "pause")) and not self.paced

    def depth(self, side: Side, kind: str) -> int:
        """Entries of a memory: of the ``codes`` or the ``scales`` of a side."""
        return int(getattr(self.machine, f"{side}_{'beats' if kind == 'codes' else 'entries'}"))


class OperandFeed(Unit[OperandFeedConfiguration]):
    """Strided iterator over both operands' strips: it reads a beat of each a cycle, without gaps.

    The strips of `a` are the inner loop. The beat is what the memories show: a beat that is not
    taken stays because nothing is read. The next descriptor enters in the cycle in which the last
    address of the one before is used, or for an FPGA in the cycle behind it.

    Without scales there are no blocks: `block_last` comes with `last`. Scales are read for the
    first beat of a block and stay in the register of their memory. With
    anchors they are read for its last one, which is the only one whose scales the array takes:
    meanwhile an `AnchorScan` reads those of the next tile.

    Attributes
    ----------
    valid, ready, descriptor : In, Out, In
        A descriptor of the GEMM queue.
    has_room : In(1)
        Another one may enter.
    enters : Out(1)
        One does.
    a_codes_en, a_codes_address, a_scales_en... : Out
        What is read of the four memories.
    beat_valid, beat_ready : Out, In
        The memories show beats and the scales of their blocks; `later` from the next cycle on.
    first, block_last, last : Out(1)
        The beat starts a tile from 0, ends a block, ends a tile.
    fault : Out(1)
        The next beat or its scales would be outside their buffer: nothing more comes.
    a_entry, w_entry : In(array of 8)
        With anchors: what the memories of scales show.
    a_anchors, w_anchors : Out(array of 8)
        With anchors: those of the tile of the beat.
    """

    def ports(self) -> Ports:
        config = self.config
        memories: dict[str, Member] = {}
        for side in SIDES:
            for kind in config.kinds:
                memories[f"{side}_{kind}_en"] = Out(1)
                memories[f"{side}_{kind}_address"] = Out(range(config.depth(side, kind)))
        flags = ("beat_valid", "first", "block_last", "last", "fault")
        anchors: dict[str, Member] = {}
        if config.anchors is not None:
            for side in SIDES:
                anchors[f"{side}_entry"] = In(config.anchors.scales)
                anchors[f"{side}_anchors"] = Out(config.anchors.scales)
        return {
            "valid": In(1),
            "ready": Out(1),
            "descriptor": In(_GEMM),
            "has_room": In(1),
            "enters": Out(1),
            **memories,
            "beat_ready": In(1),
            **{name: Out(1) for name in flags},
            **anchors,
        }

    def fill(self, m: Module, platform: object) -> None:
        loops = self._loop(m)
        scan = None if self.config.anchors is None else AnchorScan(self.config.anchors)
        outside = [
            self._walk(m, side, kind, loops, scan) for side in SIDES for kind in self.config.kinds
        ]
        is_outside = self._steady(m, named(m, "is_outside", 1, Cat(outside).any()))
        moves: Value = named(m, "moves", 1, ~self.beat_valid | self.beat_ready)
        may_go = moves
        if scan is not None:
            place(m, platform, "scan", scan)
            self._connect_scan(m, scan, loops, moves)
            may_go = moves & (scan.is_known | ~loops.starts_tile)
        goes = loops.active
        if self.config.paced:
            goes = held(m, "settled", loops.active & ~loops.goes_on, reset=True)
        m.d.comb += [
            loops.goes_on.eq(goes & may_go & ~is_outside),
            self.fault.eq(goes & is_outside),
        ]
        if self.config.reads_anything:
            m.d.comb += loops.reads.eq(goes & moves)
        update(m, self.beat_valid, (moves, loops.goes_on))
        with m.If(loops.goes_on):
            m.d.sync += [
                self.first.eq(loops.starts_tile & loops.clear),
                self.block_last.eq(loops.ends_block),
                self.last.eq(loops.ends_tile),
            ]

    def _steady(self, m: Module, flag: Signal) -> Value:
        """A flag of the loops' state: from a register if there are two cycles for it."""
        return held(m, f"{flag.name}_held", flag, self.config.paced)

    def _loop(self, m: Module) -> "_Loops":
        """Count beats, blocks and strips, and let descriptors in."""
        loops = _Loops()
        goes_on, descriptor = loops.goes_on, self.descriptor
        # When each loop steps, and when it begins again, which the outermost one never does.
        turns: dict[str, tuple[Value, Value | None]] = {
            "beats": (goes_on, loops.ends_tile),
            "block": (goes_on, loops.ends_block),
            "strips_a": (goes_on & loops.ends_tile, loops.ends_inner),
            "strips_w": (goes_on & loops.ends_tile & loops.ends_inner, None),
        }
        if not self.config.machine.scaled:
            del turns["block"]
        last = {}
        for name, (step, ends) in turns.items():
            width = _GEMM[name].width
            left = Signal(width, name=f"{name}_left", reset_less=True)
            noted(
                left, "Turns of a loop that are left with this one; the innermost loop is of beats."
            )
            less = truncated(m, f"{name}_less_1", width, left - 1)
            following: Value = less
            if ends is not None:
                following = Mux(ends, kept(m, self.enters, name, descriptor[name]), less)
            update(m, left, (self.enters, descriptor[name]), (step, following))
            last[name] = self._steady(m, named(m, f"is_last_of_{name}", 1, left == 1))
        m.d.comb += [
            loops.ends_tile.eq(last["beats"]),
            loops.ends_block.eq(any_of(last[one] for one in ("block", "beats") if one in last)),
            loops.ends_inner.eq(last["strips_a"]),
            loops.ends_all.eq(last["beats"] & last["strips_a"] & last["strips_w"]),
        ]
        is_done = named(m, "is_done", 1, goes_on & loops.ends_all)
        is_late = at(self.config, "pause")
        m.d.comb += [
            self.ready.eq(self.has_room & (~loops.active if is_late else ~loops.active | is_done)),
            self.enters.eq(self.valid & self.ready),
        ]
        m.d.sync += loops.active.eq(self.enters | (loops.active & ~is_done))
        with m.If(self.enters):
            m.d.sync += [
                loops.starts_tile.eq(1),
                loops.starts_block.eq(1),
                loops.clear.eq(descriptor.clear),
            ]
        with m.Elif(goes_on):
            m.d.sync += [
                loops.starts_tile.eq(loops.ends_tile),
                loops.starts_block.eq(loops.ends_block),
            ]
        return loops

    def _connect_scan(self, m: Module, scan: AnchorScan, loops: "_Loops", moves: Value) -> None:
        """Find anchors of tiles to come while scales are not read for beats."""
        m.d.comb += [
            scan.enters.eq(self.enters),
            scan.descriptor.as_value().eq(self.descriptor.as_value()),
            scan.is_free.eq(moves & ~(loops.goes_on & loops.ends_block)),
            scan.begins.eq(loops.goes_on & loops.starts_tile),
        ]
        for side in SIDES:
            m.d.comb += [
                getattr(scan, f"{side}_scales").eq(getattr(self, f"{side}_entry")),
                getattr(self, f"{side}_anchors").eq(getattr(scan, f"{side}_anchors")),
            ]

    def _walk(
        self, m: Module, side: Side, kind: str, loops: "_Loops", scan: AnchorScan | None
    ) -> Value:
        """Addresses of a memory; return whether the next one would be outside of it."""
        name = f"{side}_{kind}"
        address = getattr(self, f"{name}_address")
        is_used: Value = Const(1, 1)
        moves_on: Value = is_used
        if kind == "scales":
            # Scales are read once a block.
            is_used = loops.starts_block if scan is None else loops.ends_block
            moves_on = loops.ends_block
        now = strip_address(
            m,
            name,
            side,
            (self.descriptor[name], self.descriptor[_STRIDES[name]]),
            enters=self.enters,
            moves_on=loops.goes_on & moves_on,
            ends_strip=loops.goes_on & loops.ends_tile,
            ends_inner=loops.ends_inner,
        )
        domain = m.d.sync if self.config.later else m.d.comb
        # What is outside is never shown, and memories are far from where that is found out.
        reads = (loops.reads if self.config.reads_anything else loops.goes_on) & is_used
        place_read: Value = now[: len(address)]
        if kind == "scales" and scan is not None:
            # Both never read in the same cycle.
            scans = getattr(scan, f"{side}_en")
            place_read = Mux(reads, place_read, getattr(scan, f"{side}_address"))
            reads = reads | scans
        domain += [getattr(self, f"{name}_en").eq(reads), address.eq(place_read)]
        return named(m, f"{name}_is_outside", 1, is_used & (now >= self.config.depth(side, kind)))


class _Loops:
    """State of the loops: signals that its parts share."""

    def __init__(self) -> None:
        self.active = Signal(name="active")
        self.goes_on = Signal(name="goes_on")
        self.reads = Signal(name="reads")
        self.clear = Signal(name="clear", reset_less=True)
        self.starts_tile, self.starts_block = (
            Signal(name=f"starts_{what}", reset_less=True) for what in ("tile", "block")
        )
        self.ends_tile, self.ends_block, self.ends_inner, self.ends_all = (
            Signal(name=f"ends_{what}") for what in ("tile", "block", "inner_loop", "all")
        )
