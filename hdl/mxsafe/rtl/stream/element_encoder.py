"""The second half of a converter's lane: a normalised value, rounded to an element code."""

import functools
import operator

from amaranth.hdl import Cat, Const, Module, Mux, Value, signed
from amaranth.lib.wiring import In, Out

from mxsafe.formats import IntFormat, MXFormat
from mxsafe.rtl.arithmetic.bits import named
from mxsafe.rtl.stream.alignment import Alignment
from mxsafe.rtl.unit import Unit

__all__ = ["ElementEncoder"]


class ElementEncoder(Unit):
    """Binade and fraction to the nearest element code, ties to even, saturating. Combinational.

    The binade is counted as `Alignment` does, so that it is the exponent field of most codes. Codes
    grow with their values, so rounding up is adding one to the code, over the seam of MXSF too.
    What is needed is the code below the value, a guard bit and a sticky bit. Where the code ends in
    the fraction depends on the mode alone; only subnormals, two of MXSF's binades, are shifted.

    Parameters
    ----------
    format : MXFormat
        Format of the code.

    Attributes
    ----------
    sign : In(1)
    binade : In(signed)
        At most that of the largest element; from one below the lowest on the element is zero.
    fraction : In(mantissa bits + 2)
        As `FloatNormaliser` gives it.
    code : Out(width)

    Raises
    ------
    ValueError
        If the format does not suit a converter.
    """

    def __init__(self, *, format: MXFormat) -> None:
        self.alignment = Alignment.of(format)
        self._element = format.element
        super().__init__(
            {
                "sign": In(1),
                "binade": In(signed(self.alignment.binade_bits)),
                "fraction": In(self.alignment.mantissa_bits + 2),
                "code": Out(format.element.width),
            },
            module_name=f"{format.name}_encoder",
            parameters={"format": format.name},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        element, low_bits = self._element, self.alignment.low_bits
        width = element.width - 1
        # The code below the value, then guard and sticky.
        extended = self._subnormal(m)
        if self.alignment.top > 0:
            low_normal = Cat(self._shortened(low_bits), self.binade)[: width + 2]
            extended = Mux(self.binade > 0, low_normal, extended)
        if self.alignment.normals_from > 1:
            field = (self.binade - (self.alignment.normals_from - 1))[: width - self._mantissa]
            extended = Mux(
                self.binade >= self.alignment.normals_from, Cat(self.fraction, field), extended
            )
        extended = named(m, "extended", width + 2, extended)
        sticky, guard, below = extended[0], extended[1], extended[2:]
        at_top = named(m, "at_top", 1, below >= element.max_magnitude)
        increment = named(m, "increment", 1, guard & (sticky | below[0]) & ~at_top)
        rounded: Value = (below + increment)[:width]
        if element.max_magnitude + 1 < 1 << width:
            rounded = Mux(at_top, element.max_magnitude, rounded)
        magnitude = named(m, "magnitude", width, rounded)
        if isinstance(element, IntFormat):
            negated = (Cat(magnitude, Const(0, 1)) ^ self.sign.replicate(width + 1)) + self.sign
            m.d.comb += self.code.eq(negated[: width + 1])
        else:
            m.d.comb += self.code.eq(Cat(magnitude, self.sign))
        return m

    @property
    def _mantissa(self) -> int:
        return self.alignment.mantissa_bits

    def _shortened(self, kept: int) -> Value:
        """The fraction with fewer mantissa bits, or as many: they, guard and sticky."""
        surplus = self._mantissa - kept
        if not surplus:
            return self.fraction
        return Cat(self.fraction[: surplus + 1].any(), self.fraction[surplus + 1 :])

    def _subnormal(self, m: Module) -> Value:
        """The extended code of a value below the normal numbers."""
        whole = Cat(self._shortened(self.alignment.low_bits - 1), Const(1, 1))
        terms = []
        for binade in range(0, self.alignment.bottom - 1, -1):
            dropped = 1 - binade
            shifted = Cat(whole[:dropped].any(), whole[dropped:], Const(0, dropped - 1))
            at = named(m, f"subnormal_at_{-binade}", 1, ~(self.binade ^ binade).any())
            terms.append(shifted & at.replicate(len(shifted)))
        return functools.reduce(operator.or_, terms)
