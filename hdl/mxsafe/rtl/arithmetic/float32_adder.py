"""IEEE 754 binary32 addition."""

from amaranth.hdl import Cat, Const, Module, Mux, Value
from amaranth.lib.wiring import In, Out

from mxsafe.rtl.arithmetic.bits import named
from mxsafe.rtl.arithmetic.float_steps import (
    EXPONENT_BITS,
    INFINITY,
    LARGEST_EXPONENT,
    MANTISSA_BITS,
    normalise,
    pack_special,
    round_and_pack,
    shift_sticky,
)
from mxsafe.rtl.arithmetic.pipeline import Pipeline, check_inner_registers
from mxsafe.rtl.unit import Unit

__all__ = ["MOST_ADD_STAGES", "Float32Adder"]

_EXTRA_BITS = 3  # below the significand: two, and a sticky one
_BOUNDARIES: tuple[tuple[str, ...], ...] = (
    (),
    ("added",),
    ("ordered", "added"),
    ("ordered", "added", "normalised"),
    ("ordered", "aligned", "added", "normalised"),
)
"""Where registers stand, for each number of them: they even out the paths between them."""
MOST_ADD_STAGES = len(_BOUNDARIES) - 1


class Float32Adder(Unit):
    """Sum of two IEEE 754 binary32 numbers, rounded to nearest even.

    Subnormals count, overflow gives Inf, every NaN is ``0x7fc00000``. A sum that loses two or more
    leading bits, or is subnormal, is exact: it is normalised while the others are rounded.

    Parameters
    ----------
    pipeline : int
        Registers on the way, 0 to 4. With 0 the unit is combinational.
    reset : bool
        Whether they are reset.
    clearable : bool
        Whether there is `clear_a`.

    Attributes
    ----------
    en_last, en : In(1)
        Clock enable of the last register and of those before it, if there are any.
    clear_a : In(1)
        `a` counts as +0, as at the start of a sum. It is masked late, so that a flag with many
        loads does not hold up the comparison.
    a, b : In(32)
    sum : Out(32)
    latency : int
        Enabled clocks from operands to `sum`; equal to `pipeline`.

    Raises
    ------
    ValueError
        If there cannot be so many registers.

    Notes
    -----
    With one register, by the script ``area`` of `mxsafe.synthesis.targets` (yosys 0.70 to NanGate 45 nm,
    typical):

    ==================================================================  =====  ====
    step                                                                GE     ns
    ==================================================================  =====  ====
    exponents of subnormals marked before zeros are counted, rounding
    of 34 bits with the overflow found behind it                        1,949  2.11
    counted first and compared, hidden bit added into the exponent      1,881  1.91
    bits below the significand kept out of the addition                 1,837  1.86
    the addition in two halves (with ``dc2`` 1,892 and 1.94; before
    it, 1,811 and 2.29)                                                 1,851  1.83
    with `clear_a`                                                      1,895  2.01
    ==================================================================  =====  ====

    Tried and not kept: comparing exponents alone, and inverting the larger one where they are
    equal, with 1,933 and 1.78. In a unit of 4x4 MACs with eight adders that is 77,341 and 2.04 in
    place of 76,242 and 2.08, for then rounding and scaling are as slow.
    """

    def __init__(self, *, pipeline: int = 0, reset: bool = False, clearable: bool = False) -> None:
        check_inner_registers(pipeline, MOST_ADD_STAGES)
        enable = {"en_last": In(1)} if pipeline else {}
        if pipeline > 1:
            enable["en"] = In(1)
        clear = {"clear_a": In(1)} if clearable else {}
        self._reset, self._clearable = reset, clearable
        parts = ["float32_adder"]
        parts += ["clearable"] if clearable else []
        parts += [f"stages{pipeline}"] if pipeline else []
        parts += ["reset"] if reset and pipeline else []
        super().__init__(
            {**enable, **clear, "a": In(32), "b": In(32), "sum": Out(32)},
            module_name="_".join(parts),
            parameters={
                "pipeline": pipeline,
                **({"reset": reset} if pipeline else {}),
                **({"clearable": clearable} if clearable else {}),
            },
            latency=pipeline,
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        pipe = Pipeline(
            m,
            self.en if self.latency > 1 else Const(1),
            _BOUNDARIES[self.latency],
            self.latency,
            reset=self._reset,
            en_last=self.en_last if self.latency else None,
        )

        # A cleared operand counts as the smaller one, and is masked where it is known to be.
        clear = self.clear_a if self._clearable else Const(0, 1)
        swap = named(m, "swap", 1, clear | (self.b[:31] > self.a[:31]))
        large: Value = named(m, "large", 32, Mux(swap, self.b, self.a))
        small: Value = named(m, "small", 31, Mux(swap, Mux(clear, 0, self.a), self.b)[:31])
        subtract: Value = named(m, "subtract", 1, (self.a[31] & ~clear) ^ self.b[31])
        # Both differences, so that the right one is there as soon as the comparison is.
        left, right = _exponent(self.a), _exponent(self.b)
        distance: Value = named(m, "distance", 8, Mux(swap, (right - left)[:8], (left - right)[:8]))
        infinities = [self.a[:31] == INFINITY, self.b[:31] == INFINITY]
        nans = [self.a[:31] > INFINITY, self.b[:31] > INFINITY]
        infinities[0], nans[0] = infinities[0] & ~clear, nans[0] & ~clear
        both = named(m, "both_infinite", 1, infinities[0] & infinities[1])
        infinite: Value = named(m, "infinite", 1, infinities[0] | infinities[1])
        invalid: Value = named(m, "invalid", 1, nans[0] | nans[1] | (both & subtract))

        large, small, subtract, distance, infinite, invalid = pipe.cross_all(
            "ordered",
            large=large,
            small=small,
            subtract=subtract,
            distance=distance,
            infinite=infinite,
            invalid=invalid,
        )
        aligned: Value = shift_sticky(
            m, "shifted", Cat(Const(0, _EXTRA_BITS), _significand(small)), distance
        )
        aligned, large, subtract, infinite, invalid = pipe.cross_all(
            "aligned",
            aligned=aligned,
            large=large,
            subtract=subtract,
            infinite=infinite,
            invalid=invalid,
        )
        total: Value = _sum_or_difference(m, _significand(large), aligned, subtract)
        total, exponent, negative, subtract, infinite, invalid = pipe.cross_all(
            "added",
            total=total,
            exponent=_exponent(large),
            negative=large[31],
            subtract=subtract,
            infinite=infinite,
            invalid=invalid,
        )
        carry, top, second = total[-1], total[-2], total[-3]
        unlimited = named(m, "is_unlimited", 1, exponent[1:].any())  # more than that of subnormals
        rounds: Value = named(m, "rounds", 1, carry | top | (second & unlimited))
        leading: Value = named(
            m,
            "leading",
            len(total),
            Mux(carry, total, Mux(top, total << 1, total << 2))[: len(total)],
        )
        base: Value = named(m, "base", EXPONENT_BITS, (exponent - 1)[:EXPONENT_BITS])
        raised: Value = Cat(top & ~carry, carry)
        too_large = named(m, "is_too_large", 1, carry & (exponent == LARGEST_EXPONENT))
        # The lowest two bits are 0 where this counts: the exponents differ by one at most.
        value, field = normalise(m, "shifted_left", total[2:-1], exponent)
        exact: Value = Cat(value[1:-1], field)
        cancels = named(m, "cancels", 1, subtract & ~rounds & ~value.any())
        rounds, leading, base, raised, exact, negative, infinite, invalid = pipe.cross_all(
            "normalised",
            rounds=rounds,
            leading=leading[:-1],  # the hidden bit is in `raised`
            base=base,
            raised=raised,
            exact=exact,
            negative=negative & ~cancels,
            infinite=infinite | too_large,
            invalid=invalid,
        )
        below = len(leading) - MANTISSA_BITS  # bits below the last of the mantissa
        mantissa, guard, sticky = leading[below:], leading[below - 1], leading[: below - 1].any()
        increment = named(m, "increment", 1, guard & (sticky | mantissa[0]))
        rounded = round_and_pack(m, mantissa, increment, base, raised)
        magnitude = named(m, "magnitude", len(rounded), Mux(rounds, rounded, exact))
        m.d.comb += self.sum.eq(pack_special(magnitude, negative, infinite, invalid))
        return m


def _sum_or_difference(m: Module, large: Value, aligned: Value, subtract: Value) -> Value:
    """The significand of the larger number plus or minus the other, which has extra bits below."""
    # Bits below the significand of the larger one only borrow from it.
    below, significand = aligned[:_EXTRA_BITS], aligned[_EXTRA_BITS:]
    carry_in = named(m, "carry_in", 1, subtract & ~below.any())
    width, half = len(significand) + 1, len(significand) // 2
    addend = named(m, "addend", width, Cat(significand, 0) ^ subtract.replicate(width))
    # The carry into the upper half does not wait for the sum of the lower.
    low, to_add = large[:half], addend[:half]
    carry = named(m, "carry", 1, (low > ~to_add) | ((low == ~to_add) & carry_in))
    upper = named(m, "upper", width - half, (large[half:] + addend[half:] + carry)[: width - half])
    lower = named(m, "lower", half, (low + to_add + carry_in)[:half])
    extra = named(m, "extra", _EXTRA_BITS, Mux(subtract, -below, below)[:_EXTRA_BITS])
    return Cat(extra, lower, upper)


def _exponent(operand: Value) -> Value:
    """Exponent field, 1 for that of subnormals too."""
    field = operand[MANTISSA_BITS:31]
    return Cat(field[0] | ~field.any(), field[1:])


def _significand(operand: Value) -> Value:
    """Hidden bit and mantissa."""
    return Cat(operand[:MANTISSA_BITS], operand[MANTISSA_BITS:31].any())
