"""Steps that floating-point units share: align, normalise, round and pack to binary32.

Tested by `verif/rtl/arithmetic/test_float32_adder.py`.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from mxsafe.rtl.arithmetic.bits import named, noted, truncated
from mxsafe.rtl.arithmetic.pipeline import Sideband

EXPONENT_BITS, MANTISSA_BITS = 8, 23
LARGEST_EXPONENT = 254
"""Exponent field of binary32's largest numbers."""
INFINITY = 0x7F800000
"""Bits of binary32's +Inf."""
CANONICAL_NAN = 0x7FC00000
"""Bits of the one NaN that the hardware produces."""
_GROUP = 8
"""Bits whose leading one is found without a register between them."""


def shift_sticky(
    m: Module, name: str, value: Value, amount: Value, sideband: Sideband | None = None
) -> Value:
    """`value` shifted right; its lowest bit is also set if any one was shifted out.

    In a sideband pipeline there is a boundary ``<name>_<distance>`` behind each distance, a power
    of two.
    """
    sideband = sideband or Sideband()
    width = len(value)
    stages = width.bit_length()  # a shift by 2^stages - 1 leaves nothing but the sticky bit
    shifted: Value = value
    any_set: Value = value.any()
    for stage in range(stages):
        distance = 1 << stage
        if distance < width:
            sticky = noted(
                named(m, f"{name}_{distance}_sticky", 1, shifted[: distance + 1].any()),
                "Alignment: the new lowest bit is sticky. It gathers the bits that go and the one "
                "in its place.",
            )
            far = Cat(sticky, shifted[distance + 1 :], Const(0, distance))
        else:
            sticky = named(m, f"{name}_{distance}_sticky", 1, shifted.any())
            far = Cat(sticky, Const(0, width - 1))
        shifted = named(m, f"{name}_{distance}", width, Mux(amount[stage], far, shifted))
        crossing = {"shifted": shifted, "amount": amount, "any_set": any_set}
        shifted, amount, any_set = sideband.cross(f"{name}_{distance}", **crossing)
    if len(amount) <= stages:
        return shifted
    beyond = named(m, f"{name}_beyond", 1, amount[stages:].any())
    noted(beyond, "So large a distance leaves nothing but the sticky bit.")
    any_set = named(m, f"{name}_any", 1, any_set)
    only_sticky = Cat(any_set, Const(0, width - 1))
    return named(m, name, width, Mux(beyond, only_sticky, shifted))


def shift_left(m: Module, name: str, value: Value, amount: Value, sideband: Sideband) -> Value:
    """`value` shifted left, in as many bits as it has; largest distance first.

    There is a boundary ``<name>_<distance>`` behind each distance, a power of two.
    """
    for stage in reversed(range(len(amount))):
        distance = 1 << stage
        far = Cat(Const(0, distance), value)[: len(value)]
        value = named(m, f"{name}_{distance}", len(value), Mux(amount[stage], far, value))
        value, amount = sideband.cross(f"{name}_{distance}", shifting=value, amount=amount)
    return value


def normalise(
    m: Module, name: str, value: Value, exponent: Value, *, quick: bool = False
) -> tuple[Signal, Signal]:
    """Shift left until the top bit is set, or until the exponent is 1, that of subnormals.

    `normalise_in_stages` does the same with registers on the way.

    Parameters
    ----------
    m : amaranth.hdl.Module
    name : str
        Prefix of the signals' names.
    value : Value
        Significand.
    exponent : Value
        Its exponent, 1 or more.
    quick : bool
        The distance is found bit by bit from the top, in place of a subtraction.

    Returns
    -------
    shifted : Signal
    field : Signal
        The exponent lowered by the distance; 0 for subnormals and zero.
    """
    width = len(value)
    any_set, zeros = leading_one_and_zeros(m, f"{name}_zeros", value)
    lowered = named(
        m, f"{name}_lowered", len(exponent) + 1, (exponent - zeros)[: len(exponent) + 1]
    )
    if quick:
        most = truncated(m, f"{name}_most", len(exponent), exponent - 1)
        distance = lesser(m, f"{name}_distance", zeros, most, Const(0, 1))
        shifted = named(m, name, width, shift_left(m, f"{name}_by", value, distance, Sideband()))
    else:
        subnormal = noted(
            named(m, f"{name}_subnormal", 1, lowered[-1] | ~lowered.any()),
            "Normalisation stops where the exponent is 1, that of subnormals: then the distance is "
            "the exponent less one, not the number of leading zeros.",
        )
        most = truncated(m, f"{name}_most", len(zeros), exponent - 1)
        distance = named(m, f"{name}_distance", len(zeros), Mux(subnormal, most, zeros))
        shifted = named(m, name, width, (value << distance)[:width])
    vanishes = named(m, f"{name}_vanishes", 1, lowered[-1] | ~any_set)
    field = Mux(vanishes, 0, lowered[:-1])
    return shifted, named(m, f"{name}_field", len(exponent), field)


def lesser(m: Module, name: str, left: Value, right: Value, right_wins: Value) -> Value:
    """The lesser of two numbers, its bits found from the top.

    Parameters
    ----------
    m : amaranth.hdl.Module
    name : str
        Prefix of the signals' names.
    left : Value
        The number whose lower bits come last.
    right : Value
        The other, of at least as many bits.
    right_wins : Value
        The result is `right` in any case, in as many bits as `left` has.
    """
    width = len(left)
    is_right = right_wins
    is_left: Value = named(m, f"{name}_is_left", 1, right[width:].any() & ~right_wins)
    bits: list[Value] = []
    for place in reversed(range(width)):
        here, there = left[place], right[place]
        both = (here | is_right) & (there | is_left)
        bit = noted(
            named(m, f"{name}_{place}", 1, both),
            "The lesser of two distances, found from the top bit so that shifting can begin: as "
            "long as neither is less, a bit of both is one of the lesser.",
        )
        bits.insert(0, bit)
        if place:
            less, more = ~here & there & ~is_right, here & ~there & ~is_left
            is_left = named(m, f"{name}_is_left_{place}", 1, is_left | less)
            is_right = named(m, f"{name}_is_right_{place}", 1, is_right | more)
    return Cat(*bits)


def normalise_in_stages(
    m: Module, name: str, value: Value, exponent: Value, sideband: Sideband
) -> tuple[Value, Value]:
    """As `normalise`, with a sideband pipeline.

    The boundaries are ``<name>_grouped``, ``<name>_counted``, ``<name>_lowered``,
    ``<name>_decided`` and those of `shift_left`.
    """
    any_set, zeros = leading_one_and_zeros(m, f"{name}_zeros", value, sideband, f"{name}_grouped")
    value, exponent = sideband.cross(f"{name}_grouped", rest=value, rest_exponent=exponent)
    most = named(m, f"{name}_most", None, (exponent - 1)[: len(zeros)])
    value, exponent, most, zeros, any_set = sideband.cross(
        f"{name}_counted",
        rest=value,
        rest_exponent=exponent,
        most=most,
        zeros=named(m, f"{name}_zeros_counted", None, zeros),
        any_set=any_set,
    )
    lowered: Value = named(m, f"{name}_lowered", None, (exponent - zeros)[: len(exponent) + 1])
    value, lowered, most, zeros, any_set = sideband.cross(
        f"{name}_lowered", rest=value, lowered=lowered, most=most, zeros=zeros, any_set=any_set
    )
    subnormal = named(m, f"{name}_subnormal", 1, lowered[-1] | ~lowered.any())
    noted(subnormal, "The exponent reaches 1, that of subnormals, before the leading one the top.")
    distance: Value = named(m, f"{name}_distance", len(zeros), Mux(subnormal, most, zeros))
    vanishes = named(m, f"{name}_vanishes", 1, lowered[-1] | ~any_set)
    field: Value = named(m, f"{name}_field", None, Mux(vanishes, 0, lowered[:-1]))
    value, distance, field = sideband.cross(
        f"{name}_decided", rest=value, distance=distance, field=field
    )
    sideband.add(field=field)
    shifted = shift_left(m, name, value, distance, sideband)
    return shifted, sideband["field"]


def leading_one_and_zeros(
    m: Module, name: str, value: Value, sideband: Sideband | None = None, boundary: str = ""
) -> tuple[Value, Value]:
    """Whether any bit is set, and the number of zeros above it (anything if none is).

    In a sideband pipeline `boundary` lies behind groups of up to eight bits.
    """
    if sideband is not None and len(value) <= _GROUP:
        any_set, zeros = leading_one_and_zeros(m, name, value)
        return (
            sideband.one(boundary, f"{name}_any", any_set),
            sideband.one(boundary, f"{name}_zeros", zeros),
        )
    if len(value) == 1:
        return value, Const(0, 0)
    half = 1 << ((len(value) - 1).bit_length() - 1)  # bits of the upper part
    low_half, high_half = value[: len(value) - half], value[len(value) - half :]
    low, low_count = leading_one_and_zeros(m, f"{name}_low", low_half, sideband, boundary)
    high, high_count = leading_one_and_zeros(m, f"{name}_high", high_half, sideband, boundary)
    any_set = named(m, f"{name}_any", 1, high | low)
    width = len(high_count)
    count = noted(
        named(m, name, width + 1, Cat(Mux(high, high_count, low_count)[:width], ~high)),
        "Leading zeros: the upper part has a power of two of bits, so its being empty is the top "
        "bit of the count.",
    )
    return any_set, count


def round_and_pack(
    m: Module, significand: Value, increment: Value, base: Value, raised: Value
) -> Value:
    """Magnitude bits of a binary32: a rounded significand and an exponent in one addition.

    Parameters
    ----------
    m : amaranth.hdl.Module
    significand : Value
        Mantissa bits, without the hidden one.
    increment : Value
        Whether it is rounded up.
    base, raised : Value
        Their sum is the exponent field before rounding, whose carry comes on top: from the largest
        binade to Inf. So 1 for the hidden bit and a base of one less need no case of their own for
        subnormals.
    """
    added = Cat(increment, Const(0, MANTISSA_BITS - 1), raised)
    return truncated(
        m,
        "packed",
        MANTISSA_BITS + EXPONENT_BITS,
        Cat(significand, base) + added,
        note="Rounding and exponent in one addition: a carry out of the mantissa leaves zeros and "
        "raises the exponent, from the largest binade to Inf.",
    )


def pack_special(
    m: Module, magnitude: Value, negative: Value, infinite: Value, nan: Value
) -> Value:
    """A binary32 of magnitude and sign; or Inf of that sign; or, before all, the one NaN."""
    special = named(m, "is_special", 1, infinite | nan)
    noted(special, "Inf and the one NaN, 0x7fc00000, have all bits of the exponent set.")
    quiet = MANTISSA_BITS - 1
    return Cat(
        Mux(special, 0, magnitude[:quiet]),
        Mux(special, nan, magnitude[quiet]),
        magnitude[MANTISSA_BITS : MANTISSA_BITS + EXPONENT_BITS] | special.replicate(EXPONENT_BITS),
        negative & ~nan,
    )
