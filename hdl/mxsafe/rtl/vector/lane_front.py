"""Front of a lane of functions, before the tables: a power of e, and subnormals made normal.

A number has a signed exponent field of 10 bits here, so that it may be larger or smaller than any
binary32. `exp` is whole behind these steps, and `sigmoid` needs a reciprocal yet.

Tested by `verif/rtl/vector/test_function_lane.py`.
"""

from collections.abc import Mapping, Sequence

from amaranth.hdl import Cat, Const, Module, Mux, Value

from mxsafe import tables
from mxsafe.rtl.arithmetic.bits import any_of, named, truncated
from mxsafe.rtl.arithmetic.float_steps import EXPONENT_BITS, MANTISSA_BITS, leading_one_and_zeros
from mxsafe.rtl.arithmetic.pipeline import Pipeline
from mxsafe.rtl.vector.polynomial import columns, product_rows, slope_at
from mxsafe.rtl.vector.segments import Segment, Segments
from mxsafe.tables import Grade, activation

POWERS = ("exp", "sigmoid")
"""Functions with a power of e."""
ROOTS = ("reciprocal", "rsqrt")
"""Functions of which subnormal arguments are made normal."""
FRONT = ("scaled", "powered", "power_sloped", "raised", "merged")
"""Where registers may stand, in the direction of the data."""
FIELD_BITS = 10
_BIAS = 127
_LEAST_FIELD, _FAR_FIELD = _BIAS - 20, _BIAS + 7
"""Numbers below count as 0 in a power of e; from there on it is 0 or Inf."""
_POWER_EXPONENT_BITS = 9


def front_of(
    m: Module,
    pipe: Pipeline,
    word: Value,
    chosen: Mapping[str, Value],
    known: Sequence[int],
    grade: Grade,
) -> tuple[Value, Value, Value, dict[int, Value]]:
    """Sign, field and mantissa of the number that the tables get, and what is known of its field.

    Parameters
    ----------
    m : amaranth.hdl.Module
    pipe : Pipeline
        It has registers at some of `FRONT`.
    word : Value
        A binary32.
    chosen : Mapping
        By name whether a function is chosen, when `word` comes.
    known : sequence of int
        Fields that are to be told apart early, unless the number is made of a power.
    grade : {"compact", "fine"}
        Of powers.

    Returns
    -------
    sign : Value
        For the sigmoid it says that the result is NaN.
    field : Value
        Signed, or of 8 bits if there is no root to take. Of a zero of which a root is taken it is
        -256, and of Inf whose root is taken it is so large that its root is zero.
    mantissa : Value
    known : dict
        For each of the fields in `known`, whether it is the number's.
    """
    number = named(m, "normalised", None, _normalised(m, word, chosen))
    sign = word[-1]
    if set(POWERS) & set(chosen):
        power = _Power(m, pipe, word, chosen, grade)
        sign, number = power.before_merging(sign, number)
    before = number[MANTISSA_BITS : MANTISSA_BITS + EXPONENT_BITS]
    if set(POWERS) & set(chosen):
        sign, number = power.merged(sign, number)
    sign, number = pipe.cross_all("merged", sign=sign, number=number)
    # It takes a long time to tell fields apart, and here is some.
    fields = {field: pipe.cross("merged", f"has_field_{field}", before == field) for field in known}
    return sign, number[MANTISSA_BITS:].as_signed(), number[:MANTISSA_BITS], fields


def _normalised(m: Module, word: Value, chosen: Mapping[str, Value]) -> Value:
    """Mantissa and field, of arguments of roots without leading zeros."""
    mantissa, field = word[:MANTISSA_BITS], word[MANTISSA_BITS:31]
    wide = "sigmoid" in chosen
    roots = [chosen[name] for name in ROOTS if name in chosen]
    if not roots:
        return Cat(mantissa, field, Const(0, FIELD_BITS - EXPONENT_BITS if wide else 0))
    low = named(m, "is_below_normal", 1, any_of(roots) & ~field.any())
    some = named(m, "has_mantissa", 1, mantissa.any())
    _, zeros = leading_one_and_zeros(m, "leading_zeros", mantissa)
    up = named(m, "raised_mantissa", MANTISSA_BITS, (mantissa << (zeros + 1))[:MANTISSA_BITS])
    down = named(m, "lowered_field", EXPONENT_BITS, -zeros)
    lowered = down & some.replicate(EXPONENT_BITS)
    below = named(m, "is_below_zero_field", 1, low & (~some | lowered[-1]))
    huge = Const(0, 1)
    if "rsqrt" in chosen:
        huge = named(m, "is_root_of_infinity", 1, chosen["rsqrt"] & field.all())
    return Cat(Mux(low, up, mantissa), Mux(low, lowered, field), below | huge, below)


def _signed_digits(number: int) -> list[tuple[int, int]]:
    """Digits -1 and 1 of a number, with their places: as few as there can be."""
    digits = []
    for place in range(number.bit_length() + 1):
        if number >> place & 1:
            digit = 2 - (number >> place & 3)
            digits.append((place, digit))
            number -= digit << place
    return digits


class _Power:
    """A power of e, step by step; a number of which none is wanted goes along in its registers."""

    def __init__(
        self,
        m: Module,
        pipe: Pipeline,
        word: Value,
        chosen: Mapping[str, Value],
        grade: Grade,
    ) -> None:
        self._m, self._pipe, self._word = m, pipe, word
        self._flags = {name: chosen[name] for name in POWERS if name in chosen}
        self._alone = len(self._flags) == len(chosen)
        self._table = tables.load(f"exp2_{grade}")
        self._fraction_bits = self._table.index_bits + self._table.offset_bits
        self._widths = activation.POWERS[grade]
        self._number_bits = 0

    def before_merging(self, sign: Value, other: Value) -> tuple[Value, Value]:
        """Whether the power is NaN, and what it is; or sign, mantissa and field of `other`."""
        m, pipe = self._m, self._pipe
        self._number_bits = len(other)
        nan, product = self._product()
        payload = self._or("product", product, other)
        sign = named(m, "sign_or_nan", 1, Mux(self._wanted, nan, sign))
        sign, payload = self._cross("scaled", sign, payload)
        payload = self._or("exponent_of_two", self._power(payload), payload)
        sign, payload = self._cross("powered", sign, payload)
        _, c1, c2 = self._coefficients("power", payload, 1, 2)
        distance = self._distance("power", payload)
        slope = slope_at(m, "power", self._table, c1, c2, distance)
        slope = pipe.cross("power_sloped", "power_slope", slope)
        sign, payload = self._cross("power_sloped", sign, payload)
        payload = self._or("power_of_two", self._raised(payload, slope), payload)
        return self._cross("raised", sign, payload)

    @property
    def _wanted(self) -> Value:
        """Whether a power is wanted."""
        return Const(1, 1) if self._alone else any_of(self._flags.values())

    def _or(self, name: str, power: Value, other: Value) -> Value:
        """Return the input of the registers: a power's value, or that of another number."""
        power = named(self._m, name, None, power)
        if self._alone:
            return power
        chosen = Mux(self._wanted, power, other[: self._number_bits])
        return named(self._m, f"{name}_or_number", None, chosen)

    def _cross(self, boundary: str, sign: Value, payload: Value) -> tuple[Value, Value]:
        if not (self._alone and len(self._flags) == 1):
            for name, value in self._flags.items():
                self._flags[name] = self._pipe.cross(boundary, f"is_{name}", value)
        sign, payload = self._pipe.cross_all(boundary, sign=sign, payload=payload)
        return sign, payload

    def _product(self) -> tuple[Value, Value]:
        """Whether x is NaN; and its size times log2(e), and what is to be done with that."""
        m = self._m
        mantissa, field = self._word[:MANTISSA_BITS], self._word[MANTISSA_BITS:31]
        far = named(m, "is_far", 1, field >= _FAR_FIELD)
        within = named(m, "counts", 1, (field >= _LEAST_FIELD) & ~far)
        widths = self._widths
        significand = Cat(mantissa[MANTISSA_BITS - widths.argument_bits :], Const(1, 1))
        digits = _signed_digits(widths.log2_e)
        # To add up 5 times the significand first takes fewer gates by a tenth, and half as long
        # again. A row to subtract is that of the inverted significand, and a constant.
        rows = [(significand if sign > 0 else ~significand) << place for place, sign in digits]
        width = widths.argument_bits + widths.log2_e_bits + 2
        most = (1 << len(significand)) - 1
        constant = -sum(most << place for place, sign in digits if sign < 0) % (1 << width)
        product = truncated(m, "scaled", width, sum(rows, Const(constant, width)))
        size = product[self._least :] & within.replicate(width - self._least)
        amount = truncated(m, "amount", 5, Const(_FAR_FIELD - 1, 8) - field)
        # The sigmoid takes a power of -x.
        sigmoid = self._flags.get("sigmoid", Const(0, 1))
        downwards = named(m, "is_downwards", 1, self._word[31] ^ sigmoid)
        nan = named(m, "is_nan", 1, field.all() & mantissa.any())
        return nan, Cat(size, amount, downwards, far)

    @property
    def _least(self) -> int:
        """Bits of a product that no power needs: the largest number that counts is not shifted."""
        widths = self._widths
        product_bits = widths.argument_bits + widths.log2_e_bits
        return product_bits - self._fraction_bits - (_FAR_FIELD - 1 - _BIAS)

    def _power(self, payload: Value) -> Value:
        """x, or -x for the sigmoid, times log2(e): bits of a fraction for the table, 9 above."""
        m = self._m
        width = self._fraction_bits + _POWER_EXPONENT_BITS - 1
        amount, downwards, far = payload[width : width + 5], payload[width + 5], payload[width + 6]
        size = named(m, "size", width, payload[:width] >> amount)
        signed = truncated(m, "power", width + 1, Mux(downwards, -size, size))
        # Beyond all that counts its size is 255.
        lowest, *others = signed[self._fraction_bits : -1]
        upper = Cat(*others) | (far & ~downwards).replicate(len(others))
        top = signed[-1] | (far & downwards)
        return Cat(signed[: self._fraction_bits], lowest | far, upper, top)

    def _coefficients(self, name: str, payload: Value, *powers: int) -> list[Value]:
        """Coefficients of these powers for the upper bits of the fraction; 0 for others."""
        m, table = self._m, self._table
        depth = table.index_bits
        segments = [Segment("exp2", None, depth, index) for index in range(table.segments)]
        every = {"exp2": Const(1, 1)}
        lines = Segments(m, segments, every, {}, payload[: self._fraction_bits], prefix=name)
        found: list[Value] = [Const(0, 0)] * 3
        for power in powers:
            values = columns(table)[power]
            if not any(values):
                continue
            bits = [
                lines.column(f"{name}_c{power}_{bit}", [bool(value >> bit & 1) for value in values])
                for bit in range(max(values).bit_length())
            ]
            found[power] = named(m, f"{name}_c{power}", len(bits), Cat(*bits))
        lines.connect()
        return found

    def _distance(self, name: str, payload: Value) -> Value:
        """Where in its segment the fraction is, from the middle."""
        offset = payload[: self._table.offset_bits]
        distance = Cat(offset[:-1], ~offset[-1])
        return named(self._m, f"{name}_distance", len(offset), distance).as_signed()

    def _raised(self, payload: Value, slope: Value) -> Value:
        """Mantissa of two to the power, and its exponent."""
        m, table = self._m, self._table
        fraction, exponent = payload[: self._fraction_bits], payload[self._fraction_bits :]
        distance = self._distance("raised", payload)
        rows = product_rows(m, "power_rise", slope, distance, table.result_shift)
        middle = self._coefficients("raised", payload, 0)[0][: table.fraction_bits]
        total = truncated(m, "power_total", table.fraction_bits, sum(rows, middle))
        # Powers of two are exact.
        some = named(m, "has_fraction", 1, fraction.any())
        mantissa = total & some.replicate(table.fraction_bits)
        upper = exponent[:_POWER_EXPONENT_BITS]
        if "sigmoid" in self._flags:
            # To add 1 takes the size of the exponent. From 31 on, nothing is left of a power.
            sigmoid, lower = self._flags["sigmoid"], upper[-1]
            size = truncated(m, "exponent_size", len(upper) - 1, -upper[:-1])
            size = size | size[5:].any().replicate(5)
            upper = Cat(Mux(sigmoid & lower, size, upper[:-1]), lower)
        return Cat(mantissa, upper)

    def merged(self, sign: Value, payload: Value) -> tuple[Value, Value]:
        """Sign, mantissa and field: of the exponential, of 1 more than it, or of another number."""
        bits = self._table.fraction_bits
        mantissa = Cat(Const(0, MANTISSA_BITS - bits), payload[:bits])
        exponent = payload[bits : bits + _POWER_EXPONENT_BITS]
        number: Value = payload[: self._number_bits]
        nan = sign
        # What takes longest comes last.
        if "exp" in self._flags:
            exp = Const(1, 1) if self._alone and len(self._flags) == 1 else self._flags["exp"]
            number = Mux(exp, self._exponential(nan, exponent, mantissa), number)
            sign = sign & ~exp
        if "sigmoid" in self._flags:
            number = Mux(self._flags["sigmoid"], self._one_more(exponent, mantissa), number)
        return sign, named(self._m, "merged", None, number[: self._number_bits])

    def _exponential(self, nan: Value, exponent: Value, mantissa: Value) -> Value:
        """Mantissa and field of ``e^x``."""
        m = self._m
        field = truncated(m, "power_field", FIELD_BITS, exponent.as_signed() + _BIAS)
        small = named(m, "is_too_small", 1, field[-1] | ~field.any())
        large = named(m, "is_too_large", 1, ~field[-1] & (field[8] | field[:8].all()))
        top = named(m, "has_top_field", 1, large | nan)
        kept = named(m, "keeps_mantissa", 1, ~(small | top))
        below = mantissa & kept.replicate(MANTISSA_BITS)
        inner = Mux(top, (1 << EXPONENT_BITS) - 1, field[:EXPONENT_BITS])
        inner = inner & (top | ~small).replicate(EXPONENT_BITS)
        return Cat(below[:-1], below[-1] | nan, inner, Const(0, FIELD_BITS - EXPONENT_BITS))

    def _one_more(self, exponent: Value, mantissa: Value) -> Value:
        """Mantissa and field of one more than a power of e, whose exponent is a sign and a size."""
        m, bits = self._m, self._widths.sum_bits
        mantissa = mantissa[MANTISSA_BITS - bits :]
        size, lower = exponent[:-1], exponent[-1]
        spread = lower.replicate(bits)
        # Of 1 and the power the larger one is as it is, and the other one is moved. Of 1 in their
        # places there is a mantissa of zeros.
        near = named(m, "is_near", 1, ~size[5:].any())
        large = named(m, "larger", bits + 1, Cat(mantissa & ~spread, Const(1, 1)))
        moved = named(m, "moved", bits + 1, Cat(mantissa & spread, lower | near))
        small = named(m, "smaller", bits + 1, moved >> size[:5])
        total = named(m, "one_more", bits + 2, large + small)
        carry = total[-1]
        fraction = Mux(carry, total[1:-1], total[:-2])
        # A carry is of a number from 1 on, whose size is that of its exponent.
        raised = Cat(size[:7], ~size[7], size[7])
        same = truncated(m, "one_more_field", FIELD_BITS, Mux(lower, 0, size) + _BIAS)
        zeros = Const(0, MANTISSA_BITS - bits)
        return Cat(zeros, fraction[:bits], Mux(carry, raised, same))
