"""IEEE 754 binary32 addition."""

from amaranth.hdl import Cat, Const, Module, Mux, Value
from amaranth.lib.wiring import In, Out

from mxsafe.rtl.bits import named
from mxsafe.rtl.float_steps import (
    CANONICAL_NAN,
    EXPONENT_BITS,
    INFINITY,
    MANTISSA_BITS,
    normalise,
    round_and_pack,
    shift_sticky,
)
from mxsafe.rtl.pipeline import Pipeline, check_inner_registers
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

    Attributes
    ----------
    en_last, en : In(1)
        Clock enable of the last register and of those before it, if there are any.
    a, b : In(32)
    sum : Out(32)
    latency : int
        Enabled clocks from operands to `sum`; equal to `pipeline`.

    Raises
    ------
    ValueError
        If there cannot be so many registers.
    """

    def __init__(self, *, pipeline: int = 0, reset: bool = False) -> None:
        check_inner_registers(pipeline, MOST_ADD_STAGES)
        enable = {"en_last": In(1)} if pipeline else {}
        if pipeline > 1:
            enable["en"] = In(1)
        self._reset = reset
        kind = "_reset" if reset and pipeline else ""
        super().__init__(
            {**enable, "a": In(32), "b": In(32), "sum": Out(32)},
            module_name=f"float32_adder_stages{pipeline}{kind}" if pipeline else "float32_adder",
            parameters={"pipeline": pipeline, **({"reset": reset} if pipeline else {})},
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

        swap = named(m, "swap", 1, self.b[:31] > self.a[:31])
        large: Value = named(m, "large", 32, Mux(swap, self.b, self.a))
        small: Value = named(m, "small", 31, Mux(swap, self.a, self.b)[:31])
        subtract: Value = named(m, "subtract", 1, self.a[31] ^ self.b[31])
        # Both differences, so that the right one is there as soon as the comparison is.
        left, right = _exponent(self.a), _exponent(self.b)
        distance: Value = named(m, "distance", 8, Mux(swap, (right - left)[:8], (left - right)[:8]))
        infinities = [operand[:31] == INFINITY for operand in (self.a, self.b)]
        nans = [operand[:31] > INFINITY for operand in (self.a, self.b)]
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
        aligned: Value = shift_sticky(m, "shifted", _significand(small), distance)
        aligned, large, subtract, infinite, invalid = pipe.cross_all(
            "aligned",
            aligned=aligned,
            large=large,
            subtract=subtract,
            infinite=infinite,
            invalid=invalid,
        )
        addend = named(m, "addend", len(aligned) + 1, Mux(subtract, ~Cat(aligned, 0), aligned))
        total: Value = named(
            m, "total", len(aligned) + 1, (_significand(large) + addend + subtract)[: len(addend)]
        )
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
        adjusted: Value = named(
            m,
            "adjusted",
            EXPONENT_BITS + 1,
            Mux(carry, exponent + 1, Mux(top, exponent, exponent - 1))[: EXPONENT_BITS + 1],
        )
        # The lowest two bits are 0 where this counts: the exponents differ by one at most.
        value, lowered = normalise(m, "shifted_left", total[2:-1], exponent)
        exact: Value = Cat(value[1:-1], Mux(value[-1], lowered, 0))
        cancels = named(m, "cancels", 1, subtract & ~rounds & ~value.any())
        rounds, leading, adjusted, exact, negative, infinite, invalid = pipe.cross_all(
            "normalised",
            rounds=rounds,
            leading=leading,
            adjusted=adjusted,
            exact=exact,
            negative=negative & ~cancels,
            infinite=infinite,
            invalid=invalid,
        )
        rounded = round_and_pack(m, leading, adjusted)
        magnitude = Mux(infinite, INFINITY, Mux(rounds, rounded, exact))
        m.d.comb += self.sum.eq(Mux(invalid, CANONICAL_NAN, Cat(magnitude[:31], negative)))
        return m


def _exponent(operand: Value) -> Value:
    """Exponent field, 1 for that of subnormals too."""
    field = operand[MANTISSA_BITS:31]
    return Cat(field[0] | ~field.any(), field[1:])


def _significand(operand: Value) -> Value:
    """Hidden bit, mantissa and the extra bits below."""
    return Cat(Const(0, _EXTRA_BITS), operand[:MANTISSA_BITS], operand[MANTISSA_BITS:31].any())
