"""From a run of words in memory to the bursts of AXI4 that read or write it."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out, connect, flipped

from mxsafe.rtl.arithmetic.bits import named, noted, truncated, update
from mxsafe.rtl.machine.axi import ADDRESS_BITS, require_burst
from mxsafe.rtl.stream.register_slice import sliced
from mxsafe.rtl.timing import Target, at
from mxsafe.rtl.unit import Configuration, Ports, Unit
from mxsafe.validation import PositiveInteger, PowerOfTwo


class BurstSplitterConfiguration(Configuration):
    """A `BurstSplitter`.

    Parameters
    ----------
    beat_bytes : int
        Bytes of a beat on the data channel, a power of two.
    burst : int
        Most beats of a burst: a power of two up to 256, and no more than 4 KiB.
    beats_bits : int
        Bits of the number of beats of a run.
    target : {"asic", "fpga"}
        For an FPGA a burst leaves through a register every second cycle at most, and a run comes
        when the one before has left it.
    """

    beat_bytes: PowerOfTwo = 32
    burst: int = 32
    beats_bits: PositiveInteger = 12
    target: Target = "asic"

    def __post_init__(self) -> None:
        self._set(burst=require_burst("burst", self.burst, self.beat_bytes))

    @property
    def latency(self) -> int:
        """Cycles from a run to its first burst."""
        return 1 + at(self, "burst")

    @property
    def run(self) -> data.StructLayout:
        """A run: its first beat in memory, number of beats, and what its last burst carries."""
        first_bits = ADDRESS_BITS - (self.beat_bytes.bit_length() - 1)
        return data.StructLayout({"first": first_bits, "beats": self.beats_bits, "last": 1})

    @property
    def bursts(self) -> data.StructLayout:
        """A burst: address, beats after the first one, and whether it ends a run with `last`."""
        return data.StructLayout(
            {"address": ADDRESS_BITS, "more": range(max(self.burst, 2)), "last": 1}
        )


class BurstSplitter(Unit[BurstSplitterConfiguration]):
    """Runs of beats in memory, cut into bursts that end where addresses are multiples of a burst.

    A burst of the longest size divides 4 KiB, so that no burst crosses such an address. Only the
    first and the last burst of a run are shorter than the longest. A run ends below 2^64.

    Attributes
    ----------
    run : In(stream)
        ``first``: address of the first beat, in beats. ``beats``: 1 or more. ``last``: what the
        last burst carries.
    burst : Out(stream)
        ``address``: the first byte. ``more``: beats after the first one. ``last``.
    """

    def ports(self) -> Ports:
        config = self.config
        return {
            "run": In(stream.Signature(config.run)),
            "burst": Out(stream.Signature(config.bursts)),
        }

    def fill(self, m: Module, platform: object) -> None:
        config = self.config
        byte_bits = config.beat_bytes.bit_length() - 1
        place_bits = config.burst.bit_length() - 1  # of a beat between two ends of bursts
        offset_bits = byte_bits + place_bits
        active = Signal(name="is_active")
        half = (ADDRESS_BITS - offset_bits) // 2
        low = Signal(half, name="lower_address", reset_less=True)
        high = Signal(ADDRESS_BITS - offset_bits - half, name="upper_address", reset_less=True)
        upper = Cat(low, high)
        place = Signal(place_bits, name="place", reset_less=True)
        left = Signal(config.beats_bits, name="beats_left", reset_less=True)
        last = Signal(name="run_is_last", reset_less=True)
        noted(low, "Addresses in two halves: no chain of carries goes through both.")
        room = noted(
            named(m, "room", place_bits + 1, Const(config.burst, place_bits + 1) - place),
            "Beats up to the next multiple of the longest burst: cut there, a burst never crosses "
            "4 KiB, which AXI forbids.",
        )
        ends = named(m, "run_ends", 1, left <= room)
        more_room = named(m, "more_to_end", place_bits, ~place)
        more_left = truncated(m, "more_left", place_bits, (left - 1).as_unsigned())
        more = Mux(ends, more_left, more_room) if place_bits else Const(0, 1)
        burst = self.burst
        if at(config, "burst"):
            burst = self.burst.signature.create(path=("cut",))
            connect(m, sliced(m, platform, "slice", burst, halved=True), flipped(self.burst))
        m.d.comb += [
            burst.valid.eq(active),
            burst.payload.address.eq(Cat(Const(0, byte_bits), place, upper)),
            burst.payload.more.eq(more),
            burst.payload.last.eq(last & ends),
        ]
        taken = named(m, "burst_taken", 1, active & burst.ready)
        if at(config, "burst"):
            # Whether a run ends takes long to say, and many registers take the next one.
            m.d.comb += self.run.ready.eq(~active)
            m.d.sync += active.eq(Mux(active, ~(burst.ready & ends), self.run.valid))
        else:
            m.d.comb += self.run.ready.eq(~active | (burst.ready & ends))
            update(m, active, (self.run.ready, self.run.valid))
        next_left = truncated(m, "next_left", len(left), (left - room).as_unsigned())
        next_low = truncated(m, "next_lower", half, low + 1)
        next_high = truncated(m, "next_upper", len(high), high + 1)
        carries = named(m, "lower_is_full", 1, low.all())
        with m.If(self.run.ready & self.run.valid):
            first = self.run.payload.first
            m.d.sync += [
                place.eq(first[:place_bits]),
                upper.eq(first[place_bits:]),
                left.eq(self.run.payload.beats),
                last.eq(self.run.payload.last),
            ]
        with m.Elif(taken):
            m.d.sync += [place.eq(0), low.eq(next_low), left.eq(next_left)]
            update(m, high, (carries, next_high))
