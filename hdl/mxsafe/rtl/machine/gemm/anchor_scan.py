"""Anchors of strips: the largest scales of their rows, found before a tile begins.

Tested by `verif/rtl/machine/gemm/test_operand_feed.py`.
"""

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Member, Out

from mxsafe.formats import E8M0
from mxsafe.rtl.arithmetic.bits import kept, named, noted, truncated, update
from mxsafe.rtl.mac.operand import SIDES, Side
from mxsafe.rtl.machine.control.queues import descriptor_layout
from mxsafe.rtl.machine.gemm.strip_walk import strip_address
from mxsafe.rtl.machine.part import PartConfiguration
from mxsafe.rtl.unit import Ports, Unit

_GEMM = descriptor_layout("gemm")


class AnchorScanConfiguration(PartConfiguration, eq=False):
    """An `AnchorScan`."""

    decided_by = ("rows", "a_entries", "w_entries")

    @property
    def clocked(self) -> bool:
        """It counts, though it has no latency of its own."""
        return True

    @property
    def scales(self) -> data.ArrayLayout:
        """Scales of the rows of a strip: an entry of a buffer of scales."""
        return data.ArrayLayout(E8M0.width, self.machine.rows)

    def entries(self, side: Side) -> int:
        """Entries of the buffer of a side's scales."""
        return int(getattr(self.machine, f"{side}_entries"))


class AnchorScan(Unit[AnchorScanConfiguration]):
    """Reads the scales of the next tile while the beats of the present one pass.

    The array wants a block's scale for its last beat alone, so the ports of the scales are free in
    all other cycles. With blocks of two beats or more all scales of a tile have been read when the
    one before it ends: none but the first tile of a descriptor waits for them, a cycle for each.
    So memory holds no anchors, and strips that were cut, transposed on the way or converted in
    parts have theirs all the same. To store an anchor beside each strip's scales would take a
    maximum in the converter in place of the ones here, and a register here.

    Attributes
    ----------
    enters, descriptor : In
        A descriptor, whose first tile is the next one. All tiles before it have begun.
    is_free : In(1)
        Nothing else is read of the scales in this cycle, and what they show is no longer needed.
    a_en, a_address, w_en, w_address : Out
        What is read of the scales. An entry outside is not: its tile comes to nothing.
    a_scales, w_scales : In(array of 8)
        What was read last.
    is_known : Out(1)
        All scales of the next tile have been read: it may begin.
    begins : In(1)
        It does.
    a_anchors, w_anchors : Out(array of 8)
        Those of the tile that has begun last, from the next cycle on.
    """

    def ports(self) -> Ports:
        config = self.config
        memories: dict[str, Member] = {}
        for side in SIDES:
            memories[f"{side}_en"] = Out(1)
            memories[f"{side}_address"] = Out(range(config.entries(side)))
            memories[f"{side}_scales"] = In(config.scales)
            memories[f"{side}_anchors"] = Out(config.scales)
        flags = {"enters": In(1), "is_free": In(1), "is_known": Out(1), "begins": In(1)}
        return {**flags, "descriptor": In(_GEMM), **memories}

    def fill(self, m: Module, platform: object) -> None:
        scans, follows = Signal(name="scans"), Signal(name="tile_follows", reset_less=True)
        noted(
            follows,
            "A tile that begins takes its anchors out of the registers that find them: in the same "
            "cycle the first scale of the tile after it is read.",
        )
        scanning = named(m, "is_scanning", 1, scans | (self.begins & follows))
        reads = named(m, "reads", 1, self.is_free & scanning)
        beats_end = self._turn(m, "beats", "block", reads)
        ends_strip = named(m, "ends_strip", 1, reads & beats_end)
        ends_inner = self._turn(m, "strips_a", None, ends_strip)
        ends_outer = self._turn(m, "strips_w", None, ends_strip & ends_inner)
        update(m, follows, (ends_strip, ~(ends_inner & ends_outer)))
        m.d.sync += [
            scans.eq(self.enters | (scanning & ~ends_strip)),
            self.is_known.eq(ends_strip | (self.is_known & ~self.begins)),
        ]
        arrives, anew = Signal(name="scale_arrives"), Signal(name="begins_anew", reset_less=True)
        m.d.sync += [
            arrives.eq(reads),
            anew.eq(self.enters | self.begins | (anew & ~arrives)),
        ]
        for side in SIDES:
            self._walk(m, side, reads, ends_strip, ends_inner)
            self._find(m, side, arrives, anew)

    def _turn(self, m: Module, field: str, step: str | None, turns: Value) -> Value:
        """Count down from a field of the descriptor, by another one or 1, again and again.

        Return whether it is the last turn.
        """
        bits = _GEMM[field].width
        begin, left = (
            Signal(bits, name=name, reset_less=True) for name in (field, f"{field}_left")
        )
        by: Value = Const(1, 1)
        if step is not None:
            by = kept(m, self.enters, step, self.descriptor[step])
        ends = named(m, f"is_last_of_{field}", 1, left <= by)
        less = truncated(m, f"{field}_less", bits, left - by)
        with m.If(self.enters):
            m.d.sync += [begin.eq(self.descriptor[field]), left.eq(self.descriptor[field])]
        with m.Elif(turns):
            m.d.sync += left.eq(Mux(ends, begin, less))
        return ends

    def _walk(
        self, m: Module, side: Side, reads: Value, ends_strip: Value, ends_inner: Value
    ) -> None:
        """Read the entries of a strip, then those of the strip of the next tile."""
        name = f"{side}_scales"
        now = strip_address(
            m,
            name,
            side,
            (self.descriptor[name], self.descriptor[f"{side}_scale_stride"]),
            enters=self.enters,
            moves_on=reads,
            ends_strip=ends_strip,
            ends_inner=ends_inner,
        )
        address = getattr(self, f"{side}_address")
        inside = named(m, f"{side}_is_inside", 1, now < self.config.entries(side))
        m.d.comb += [
            address.eq(now[: len(address)]),
            getattr(self, f"{side}_en").eq(reads & inside),
        ]

    def _find(self, m: Module, side: Side, arrives: Value, anew: Value) -> None:
        """Find the largest scale of each row; a tile that begins takes them along."""
        for row in range(self.config.machine.rows):
            scale = getattr(self, f"{side}_scales")[row]
            largest = Signal(E8M0.width, name=f"{side}_largest_{row}", reset_less=True)
            rises = named(m, f"{side}_rises_{row}", 1, arrives & (anew | (largest < scale)))
            found = named(m, f"{side}_found_{row}", E8M0.width, Mux(rises, scale, largest))
            m.d.sync += largest.eq(found)
            update(m, getattr(self, f"{side}_anchors")[row], (self.begins, found))
