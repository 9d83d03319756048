"""How far the scales of blocks are below the anchors of their rows or columns."""

from typing import Annotated

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.formats import E8M0
from mxsafe.rtl.arithmetic.bits import named, noted, update
from mxsafe.rtl.unit import Configuration, Ports, Unit
from mxsafe.validation import Alike, within


class ScaleDistancesConfiguration(Configuration):
    """A `ScaleDistances`.

    Parameters
    ----------
    distance_bits : int
        Bits of a distance, 1 to 8; larger distances are the largest of so many bits.
    count : int
        Rows or columns.
    """

    distance_bits: Annotated[int, within(1, E8M0.width)] = 5
    count: Alike = 4

    clocked = True
    """Whether the module has the ports ``clk`` and ``rst``."""


class ScaleDistances(Unit[ScaleDistancesConfiguration]):
    """Distances of scales from their anchors, and anchors that are NaN where a block is.

    It stands once at each edge of an array. A scale above its anchor, which a NaN scale is unless
    the anchor is one as well, makes NaN of the anchor until a tile starts.

    Attributes
    ----------
    en : In(1)
        Clock enable of every register.
    valid, first, ends : In(1)
        Flags of the beat: it holds operands, starts a tile, ends a block.
    scales, anchors : In(array of 8)
        E8M0 bytes of the rows or columns.
    distances : Out(array)
        ``anchors - scales``. Combinational, as is the next.
    guarded : Out(array of 8)
        The anchors, or 255 from the end of a block on whose scale is above its anchor.
    """

    def ports(self) -> Ports:
        config = self.config
        codes = data.ArrayLayout(E8M0.width, config.count)
        return {
            **{name: In(1) for name in ("en", "valid", "first", "ends")},
            "scales": In(codes),
            "anchors": In(codes),
            "distances": Out(data.ArrayLayout(config.distance_bits, config.count)),
            "guarded": Out(codes),
        }

    def fill(self, m: Module, platform: object) -> None:
        bits, count = self.config.distance_bits, self.config.count
        above = []
        for i in range(count):
            difference = named(
                m, f"difference_{i}", E8M0.width + 1, self.anchors[i] - self.scales[i]
            )
            above.append(difference[-1])
            far = named(m, f"is_far_{i}", 1, difference[bits:-1].any())
            noted(far, "Saturation: beyond the largest distance nothing of a block is left anyway.")
            m.d.comb += self.distances[i].eq(difference[:bits] | far.replicate(bits))
        ends = named(m, "block_ends", 1, self.valid & self.ends)
        now = named(m, "is_above", count, Cat(*above) & ends.replicate(count))
        earlier = Signal(count, name="above_before")
        here = noted(
            named(m, "above_so_far", count, now | Mux(self.first, 0, earlier)),
            "A scale above its anchor breaks the promise of the window: the anchor becomes NaN. "
            "The first beat of a tile forgets what came before it, not its own block.",
        )
        taken = named(m, "beat_taken", 1, self.en & self.valid)
        update(m, earlier, (taken, here))
        m.d.comb += [
            self.guarded[i].eq(self.anchors[i] | here[i].replicate(E8M0.width))
            for i in range(count)
        ]
