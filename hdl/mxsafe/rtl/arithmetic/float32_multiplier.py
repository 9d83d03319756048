"""IEEE 754 binary32 multiplication."""

from amaranth.hdl import Cat, Const, Module, Mux, Value, signed
from amaranth.lib.wiring import In, Out

from mxsafe.rtl.arithmetic.bits import named, noted, truncated
from mxsafe.rtl.arithmetic.carry_save import carry_save
from mxsafe.rtl.arithmetic.dsp_multiplier import DSP_BITS, DspMultiplier
from mxsafe.rtl.arithmetic.float_steps import (
    EXPONENT_BITS,
    LARGEST_EXPONENT,
    MANTISSA_BITS,
    pack_special,
    round_and_pack,
)
from mxsafe.rtl.arithmetic.pipeline import Pipeline
from mxsafe.rtl.arithmetic.radix4 import (
    digit_gates,
    gate_bits,
    multiply,
    partial_products,
    upper_triple,
)
from mxsafe.rtl.timing import Target, stages_of
from mxsafe.rtl.unit import Configuration, Ports, Unit, place

_PRECISION = MANTISSA_BITS + 1
_PRODUCT_BITS = 2 * _PRECISION
_BIAS = 127
_MOST_LEFT = _PRECISION - 1
"""How far a product goes to the left at most: that of a subnormal number with one bit."""
_KEPT = MANTISSA_BITS + 3
"""Bits of the product that matter one by one: two before the point, the mantissa, the guard."""


class Float32MultiplierConfiguration(Configuration):
    """A `Float32Multiplier`.

    Parameters
    ----------
    pipeline : int, optional
        Registers on the way, 0 to 4, by default 0; for an FPGA 5. With 0 the unit is combinational.
    reset : bool
        Whether they are reset; no matter without registers.
    target : {"asic", "fpga"}
        What the unit is built for, see `mxsafe.rtl.timing`.
    """

    pipeline: int | None = None
    reset: bool = False
    target: Target = "asic"

    def __post_init__(self) -> None:
        stages = stages_of(self)
        self._settle(pipeline=stages.default)
        self._set(pipeline=stages.require("pipeline", self.pipeline))
        self._set(reset=bool(self.reset and self.pipeline))

    @property
    def boundaries(self) -> tuple[str, ...]:
        """Where the registers stand."""
        return stages_of(self).standing(self.latency)


class Float32Multiplier(Unit[Float32MultiplierConfiguration]):
    """Product of two IEEE 754 binary32 numbers, rounded to nearest even.

    Subnormals count, as operands and as results; overflow gives Inf, every NaN is ``0x7fc00000``.

    Significands are multiplied as they are. Where the leading one of a subnormal operand stands is
    found meanwhile, so that one shifter after the product serves both ways: to the left for such an
    operand, to the right for a subnormal result.

    Attributes
    ----------
    en : In(1)
        Clock enable of the registers, if there are any.
    a, b : In(32)
        Binary32 numbers.
    product : Out(32)
        Their product.

    Notes
    -----
    Digits of two bits make the product of significands, but where a register stands within it: such
    a register is one of a DSP block, and four `DspMultiplier` make the product then.

    What was tried is in ``docs/experiments.md``.
    """

    def ports(self) -> Ports:
        enable = {"en": In(1)} if self.config.pipeline else {}
        return {**enable, "a": In(32), "b": In(32), "product": Out(32)}

    def fill(self, m: Module, platform: object) -> None:
        pipe = Pipeline(
            m,
            self.en if self.latency else Const(1),
            self.config.boundaries,
            self.latency,
            reset=self.config.reset,
        )
        a_normal, a_zero, a_infinite, a_nan = _kind(m, "a", self.a)
        b_normal, b_zero, b_infinite, b_nan = _kind(m, "b", self.b)
        no_value = named(m, "has_no_value", 1, (a_infinite & b_zero) | (b_infinite & a_zero))
        noted(no_value, "Inf times 0 has no value: NaN.")
        zero: Value = named(m, "is_zero", 1, a_zero | b_zero)
        negative: Value = named(m, "negative", 1, self.a[31] ^ self.b[31])
        infinite: Value = named(m, "infinite", 1, a_infinite | b_infinite)
        invalid: Value = named(m, "invalid", 1, a_nan | b_nan | no_value)
        candidate = named(
            m, "subnormal_mantissa", MANTISSA_BITS, Mux(b_normal, self.a, self.b)[:MANTISSA_BITS]
        )
        noted(
            candidate,
            "Of two subnormals the product is below all that counts: one leading one is looked "
            "for.",
        )
        both_normal = named(m, "both_are_normal", 1, a_normal & b_normal)
        _, index = _leading_index(m, "leading_index", candidate)
        index = Mux(both_normal, Const(_MOST_LEFT, len(index)), index)
        leading: Value = named(m, "place", len(index), index)
        exponents: Value = named(
            m,
            "exponents",
            EXPONENT_BITS + 1,
            _exponent(m, "a", self.a, a_normal) + _exponent(m, "b", self.b, b_normal),
        )
        significand = Cat(self.a[:MANTISSA_BITS], a_normal)
        factor: Value = Cat(self.b[:MANTISSA_BITS], b_normal)
        if "within" in self.config.boundaries:  # a register that only DSP blocks have
            found = self._in_blocks(m, platform, significand, factor)
            for boundary in self.config.boundaries[:3]:
                leading, exponents, negative, zero, infinite, invalid = pipe.cross_all(
                    boundary,
                    place=leading,
                    exponents=exponents,
                    negative=negative,
                    zero=zero,
                    infinite=infinite,
                    invalid=invalid,
                )
            base, distance = _placed(m, leading, exponents, zero)
            found = named(m, "significands", _PRODUCT_BITS, found)
            self._finish(m, pipe, (found, base, distance), (negative, infinite, invalid))
            return
        gates: Value = named(m, "gates", gate_bits(_PRECISION), digit_gates(significand))
        triple: Value = named(m, "triple", _PRECISION + 1, upper_triple(factor))
        (
            gates,
            factor,
            triple,
            leading,
            exponents,
            negative,
            zero,
            infinite,
            invalid,
        ) = pipe.cross_all(
            "prepared",
            gates=gates,
            factor=factor,
            triple=triple,
            place=leading,
            exponents=exponents,
            negative=negative,
            zero=zero,
            infinite=infinite,
            invalid=invalid,
        )
        split = self.latency > 2
        find = _columns if split else _of_digits
        low, high = find(m, gates, factor, triple)
        base, distance = _placed(m, leading, exponents, zero)
        low, high, base, distance, negative, infinite, invalid = pipe.cross_all(
            "halves",
            low=low,
            high=high,
            base=base,
            distance=distance,
            negative=negative,
            infinite=infinite,
            invalid=invalid,
        )
        product: Value
        if split:
            carried = truncated(m, "high_carried", _PRECISION, high + low[_PRECISION])
            product = Cat(low[:_PRECISION], carried)
        else:
            product = truncated(m, "significands", _PRODUCT_BITS, low + (high << _PRECISION // 2))
        self._finish(m, pipe, (product, base, distance), (negative, infinite, invalid))

    def _in_blocks(self, m: Module, platform: object, a: Value, b: Value) -> Value:
        """The product of two significands, three cycles later."""
        parts: list[Value] = []
        for i, left in enumerate((a[:DSP_BITS], a[DSP_BITS:])):
            for j, right in enumerate((b[:DSP_BITS], b[DSP_BITS:])):
                unit = DspMultiplier(reset=self.config.reset)
                place(m, platform, f"multiply_{i}_{j}", unit, reset=self.config.reset)
                m.d.comb += [unit.en.eq(self.en), unit.a.eq(left), unit.b.eq(right)]
                parts.append(unit.product[: len(left) + len(right)])
        low, *middle, high = parts
        crossed = named(m, "crossed", len(middle[0]) + 1, middle[0] + middle[1])
        noted(
            crossed, "Of four partial products the outer two do not overlap: only these are added."
        )
        outer = Cat(low, high)
        upper = outer[DSP_BITS:] + crossed
        return Cat(outer[:DSP_BITS], upper[: _PRODUCT_BITS - DSP_BITS])

    def _finish(
        self,
        m: Module,
        pipe: Pipeline,
        number: tuple[Value, Value, Value],
        flags: tuple[Value, Value, Value],
    ) -> None:
        """Shift the product of significands, and round it."""
        product, base, distance = number
        negative, infinite, invalid = flags
        product, base, distance, negative, infinite, invalid = pipe.cross_all(
            "multiplied",
            product=product,
            base=base,
            distance=distance,
            negative=negative,
            infinite=infinite,
            invalid=invalid,
        )
        kept, sticky = _shifted(m, product, distance)
        kept, sticky, base, negative, infinite, invalid = pipe.cross_all(
            "shifted",
            kept=kept,
            sticky=sticky,
            base=base,
            negative=negative,
            infinite=infinite,
            invalid=invalid,
        )
        carry, top = kept[-1], kept[-2]
        leading = named(m, "leading", _KEPT - 2, Mux(carry, kept[1:-1], kept[:-2]))
        noted(leading, "The product has one or two bits before the point.")
        mantissa, guard = leading[1:], leading[0]
        below = named(m, "below", 1, sticky | (carry & kept[0]))
        increment = named(m, "increment", 1, guard & (below | mantissa[0]))
        noted(
            increment, "Nearest even: up if more than half an ulp is below, or half of an odd one."
        )
        at_largest = named(m, "is_at_largest", 1, base == LARGEST_EXPONENT - 1)
        beyond = named(m, "is_beyond", 1, base >= LARGEST_EXPONENT)
        too_large = named(m, "is_too_large", 1, beyond | (at_largest & carry))
        raised = Cat(top & ~carry, carry)
        rounded = round_and_pack(m, mantissa, increment, base[:EXPONENT_BITS], raised)
        m.d.comb += self.product.eq(
            pack_special(m, rounded, negative, infinite | too_large, invalid)
        )


def _kind(m: Module, name: str, operand: Value) -> tuple[Value, Value, Value, Value]:
    """Whether an operand is normal (or Inf or NaN), zero, infinite, NaN."""
    field = operand[MANTISSA_BITS:31]
    normal = named(m, f"{name}_is_normal", 1, field.any())
    fraction = named(m, f"{name}_has_fraction", 1, operand[:MANTISSA_BITS].any())
    special = named(m, f"{name}_is_special", 1, field.all())
    return (
        normal,
        named(m, f"{name}_is_zero", 1, ~normal & ~fraction),
        named(m, f"{name}_is_infinite", 1, special & ~fraction),
        named(m, f"{name}_is_nan", 1, special & fraction),
    )


def _exponent(m: Module, name: str, operand: Value, normal: Value) -> Value:
    """Exponent field, 1 for that of subnormals too."""
    field = operand[MANTISSA_BITS:31]
    return named(m, f"{name}_exponent", EXPONENT_BITS, Cat(field[0] | ~normal, field[1:]))


def _leading_index(m: Module, name: str, value: Value) -> tuple[Value, Value]:
    """Whether any bit is set, and the place of the highest one (anything if none is)."""
    if len(value) == 1:
        return value, Const(0, 0)
    half = 1 << ((len(value) - 1).bit_length() - 1)  # bits of the lower part
    low, low_index = _leading_index(m, f"{name}_low", value[:half])
    high, high_index = _leading_index(m, f"{name}_high", value[half:])
    any_set = named(m, f"{name}_any", 1, high | low)
    return any_set, named(m, name, len(low_index) + 1, Cat(Mux(high, high_index, low_index), high))


def _of_digits(m: Module, gates: Value, factor: Value, triple: Value) -> tuple[Value, Value]:
    """The products of the lower and the upper half of the digits of a factor."""
    half = len(gates) // 2
    low = multiply(m, "low_half", gates[:half], factor, triple)
    return low, multiply(m, "high_half", gates[half:], factor, triple)


def _columns(m: Module, gates: Value, factor: Value, triple: Value) -> tuple[Value, Value]:
    """The lower half of the product, with a carry, and the upper half without it.

    One chain of carries of half the bits stands behind all the adders, and only its last carry is
    left for the next cycle; but those are more adders in a row than for half the digits.
    """
    rows = partial_products(m, "product", gates, factor, triple)
    placed = [(row, 2 * digit) for digit, row in enumerate(rows)]
    sums, carries = carry_save(m, "product", placed, _PRODUCT_BITS)
    half = _PRECISION
    low = named(m, "low_half", half + 1, sums[:half] + carries[:half])
    noted(low, "Carry-save to two halves: the upper one takes the carry of this one a cycle later.")
    return low, truncated(m, "high_half", half, sums[half:] + carries[half:])


def _placed(m: Module, place: Value, exponents: Value, zero: Value) -> tuple[Value, Value]:
    """Exponent of the shifted product, less one, and how far to the right it goes.

    The distance counts from where the product would be with one bit of a subnormal operand at the
    very bottom: `place`. If that would lower the exponent beyond that of subnormals, it is larger
    by as much.
    """
    least = named(
        m, "least_distance", signed(EXPONENT_BITS + 2), _BIAS + 1 + _MOST_LEFT - exponents
    )
    spare = named(m, "spare", signed(EXPONENT_BITS + 2), place - least)
    noted(least, "The distance that makes the exponent 1, that of subnormals.")
    limited = named(m, "is_limited", 1, spare[-1])
    none = named(m, "has_no_exponent", 1, limited | zero)
    noted(none, "A subnormal result goes further right, as far as the least distance says.")
    base = named(m, "base", EXPONENT_BITS + 1, Mux(none, 0, spare[: EXPONENT_BITS + 1]))
    bits = _PRODUCT_BITS.bit_length()
    far = named(m, "is_far", 1, limited & least[bits:EXPONENT_BITS].any())
    noted(far, "From so far away nothing but the sticky bit is left.")
    distance = Mux(limited, least[:bits], place) | far.replicate(bits)
    return base, named(m, "distance", bits, distance)


def _shifted(m: Module, product: Value, distance: Value) -> tuple[Value, Value]:
    """The upper bits of the product at their places, and whether a lower one is set."""
    value: Value = Cat(Const(0, _MOST_LEFT - (_PRODUCT_BITS - _KEPT)), product)
    sticky: Value = Const(0, 1)
    for stage in reversed(range(len(distance))):
        step = 1 << stage
        moves = distance[stage]
        width = min(_KEPT + step - 1, len(value))
        moved = Cat(value[step:], Const(0, step))[:width]
        dropped = named(m, f"dropped_{step}", 1, moves & value[:step].any())
        sticky = named(m, f"sticky_{step}", 1, sticky | dropped)
        value = noted(
            named(m, f"shifted_{step}", width, Mux(moves, moved, value[:width])),
            "One shifter to the right for both ways: it starts as far left as a subnormal operand "
            "can need. Largest distance first: later steps need fewer bits.",
        )
    return value, sticky
