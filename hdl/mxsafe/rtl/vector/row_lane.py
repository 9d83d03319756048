"""A lane of what is done to rows: powers for softmax; squares and results of norms; or both.

Tested by `verif/rtl/vector/test_row_lane_norms.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Value, signed
from amaranth.lib import data
from amaranth.lib.wiring import In, Member, Out

from mxsafe.rtl.arithmetic.bits import kept, named, truncated
from mxsafe.rtl.arithmetic.digit_product import Digit, Factors, constant_of, digits_of, sum_of_rows
from mxsafe.rtl.arithmetic.float_steps import (
    CANONICAL_NAN,
    EXPONENT_BITS,
    LARGEST_EXPONENT,
    MANTISSA_BITS,
)
from mxsafe.rtl.arithmetic.pipeline import Pipeline
from mxsafe.rtl.timing import Target, at
from mxsafe.rtl.unit import Configuration, Ports, Unit
from mxsafe.rtl.vector.polynomial import polynomial
from mxsafe.tables import Grade, normalise, softmax
from mxsafe.tables.normalise import NormaliseWidths
from mxsafe.tables.softmax import ROOM_BITS, SoftmaxWidths

POSITION = signed(10)
"""Shape of the offset between an exponent field and a distance in the window."""
EARLY_BITS = 18
"""Lower bits of a mean, which are subtracted a cycle before the others."""
BASE_BITS = 10
"""Bits of exponents, with sign."""
_FULL = MANTISSA_BITS + 1
_UNCENTRED = 2
"""Bits by which squares are lower without a mean: their places are counted so."""
_SHIFTS_BEFORE = 1
"""Steps of a shift into the window in front of registers within it: an addition stands there."""


def digits_of_factor(widths: SoftmaxWidths) -> data.StructLayout:
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


class Ends(NamedTuple):
    """Layouts of what goes into a lane and comes out of it."""

    inputs: data.StructLayout
    outputs: data.StructLayout


def lane_ports(ends: Ends, lanes: int) -> dict[str, Member]:
    """Ports of a unit whose lanes are outside."""
    return {
        "lanes_en": Out(1),
        "lane_inputs": Out(data.ArrayLayout(ends.inputs, lanes)),
        "lane_outputs": In(data.ArrayLayout(ends.outputs, lanes)),
    }


class RowLaneConfiguration(Configuration):
    """A `RowLane`.

    For an FPGA it has more registers: two in front of softmax's difference, one behind that from a
    mean and one before its last zeros are known, and one within the product.

    Parameters
    ----------
    softmax : bool
        Whether it is for softmax.
    norms : bool
        Whether it is for norms; for one of both at least.
    centre : bool
        For norms: whether a mean is subtracted.
    optional : bool
        With `centre`: whether an input says if a mean is subtracted.
    grade : {"compact", "fine"}
        How exact results are, see `mxsafe.model.softmax` and `mxsafe.model.normalisation`.
    target : {"asic", "fpga"}
        What it is built for.

    Raises
    ------
    ValueError
        If it is for nothing, or a mean is optional that is never subtracted.
    """

    softmax: bool = True
    norms: bool = True
    centre: bool = True
    optional: bool = False
    grade: Grade = "compact"
    target: Target = "asic"

    def __post_init__(self) -> None:
        if not self.softmax and not self.norms:
            raise ValueError("softmax must be set without norms")
        if self.optional and not self.centre:
            raise ValueError("centre must be set with optional")

    @property
    def of_softmax(self) -> SoftmaxWidths:
        """Widths of softmax."""
        return softmax.WIDTHS[self.grade]

    @property
    def of_norms(self) -> NormaliseWidths:
        """Widths of norms."""
        return normalise.WIDTHS[self.grade]

    @property
    def term_place(self) -> int:
        """With norms: bits of a square below those of a term, which are 0."""
        unused = 0 if self.centre else _UNCENTRED
        return self.of_norms.square - unused - self.of_softmax.term_bits

    @property
    def of_powers(self) -> "Ends":
        """What softmax gives a lane, and gets from it."""
        widths = self.of_softmax
        inputs = {
            "key": 32,
            "threshold": 32,
            "position": POSITION,
            "complement": widths.window_bits,
            "digits": digits_of_factor(widths),
            "offset": widths.product_bits,
            "invalid": 1,
        }
        # With norms a term is a square's upper bits.
        term = {} if self.norms else {"term": widths.term_bits}
        outputs = {**term, "power": 32}
        return Ends(data.StructLayout(inputs), data.StructLayout(outputs))

    @property
    def of_rows(self) -> "Ends":
        """What norms give a lane, and get from it."""
        widths = self.of_norms
        inputs = {
            "word": 32,
            "largest": EXPONENT_BITS,
            **({"centred": 1} if self.optional else {}),
            **({"mean": widths.window + 1} if self.centre else {}),
            "squares": 1,
            "reciprocal": widths.reciprocal,
            "base": signed(BASE_BITS),
            "constant": 1,
            "not_finite": 1,
        }
        value = {"value": widths.window + 1} if self.centre else {}
        outputs = {**value, "square": widths.square, "result": 32}
        return Ends(data.StructLayout(inputs), data.StructLayout(outputs))

    @property
    def latency(self) -> int:
        """Enabled cycles from a value to what follows from it, of what takes longest."""
        return max(len(places) for places in (self._softmax_places, self._norm_places))

    @property
    def power_latency(self) -> int:
        """Enabled cycles from a key to its power."""
        return len(self._softmax_places)

    @property
    def factor_latency(self) -> int:
        """Enabled cycles from a key to its difference, for which digits and offset are there."""
        return self._softmax_places.index("difference") + 1

    @property
    def result_latency(self) -> int:
        """Enabled cycles from a word to its result."""
        return len(self._norm_places)

    @property
    def square_latency(self) -> int:
        """Enabled cycles from a word to its square."""
        return self.flag_latency + 2 + at(self, "product")

    @property
    def flag_latency(self) -> int:
        """Enabled cycles from a word to the flag that its product is a square."""
        return len(self._distance_places)

    @property
    def _product_places(self) -> tuple[str, ...]:
        return (*("halved",) * at(self, "product"), "product")

    @property
    def _softmax_places(self) -> tuple[str, ...]:
        window = ("shifted", "placed")[: at(self, "window")]
        places = (*window, "difference", *self._product_places, "sloped", "power")
        return places if self.softmax else ()

    @property
    def _distance_places(self) -> tuple[str, ...]:
        return ("value", "distance", "zeros")[: 1 + at(self, "distance")] if self.centre else ()

    @property
    def _norm_places(self) -> tuple[str, ...]:
        places = (*self._distance_places, "significand", *self._product_places)
        return places if self.norms else ()

    @property
    def places(self) -> tuple[str, ...]:
        """Where registers stand."""
        return tuple(dict.fromkeys((*self._softmax_places, *self._norm_places)))


class RowLane(Unit[RowLaneConfiguration]):
    """A lane of what is done to rows: a value to its power for softmax, or its square or result.

    Softmax wants powers ``2^(product + offset)`` of products of a factor and differences from a
    maximum. What they are, and how exact, stands at the top of `mxsafe.model.softmax`. The
    difference is one too low, so that it is never 0 and has a known sign: as a number from 0 to 64
    it is 64 too large, which `offset` makes up for. The exponent counts from 63, up to which it is
    in the range of the results.

    Of norms the first pass wants `value`, the second `square`, the third `result`. Widths are those
    of `mxsafe.tables.normalise.NormaliseWidths`.

    Softmax and norms share the product, which is a sum of rows for digits either of the factor or
    of a significand, and the shifter behind it.

    Attributes
    ----------
    en : In(1)
        Clock enable of all registers.
    is_softmax : In(1)
        If it is for both: it is softmax that is wanted. Steady from an enabled cycle before a value
        on.
    key : In(32)
        A value for softmax: a binary32 number whose other bits are inverted where the sign is set,
        so that keys are signed integers in the order of the numbers.
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
        The power is NaN, for the value `power_latency` cycles before.
    term : Out(32)
        Without norms: the power in units of ``2^-31``, rounded down.
    power : Out(32)
        The power as a binary32 number; 1 if it is more.
    word : In(32)
        A value for norms.
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
        `square_latency` cycles after `word`; where the product is none, any number. With softmax it
        is a term too, `RowLaneConfiguration.term_place` bits further up.
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
        A binary32, cut towards zero; `result_latency` cycles after `word`.

    Notes
    -----
    What was tried is in ``docs/experiments.md``.
    """

    synthesised_once = True

    def ports(self) -> Ports:
        config = self.config
        inputs: dict[str, Any] = {"en": 1}
        outputs: dict[str, Any] = {}
        if config.softmax and config.norms:
            inputs["is_softmax"] = 1
        for layouts, there in ((config.of_powers, config.softmax), (config.of_rows, config.norms)):
            if there:
                inputs |= layouts.inputs.members
                outputs |= layouts.outputs.members
        return {
            **{name: In(shape) for name, shape in inputs.items()},
            **{name: Out(shape) for name, shape in outputs.items()},
        }

    def fill(self, m: Module, platform: object) -> None:
        config = self.config
        pipe = Pipeline(m, self.en, config.places, len(config.places), reset=False)
        is_softmax: Value = Const(config.softmax, 1)
        if config.softmax and config.norms:
            # A flag of the lane's own, so that it drives no other lane.
            is_softmax = kept(m, self.en, "softmax_is_on", self.is_softmax)
        halves: list[_Powers | _Norm] = []
        if config.softmax:
            halves.append(_Powers(m, pipe, self))
        if config.norms:
            halves.append(_Norm(m, pipe, self))
        factors = [half.factors() for half in halves]
        both = factors[0]
        if len(factors) > 1:
            both = _either(m, is_softmax, factors[0], factors[1], config.of_norms.correction)
        cross = partial(pipe.cross, "halved")
        product = sum_of_rows(m, "product", both, cross, cross_digits=config.norms)
        lowest = min(half.lowest for half in halves)
        product = pipe.cross("product", "product", product[lowest:])
        ways = [half.shift(product[half.lowest - lowest :]) for half in halves]
        way = _one_of(is_softmax, *ways) if len(ways) > 1 else ways[0]
        number = named(m, "number", None, way.number & way.counts.replicate(len(way.number)))
        top = Cat(Const(0, way.bits - len(number)), number)
        shifted = named(m, "shifted", way.bits, top >> way.down)
        if config.norms:
            square = shifted if config.centre else shifted >> _UNCENTRED
            if config.softmax:
                none = (~is_softmax).replicate(config.term_place)
                square = Cat(square[: config.term_place] & none, square[config.term_place :])
            m.d.comb += self.square.eq(square)
        for half in halves:
            half.give(shifted)


def _either(
    m: Module, is_softmax: Value, power: Factors, norm: Factors, correction: int
) -> Factors:
    """Factors of softmax, which has more and longer rows, or of a norm."""
    assert norm.complete is not None
    first, odd = divmod(power.cut - norm.cut, 2)
    # Where a digit less would put a row a bit too far, the factor is doubled.
    factor = named(m, "factor_of_both", None, Mux(is_softmax, power.factor, norm.factor << odd))
    nothing = Digit(Const(0, 1), Const(0, 1), Const(0, 1))
    digits = [
        Digit(
            *(
                named(
                    m, f"digit_{place}_{part}_of_both", 1, Mux(is_softmax, own, vars(other)[part])
                )
                for part, own in vars(mine).items()
            )
        )
        for place, (mine, other) in enumerate(
            zip(power.digits, [*[nothing] * first, *norm.digits], strict=True)
        )
    ]
    bits = norm.complete[1]
    constant = constant_of(len(factor), len(digits), power.cut, bits) + correction
    return Factors(
        start=Mux(is_softmax, power.start, constant % (1 << bits)),
        factor=factor,
        digits=digits,
        cut=power.cut,
        complete=(~is_softmax, bits),
    )


@dataclass(frozen=True, kw_only=True)
class _Shift:
    """A number that is shifted down from the top of so many bits, if it counts."""

    bits: int
    number: Value
    down: Value
    counts: Value


def _one_of(is_softmax: Value, power: _Shift, norm: _Shift) -> _Shift:
    bits = max(power.bits, norm.bits)
    size = max(len(power.number), len(norm.number))
    numbers = (Cat(Const(0, size - len(each.number)), each.number) for each in (power, norm))
    return _Shift(
        bits=bits,
        number=Mux(is_softmax, *numbers),
        down=Mux(is_softmax, power.down, norm.down),
        counts=Mux(is_softmax, power.counts, norm.counts),
    )


class _Powers:
    """Softmax's part of a lane."""

    def __init__(self, m: Module, pipe: Pipeline, lane: RowLane) -> None:
        self._m, self._pipe, self._lane = m, pipe, lane
        self._widths = lane.config.of_softmax
        table = self._widths.power
        self._fraction_bits = table.index_bits + table.offset_bits
        self.lowest = self._widths.product_fraction_bits - self._fraction_bits

    def factors(self) -> Factors:
        """The difference from the maximum, and the factor's digits."""
        m, pipe, lane, widths = self._m, self._pipe, self._lane, self._widths
        key = lane.key.as_signed()
        counts: Value = named(m, "counts", 1, key >= lane.threshold.as_signed())
        cross = partial(pipe.cross, "shifted")
        place = windowed(m, "place", lane.key, lane.position, widths.window_bits, cross)
        counts = cross("counts", counts)
        place, counts = pipe.cross_all("placed", place=place, counts=counts)
        difference: Value = truncated(m, "lowered", widths.window_bits, place + lane.complement)
        difference, counts = pipe.cross_all("difference", difference=difference, counts=counts)
        self._counts = pipe.cross("halved", "counts", counts)
        digits = [
            Digit(*(lane.digits[part][place] for part in ("one", "two", "negative")))
            for place in range(widths.digits)
        ]
        return Factors(
            factor=difference,
            digits=[*digits, Digit(Const(1, 1), Const(0, 1), Const(0, 1))],
            start=lane.offset,
            cut=widths.digit_shifts[0],
        )

    def shift(self, product: Value) -> _Shift:
        """The power of a product, shifted right by 63 less its exponent: by its inverted bits."""
        m, pipe, table = self._m, self._pipe, self._widths.power
        bits = self._fraction_bits
        counts = pipe.cross("product", "counts", self._counts)
        fraction, whole = product[:bits], product[bits : bits + ROOM_BITS]
        offset, segment = fraction[: table.offset_bits], fraction[table.offset_bits :]
        power: Value = polynomial(m, "polynomial", table, segment, offset, pipe)
        whole, counts = pipe.cross_all("sloped", whole=whole, counts=counts)
        mantissa = power[: table.fraction_bits]  # below the leading one
        below_one = named(m, "is_below_one", 1, counts & ~whole.all())
        self._mantissa, self._whole, self._counts, self._below_one = pipe.cross_all(
            "power", mantissa=mantissa, whole=whole, counts=counts, below_one=below_one
        )
        near = named(m, "is_near", 1, self._counts & self._whole[-1])
        return _Shift(
            bits=self._widths.term_bits,
            number=Cat(self._mantissa, Const(1, 1)),
            down=~self._whole[:-1],
            counts=near,
        )

    def give(self, shifted: Value) -> None:
        """The power in both forms. Its exponent is that of a number up to 2, 63 for one from 1."""
        m, lane, whole = self._m, self._lane, self._whole
        bits = len(self._mantissa)
        padding = Const(0, MANTISSA_BITS - bits)
        # The exponent field is 64 more than `whole`. A number from 1 is 1, which has no fraction.
        fraction = self._mantissa & self._below_one.replicate(bits)
        exponent = Cat(whole, 1, 0) & self._counts.replicate(len(whole) + 2)
        number = named(m, "power_number", 32, Cat(padding, fraction, exponent))
        nan = Const(CANONICAL_NAN, 32)
        m.d.comb += lane.power.eq(Mux(lane.invalid, nan, number))
        if not lane.config.norms:
            m.d.comb += lane.term.eq(shifted)


class _Norm:
    """The part of a lane that norms need."""

    def __init__(self, m: Module, pipe: Pipeline, lane: RowLane) -> None:
        self._m, self._pipe, self._lane = m, pipe, lane
        self._widths = lane.config.of_norms
        self.lowest = 2  # of a product

    def factors(self) -> Factors:
        """A significand by itself, or by the reciprocal deviation."""
        m, pipe, lane, widths = self._m, self._pipe, self._lane, self._widths
        number, place, negative, zero = self._difference()
        number, place, negative, zero, squares = pipe.cross_all(
            "significand",
            number=number[:-1],
            place=place,
            negative=negative,
            zero=zero,
            # A flag of the lane's own, so that it drives no other lane.
            squares=lane.squares,
        )
        # The first bit is set: of a difference of 0 no product is used.
        number = Cat(number, Const(1, 1))
        # The factor that is there first is recoded.
        root = Cat(Const(0, widths.reciprocal - widths.number), number)
        # In passes of squares `reciprocal` is 0, if there is a mean: an OR is faster than a choice.
        always = lane.config.centre and not lane.config.optional
        other = lane.reciprocal if always else Mux(squares, 0, lane.reciprocal)
        factor = named(m, "factor", widths.reciprocal, Mux(squares, root, 0) | other)
        self._place, self._negative, self._zero, self._squares = pipe.cross_all(
            "halved", place=place, negative=negative, zero=zero, squares=squares
        )
        digits = digits_of(m, "number", number)
        bits = widths.number + widths.reciprocal - widths.cut
        constant = constant_of(widths.reciprocal, len(digits), widths.cut, bits)
        return Factors(
            factor=factor,
            digits=digits,
            start=Const((constant + widths.correction) % (1 << bits), bits),
            cut=widths.cut,
            complete=(Const(1, 1), bits),
        )

    def _difference(self) -> tuple[Value, Value, Value, Value]:
        """Significand of a difference, zeros above it, sign, and whether it is 0."""
        m, pipe, lane = self._m, self._pipe, self._lane
        window_bits, number_bits = self._widths.window, self._widths.number
        difference_bits = window_bits + 1
        field = lane.word[MANTISSA_BITS:31]
        hidden = named(m, "hidden_bit", 1, field.any())
        significand = Cat(lane.word[:MANTISSA_BITS], hidden)
        exponent = Cat(field[0] | ~hidden, field[1:])
        below = truncated(m, "below_largest", EXPONENT_BITS, lane.largest - exponent)
        nonzero = named(m, "is_nonzero", 1, significand.any())
        sign = named(m, "has_sign", 1, lane.word[31] & nonzero)
        if not lane.config.centre:
            zeros, number = _normalised(m, significand, number_bits)
            place = named(m, "place", EXPONENT_BITS + 1, below + zeros)
            return number, place, sign, ~nonzero
        window = Cat(Const(0, window_bits - _FULL), significand)
        steps = (window_bits - 1).bit_length()
        moves: Value = below
        itself: Value = Const(0, 1)
        lower: Value = Const(0, 1)
        centred: Value = Const(1, 1)
        if lane.config.optional:
            # Without a mean the value stays where it is, and has neither sign nor offset.
            centred = lane.centred
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
        low = named(m, "less_low", half + 1, value[:half] - lane.mean[:half])
        low, borrow, high, itself, lower = pipe.cross_all(
            "value", low=low[:half], borrow=low[half], high=value[half:], itself=itself, lower=lower
        )
        m.d.comb += lane.value.eq(Cat(low, high))
        bits = difference_bits - half + 2
        terms = Cat(Const(0, 1), high), Cat(borrow, lane.mean[half:])
        upper = named(m, "less_high", signed(bits), terms[0] - terms[1])[1:]
        less = named(m, "less_mean", signed(difference_bits + 1), Cat(low, upper))
        # It stands for half a unit more, so that its one's complement is its magnitude.
        flips = less[-1]
        distance = less[:-1] ^ flips.replicate(difference_bits)
        distance = named(m, "distance", difference_bits, distance)
        distance, flips, itself, lower = pipe.cross_all(
            "distance", distance=distance, flips=flips, itself=itself, lower=lower
        )

        def cross(name: str, value: Value) -> Value:
            return pipe.cross("zeros", name, value)

        zeros, number = _normalised(m, Cat(centred, distance), number_bits, cross)
        flips, itself, lower = pipe.cross_all("zeros", flips=flips, itself=itself, lower=lower)
        # Of a difference of 0 or -1 all bits but the lowest are zeros, and no other has so many.
        most = Cat(bit for place, bit in enumerate(zeros) if difference_bits >> place & 1)
        zero = named(m, "is_zero", 1, most.all() & ~flips)
        place = zeros
        if lane.config.optional:
            place = named(m, "place", EXPONENT_BITS + 1, lower + zeros)
        return number, place, flips | itself, zero

    def shift(self, product: Value) -> _Shift:
        """A product in fixed point as a square, or as what is below the normal numbers."""
        m, pipe, lane, widths = self._m, self._pipe, self._lane, self._widths
        squares, place = self._squares, self._place
        product = product[: widths.product]
        # A result's exponent is the negative of what it would be shifted down by if that were not
        # below 0. A square is shifted down by twice its place.
        down = named(m, "down", signed(BASE_BITS), place - lane.base)
        twice = named(m, "twice", BASE_BITS, Cat(Const(0, 1), place))
        amount = named(m, "amount", signed(BASE_BITS), Mux(squares, twice, down))
        # Bits of distances below which the shifter leaves some of a square.
        steps = (widths.square - 1).bit_length()
        far = named(m, "is_far_square", 1, squares & twice[steps:].any())
        short = named(m, "is_short", 1, ~amount[-1])
        lost = named(m, "is_far_down", 1, short & amount[steps:].any())
        blank = named(m, "is_blank", 1, lost | lane.constant | lane.not_finite)
        nothing = named(m, "is_no_product", 1, self._zero | far | (blank & ~squares))
        amount, shifts, negative, nothing, not_finite = pipe.cross_all(
            "product",
            amount=amount[:EXPONENT_BITS],
            shifts=squares | short | nothing,
            negative=self._negative & ~(lane.not_finite & ~squares),
            nothing=nothing,
            not_finite=lane.not_finite,
        )
        self._found = product, amount, shifts, negative, not_finite
        moves = named(m, "moves_product", steps, Mux(shifts, amount[:steps], 0))
        return _Shift(bits=widths.square, number=product, down=moves, counts=~nothing)

    def give(self, shifted: Value) -> None:
        """A result."""
        m, lane, widths = self._m, self._lane, self._widths
        product, amount, shifts, negative, not_finite = self._found
        magnitude = _magnitude(m, product, shifted[-widths.result - 1 :], amount, shifts)
        # Without a number there are zeros where NaN needs them.
        quiet = 1 << MANTISSA_BITS - 1
        ones = LARGEST_EXPONENT + 1 << MANTISSA_BITS | quiet
        m.d.comb += lane.result.eq(Cat(magnitude | Mux(not_finite, ones, 0), negative))


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
