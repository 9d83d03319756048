"""A fixed-point number times two block scales, as binary32."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Value, signed
from amaranth.lib.wiring import In, Out

from mxsafe.formats import E8M0
from mxsafe.products import WIDEST_SUM, signed_name
from mxsafe.rtl.arithmetic.bits import named
from mxsafe.rtl.arithmetic.float_steps import (
    EXPONENT_BITS,
    LARGEST_EXPONENT,
    MANTISSA_BITS,
    leading_one_and_zeros,
    pack_special,
    round_and_pack,
)
from mxsafe.rtl.arithmetic.pipeline import Pipeline, check_inner_registers
from mxsafe.rtl.unit import Unit

__all__ = ["MOST_SCALE_STAGES", "Scaler", "block_exponent", "is_nan_scale"]

_FLOAT32_BIAS = 127
_BOUNDARIES: tuple[tuple[str, ...], ...] = (
    (),
    ("shifted",),
    ("entered", "shifted"),
    ("entered", "turned", "shifted"),
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

    A number in two's complement is never negated: its magnitude less one is its inverse, zeros are
    counted in the changes from bit to bit, and the one that is missing comes in with the rounding.

    Parameters
    ----------
    width : int
        Bits of the magnitude.
    unit_exponent : int
        Exponent of its unit.
    pipeline : int
        Registers on the way, 0 to 4; they are not reset. With 0 the unit is combinational.
    twos_complement : bool
        Whether the number comes as `value`, else as `negative` and `magnitude`.

    Attributes
    ----------
    en : In(1)
        Clock enable, if there are registers.
    value : In(signed(width + 1))
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

    Notes
    -----
    For 30 bits with one register, by the script ``area`` of `mxsafe.synthesis.targets` (yosys 0.70 to
    NanGate 45 nm, typical); first for magnitudes, whose negation outside is not counted:

    ==================================================================  =====  ====
    step                                                                GE     ns
    ==================================================================  =====  ====
    zeros counted up to a mark, the exponent subtracted for right
    shifts                                                              1,177  1.86
    counted first and compared, right shifts inverted                     999  1.78
    register behind the shifter                                           935  1.67
    largest distance first, rounded behind the register                   929  1.71
    numbers in two's complement, inverted outside (not counted)           987  1.67
    the same, changes from bit to bit counted in place of inverting     1,093  1.76
    ==================================================================  =====  ====
    """

    def __init__(
        self, *, width: int, unit_exponent: int, pipeline: int = 0, twos_complement: bool = False
    ) -> None:
        if not isinstance(width, int) or not 2 <= width <= WIDEST_SUM:
            raise ValueError(f"width must be an integer from 2 to {WIDEST_SUM}, not {width!r}")
        if not isinstance(unit_exponent, int) or not -64 <= unit_exponent <= 64:
            raise ValueError(
                f"unit_exponent must be an integer from -64 to 64, not {unit_exponent!r}"
            )
        check_inner_registers(pipeline, MOST_SCALE_STAGES)
        self._unit_exponent = unit_exponent
        self._signed = twos_complement
        enable = {"en": In(1)} if pipeline else {}
        number: dict[str, Any] = {"value": In(signed(width + 1))}
        if not twos_complement:
            number = {"negative": In(1), "magnitude": In(width)}
        suffix = "_signed" if twos_complement else ""
        suffix += f"_stages{pipeline}" if pipeline else ""
        super().__init__(
            {
                **enable,
                **number,
                "block_exponent": In(E8M0.width + 1),
                "nan": In(1),
                "product": Out(32),
            },
            module_name=f"scaler_{width}_{signed_name(unit_exponent)}{suffix}",
            parameters={
                "width": width,
                "unit_exponent": unit_exponent,
                "pipeline": pipeline,
                **({"twos_complement": True} if twos_complement else {}),
            },
            latency=pipeline,
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        enable = self.en if self.latency else Const(1)
        pipe = Pipeline(m, enable, _BOUNDARIES[self.latency], self.latency, reset=False)

        magnitude = self.value[:-1] if self._signed else self.magnitude
        magnitude, block_exponent, negative, nan = pipe.cross_all(
            "entered",
            magnitude=magnitude,
            block_exponent=self.block_exponent,
            negative=self.value[-1] if self._signed else self.negative,
            nan=self.nan,
        )
        given = len(magnitude)
        width = max(given, MANTISSA_BITS + 3)  # at least two bits below the mantissa, for rounding
        stages = width.bit_length()
        offset = given - 1 + self._unit_exponent - 2 * E8M0.bias + _FLOAT32_BIAS
        # Biased exponents less one: that of the top bit, and that of the leading one.
        top = named(m, "top", signed(E8M0.width + 3), block_exponent + (offset - 1))
        below: Value = named(m, "is_below", 1, top < 0)
        leading: Value = magnitude
        if self._signed:
            # Of a negative number less one, the leading one is where a bit differs from the next.
            leading = Cat(0, magnitude) ^ Cat(magnitude, negative)
        any_set, zeros = leading_one_and_zeros(m, "zeros", named(m, "edges", len(leading), leading))
        near = named(m, "is_near", 1, ~top[stages:].any() & (zeros > top[:stages]))
        subnormal = named(m, "is_subnormal", 1, below | near)
        base: Value = named(m, "base", signed(E8M0.width + 3), top - zeros)
        infinite: Value = named(
            m, "is_infinite", 1, ~subnormal & any_set & (base >= LARGEST_EXPONENT)
        )
        far = (top ^ below.replicate(len(top)))[:-1]
        distance: Value = Mux(subnormal, far[:stages], zeros)
        beyond: Value = named(m, "is_beyond", 1, below & far[stages:].any())
        base = Mux(subnormal | ~any_set, 0, base[:EXPONENT_BITS])
        magnitude, below, beyond, base, distance, negative, infinite, nan = pipe.cross_all(
            "counted",
            magnitude=magnitude,
            below=below,
            beyond=beyond,
            base=base,
            distance=distance[:stages],
            negative=negative,
            infinite=infinite,
            nan=nan,
        )
        # What goes right goes one further than `distance` says.
        padded = Cat(Const(0, width - given), magnitude)
        sign = negative if self._signed else Const(0, 1)
        turned: Value = Mux(below, Cat(padded[1:], sign), padded[::-1])
        turned, lost, below, beyond, base, distance, negative, infinite, nan = pipe.cross_all(
            "turned",
            turned=turned,
            lost=below & padded[0],
            below=below,
            beyond=beyond,
            base=base,
            distance=distance,
            negative=negative,
            infinite=infinite,
            nan=nan,
        )
        sign = negative if self._signed else Const(0, 1)
        fill = named(m, "fill", 1, sign & below)
        for stage in reversed(range(stages)):
            step = 1 << stage
            lost = lost | (below & distance[stage] & turned[:step].any())
            moved = Cat(turned[step:], fill.replicate(step))
            turned = named(m, f"turned_{step}", width, Mux(distance[stage], moved, turned))
        turned = Mux(below, turned, turned[::-1])
        extra = width - MANTISSA_BITS - 2
        inexact: Value = lost | turned[:extra].any()
        kept = named(
            m,
            "kept",
            MANTISSA_BITS + 2,
            Mux(beyond, 0, turned[extra:] ^ sign.replicate(MANTISSA_BITS + 2)),
        )
        kept, inexact, base, negative, infinite, nan = pipe.cross_all(
            "shifted",
            kept=kept,
            inexact=named(m, "is_inexact", 1, inexact),
            base=base,
            negative=negative,
            infinite=infinite,
            nan=nan,
        )
        guard, mantissa, hidden = kept[0], kept[1:-1], kept[-1]
        odd = mantissa[0]
        up: Value = guard & (odd | inexact)
        if self._signed:
            # The one that is missing reaches the guard if there are only ones below it.
            up = Mux(negative, guard | (odd & ~inexact), up)
        packed = round_and_pack(m, mantissa, named(m, "increment", 1, up), base, hidden)
        m.d.comb += self.product.eq(pack_special(packed, negative, infinite, nan))
        return m
