"""A lane of a normalisation: a value to its difference, and that to a square and a result."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib.wiring import In, Member, Out

from mxsafe.rtl.arithmetic.bits import named, truncated
from mxsafe.rtl.arithmetic.float_steps import EXPONENT_BITS, LARGEST_EXPONENT, MANTISSA_BITS
from mxsafe.rtl.arithmetic.pipeline import Pipeline
from mxsafe.rtl.arithmetic.target import Target
from mxsafe.rtl.arithmetic.truncated_product import truncated_product
from mxsafe.rtl.configuration import Configuration
from mxsafe.rtl.timing import at
from mxsafe.rtl.unit import Unit
from mxsafe.tables import Grade
from mxsafe.tables.normalise import WIDTHS, NormaliseWidths

EARLY_BITS = 18
"""Lower bits of a mean, which are subtracted a cycle before the others."""
BASE_BITS = 10
"""Bits of exponents, with sign."""
_FULL = MANTISSA_BITS + 1


@dataclass(frozen=True, kw_only=True)
class NormaliseLaneConfiguration(Configuration):
    """A `NormaliseLane`.

    Parameters
    ----------
    centre : bool
        Whether a mean is subtracted.
    optional : bool
        With `centre`: whether an input says if a mean is subtracted.
    grade : {"compact", "fine"}
        How exact results are, see `mxsafe.model.normalisation.normalise`.
    target : {"asic", "fpga"}
        What it is built for: for an FPGA with a register more in each product, one behind the
        difference from a mean, and one before its last zeros are known.

    Raises
    ------
    ValueError
        If a mean is optional that is never subtracted.
    """

    centre: bool = True
    optional: bool = False
    grade: Grade = "compact"
    target: Target = "asic"

    def __post_init__(self) -> None:
        if self.optional and not self.centre:
            raise ValueError("centre must be set with optional")

    @property
    def widths(self) -> NormaliseWidths:
        """Widths of the grade."""
        return WIDTHS[self.grade]

    @property
    def latency(self) -> int:
        """Enabled cycles from a word to its result."""
        return len(self.places)

    @property
    def square_latency(self) -> int:
        """Enabled cycles from a word to its square."""
        return self.flag_latency + 2 + at(self, "product rows")

    @property
    def flag_latency(self) -> int:
        """Enabled cycles from a word to the flag that its product is a square."""
        return len(self._difference_places)

    @property
    def _difference_places(self) -> tuple[str, ...]:
        places = ("value", "difference", "zeros")[: 1 + at(self, "difference")]
        return places if self.centre else ()

    @property
    def places(self) -> tuple[str, ...]:
        """Where registers stand."""
        rows = ("product_rows",) * at(self, "product rows")
        return (*self._difference_places, "significand", *rows, "product")


class NormaliseLane(Unit[NormaliseLaneConfiguration]):
    """A lane of a normalisation, with what all values of the row share beside it.

    The first pass wants `value`, the second `square`, the third `result`.

    Widths are those of `mxsafe.tables.normalise.NormaliseWidths`.

    Attributes
    ----------
    en : In(1)
        Clock enable of all registers.
    word : In(32)
        A value.
    largest : In(8)
        Exponent field of the row's largest value, 1 for subnormals; beside `word`.
    mean : In(window + 1)
        Mean in units of the window, plus half the range: an offset that `value` has too. Its lower
        `EARLY_BITS` beside `word`, 0 in the first pass; the others a cycle later.
    centred : In(1)
        If a mean is `optional`: it is subtracted. Without, `mean` has to be 0, and squares and
        results are those of a lane without `centre`, a cycle later. Steady.
    value : Out(window + 1)
        `word` in the window, with its offset; a cycle after `word`.
    squares : In(1)
        The product is a square; a cycle before `square`'s, when the significand is registered.
    square : Out(square)
        `square_latency` cycles after `word`; where the product is none, any number.
    reciprocal : In(reciprocal)
        Significand of the reciprocal deviation; where a mean is always subtracted, 0 beside
        `squares`.
    base : In(signed 10)
        Exponent field of a result whose difference fills all its bits, less 1 without `centre`; a
        cycle before `square`.
    constant : In(1)
        The row has no deviation: results are 0. A cycle before `result`.
    not_finite : In(1)
        There is an Inf or NaN in the row: results are NaN. Beside `constant`.
    result : Out(32)
        A binary32, cut towards zero; `latency` cycles after `word`.

    Notes
    -----
    What was tried is in ``docs/experiments.md``.
    """

    synthesised_once = True

    def ports(self) -> Mapping[str, Member]:
        widths = self.config.widths
        centre = {"mean": In(widths.window + 1), "value": Out(widths.window + 1)}
        return {
            "en": In(1),
            "word": In(32),
            "largest": In(EXPONENT_BITS),
            **({"centred": In(1)} if self.config.optional else {}),
            **(centre if self.config.centre else {}),
            "squares": In(1),
            "square": Out(widths.square),
            "reciprocal": In(widths.reciprocal),
            "base": In(signed(BASE_BITS)),
            "constant": In(1),
            "not_finite": In(1),
            "result": Out(32),
        }

    def fill(self, m: Module, platform: object) -> None:
        places, widths = self.config.places, self.config.widths
        pipe = Pipeline(m, self.en, places, len(places), reset=False)
        number, place, negative, zero = self._difference(m, pipe)
        number, place, negative, zero, squares = pipe.cross_all(
            "significand",
            number=number[:-1],
            place=place,
            negative=negative,
            zero=zero,
            # A flag of the lane's own, so that it drives no other lane.
            squares=self.squares,
        )
        # The first bit is set: of a difference of 0 no product is used.
        number = Cat(number, Const(1, 1))
        # The factor that is there first is recoded.
        root = Cat(Const(0, widths.reciprocal - widths.number), number)
        # In passes of squares `reciprocal` is 0, if there is a mean: an OR is faster than a choice.
        always = self.config.centre and not self.config.optional
        other = self.reciprocal if always else Mux(squares, 0, self.reciprocal)
        factor = named(m, "factor", widths.reciprocal, Mux(squares, root, 0) | other)
        product = self._product(m, pipe, "product", (factor, number), widths.cut)
        place, negative, zero, squares = pipe.cross_all(
            "product_rows", place=place, negative=negative, zero=zero, squares=squares
        )
        # A result's exponent is the negative of what it would be shifted down by if that were not
        # below 0. A square is shifted down by twice its place.
        down = named(m, "down", signed(BASE_BITS), place - self.base)
        twice = named(m, "twice", BASE_BITS, Cat(Const(0, 1), place))
        amount = named(m, "amount", signed(BASE_BITS), Mux(squares, twice, down))
        far = named(m, "is_far_square", 1, squares & twice[_shift_bits(widths.square) :].any())
        nothing = named(m, "is_nothing", 1, zero | far)
        self._finish(m, pipe, product, amount, negative, (nothing, squares))

    def _difference(self, m: Module, pipe: Pipeline) -> tuple[Value, Value, Value, Value]:
        """Significand of a difference, zeros above it, sign, and whether it is 0."""
        window_bits, number_bits = self.config.widths.window, self.config.widths.number
        difference_bits = window_bits + 1
        field = self.word[MANTISSA_BITS:31]
        hidden = named(m, "hidden_bit", 1, field.any())
        significand = Cat(self.word[:MANTISSA_BITS], hidden)
        exponent = Cat(field[0] | ~hidden, field[1:])
        below = truncated(m, "below_largest", EXPONENT_BITS, self.largest - exponent)
        nonzero = named(m, "is_nonzero", 1, significand.any())
        sign = named(m, "has_sign", 1, self.word[31] & nonzero)
        if not self.config.centre:
            zeros, number = _normalised(m, significand, number_bits)
            place = named(m, "place", EXPONENT_BITS + 1, below + zeros)
            return number, place, sign, ~nonzero
        window = Cat(Const(0, window_bits - _FULL), significand)
        steps = (window_bits - 1).bit_length()
        moves: Value = below
        itself: Value = Const(0, 1)
        lower: Value = Const(0, 1)
        centred: Value = Const(1, 1)
        if self.config.optional:
            # Without a mean the value stays where it is, and has neither sign nor offset.
            centred = self.centred
            moves = named(m, "moves", EXPONENT_BITS, Mux(centred, below, 0))
            itself = named(m, "itself_is_negative", 1, sign & ~centred)
            lower = named(m, "binades_lower", EXPONENT_BITS, Mux(centred, 0, below))
        aligned = named(m, "aligned", window_bits, window >> moves[:steps])
        beyond = named(m, "is_beyond", 1, moves[steps:].any())
        magnitude = named(m, "magnitude", window_bits, Mux(beyond, 0, aligned))
        # With an offset of half the range, sums are not negative.
        flips = named(m, "flips_value", 1, sign & centred)
        value = Cat(magnitude ^ flips.replicate(window_bits), ~sign & centred)
        # The lower half of the mean is subtracted before a register, the upper half behind it.
        half = EARLY_BITS
        low = named(m, "less_low", half + 1, value[:half] - self.mean[:half])
        low, borrow, high, itself, lower = pipe.cross_all(
            "value", low=low[:half], borrow=low[half], high=value[half:], itself=itself, lower=lower
        )
        m.d.comb += self.value.eq(Cat(low, high))
        bits = difference_bits - half + 2
        terms = Cat(Const(0, 1), high), Cat(borrow, self.mean[half:])
        upper = named(m, "less_high", signed(bits), terms[0] - terms[1])[1:]
        less = named(m, "less_mean", signed(difference_bits + 1), Cat(low, upper))
        # It stands for half a unit more, so that its one's complement is its magnitude.
        flips = less[-1]
        distance = less[:-1] ^ flips.replicate(difference_bits)
        distance = named(m, "distance", difference_bits, distance)
        distance, flips, itself, lower = pipe.cross_all(
            "difference", distance=distance, flips=flips, itself=itself, lower=lower
        )

        def cross(name: str, value: Value) -> Value:
            return pipe.cross("zeros", name, value)

        zeros, number = _normalised(m, Cat(centred, distance), number_bits, cross)
        flips, itself, lower = pipe.cross_all("zeros", flips=flips, itself=itself, lower=lower)
        # Of a difference of 0 or -1 all bits but the lowest are zeros, and no other has so many.
        most = Cat(bit for place, bit in enumerate(zeros) if difference_bits >> place & 1)
        zero = named(m, "is_zero", 1, most.all() & ~flips)
        place = zeros
        if self.config.optional:
            place = named(m, "place", EXPONENT_BITS + 1, lower + zeros)
        return number, place, flips | itself, zero

    def _finish(
        self,
        m: Module,
        pipe: Pipeline,
        product: Value,
        amount: Value,
        negative: Value,
        flags: tuple[Value, Value],
    ) -> None:
        """A square in fixed point, and a result, which share a shifter."""
        nothing, squares = flags
        widths = self.config.widths
        steps = _shift_bits(widths.square)
        short = named(m, "is_short", 1, ~amount[-1])
        lost = named(m, "is_far_down", 1, short & amount[steps:].any())
        blank = named(m, "is_blank", 1, lost | self.constant | self.not_finite)
        nothing = named(m, "is_no_product", 1, nothing | (blank & ~squares))
        product, amount, shifts, negative, nothing, not_finite = pipe.cross_all(
            "product",
            product=product,
            amount=amount[:EXPONENT_BITS],
            shifts=squares | short | nothing,
            negative=negative & ~(self.not_finite & ~squares),
            nothing=nothing,
            not_finite=self.not_finite,
        )
        moves = named(m, "moves_product", steps, Mux(shifts, amount[:steps], 0))
        moved = _shifted(m, "moved_product", product, moves, widths.square)
        shifted = named(m, "shifted", widths.square, Mux(nothing, 0, moved))
        # Places that are counted without a mean are lower by one.
        m.d.comb += self.square.eq(shifted if self.config.centre else shifted >> 2)
        magnitude = _magnitude(m, product, shifted[-widths.result - 1 :], amount, shifts)
        # Without a number there are zeros where NaN needs them.
        quiet = 1 << MANTISSA_BITS - 1
        ones = LARGEST_EXPONENT + 1 << MANTISSA_BITS | quiet
        m.d.comb += self.result.eq(Cat(magnitude | Mux(not_finite, ones, 0), negative))

    def _product(
        self, m: Module, pipe: Pipeline, name: str, factors: tuple[Value, Value], cut: int
    ) -> Value:
        """A product of significands without its lower bits; the upper one or two may be set."""

        def cross(part: str, value: Value) -> Value:
            return pipe.cross(f"{name}_rows", part, value)

        return truncated_product(
            m,
            f"full_{name}",
            *factors,
            cut=cut,
            correction=self.config.widths.correction,
            cross=cross if at(self.config, "product rows") else None,
        )[2:]


def _normalised(
    m: Module,
    number: Value,
    bits: int,
    cross: Callable[[str, Value], Value] | None = None,
) -> tuple[Value, Value]:
    """Zeros above the leading one of a number, and the significand of so many bits below them.

    If there is `cross`, what is known after half of the steps goes through it.
    """
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
        window = chosen[max(len(window) - bits - rest, 0) :]
        moves.insert(0, moved)
        if cross is not None and len(moves) == steps // 2:
            window = cross("window", window)
            moves = [cross(f"moves_{place}", move) for place, move in enumerate(moves)]
    return Cat(*moves), window


def _shift_bits(bits: int) -> int:
    """Bits of distances below which a shifter of so many bits leaves some of them."""
    return (bits - 1).bit_length()


def _shifted(m: Module, name: str, product: Value, amount: Value, bits: int) -> Signal:
    """A product at the top of so many bits, shifted down."""
    return named(m, name, bits, Cat(Const(0, bits - len(product)), product) >> amount)


def _magnitude(m: Module, product: Value, lowered: Value, down: Value, shifts: Value) -> Value:
    """Bits of a binary32 without its sign, cut towards zero.

    `lowered` is the product at the top of one bit more than a significand. One that is shifted goes
    down by one more; a hidden bit, which only a product with a carry has then, is the exponent.
    """
    carry, bits = product[-1], len(lowered) - 1
    upper = named(m, "takes_upper", 1, carry | shifts)
    mantissa = named(m, "mantissa", bits, Mux(upper, lowered[1:], lowered[:-1]))
    # The negative, and the carry: bits below make one of two carries.
    raised = named(m, "raised", EXPONENT_BITS + 2, Cat(carry, ~down) + Const(3, 2))
    field = raised[1 : EXPONENT_BITS + 1]
    return Cat(Const(0, _FULL - bits), mantissa[:-1], Mux(shifts, mantissa[-1], field))
