"""Steps that floating-point units share: align, normalise, round and pack to binary32."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from mxsafe.rtl.bits import named

__all__ = [
    "CANONICAL_NAN",
    "EXPONENT_BITS",
    "INFINITY",
    "MANTISSA_BITS",
    "leading_zeros",
    "normalise",
    "round_and_pack",
    "shift_sticky",
]

EXPONENT_BITS, MANTISSA_BITS = 8, 23
INFINITY = 0x7F800000
"""Bits of binary32's +Inf."""
CANONICAL_NAN = 0x7FC00000
"""Bits of the one NaN that the hardware produces."""


def shift_sticky(m: Module, name: str, value: Value, amount: Value) -> Signal:
    """`value` shifted right; its lowest bit is also set if any one was shifted out."""
    width = len(value)
    stages = width.bit_length()  # a shift by 2^stages - 1 leaves nothing but the sticky bit
    shifted: Value = value
    for stage in range(stages):
        distance = 1 << stage
        if distance < width:
            moved = shifted[distance:]
            lost = shifted[: distance + 1].any()
            far = Cat(lost | moved[0], moved[1:], Const(0, distance))
        else:
            far = Cat(shifted.any(), Const(0, width - 1))
        shifted = named(m, f"{name}_{distance}", width, Mux(amount[stage], far, shifted))
    beyond = amount[stages:].any() if len(amount) > stages else Const(0, 1)
    only_sticky = Cat(value.any(), Const(0, width - 1))
    return named(m, name, width, Mux(beyond, only_sticky, shifted))


def normalise(m: Module, name: str, value: Value, exponent: Value) -> tuple[Signal, Signal]:
    """Shift left until the top bit is set, or until the exponent is 1, that of subnormals.

    A one is marked where the exponent would be 1, so that counting leading zeros finds whichever
    comes first.

    Parameters
    ----------
    m : amaranth.hdl.Module
    name : str
        Prefix of the signals' names.
    value : Value
        Significand.
    exponent : Value
        Its exponent, 1 or more, lowered by the distance.
    """
    width = len(value)
    lowest = named(m, f"{name}_lowest", width, Cat(exponent == width - i for i in range(width)))
    count = leading_zeros(m, f"{name}_zeros", value | lowest)
    shifted = named(m, name, width, (value << count)[:width])
    return shifted, named(m, f"{name}_exponent", len(exponent), (exponent - count)[: len(exponent)])


def leading_zeros(m: Module, name: str, value: Value) -> Value:
    """Number of zeros above the leading one; anything if there is none."""
    return _leading_zeros(m, name, value)[1]


def _leading_zeros(m: Module, name: str, value: Value) -> tuple[Value, Value]:
    """Whether any bit is set, and the number of zeros above it (anything if none is)."""
    if len(value) == 1:
        return value, Const(0, 0)
    half = 1 << ((len(value) - 1).bit_length() - 1)  # bits of the upper part
    low, low_count = _leading_zeros(m, f"{name}_low", value[: len(value) - half])
    high, high_count = _leading_zeros(m, f"{name}_high", value[len(value) - half :])
    any_set = named(m, f"{name}_any", 1, high | low)
    width = len(high_count)
    count = named(m, name, width + 1, Cat(Mux(high, high_count, low_count)[:width], ~high))
    return any_set, count


def round_and_pack(m: Module, significand: Value, exponent: Value) -> Signal:
    """Magnitude bits of a binary32, rounded to nearest even; Inf if it overflows.

    Parameters
    ----------
    m : amaranth.hdl.Module
    significand : Value
        As `normalise` leaves it, with at least two bits below the last mantissa bit.
    exponent : Value
        Its biased exponent.
    """
    extra = len(significand) - MANTISSA_BITS - 1
    kept = significand[extra:]
    guard, sticky = significand[extra - 1], significand[: extra - 1].any()
    increment = named(m, "increment", 1, guard & (sticky | kept[0]))
    hidden = kept[MANTISSA_BITS]
    field = Mux(hidden, exponent, 0)  # without it the number is subnormal or zero
    width = MANTISSA_BITS + len(exponent) + 1
    packed = named(m, "packed", width, (Cat(kept[:MANTISSA_BITS], field) + increment)[:width])
    overflow = named(m, "overflow", 1, packed >= INFINITY)
    return named(
        m, "magnitude", EXPONENT_BITS + MANTISSA_BITS, Mux(overflow, INFINITY, packed[:31])
    )
