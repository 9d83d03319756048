"""A fixed-point number times two block scales, as binary32: whole, and in two halves."""

from amaranth.hdl import Cat, Const, Module, Mux, Value, signed
from amaranth.lib.wiring import In, Out

from mxsafe.formats import E8M0
from mxsafe.rtl.bits import named
from mxsafe.rtl.float_steps import (
    CANONICAL_NAN,
    MANTISSA_BITS,
    normalise,
    round_and_pack,
    shift_sticky,
)
from mxsafe.rtl.unit import Unit, place

__all__ = ["WIDEST", "ScaleLower", "ScaleRound", "Scaler", "block_exponent", "is_nan_scale"]

WIDEST = 64
"""Most bits that a magnitude may have."""

_FLOAT32_BIAS = 127
_EXPONENT_BITS = E8M0.width + 2


def block_exponent(m: Module, scale_a: Value, scale_w: Value) -> Value:
    """Sum of two E8M0 bytes."""
    return named(m, "block_exponent", E8M0.width + 1, scale_a + scale_w)


def is_nan_scale(m: Module, scale_a: Value, scale_w: Value) -> Value:
    """Whether one of two E8M0 bytes is NaN."""
    return named(m, "is_nan", 1, (scale_a == E8M0.nan_code) | (scale_w == E8M0.nan_code))


def _lowered_bits(width: int) -> int:
    """Bits of a magnitude, and zeros below it, that rounding needs."""
    return max(width, MANTISSA_BITS + 3)


class ScaleLower(Unit):
    """First half of scaling: a magnitude and its exponent, shifted right if it is subnormal.

    Combinational.

    Parameters
    ----------
    width, unit_exponent : int
        See `Scaler`.

    Attributes
    ----------
    magnitude : In(width)
    block_exponent : In(9)
        Sum of the two E8M0 bytes.
    lowered : Out
        The magnitude, with zeros below it if it is short; its lowest bit is sticky.
    exponent : Out(10)
        Biased exponent of its top bit, 1 or more.
    """

    def __init__(self, *, width: int, unit_exponent: int) -> None:
        self._unit_exponent = unit_exponent
        super().__init__(
            {
                "magnitude": In(width),
                "block_exponent": In(E8M0.width + 1),
                "lowered": Out(_lowered_bits(width)),
                "exponent": Out(_EXPONENT_BITS),
            },
            module_name=f"scale_lower_{width}_m{-unit_exponent}",
            parameters={"width": width, "unit_exponent": unit_exponent},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        width = len(self.magnitude)
        offset = width - 1 + self._unit_exponent - 2 * E8M0.bias + _FLOAT32_BIAS
        # Below 1 the value starts below the smallest normal number.
        top = named(m, "top_exponent", signed(E8M0.width + 3), self.block_exponent + offset)
        deficit = named(
            m, "deficit", E8M0.width + 1, (1 - offset - self.block_exponent)[: E8M0.width + 1]
        )
        below = named(m, "is_below", 1, top < 1)
        m.d.comb += [
            self.lowered.eq(
                shift_sticky(
                    m,
                    "shifted",
                    Cat(Const(0, len(self.lowered) - width), self.magnitude),
                    Mux(below, deficit, 0),
                )
            ),
            self.exponent.eq(Mux(below, 1, top)[:_EXPONENT_BITS]),
        ]
        return m


class ScaleRound(Unit):
    """Second half of scaling: normalised and rounded to binary32. Combinational.

    Parameters
    ----------
    width : int
        See `Scaler`.

    Attributes
    ----------
    lowered, exponent : In
        What `ScaleLower` puts out.
    negative, nan : In(1)
        Sign, and whether a scale is NaN.
    product : Out(32)
    """

    def __init__(self, *, width: int) -> None:
        super().__init__(
            {
                "lowered": In(_lowered_bits(width)),
                "exponent": In(_EXPONENT_BITS),
                "negative": In(1),
                "nan": In(1),
                "product": Out(32),
            },
            module_name=f"scale_round_{width}",
            parameters={"width": width},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        value, exponent = normalise(m, "normalised", self.lowered, self.exponent)
        rounded = round_and_pack(m, value, exponent)
        m.d.comb += self.product.eq(Mux(self.nan, CANONICAL_NAN, Cat(rounded, self.negative)))
        return m


class Scaler(Unit):
    """``magnitude * 2^unit_exponent * 2^(scale_a - 127) * 2^(scale_w - 127)`` as binary32.

    Rounded once, to nearest even, subnormals included; overflow gives Inf, a scale of 255 gives
    ``0x7fc00000``. Combinational.

    Parameters
    ----------
    width : int
        Bits of the magnitude.
    unit_exponent : int
        Exponent of its unit, negative.

    Attributes
    ----------
    negative : In(1)
    magnitude : In(width)
    scale_a, scale_w : In(8)
        E8M0 bytes.
    product : Out(32)

    Raises
    ------
    ValueError
        If `width` is not an integer from 2 to 64 or `unit_exponent` not one from -64 to -1.
    """

    def __init__(self, *, width: int, unit_exponent: int) -> None:
        if not isinstance(width, int) or not 2 <= width <= WIDEST:
            raise ValueError(f"width must be an integer from 2 to {WIDEST}, not {width!r}")
        if not isinstance(unit_exponent, int) or not -64 <= unit_exponent <= -1:
            raise ValueError(
                f"unit_exponent must be an integer from -64 to -1, not {unit_exponent!r}"
            )
        self._unit_exponent = unit_exponent
        super().__init__(
            {
                "negative": In(1),
                "magnitude": In(width),
                "scale_a": In(E8M0.width),
                "scale_w": In(E8M0.width),
                "product": Out(32),
            },
            module_name=f"scaler_{width}_m{-unit_exponent}",
            parameters={"width": width, "unit_exponent": unit_exponent},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        width = len(self.magnitude)
        lower = ScaleLower(width=width, unit_exponent=self._unit_exponent)
        finish = ScaleRound(width=width)
        place(m, platform, "lower", lower)
        place(m, platform, "round", finish)
        m.d.comb += [
            lower.magnitude.eq(self.magnitude),
            lower.block_exponent.eq(block_exponent(m, self.scale_a, self.scale_w)),
            finish.lowered.eq(lower.lowered),
            finish.exponent.eq(lower.exponent),
            finish.negative.eq(self.negative),
            finish.nan.eq(is_nan_scale(m, self.scale_a, self.scale_w)),
            self.product.eq(finish.product),
        ]
        return m
