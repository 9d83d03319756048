"""Addresses of entries that follow one another in rows, of which each begins a stride further."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from mxsafe.rtl.arithmetic.bits import named, noted, update
from mxsafe.rtl.unit import Configuration, Ports, Unit
from mxsafe.validation import PositiveInteger


class RowAddressGeneratorConfiguration(Configuration):
    """A `RowAddressGenerator`.

    Parameters
    ----------
    depth : int
        Entries that there are.
    address_bits, stride_bits : int
        Bits of an address, and of what lies between two rows; a stride is no wider.
    later : bool
        `outside` is said from a register, a cycle after the address.

    Raises
    ------
    ValueError
        If a parameter is not as above, or the entries need more bits than an address has.
    """

    shown_if_not_default = frozenset({"later"})

    depth: PositiveInteger = 2048
    address_bits: PositiveInteger = 14
    stride_bits: PositiveInteger = 14
    later: bool = False

    def __post_init__(self) -> None:
        if self.stride_bits > self.address_bits:
            raise ValueError(
                f"stride_bits must be at most address_bits {self.address_bits}, "
                f"not {self.stride_bits}"
            )
        if self.depth > 1 << self.address_bits:
            raise ValueError(
                f"depth must be at most {1 << self.address_bits} with addresses of "
                f"{self.address_bits} bits, not {self.depth}"
            )

    latency = 1
    """Cycles from `start` to the first address."""


class RowAddressGenerator(Unit[RowAddressGeneratorConfiguration]):
    """One address after the other; an adder takes a step within a row, or from row to row.

    Attributes
    ----------
    start : In(1)
        The first address is `origin`.
    origin : In(address_bits)
        Where the first row begins.
    stride : In(stride_bits)
        From where a row begins to where the next one does.
    step : In(1)
        The address has been used.
    ends_row : In(1)
        What follows is the next row.
    address : Out
        An entry, if it is not `outside`.
    outside : Out(1)
        There is no such entry. An address that has left the range of its bits does not return.
    """

    def ports(self) -> Ports:
        config = self.config
        return {
            "start": In(1),
            "origin": In(config.address_bits),
            "stride": In(config.stride_bits),
            "step": In(1),
            "ends_row": In(1),
            "address": Out(range(config.depth)),
            "outside": Out(1),
        }

    def fill(self, m: Module, platform: object) -> None:
        bits = self.config.address_bits
        here = Signal(bits + 1, name="here", reset_less=True)
        row = Signal(bits + 1, name="row", reset_less=True)
        from_here = named(m, "from_here", bits + 1, Mux(self.ends_row, row, here))
        distance = named(m, "distance", bits, Mux(self.ends_row, self.stride, 1))
        total = named(m, "total", bits + 2, from_here + distance)
        following = named(m, "following", bits + 1, Cat(total[:bits], total[bits:].any()))
        noted(following, "A bit more than an address has: once it is set it stays.")
        with m.If(self.start):
            m.d.sync += [here.eq(self.origin), row.eq(self.origin)]
        with m.Elif(self.step):
            m.d.sync += here.eq(following)
            update(m, row, (self.ends_row, following))
        m.d.comb += self.address.eq(here[: len(self.address)])
        domain = m.d.sync if self.config.later else m.d.comb
        domain += self.outside.eq(here >= self.config.depth)
