"""A fixed-point number times two block scales, as binary32."""

from amaranth.hdl import Cat, Const, Module, Mux, signed
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
from mxsafe.rtl.unit import Unit

__all__ = ["WIDEST", "Scaler"]

WIDEST = 64
"""Most bits that a magnitude may have."""

_FLOAT32_BIAS = 127


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
        padding = max(0, MANTISSA_BITS + 3 - width)

        # Biased exponent of the top bit: 1 or more, or the value starts below the smallest normal.
        scales = named(m, "scales", E8M0.width + 1, self.scale_a + self.scale_w)
        offset = width - 1 + self._unit_exponent - 2 * E8M0.bias + _FLOAT32_BIAS
        top = named(m, "top_exponent", signed(E8M0.width + 3), scales + offset)
        below = named(m, "is_below", 1, top < 1)
        lowered = shift_sticky(
            m,
            "lowered",
            Cat(Const(0, padding), self.magnitude),
            Mux(below, 1 - top, 0)[: E8M0.width + 1],
        )
        start = named(m, "start_exponent", E8M0.width + 2, Mux(below, 1, top)[: E8M0.width + 2])
        value, exponent = normalise(m, "normalised", lowered, start)
        rounded = round_and_pack(m, value, exponent)
        nan = named(
            m, "is_nan", 1, (self.scale_a == E8M0.nan_code) | (self.scale_w == E8M0.nan_code)
        )
        m.d.comb += self.product.eq(Mux(nan, CANONICAL_NAN, Cat(rounded, self.negative)))
        return m
