"""A fixed-point number times two block scales, as binary32."""

from amaranth.hdl import Cat, Const, Module, Mux, Value, signed
from amaranth.lib.wiring import In, Out

from mxsafe.formats import E8M0, WIDEST_SUM, signed_name
from mxsafe.rtl.bits import named
from mxsafe.rtl.float_steps import (
    CANONICAL_NAN,
    MANTISSA_BITS,
    leading_zeros,
    round_and_pack,
    shift_sticky,
)
from mxsafe.rtl.pipeline import Pipeline, check_inner_registers
from mxsafe.rtl.unit import Unit

__all__ = ["MOST_SCALE_STAGES", "Scaler", "block_exponent", "is_nan_scale"]

_FLOAT32_BIAS = 127
_BOUNDARIES: tuple[tuple[str, ...], ...] = (
    (),
    ("counted",),
    ("entered", "shifted"),
    ("entered", "counted", "shifted"),
    ("entered", "counted", "turned", "shifted"),
)
"""Where registers stand, for each number of them."""
MOST_SCALE_STAGES = len(_BOUNDARIES) - 1


def block_exponent(m: Module, scale_a: Value, scale_w: Value) -> Value:
    """Sum of two E8M0 bytes."""
    return named(m, "block_exponent", E8M0.width + 1, scale_a + scale_w)


def is_nan_scale(m: Module, scale_a: Value, scale_w: Value) -> Value:
    """Whether one of two E8M0 bytes is NaN."""
    return named(m, "is_nan", 1, (scale_a == E8M0.nan_code) | (scale_w == E8M0.nan_code))


class Scaler(Unit):
    """``value * 2^unit_exponent * 2^block_exponent`` as binary32.

    Rounded once, to nearest even, subnormals included; overflow gives Inf, a NaN scale gives
    ``0x7fc00000``.

    A magnitude is shifted left until its top bit is set, or right if the result is subnormal and
    that takes it below the last bit. Never both, so that one shifter serves: what goes left passes
    it bits reversed.

    Parameters
    ----------
    width : int
        Bits of the magnitude.
    unit_exponent : int
        Exponent of its unit.
    pipeline : int
        Registers on the way, 0 to 4; they are not reset. With 0 the unit is combinational.

    Attributes
    ----------
    en : In(1)
        Clock enable, if there are registers.
    negative : In(1)
    magnitude : In(width)
    block_exponent : In(9)
        Sum of the two E8M0 bytes, see `block_exponent`.
    nan : In(1)
        Whether one of them is NaN, see `is_nan_scale`.
    product : Out(32)
    latency : int
        Enabled clocks from inputs to `product`; equal to `pipeline`.

    Raises
    ------
    ValueError
        If `width` is not an integer from 2 to 80 or `unit_exponent` not one from -64 to 64, or
        there cannot be so many registers.
    """

    def __init__(self, *, width: int, unit_exponent: int, pipeline: int = 0) -> None:
        if not isinstance(width, int) or not 2 <= width <= WIDEST_SUM:
            raise ValueError(f"width must be an integer from 2 to {WIDEST_SUM}, not {width!r}")
        if not isinstance(unit_exponent, int) or not -64 <= unit_exponent <= 64:
            raise ValueError(
                f"unit_exponent must be an integer from -64 to 64, not {unit_exponent!r}"
            )
        check_inner_registers(pipeline, MOST_SCALE_STAGES)
        self._unit_exponent = unit_exponent
        enable = {"en": In(1)} if pipeline else {}
        suffix = f"_stages{pipeline}" if pipeline else ""
        super().__init__(
            {
                **enable,
                "negative": In(1),
                "magnitude": In(width),
                "block_exponent": In(E8M0.width + 1),
                "nan": In(1),
                "product": Out(32),
            },
            module_name=f"scaler_{width}_{signed_name(unit_exponent)}{suffix}",
            parameters={"width": width, "unit_exponent": unit_exponent, "pipeline": pipeline},
            latency=pipeline,
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        enable = self.en if self.latency else Const(1)
        pipe = Pipeline(m, enable, _BOUNDARIES[self.latency], self.latency, reset=False)

        entered, block_exponent, negative, nan = pipe.cross_all(
            "entered",
            magnitude=self.magnitude,
            block_exponent=self.block_exponent,
            negative=self.negative,
            nan=self.nan,
        )
        given = len(entered)
        width = max(given, MANTISSA_BITS + 3)  # zeros below a short one, for rounding
        below_it = Const(0, width - given)
        offset = given - 1 + self._unit_exponent - 2 * E8M0.bias + _FLOAT32_BIAS
        # Biased exponent of the top bit; below 1 it is less than that of the smallest normal.
        top = named(m, "top_exponent", signed(E8M0.width + 3), block_exponent + offset)
        below: Value = named(m, "is_below", 1, top < 1)
        deficit = named(
            m, "deficit", E8M0.width + 1, (1 - offset - block_exponent)[: E8M0.width + 1]
        )
        # A one is marked where the exponent would be 1, that of subnormals.
        lowest = named(m, "lowest", width, Cat(top == width - i for i in range(width)))
        zeros = leading_zeros(m, "zeros", Cat(below_it, entered) | lowest)
        exponent: Value = Mux(below, 1, top)[: E8M0.width + 2]
        magnitude, below, exponent, distance, negative, nan = pipe.cross_all(
            "counted",
            magnitude=entered,
            below=below,
            exponent=exponent,
            distance=Mux(below, deficit, zeros),
            negative=negative,
            nan=nan,
        )
        magnitude = Cat(below_it, magnitude)
        turned: Value = named(m, "turned", width, Mux(below, magnitude, magnitude[::-1]))
        turned, below, exponent, distance, negative, nan = pipe.cross_all(
            "turned",
            turned=turned,
            below=below,
            exponent=exponent,
            distance=distance,
            negative=negative,
            nan=nan,
        )
        shifted = shift_sticky(m, "shifted", turned, distance)
        lowered = exponent - Mux(below, 0, distance)
        shifted, exponent, negative, nan = pipe.cross_all(
            "shifted",
            shifted=Mux(below, shifted, shifted[::-1]),
            exponent=lowered[: len(exponent)],
            negative=negative,
            nan=nan,
        )
        rounded = round_and_pack(m, shifted, exponent)
        m.d.comb += self.product.eq(Mux(nan, CANONICAL_NAN, Cat(rounded, negative)))
        return m
