"""Full adders side by side: three numbers become two, without a chain of carries."""

from amaranth.hdl import Module
from amaranth.lib.wiring import In, Out

from mxsafe.rtl.arithmetic.bits import noted
from mxsafe.rtl.unit import Configuration, Ports, Unit
from mxsafe.validation import Alike

FULL_ADDERS = "full_adders"
"""How names of these modules begin."""


class FullAddersConfiguration(Configuration):
    """A `FullAdders`.

    Parameters
    ----------
    bits : int
        Full adders: bits of each number.
    """

    bits: Alike = 25


class FullAdders(Unit[FullAddersConfiguration]):
    """Three numbers as two: ``a + b + c == sums + 2 * carries``. Combinational.

    A module of its own, so that synthesis for standard cells can put a full adder cell of the
    library in the place of each bit. A cell has no inner nets that glitches charge.

    Attributes
    ----------
    a, b, c : In(bits)
        Numbers that are added.
    sums, carries : Out(bits)
        Two numbers of the same sum; a carry weighs twice as much.
    """

    def ports(self) -> Ports:
        bits = self.config.bits
        return {
            **{name: In(bits) for name in ("a", "b", "c")},
            **{name: Out(bits) for name in ("sums", "carries")},
        }

    def fill(self, m: Module, platform: object) -> None:
        noted(self.carries, "Weighs twice as much as sums: whoever adds them shifts it.")
        m.d.comb += [
            self.sums.eq(self.a ^ self.b ^ self.c),
            self.carries.eq((self.a & self.b) | (self.c & (self.a | self.b))),
        ]
