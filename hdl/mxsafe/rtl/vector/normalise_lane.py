"""A lane of a normalisation: a value to its difference, and that to a square and a result."""

from collections.abc import Mapping
from dataclasses import dataclass

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib.wiring import In, Member, Out

from mxsafe.rtl.arithmetic.bits import named, truncated
from mxsafe.rtl.arithmetic.float_steps import (
    EXPONENT_BITS,
    LARGEST_EXPONENT,
    MANTISSA_BITS,
    pack_special,
)
from mxsafe.rtl.arithmetic.pipeline import Pipeline
from mxsafe.rtl.arithmetic.truncated_product import truncated_product
from mxsafe.rtl.configuration import Configuration
from mxsafe.rtl.unit import Unit

__all__ = [
    "BASE_BITS",
    "DIFFERENCE_BITS",
    "RECIPROCAL_BITS",
    "SQUARE_BITS",
    "NormaliseLane",
    "NormaliseLaneConfiguration",
]

WINDOW_BITS = 26
"""Bits of a value in the window of its row, whose top is twice the binade of the largest value."""
DIFFERENCE_BITS = WINDOW_BITS + 1
"""Bits of a value with an offset, and of the magnitude of a difference."""
NUMBER_BITS = 17
"""Bits of the significand of a difference."""
RECIPROCAL_BITS = 18
"""Bits of the significand of a reciprocal deviation."""
GAIN_BITS = 19
"""Bits of the significand of a gain."""
SQUARE_BITS = 38
"""Squares are cut to this many bits below the square of twice the window's top."""
BASE_BITS = 10
"""Bits of exponents, with sign."""
_CUT = 14
"""Bits of products that are not added up; two more go once they are."""
_CORRECTION = 5
"""What makes up for the first on average, and half of the second."""
_SHIFT_BITS = 6
_FULL = MANTISSA_BITS + 1


@dataclass(frozen=True, kw_only=True)
class NormaliseLaneConfiguration(Configuration):
    """A `NormaliseLane`.

    Parameters
    ----------
    centre : bool
        Whether a mean is subtracted.
    gain : bool
        Whether results are multiplied by a gain.
    optional : bool
        With `centre`: whether an input says if a mean is subtracted.

    Raises
    ------
    ValueError
        If a mean is optional that is never subtracted.
    """

    centre: bool = True
    gain: bool = False
    optional: bool = False

    def __post_init__(self) -> None:
        if self.optional and not self.centre:
            raise ValueError("centre must be set with optional")

    @property
    def base(self) -> str:
        """Name of the module in its usual configuration."""
        return "normalise_lane"

    @property
    def latency(self) -> int:
        """Enabled clocks from a word to its result."""
        return len(self.places)

    @property
    def square_latency(self) -> int:
        """Enabled clocks from a word to its square."""
        return 2 + self.centre

    @property
    def places(self) -> tuple[str, ...]:
        """Where registers stand."""
        difference = ("difference",) if self.centre else ()
        scaled = ("scaled",) if self.gain else ()
        return (*difference, "significand", "product", *scaled)


class NormaliseLane(Unit[NormaliseLaneConfiguration]):
    """A lane of a normalisation, with what all values of the row share beside it.

    The first pass wants `difference`, where `mean` is 0; the second `square`; the third `result`.

    Attributes
    ----------
    en : In(1)
        Clock enable of all registers.
    word : In(32)
        A value.
    largest : In(8)
        Exponent field of the row's largest value, 1 for subnormals; beside `word`.
    mean : In(27)
        Mean in units of the window, plus half the range: an offset that `word` gets too.
    centred : In(1)
        If a mean is `optional`: it is subtracted. Without, squares and results are those of a lane
        without `centre`, a clock later. Steady.
    difference : Out(27)
        `word` in the window less the mean, if that is not negative; a clock after `word`.
    squares : In(1)
        The product is a square; a clock before `square`'s, when the significand is registered.
    square : Out(38)
        `square_latency` clocks after `word`.
    reciprocal : In(18)
        Significand of the reciprocal deviation; where a mean is always subtracted, 0 beside
        `squares`.
    base : In(signed 10)
        Exponent field of a result whose difference fills all its bits; a clock before `square`.
    gain : In(32)
        A binary32 beside `square`.
    constant : In(1)
        The row has no deviation: results are 0. Beside `result`.
    not_finite : In(1)
        There is an Inf or NaN in the row: results are NaN. Beside `result`.
    result : Out(32)
        A binary32, cut towards zero; `latency` clocks after `word`.
    """

    synthesised_once = True

    def ports(self) -> Mapping[str, Member]:
        """Value, numbers of its row, and what becomes of it."""
        centre = {"mean": In(DIFFERENCE_BITS), "difference": Out(DIFFERENCE_BITS)}
        return {
            "en": In(1),
            "word": In(32),
            "largest": In(EXPONENT_BITS),
            **({"centred": In(1)} if self.config.optional else {}),
            **(centre if self.config.centre else {}),
            "squares": In(1),
            "square": Out(SQUARE_BITS),
            "reciprocal": In(RECIPROCAL_BITS),
            "base": In(signed(BASE_BITS)),
            **({"gain": In(32)} if self.config.gain else {}),
            "constant": In(1),
            "not_finite": In(1),
            "result": Out(32),
        }

    def elaborate(self, platform: object) -> Module:
        m = Module()
        places = self.config.places
        pipe = Pipeline(m, self.en, places, len(places), reset=False)
        number, place, negative, zero = self._difference(m, pipe)
        number, place, negative, zero, squares = pipe.cross_all(
            "significand",
            number=number,
            place=place,
            negative=negative,
            zero=zero,
            # A flag of the lane's own, so that it drives no other lane; that of 0 does not matter.
            squares=self.squares & ~zero,
        )
        # The factor that is there first is recoded.
        root = Cat(Const(0, 1), number)
        # In passes of squares `reciprocal` is 0, if there is a mean: an OR is faster than a choice.
        always = self.config.centre and not self.config.optional
        other = self.reciprocal if always else Mux(squares, 0, self.reciprocal)
        factor = named(m, "factor", RECIPROCAL_BITS, Mux(squares, root, 0) | other)
        product = _product(m, "full_product", factor, number)
        exponent = named(m, "exponent_before", signed(BASE_BITS), self.base - place)
        if self.config.gain:
            self._scale(m, pipe, product, place, exponent, negative, zero)
        else:
            self._finish(m, pipe, product, place, exponent, negative, zero, squares)
        return m

    def _difference(self, m: Module, pipe: Pipeline) -> tuple[Value, Value, Value, Value]:
        """Significand of a difference, zeros above it, sign, and whether it is 0."""
        field = self.word[MANTISSA_BITS:31]
        hidden = named(m, "hidden_bit", 1, field.any())
        significand = Cat(self.word[:MANTISSA_BITS], hidden)
        exponent = Cat(field[0] | ~hidden, field[1:])
        below = truncated(m, "below_largest", EXPONENT_BITS, self.largest - exponent)
        nonzero = named(m, "is_nonzero", 1, significand.any())
        sign = named(m, "has_sign", 1, self.word[31] & nonzero)
        if not self.config.centre:
            zeros, number = _normalised(m, significand)
            place = named(m, "place", EXPONENT_BITS + 1, below + zeros + 1)
            return number, place, sign, ~nonzero
        window = Cat(Const(0, WINDOW_BITS - _FULL), significand)
        steps = (WINDOW_BITS - 1).bit_length()
        aligned = named(m, "aligned", WINDOW_BITS, window >> below[:steps])
        beyond = named(m, "is_beyond", 1, below[steps:].any())
        magnitude = named(m, "magnitude", WINDOW_BITS, Mux(beyond, 0, aligned))
        # With an offset of half the range, sums are not negative.
        value = Cat(magnitude ^ sign.replicate(WINDOW_BITS), ~sign)
        less: Value = named(m, "less_mean", signed(DIFFERENCE_BITS + 1), value - self.mean)
        centred: Value = Const(1, 1)
        if self.config.optional:
            centred = self.centred
            # The value itself takes the place of a difference, at the top of its bits.
            itself = Cat(Const(0, DIFFERENCE_BITS - _FULL), significand, sign)
            less = named(m, "less_or_itself", len(less), Mux(centred, less, itself))
        less = pipe.cross("difference", "less", less)
        m.d.comb += self.difference.eq(less[:-1])
        # It stands for half a unit more, so that its one's complement is its magnitude.
        negative = less[-1]
        flips = named(m, "flips", 1, negative & centred) if self.config.optional else negative
        distance = less[:-1] ^ flips.replicate(DIFFERENCE_BITS)
        distance = named(m, "distance", DIFFERENCE_BITS, distance)
        zero = named(m, "is_zero", 1, ~less.any())
        zeros, number = _normalised(m, Cat(centred, distance))
        if not self.config.optional:
            return number, zeros, negative, zero
        lower = named(m, "binades_lower", EXPONENT_BITS + 1, Mux(centred, 0, below + 1))
        lower = pipe.cross("difference", "lower", lower)
        return number, named(m, "place", EXPONENT_BITS + 1, lower + zeros), negative, zero

    def _finish(
        self,
        m: Module,
        pipe: Pipeline,
        product: Value,
        place: Value,
        exponent: Value,
        negative: Value,
        zero: Value,
        squares: Value,
    ) -> None:
        """A square in fixed point, and a result, which share a shifter."""
        down, short = _down(m, exponent)
        twice = Cat(Const(0, 1), place)
        amount = named(m, "amount", BASE_BITS, Mux(squares, twice, down))
        nothing: Value = named(m, "is_nothing", 1, zero | amount[_SHIFT_BITS:].any())
        product, amount, exponent, short, negative, nothing = pipe.cross_all(
            "product",
            product=product,
            amount=amount[:_SHIFT_BITS],
            exponent=exponent[:EXPONENT_BITS],
            short=short,
            negative=negative,
            nothing=nothing,
        )
        shifted = _shifted(m, "shifted", product, amount, SQUARE_BITS)
        m.d.comb += self.square.eq(Mux(nothing, 0, shifted))
        magnitude = _magnitude(m, product, shifted[-_FULL - 1 :], exponent, short)
        nothing = named(m, "is_zero_result", 1, nothing | self.constant)
        magnitude = Mux(nothing, 0, magnitude)
        word = pack_special(m, magnitude, negative, Const(0, 1), self.not_finite)
        m.d.comb += self.result.eq(word)

    def _scale(
        self,
        m: Module,
        pipe: Pipeline,
        product: Value,
        place: Value,
        exponent: Value,
        negative: Value,
        zero: Value,
    ) -> None:
        """A square in fixed point, and a result times its gain."""
        twice = Cat(Const(0, 1), place)
        far = named(m, "square_is_far", 1, twice[_SHIFT_BITS:].any())
        product, amount, exponent, negative, zero, far = pipe.cross_all(
            "product",
            product=product,
            amount=twice[:_SHIFT_BITS],
            exponent=exponent,
            negative=negative,
            zero=zero,
            far=far,
        )
        shifted = _shifted(m, "square_shifted", product, amount, SQUARE_BITS)
        m.d.comb += self.square.eq(Mux(far | zero, 0, shifted))
        carry = product[-1]
        number = named(m, "normalised", RECIPROCAL_BITS, Mux(carry, product[1:], product[:-1]))
        field, mantissa = self.gain[MANTISSA_BITS:31], self.gain[:MANTISSA_BITS]
        factor = Cat(mantissa[_FULL - GAIN_BITS :], Const(1, 1))
        scaled = _product(m, "full_scaled", number, factor)
        above = named(m, "gain_exponent", signed(BASE_BITS), field - Const(127) + carry)
        total: Value = named(m, "exponent_scaled", signed(BASE_BITS + 1), exponent + above)
        # What depends on the exponent alone is known long before the product is.
        down, short = _down(m, total)
        far = named(m, "is_far_down", 1, short & down[_SHIFT_BITS - 1 :].any())
        beyond = named(m, "is_beyond_all", 1, total > LARGEST_EXPONENT)
        at_end = named(m, "is_at_end", 1, total == LARGEST_EXPONENT)
        special = named(m, "gain_is_special", 1, field.all())
        invalid: Value = named(m, "is_invalid", 1, special & (zero | mantissa.any()))
        nothing: Value = named(m, "is_nothing", 1, zero | far | ~field.any())
        scaled, total, down, short, negative, special, invalid, nothing, beyond, at_end = (
            pipe.cross_all(
                "scaled",
                scaled=scaled,
                total=total[:EXPONENT_BITS],
                down=down[: _SHIFT_BITS - 1],
                short=short,
                negative=negative ^ self.gain[31],
                special=special,
                invalid=invalid,
                nothing=nothing,
                beyond=beyond,
                at_end=at_end,
            )
        )
        lowered = _shifted(m, "lowered", scaled, down, _FULL + 1)
        magnitude = _magnitude(m, scaled, lowered, total, short)
        nothing = named(m, "is_zero_result", 1, nothing | self.constant)
        too_large = named(m, "is_too_large", 1, beyond | (at_end & scaled[-1]))
        infinite = named(m, "is_infinite", 1, ~nothing & too_large)
        nan = named(m, "is_nan", 1, invalid | self.not_finite | (special & self.constant))
        magnitude = Mux(nothing, 0, magnitude)
        word = pack_special(m, magnitude, negative, special | infinite, nan)
        m.d.comb += self.result.eq(word)


def _product(m: Module, name: str, a: Value, b: Value) -> Value:
    """A product of significands without its lower bits; the upper one or two may be set."""
    return truncated_product(m, name, a, b, cut=_CUT, correction=_CORRECTION)[2:]


def _normalised(m: Module, number: Value) -> tuple[Value, Value]:
    """Zeros above the leading one of a number, and the significand that begins with it."""
    window = number
    moves: list[Value] = []
    steps = (len(number) - 1).bit_length()
    rest = (1 << steps) - 1
    for step in reversed(range(steps)):
        shift = 1 << step
        rest -= shift
        moved = named(m, f"moved_{shift}", 1, ~window[-shift:].any())
        near = Cat(Const(0, shift), window[:-shift])
        chosen = named(m, f"moved_by_{shift}", len(window), Mux(moved, near, window))
        # Bits that no later step can bring up into the significand are not needed.
        window = chosen[max(len(window) - NUMBER_BITS - rest, 0) :]
        moves.insert(0, moved)
    return Cat(*moves), window


def _shifted(m: Module, name: str, product: Value, amount: Value, bits: int) -> Signal:
    """A product at the top of so many bits, shifted down."""
    return named(m, name, bits, Cat(Const(0, bits - len(product)), product) >> amount)


def _down(m: Module, exponent: Value) -> tuple[Signal, Signal]:
    """By how much a result without its carry is shifted to be subnormal, and whether it is."""
    short = named(m, "is_short", 1, exponent <= 0)
    down = named(m, "down", BASE_BITS, Mux(short, (1 - exponent)[:BASE_BITS], 0))
    return down, short


def _magnitude(m: Module, product: Value, lowered: Value, exponent: Value, short: Value) -> Value:
    """Bits of a binary32 without its sign, cut towards zero.

    `lowered` is the product at the top of one bit more than a significand. If it was shifted, its
    carry is where it belongs; and a hidden bit, which only that carry can be, is the exponent.
    """
    carry = product[-1]
    upper = named(m, "takes_upper", 1, carry & ~short)
    mantissa = named(m, "mantissa", _FULL, Mux(upper, lowered[1:], lowered[:-1]))
    field = truncated(m, "exponent_field", EXPONENT_BITS, exponent + carry)
    return Cat(mantissa[:-1], Mux(short, mantissa[-1], field))
