"""A lane of softmax: from a value of a row to its power, as a term of the sum and as a result."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from amaranth.hdl import Cat, Const, Module, Mux, Value, signed
from amaranth.lib import data
from amaranth.lib.wiring import In, Member, Out

from mxsafe.rtl.arithmetic.bits import named, truncated
from mxsafe.rtl.arithmetic.float_steps import CANONICAL_NAN, EXPONENT_BITS, MANTISSA_BITS
from mxsafe.rtl.arithmetic.pipeline import Pipeline
from mxsafe.rtl.unit import Unit
from mxsafe.rtl.vector.polynomial import polynomial
from mxsafe.rtl.vector.softmax_stages import SoftmaxPartConfiguration
from mxsafe.tables.softmax import ROOM_BITS, SoftmaxWidths

POSITION = signed(10)
"""Shape of the offset between an exponent field and a distance in the window."""
_STAGES = ("difference", "product", "sloped", "power")
_FPGA_STAGES = ("shifted", "placed", "difference", "halved", *_STAGES[1:])
_SHIFTS_BEFORE = 1
"""Steps of a shift into the window in front of registers within it: an addition stands there."""


def digits_of(widths: SoftmaxWidths) -> data.StructLayout:
    """Digits of the factor from -2 to 2, lowest first: magnitudes of 1 and 2, and signs.

    Above them is one more, which is always 1.
    """
    return data.StructLayout(dict.fromkeys(("one", "two", "negative"), widths.digits))


def windowed(
    m: Module,
    name: str,
    key: Value,
    position: Value,
    bits: int,
    cross: Callable[[str, Value], Value] = lambda name, value: value,
) -> Value:
    """The bits of a value that lie in the window, rounded down.

    Parameters
    ----------
    m : amaranth.hdl.Module
    name : str
        Name of the result, and prefix of the names of what leads to it.
    key : Value
        The value: a binary32 number whose other bits are inverted where the sign is set. So
        numbers below 0 come out rounded down too, if what is shifted in is their sign.
    position : Value
        What the distance is for an exponent field of 0.
    bits : int
        Of the window.
    cross : callable
        By a name, a value on the far side of registers that stand within the shift, if there are
        any.
    """
    sign = key[-1]
    stored = key[MANTISSA_BITS : MANTISSA_BITS + EXPONENT_BITS]
    field = named(m, f"{name}_field", EXPONENT_BITS, stored ^ sign.replicate(EXPONENT_BITS))
    normal = named(m, f"{name}_is_normal", 1, field.any())
    exponent = Cat(field[0] | ~normal, field[1:])
    distance = named(m, f"{name}_distance", signed(11), exponent + position)
    shifted: Value = Cat(key[:MANTISSA_BITS], normal ^ sign)
    below = len(shifted) - 1  # bits that a distance of 0 puts below the window
    steps = (len(shifted) + bits - 2).bit_length()
    for step in range(steps - 1):
        if step == _SHIFTS_BEFORE:
            shifted = cross(f"{name}_partly", shifted)
            sign = cross(f"{name}_sign", sign)
            distance = cross(f"{name}_rest", distance)
        more = sign.replicate(1 << step)
        moved = Mux(distance[step], Cat(more, shifted), Cat(shifted, more))
        shifted = named(m, f"{name}_shifted_{1 << step}", None, moved)
    # The last step puts the window where it will be, and makes no other bits.
    last = 1 << (steps - 1)
    far = Cat(sign.replicate(last - below), shifted)[:bits]
    near = shifted[below : below + bits]
    placed = named(m, f"{name}_placed", bits, Mux(distance[steps - 1], far, near))
    within = named(m, f"{name}_is_within", 1, ~distance[steps:].any())
    return named(m, name, bits, Mux(within, placed, sign.replicate(bits)))


@dataclass(frozen=True, kw_only=True)
class SoftmaxLaneConfiguration(SoftmaxPartConfiguration):
    """A `SoftmaxLane`.

    For an FPGA it has two registers more in front of the difference, and one within its product.
    """

    stages_for: ClassVar = {"asic": _STAGES, "fpga": _FPGA_STAGES}


class SoftmaxLane(Unit[SoftmaxLaneConfiguration]):
    """Powers ``2^(product + offset)`` of products of a factor and differences from a maximum.

    What it computes, and how exact it is, stands at the top of `mxsafe.model.softmax`. The
    difference is one too low, so that it is never 0 and has a known sign: as a number from 0 to 64
    it is 64 too large, which `offset` makes up for. The exponent counts from 63, up to which it is
    in the range of the results.

    Attributes
    ----------
    en : In(1)
        Clock enable.
    key : In(32)
        The value: a binary32 number whose other bits are inverted where the sign is set, so that
        keys are signed integers in the order of the numbers.
    threshold : In(32)
        Key of the smallest number that counts.
    position : In(10), signed
        Where the window is, see `windowed`.
    complement : In(24)
        Inverted bits of the largest value in the window; this width and those below are of `fine`.
    digits : In(struct)
        Of the factor, for the value of the cycle before; for an FPGA from three to four before.
    offset : In(26)
        For the value of the cycle before; for an FPGA of three before.
    invalid : In(1)
        The result is NaN, for the value `latency` cycles before.
    term : Out(32)
        The power in units of ``2^-31``, rounded down.
    result : Out(32)
        The power as a binary32 number; 1 if it is more.
    """

    synthesised_once = True

    def ports(self) -> Mapping[str, Member]:
        widths = self.config.widths
        return {
            "en": In(1),
            "key": In(32),
            "threshold": In(32),
            "position": In(POSITION),
            "complement": In(widths.window_bits),
            "digits": In(digits_of(widths)),
            "offset": In(widths.product_bits),
            "invalid": In(1),
            "term": Out(widths.term_bits),
            "result": Out(32),
        }

    def fill(self, m: Module, platform: object) -> None:
        stages, widths = self.config.stages, self.config.widths
        pipe = Pipeline(m, self.en, stages, len(stages), reset=False)
        key = self.key.as_signed()
        counts: Value = named(m, "counts", 1, key >= self.threshold.as_signed())

        def cross(name: str, value: Value) -> Value:
            return pipe.cross("shifted", name, value)

        place = windowed(m, "place", self.key, self.position, widths.window_bits, cross)
        counts = cross("counts", counts)
        place, counts = pipe.cross_all("placed", place=place, counts=counts)
        difference: Value = truncated(m, "lowered", widths.window_bits, place + self.complement)
        difference, counts = pipe.cross_all("difference", difference=difference, counts=counts)

        table = widths.power
        bits = table.index_bits + table.offset_bits
        product = self._exponent(m, pipe, difference)
        counts = pipe.cross("halved", "counts", counts)
        exponent = product[widths.product_fraction_bits - bits :]
        exponent, counts = pipe.cross_all("product", exponent=exponent, counts=counts)

        fraction, whole = exponent[:bits], exponent[bits:]
        offset, segment = fraction[: table.offset_bits], fraction[table.offset_bits :]
        power: Value = polynomial(m, "polynomial", table, segment, offset, pipe=pipe, late=True)
        whole, counts = pipe.cross_all("sloped", whole=whole, counts=counts)
        mantissa = power[: table.fraction_bits]  # below the leading one
        below_one = named(m, "is_below_one", 1, counts & ~whole.all())
        mantissa, whole, counts, below_one = pipe.cross_all(
            "power", mantissa=mantissa, whole=whole, counts=counts, below_one=below_one
        )
        self._give(m, mantissa, whole, counts, below_one)

    def _exponent(self, m: Module, pipe: Pipeline, difference: Value) -> Value:
        """The product with the factor, and the offset: a sum of rows, each cut where it ends."""
        widths = self.config.widths
        width = widths.product_bits
        total: Value = Cat(Const(0, width - widths.window_bits), difference) + self.offset
        for place in reversed(range(widths.digits)):
            if place == widths.digits // 2 - 1:
                total, difference = pipe.cross_all("halved", total=total, difference=difference)
            one, two, negative = (self.digits[name][place] for name in ("one", "two", "negative"))
            # A row is a choice of the difference and its double, inverted for a digit below 0. The
            # offset has what is above a row and would be ones.
            once, twice = Cat(difference, Const(0, 1)), Cat(Const(0, 1), difference)
            length = len(once)
            chosen = (once & one.replicate(length)) | (twice & two.replicate(length))
            row = named(m, f"row_{place}", length, chosen ^ negative.replicate(length))
            # Every step is cut to the same width, so that synthesis sees one sum of many.
            total = named(
                m, f"sum_{place}", width, total[:width] + row[widths.digit_shifts[place] :]
            )
        return total

    def _give(
        self, m: Module, mantissa: Value, whole: Value, counts: Value, below_one: Value
    ) -> None:
        """The power in both forms. Its exponent is that of a number up to 2, 63 for one from 1."""
        term_bits = self.config.widths.term_bits
        bits = len(mantissa)
        padding = Const(0, MANTISSA_BITS - bits)
        # The exponent field is 64 more than `whole`. A number from 1 is 1, which has no fraction.
        fraction = mantissa & below_one.replicate(bits)
        exponent = Cat(whole, 1, 0) & counts.replicate(len(whole) + 2)
        number = named(m, "number", 32, Cat(padding, fraction, exponent))
        nan = Const(CANONICAL_NAN, 32)
        m.d.comb += self.result.eq(Mux(self.invalid, nan, number))
        # Shifted right by 63 less `whole`, its inverted bits.
        leading = Cat(Const(0, term_bits - 1 - bits), mantissa, 1)
        near = named(m, "is_near", 1, counts & whole[-1])
        shifted: Value = named(m, "term_near", term_bits, leading & near.replicate(term_bits))
        for step in reversed(range(ROOM_BITS - 1)):
            moved = Mux(whole[step], shifted, shifted >> (1 << step))
            shifted = named(m, f"term_shifted_{1 << step}", term_bits, moved)
        m.d.comb += self.term.eq(shifted)
