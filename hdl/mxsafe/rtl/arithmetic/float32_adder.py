"""IEEE 754 binary32 addition."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from mxsafe.rtl.arithmetic.bits import named, noted, truncated
from mxsafe.rtl.arithmetic.float_steps import (
    EXPONENT_BITS,
    INFINITY,
    LARGEST_EXPONENT,
    MANTISSA_BITS,
    normalise,
    normalise_in_stages,
    pack_special,
    round_and_pack,
    shift_sticky,
)
from mxsafe.rtl.arithmetic.pipeline import Pipeline, Sideband
from mxsafe.rtl.timing import Target, only_for, stages_of
from mxsafe.rtl.unit import Configuration, Ports, Unit

_EXTRA_BITS = 3  # below the significand: two, and a sticky one


class Float32AdderConfiguration(Configuration):
    """A `Float32Adder`.

    Parameters
    ----------
    pipeline : int, optional
        Registers on the way, 0 to 4, for an FPGA 0 to 23; by default 0, for an FPGA 12. With 0 the
        unit is combinational.
    reset : bool
        Whether they are reset; no matter without registers.
    clearable : bool
        Whether there is `clear_a`.
    quick : bool
        The distance of the exponents does not wait for mantissas to be compared, significands are
        added in three parts in place of two, and how far a sum goes to the left is found bit by bit
        from the top: faster and larger. Not for an FPGA.
    one_nan : bool
        The only NaN that comes is ``0x7fc00000``, as `Scaler` and this unit make it.
    target : {"asic", "fpga"}
        What the unit is built for, see `mxsafe.rtl.timing`.
    """

    shown_if_not_default = frozenset({"target", "quick", "one_nan"})

    pipeline: int | None = None
    reset: bool = False
    clearable: bool = False
    quick: bool = False
    one_nan: bool = False
    target: Target = "asic"

    def __post_init__(self) -> None:
        only_for(self, "asic", "quick")
        stages = stages_of(self)
        self._settle(pipeline=stages.default)
        self._set(pipeline=stages.require("pipeline", self.pipeline))
        self._set(reset=bool(self.reset and self.pipeline))

    @property
    def boundaries(self) -> tuple[str, ...]:
        """Where the registers stand."""
        return stages_of(self).standing(self.latency)

    @property
    def in_steps(self) -> bool:
        """Whether registers may stand between all steps, see `Float32Adder`."""
        return self.target == "fpga"


class Float32Adder(Unit[Float32AdderConfiguration]):
    """Sum of two IEEE 754 binary32 numbers, rounded to nearest even.

    Subnormals count, overflow gives Inf, every NaN is ``0x7fc00000``. A sum that loses two or more
    leading bits, or is subnormal, is exact: it is normalised while the others are rounded.

    Attributes
    ----------
    en_last, en : In(1)
        Clock enable of the last register and of those before it, if there are any.
    clear_a : In(1)
        `a` counts as +0, as at the start of a sum. It is masked late, so that a flag with many
        loads does not hold up the comparison.
    a, b : In(32)
        Binary32 numbers.
    sum : Out(32)
        Their sum.

    Notes
    -----
    By target: for an FPGA significands are added in one carry chain, which is faster there than
    parts that do not wait for each other in look-up tables; and a sum is normalised in steps of one
    distance each, between which registers may stand.

    What was tried is in ``docs/experiments.md``.
    """

    def ports(self) -> Ports:
        config = self.config
        enable = {"en_last": In(1)} if config.pipeline else {}
        if config.latency > 1:
            enable["en"] = In(1)
        clear = {"clear_a": In(1)} if config.clearable else {}
        return {**enable, **clear, "a": In(32), "b": In(32), "sum": Out(32)}

    def fill(self, m: Module, platform: object) -> None:
        pipe = Pipeline(
            m,
            self.en if self.latency > 1 else Const(1),
            self.config.boundaries,
            self.latency,
            reset=self.config.reset,
            en_last=self.en_last if self.latency else None,
        )
        total = self._added(m, pipe, self._ordered(m, pipe))
        result = self._rounded(m, pipe, self._normalised(m, pipe, total))
        m.d.comb += self.sum.eq(pipe.cross("output", "sum", result))

    def _ordered(self, m: Module, pipe: Pipeline) -> tuple[Value, ...]:
        """The larger operand, the other, whether they are subtracted, how far apart they are.

        And whether the sum is infinite or has no value.
        """
        clear = self.clear_a if self.config.clearable else Const(0, 1)
        b_larger, b_further = self._compared(m)
        a, b, clearing, b_larger = pipe.cross_all(
            "compared", a=self.a, b=self.b, clear=clear, b_is_larger=b_larger
        )
        swap = noted(
            named(m, "swap", 1, clearing | b_larger),
            "A cleared operand counts as the smaller one, and is masked once it is known to be.",
        )
        a_sign, a_bits = self._kept(m, a, clearing)
        large: Value = named(m, "large", 32, Mux(swap, b, a))
        small: Value = named(m, "small", 31, Mux(swap, a_bits, b[:31]))
        subtract: Value = named(m, "subtract", 1, a_sign ^ b[31])
        left, right = _exponent(m, "a", self.a), _exponent(m, "b", self.b)
        a_less_b = truncated(
            m,
            "a_less_b",
            EXPONENT_BITS,
            left - right,
            note="Both differences of exponents: the right one is ready when the comparison is.",
        )
        b_less_a = truncated(m, "b_less_a", EXPONENT_BITS, right - left)
        a_less_b, b_less_a = pipe.cross_all("compared", a_less_b=a_less_b, b_less_a=b_less_a)
        if self.config.quick:
            b_further = pipe.cross("compared", "b_has_larger_exponent", b_further)
        else:
            b_further = swap
        distance: Value = named(m, "distance", EXPONENT_BITS, Mux(b_further, b_less_a, a_less_b))
        noted(distance, "How far the smaller significand goes to the right.")
        (a_infinite, a_nan), (b_infinite, b_nan) = map(self._special, (self.a, self.b))
        a_infinite = named(m, "a_is_infinite", 1, a_infinite & ~clear)
        b_infinite = named(m, "b_is_infinite", 1, b_infinite)
        a_nan = named(m, "a_is_nan", 1, a_nan & ~clear)
        b_nan = named(m, "b_is_nan", 1, b_nan)
        a_infinite, b_infinite, a_nan, b_nan = pipe.cross_all(
            "compared",
            a_is_infinite=a_infinite,
            b_is_infinite=b_infinite,
            a_is_nan=a_nan,
            b_is_nan=b_nan,
        )
        infinite: Value = named(m, "infinite", 1, a_infinite | b_infinite)
        cancels_infinity = named(m, "cancels_infinity", 1, a_infinite & b_infinite & subtract)
        noted(cancels_infinity, "Inf less Inf has no value: NaN.")
        invalid: Value = named(m, "invalid", 1, a_nan | b_nan | cancels_infinity)

        return pipe.cross_all(
            "ordered",
            large=large,
            small=small,
            subtract=subtract,
            distance=distance,
            infinite=infinite,
            invalid=invalid,
        )

    def _added(self, m: Module, pipe: Pipeline, operands: tuple[Value, ...]) -> tuple[Value, ...]:
        """Sum of the significands, with the exponent and sign of the larger one.

        And whether they were subtracted, and whether the sum is infinite or has no value.
        """
        large, small, subtract, distance, infinite, invalid = operands
        sideband = Sideband(
            pipe, large=large, subtract=subtract, infinite=infinite, invalid=invalid
        )
        extended = Cat(Const(0, _EXTRA_BITS), _significand(m, "small", small))
        aligned: Value = shift_sticky(m, "shifted", extended, distance, sideband)
        (aligned,) = sideband.cross("aligned", aligned=aligned)
        significand = _significand(m, "large", sideband["large"])
        total: Value
        if self.config.in_steps:
            total = _sum_in_a_chain(m, significand, aligned, sideband)
        else:
            parts = 3 if self.config.quick else 2
            total = _sum_or_difference(m, significand, aligned, sideband, parts)
        large, subtract, infinite, invalid = sideband.all
        return pipe.cross_all(
            "added",
            total=total,
            exponent=_exponent(m, "large", large),
            negative=large[31],
            subtract=subtract,
            infinite=infinite,
            invalid=invalid,
        )

    def _normalised(self, m: Module, pipe: Pipeline, added: tuple[Value, ...]) -> dict[str, Value]:
        """The sum as it is to be rounded, and as it is where it is exact."""
        total, exponent, negative, subtract, infinite, invalid = added
        carry, top, second = total[-1], total[-2], total[-3]
        unlimited = named(m, "is_unlimited", 1, exponent[1:].any())  # more than that of subnormals
        rounds: Value = noted(
            named(m, "rounds", 1, carry | top | (second & unlimited)),
            "A sum is rounded only if it lost at most one leading bit; with more of them lost it "
            "is exact, and is normalised beside.",
        )
        once, twice = Cat(Const(0, 1), total[:-1]), Cat(Const(0, 2), total[:-2])
        no_carry = named(m, "leading_without_carry", len(total), Mux(top, once, twice))
        leading: Value = named(m, "leading", len(total), Mux(carry, total, no_carry))
        base: Value = truncated(
            m,
            "base",
            EXPONENT_BITS,
            exponent - 1,
            note="Less one: the hidden bit adds one to the exponent, or two where the sum carried.",
        )
        raised: Value = Cat(top & ~carry, carry)
        at_largest = named(m, "is_at_largest", 1, exponent == LARGEST_EXPONENT)
        too_large = named(m, "is_too_large", 1, carry & at_largest)
        # The lowest two bits are 0 where this counts: the exponents differ by one at most.
        if self.config.in_steps:
            sideband = Sideband(
                pipe,
                rounds=rounds,
                leading=leading,
                base=base,
                raised=raised,
                subtract=subtract,
                negative=negative,
                infinite=infinite,
                too_large=too_large,
                invalid=invalid,
            )
            value, field = normalise_in_stages(m, "shifted_left", total[2:-1], exponent, sideband)
            rest: Value = value
            rounds, leading, base, raised, subtract, negative, infinite, too_large, invalid = (
                sideband.all[:9]
            )
        else:
            quick = self.config.quick
            value, field = normalise(m, "shifted_left", total[2:-1], exponent, quick=quick)
            # Ones are not shifted out: what is left shows before the shift, too.
            rest = total[2:-1] if quick else value
        exact: Value = Cat(value[1:-1], field)
        left_over = named(m, "has_rest", 1, rounds | rest.any())
        cancels = named(m, "cancels", 1, subtract & ~left_over)
        noted(cancels, "x - x is +0, whatever the sign of x.")
        values = {
            "rounds": rounds,
            "leading": leading[:-1],  # the hidden bit is in `raised`
            "base": base,
            "raised": raised,
            "exact": exact,
            "negative": negative & ~cancels,
            "infinite": infinite | too_large,
            "invalid": invalid,
        }
        return dict(zip(values, pipe.cross_all("normalised", **values), strict=True))

    def _rounded(self, m: Module, pipe: Pipeline, parts: dict[str, Value]) -> Value:
        """The bits of a normalised sum."""
        leading, base, raised = (parts.pop(name) for name in ("leading", "base", "raised"))
        below = len(leading) - MANTISSA_BITS  # bits below the last of the mantissa
        mantissa, guard = leading[below:], leading[below - 1]
        sticky = named(m, "sticky", 1, leading[: below - 1].any())
        increment: Value = named(m, "increment", 1, guard & (sticky | mantissa[0]))
        noted(
            increment, "Nearest even: up if more than half an ulp is below, or half of an odd one."
        )
        last = Sideband(pipe, **parts)
        mantissa, increment, base, raised = last.cross(
            "incremented", mantissa=mantissa, increment=increment, base=base, raised=raised
        )
        (rounded,) = last.cross(
            "packed", rounded=round_and_pack(m, mantissa, increment, base, raised)
        )
        rounds, exact, negative, infinite, invalid = last.all
        magnitude = named(m, "magnitude", len(rounded), Mux(rounds, rounded, exact))
        return pack_special(m, magnitude, negative, infinite, invalid)

    def _special(self, number: Value) -> tuple[Value, Value]:
        """Whether a number is infinite, or NaN."""
        if not self.config.one_nan:
            return number[:31] == INFINITY, number[:31] > INFINITY
        special, quiet = number[MANTISSA_BITS:31].all(), number[MANTISSA_BITS - 1]
        return special & ~quiet, special & quiet

    def _compared(self, m: Module) -> tuple[Value, Value]:
        """Whether `b` is larger, and whether its exponent is, but for signs."""
        if not self.config.quick:
            return named(m, "b_is_larger", 1, self.b[:31] > self.a[:31]), Const(0, 1)
        exponents = [number[MANTISSA_BITS:31] for number in (self.a, self.b)]
        mantissas = [number[:MANTISSA_BITS] for number in (self.a, self.b)]
        further = named(m, "b_has_larger_exponent", 1, exponents[1] > exponents[0])
        same = named(m, "exponents_are_equal", 1, exponents[1] == exponents[0])
        more = named(m, "b_has_larger_mantissa", 1, mantissas[1] > mantissas[0])
        return named(m, "b_is_larger", 1, further | (same & more)), further

    def _kept(self, m: Module, a: Value, clear: Value) -> tuple[Value, Value]:
        """Sign and other bits of `a`, which is +0 where it is cleared."""
        if not self.config.clearable:
            return a[31], a[:31]
        bits = named(m, "a_or_zero", 31, Mux(clear, 0, a[:31]))
        return named(m, "a_sign", 1, a[31] & ~clear), bits


def _sum_in_a_chain(m: Module, large: Value, aligned: Value, sideband: Sideband) -> Value:
    """Return the result of `_sum_or_difference` from one carry chain behind a row of gates.

    The chain of an FPGA is faster than two halves and a comparison in its look-up tables.
    """
    subtract = sideband["subtract"]
    below, significand = aligned[:_EXTRA_BITS], aligned[_EXTRA_BITS:]
    width = len(significand) + 1
    carry_in: Value = named(m, "carry_in", 1, subtract & ~below.any())
    addend: Value = named(m, "addend", width, Cat(significand, 0) ^ subtract.replicate(width))
    noted(carry_in, "A complement is one short; bits below the significand borrow just that one.")
    borrowed = truncated(m, "borrowed", _EXTRA_BITS, -below)
    extra: Value = named(m, "extra", _EXTRA_BITS, Mux(subtract, borrowed, below))
    carry_in, addend, extra, large = sideband.cross(
        "complemented", carry_in=carry_in, addend=addend, extra=extra, significand=large
    )
    total = named(m, "sum_of_significands", None, large + addend + carry_in)
    return Cat(extra, total[:width])


def _sum_or_difference(
    m: Module, large: Value, aligned: Value, sideband: Sideband, parts: int = 2
) -> Value:
    """The significand of the larger number plus or minus the other, which has extra bits below."""
    subtract = sideband["subtract"]
    below, significand = aligned[:_EXTRA_BITS], aligned[_EXTRA_BITS:]
    has_below = named(m, "has_below", 1, below.any())
    carry_in = named(m, "carry_in", 1, subtract & ~has_below)
    noted(carry_in, "A complement is one short; bits below the significand only borrow from it.")
    width = len(significand) + 1
    addend = named(m, "addend", width, Cat(significand, 0) ^ subtract.replicate(width))
    starts = [len(significand) * part // parts for part in range(parts)]
    places = [slice(*ends) for ends in zip(starts, [*starts[1:], width], strict=True)]
    names = ("lower", *(["middle"] if parts > 2 else []), "upper")
    carries: list[Value] = [carry_in]
    for name, place in zip(names[:-1], places, strict=False):
        prefix = "" if name == "lower" else f"{name}_"
        low, to_add = large[place], addend[place]
        room = named(m, f"{prefix}room", len(low), ~to_add)
        overflows = noted(
            named(m, f"{name}_overflows", 1, low > room),
            "The sum is made in parts. The carry into a part comes from a comparison with the "
            "largest number that has no carry, not from the sum of the part below.",
        )
        fills_up = named(m, f"{name}_fills_up", 1, low == room)
        carries.append(named(m, f"{prefix}carry", 1, overflows | (fills_up & carries[-1])))
    sums: list[Value] = []
    for name, place, carry in reversed(list(zip(names, places, carries, strict=True))):
        part = named(m, f"{name}_without_carry", None, large[place] + addend[place])
        sums.insert(0, truncated(m, name, place.stop - place.start, part + carry))
    borrowed = truncated(m, "borrowed", _EXTRA_BITS, -below)
    extra = named(m, "extra", _EXTRA_BITS, Mux(subtract, borrowed, below))
    return Cat(extra, *sums)


def _exponent(m: Module, name: str, operand: Value) -> Signal:
    """Exponent field, 1 for that of subnormals too."""
    field = operand[MANTISSA_BITS:31]
    zero = named(m, f"{name}_field_is_zero", 1, ~field.any())
    exponent = named(m, f"{name}_exponent", EXPONENT_BITS, Cat(field[0] | zero, field[1:]))
    return noted(exponent, "Exponent field 0, of subnormals, weighs as much as field 1.")


def _significand(m: Module, name: str, operand: Value) -> Value:
    """Hidden bit and mantissa."""
    hidden = named(m, f"{name}_hidden_bit", 1, operand[MANTISSA_BITS:31].any())
    return Cat(operand[:MANTISSA_BITS], hidden)
