"""The second half of a converter's lane: a normalised value, rounded to an element code.

Tested by `verif/rtl/stream/test_converter.py`.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Value, signed
from amaranth.lib.wiring import In, Out

from mxsafe.formats import IntFormat, MXFormat
from mxsafe.rtl.arithmetic.bits import gated_or, named, noted, truncated
from mxsafe.rtl.stream.alignment import Alignment
from mxsafe.rtl.unit import Configuration, Ports, Unit


class ElementEncoderConfiguration(Configuration):
    """An `ElementEncoder`.

    Parameters
    ----------
    format : MXFormat
        Format of the code.

    Raises
    ------
    ValueError
        If the format does not suit a converter.
    """

    format: MXFormat

    def __post_init__(self) -> None:
        Alignment.of(self.format)

    @property
    def base(self) -> str:
        return f"{self.format.name}_encoder"

    @property
    def alignment(self) -> Alignment:
        """How binades are counted."""
        return Alignment.of(self.format)


class ElementEncoder(Unit[ElementEncoderConfiguration]):
    """Binade and fraction to the nearest element code, ties to even, saturating. Combinational.

    The binade is counted as `Alignment` does, so that it is the exponent field of most codes. Codes
    grow with their values, so rounding up is adding one to the code, over the seam of MXSF too.
    What is needed is the code below the value, a guard bit and a sticky bit. Where the code ends in
    the fraction depends on the mode alone; only subnormals, two of MXSF's binades, are shifted.

    Attributes
    ----------
    sign : In(1)
        Sign of the element.
    binade : In(signed)
        At most that of the largest element; from one below the lowest on the element is zero.
    fraction : In(mantissa bits + 2)
        As `FloatNormaliser` gives it.
    code : Out(width)
        Its code.
    """

    def ports(self) -> Ports:
        alignment = self.config.alignment
        return {
            "sign": In(1),
            "binade": In(signed(alignment.binade_bits)),
            "fraction": In(alignment.mantissa_bits + 2),
            "code": Out(self.config.format.element.width),
        }

    def fill(self, m: Module, platform: object) -> None:
        element, alignment = self.config.format.element, self.config.alignment
        low_bits = alignment.low_bits
        width = element.width - 1
        extended: Value = self._subnormal(m)
        if alignment.top > 0:
            # The binade is the exponent field already.
            low_normal = Cat(self._shortened(m, "low", low_bits), self.binade)[: width + 2]
            normal = named(m, "is_normal", 1, self.binade > 0)
            extended = named(m, "low_extended", width + 2, Mux(normal, low_normal, extended))
        if alignment.normals_from > 1:
            bits = width - alignment.mantissa_bits
            field = truncated(m, "upper_field", bits, self.binade - (alignment.normals_from - 1))
            upper = named(m, "is_in_upper_mode", 1, self.binade >= alignment.normals_from)
            extended = Mux(upper, Cat(self.fraction, field), extended)
        extended = noted(
            named(m, "extended", width + 2, extended),
            "The code below the value, then guard and sticky. Codes grow with values, so the next "
            "one up is one more, over the seam of two modes too.",
        )
        sticky, guard, below = extended[0], extended[1], extended[2:]
        at_top = noted(
            named(m, "at_top", 1, below >= element.max_magnitude),
            "Saturation: a code above the largest would be NaN, Inf or none at all, and so would "
            "one that rounds up from it.",
        )
        rounds_up = named(m, "rounds_up", 1, guard & (sticky | below[0]))
        noted(
            rounds_up, "Nearest even: up if more than half an ulp is below, or half of an odd one."
        )
        increment = named(m, "increment", 1, rounds_up & ~at_top)
        rounded = truncated(m, "rounded", width, below + increment)
        if element.max_magnitude + 1 < 1 << width:
            rounded = Mux(at_top, element.max_magnitude, rounded)
        magnitude = named(m, "magnitude", width, rounded)
        # Integer elements are in two's complement, all others have a sign bit.
        if isinstance(element, IntFormat):
            negated = (Cat(magnitude, Const(0, 1)) ^ self.sign.replicate(width + 1)) + self.sign
            m.d.comb += self.code.eq(negated[: width + 1])
        else:
            m.d.comb += self.code.eq(Cat(magnitude, self.sign))

    def _shortened(self, m: Module, name: str, kept: int) -> Value:
        """The fraction with fewer mantissa bits, or as many: they, guard and sticky."""
        surplus = self.config.alignment.mantissa_bits - kept
        if not surplus:
            return self.fraction
        sticky = named(m, f"{name}_sticky", 1, self.fraction[: surplus + 1].any())
        return Cat(sticky, self.fraction[surplus + 1 :])

    def _subnormal(self, m: Module) -> Value:
        """The extended code of a value below the normal numbers."""
        alignment = self.config.alignment
        whole = Cat(self._shortened(m, "subnormal", alignment.low_bits - 1), Const(1, 1))
        choices = []
        for binade in range(0, alignment.bottom - 1, -1):
            dropped = 1 - binade
            sticky = named(m, f"sticky_at_{-binade}", 1, whole[:dropped].any())
            shifted = Cat(sticky, whole[dropped:], Const(0, dropped - 1))
            # No bit differs: smaller than `==`, which widens both sides.
            at = named(m, f"subnormal_at_{-binade}", 1, ~(self.binade ^ binade).any())
            choices.append((at, shifted))
        return noted(
            gated_or(m, "subnormal", choices),
            "Few binades are subnormal: each has its own shift, with the hidden bit as a bit of "
            "the code, and the one that it is gets through.",
        )
