"""A fixed-point number times two block scales, as binary32."""

from dataclasses import replace
from typing import Annotated

from amaranth.hdl import Cat, Const, Module, Mux, Value, signed
from amaranth.lib.wiring import In, Out

from mxsafe.formats import E8M0
from mxsafe.products import WIDEST_SUM
from mxsafe.rtl.arithmetic.bits import named, noted, truncated
from mxsafe.rtl.arithmetic.float_steps import (
    EXPONENT_BITS,
    LARGEST_EXPONENT,
    MANTISSA_BITS,
    leading_one_and_zeros,
    lesser,
    pack_special,
    round_and_pack,
)
from mxsafe.rtl.arithmetic.pipeline import Pipeline, Sideband
from mxsafe.rtl.timing import Stages, Target, Timed, stages_of
from mxsafe.rtl.unit import Configuration, Ports, Unit
from mxsafe.validation import within

_FLOAT32_BIAS = 127
SUM_BITS = E8M0.width + 1
"""Bits of the sum of two E8M0 bytes."""


def scale_stages(config: Timed, width: int) -> Stages:
    """Registers of a scaler of numbers of so many bits, which has distances below that."""
    steps = {f"shifted_{1 << n}" for n in range(max(width, MANTISSA_BITS + 3).bit_length())}
    known = stages_of(config, of="Scaler")
    return replace(
        known,
        places=tuple(
            place
            for place in known.places
            if place.name in steps or not place.name.startswith("shifted_")
        ),
    )


def block_exponent(m: Module, scale_a: Value, scale_w: Value) -> Value:
    """Sum of two E8M0 bytes."""
    return named(m, "block_exponent", SUM_BITS, scale_a + scale_w)


def is_nan_scale(m: Module, scale_a: Value, scale_w: Value) -> Value:
    """Whether one of two E8M0 bytes is NaN."""
    nan = named(m, "is_nan", 1, (scale_a == E8M0.nan_code) | (scale_w == E8M0.nan_code))
    return noted(nan, "An E8M0 scale of 255 is NaN, and so is its block.")


class ScalerConfiguration(Configuration):
    """A `Scaler`; the default one is that of FP12 sums.

    Parameters
    ----------
    width : int
        Bits of the magnitude, 2 to 80.
    quantum_exponent : int
        Exponent of the weight of its lowest bit, -64 to 64.
    pipeline : int, optional
        Registers on the way, 0 to 4, for an FPGA as many as there are places; they are not reset.
        With 0 the unit is combinational. By default 0, for an FPGA 10.
    twos_complement : bool
        Whether the number comes as `value`, else as `negative` and `magnitude`.
    exponent_bits : int
        Bits of `block_exponent`: 9 of the sum of two bytes, or 10 where something is added to it.
    target : {"asic", "fpga"}
        What the unit is built for, see `mxsafe.rtl.timing`.
    """

    width: Annotated[int, within(2, WIDEST_SUM)] = 22
    quantum_exponent: Annotated[int, within(-64, 64)] = -18
    pipeline: int | None = None
    twos_complement: bool = False
    exponent_bits: Annotated[int, within(SUM_BITS, SUM_BITS + 1)] = SUM_BITS
    target: Target = "asic"

    def __post_init__(self) -> None:
        stages = scale_stages(self, self.width)
        self._settle(pipeline=stages.default)
        self._set(pipeline=stages.require("pipeline", self.pipeline))

    @property
    def boundaries(self) -> tuple[str, ...]:
        """Where the registers stand."""
        return scale_stages(self, self.width).standing(self.latency)


class Scaler(Unit[ScalerConfiguration]):
    """``value * 2^quantum_exponent * 2^block_exponent`` as binary32.

    Rounded once, to nearest even, subnormals included; overflow gives Inf, a NaN scale gives
    ``0x7fc00000``.

    A magnitude is shifted left until its top bit is set, or right if the result is subnormal and
    that takes it below the last bit. Never both, so that one shifter serves: what goes left passes
    it bits reversed.

    A number in two's complement is never negated: its magnitude less one is its inverse, zeros are
    counted in the changes from bit to bit, and the one that is missing comes in with the rounding.

    Attributes
    ----------
    en : In(1)
        Clock enable, if there are registers.
    value : In(signed(width + 1))
        The number to be scaled, in quanta.
    negative : In(1)
        Its sign, where sign and magnitude come instead.
    magnitude : In(width)
        Its magnitude, likewise.
    block_exponent : In(exponent_bits)
        Sum of the two E8M0 bytes, see `block_exponent`, and of what else scales the block.
    nan : In(1)
        Whether one of them is NaN, see `is_nan_scale`.
    product : Out(32)
        The scaled number in binary32.

    Notes
    -----
    What was tried is in ``docs/experiments.md``.
    """

    def ports(self) -> Ports:
        config = self.config
        magnitude = {"negative": In(1), "magnitude": In(config.width)}
        complement = {"value": In(signed(config.width + 1))}
        return {
            **({"en": In(1)} if config.pipeline else {}),
            **(complement if config.twos_complement else magnitude),
            "block_exponent": In(config.exponent_bits),
            "nan": In(1),
            "product": Out(32),
        }

    def fill(self, m: Module, platform: object) -> None:
        enable = self.en if self.latency else Const(1)
        pipe = Pipeline(m, enable, self.config.boundaries, self.latency, reset=False)
        product = self._rounded(m, pipe, self._shifted(m, pipe, self._counted(m, pipe)))
        m.d.comb += self.product.eq(pipe.cross("output", "product", product))

    @property
    def _width(self) -> int:
        """Bits of the shifter: at least two below the mantissa, for rounding."""
        return max(self.config.width, MANTISSA_BITS + 3)

    def _counted(self, m: Module, pipe: Pipeline) -> dict[str, Value]:
        """The number, which way and how far it goes, and the exponent that it has then."""
        twos_complement = self.config.twos_complement
        magnitude = self.value[:-1] if twos_complement else self.magnitude
        magnitude, block_exponent, negative, nan = pipe.cross_all(
            "entered",
            magnitude=magnitude,
            block_exponent=self.block_exponent,
            negative=self.value[-1] if twos_complement else self.negative,
            nan=self.nan,
        )
        stages = self._width.bit_length()
        offset = len(magnitude) - 1 + self.config.quantum_exponent - 2 * E8M0.bias + _FLOAT32_BIAS
        top = named(m, "top", signed(E8M0.width + 3), block_exponent + (offset - 1))
        noted(top, "Biased exponent, less one, that the top bit of the number would have.")
        below: Value = named(m, "is_below", 1, top < 0)
        noted(
            below, "Even the top bit is below the normal numbers: the number goes right, not left."
        )
        differing = Cat(0, magnitude) ^ Cat(magnitude, negative)
        leading: Value = differing if twos_complement else magnitude
        sideband = Sideband(pipe, magnitude=magnitude, negative=negative, nan=nan)
        edges = named(m, "edges", len(leading), leading)
        if twos_complement:
            noted(
                edges,
                "Normalisation without a negation: the leading one of a negative number less one "
                "is where a bit differs from the next.",
            )
        any_set, zeros = leading_one_and_zeros(m, "zeros", edges, sideband, "grouped")
        top, below = sideband.cross("grouped", top=top, is_below=below)
        zeros, top, below, any_set = sideband.cross(
            "leading", zeros=zeros, top=top, is_below=below, any_set=any_set
        )
        few = named(m, "has_small_top", 1, ~top[stages:].any())
        near = named(m, "is_near", 1, few & (zeros > top[:stages]))
        noted(near, "A number goes only so far to the left as its exponent allows.")
        subnormal: Value = named(m, "is_subnormal", 1, below | near)
        lowered = truncated(m, "exponent", E8M0.width + 3, top - zeros)
        lowered, subnormal, zeros, top, below, any_set = sideband.cross(
            "compared",
            exponent=lowered,
            is_subnormal=subnormal,
            zeros=zeros,
            top=top,
            is_below=below,
            any_set=any_set,
        )
        exponent: Value = lowered.as_signed()
        too_large = named(m, "is_too_large", 1, exponent >= LARGEST_EXPONENT)
        normal: Value = named(m, "is_normal", 1, ~subnormal & any_set)
        infinite: Value = named(m, "is_infinite", 1, normal & too_large)
        far: Value = noted(
            named(m, "far", len(top) - 1, (top ^ below.replicate(len(top)))[:-1]),
            "The distance of a right shift is the inverted exponent, one short: no subtraction in "
            "front of the shifter.",
        )
        far, infinite, normal, subnormal, exponent, zeros, below = sideband.cross(
            "lowered",
            far=far,
            is_infinite=infinite,
            is_normal=normal,
            is_subnormal=subnormal,
            exponent=exponent,
            zeros=zeros,
            is_below=below,
        )
        magnitude, negative, nan = sideband.all
        distance: Value
        if self.config.boundaries == ("shifted_1",):
            counted = Cat(zeros, Const(0, stages))[:stages]
            distance = lesser(m, "nearest", counted, far, below)
        else:
            distance = Mux(subnormal, far[:stages], zeros)[:stages]
        distance = named(m, "distance", stages, distance)
        beyond: Value = named(m, "is_beyond", 1, below & far[stages:].any())
        noted(beyond, "So far to the right that nothing is kept, and nothing rounds up.")
        base: Value = named(m, "base", EXPONENT_BITS, Mux(normal, exponent[:EXPONENT_BITS], 0))
        values = {
            "magnitude": magnitude,
            "below": below,
            "beyond": beyond,
            "base": base,
            "distance": distance,
            "negative": negative,
            "infinite": infinite,
            "nan": nan,
        }
        return dict(zip(values, pipe.cross_all("counted", **values), strict=True))

    def _shifted(self, m: Module, pipe: Pipeline, counted: dict[str, Value]) -> dict[str, Value]:
        """The bits that are kept, whether others were lost, and what goes along."""
        twos_complement, width = self.config.twos_complement, self._width
        magnitude, below, beyond, base, distance, negative, infinite, nan = counted.values()
        padded = Cat(Const(0, width - len(magnitude)), magnitude)
        sign = negative if twos_complement else Const(0, 1)
        turned: Value = noted(
            named(m, "turned_from", width, Mux(below, Cat(padded[1:], sign), padded[::-1])),
            "One shifter for both ways: what goes left passes it bits reversed. What goes right "
            "does so by one place here already, for its distance is one short.",
        )
        turned, lost, below, beyond, base, distance, negative, infinite, nan = pipe.cross_all(
            "turned",
            turned=turned,
            lost=named(m, "lost", 1, below & padded[0]),
            below=below,
            beyond=beyond,
            base=base,
            distance=distance,
            negative=negative,
            infinite=infinite,
            nan=nan,
        )
        sign = negative if twos_complement else Const(0, 1)
        fill: Value = named(m, "fill", 1, sign & below)
        sideband = Sideband(
            pipe, beyond=beyond, base=base, negative=negative, infinite=infinite, nan=nan
        )
        for stage in reversed(range(width.bit_length())):
            step = 1 << stage
            right = named(m, f"goes_right_{step}", 1, below & distance[stage])
            noted(right, "Sticky: what leaves on the right counts; on the left it is all zeros.")
            some = named(m, f"has_low_{step}", 1, turned[:step].any())
            lost = named(m, f"lost_{step}", 1, lost | (right & some))
            moved = Cat(turned[step:], fill.replicate(step))
            turned = named(m, f"turned_{step}", width, Mux(distance[stage], moved, turned))
            turned, lost, below, distance, fill = sideband.cross(
                f"shifted_{step}",
                turned=turned,
                lost=lost,
                below=below,
                distance=distance,
                fill=fill,
            )
        beyond, base, negative, infinite, nan = sideband.all
        sign = negative if twos_complement else Const(0, 1)
        shifted = named(m, "shifted", width, Mux(below, turned, turned[::-1]))
        extra = width - MANTISSA_BITS - 2
        inexact: Value = lost | shifted[:extra].any()
        upper: Value = shifted[extra:]
        if twos_complement:
            inverted = upper ^ sign.replicate(MANTISSA_BITS + 2)
            upper = named(m, "upper_magnitude", MANTISSA_BITS + 2, inverted)
        kept = named(m, "kept", MANTISSA_BITS + 2, Mux(beyond, 0, upper))
        values = {
            "kept": kept,
            "inexact": named(m, "is_inexact", 1, inexact),
            "base": base,
            "negative": negative,
            "infinite": infinite,
            "nan": nan,
        }
        return dict(zip(values, pipe.cross_all("shifted", **values), strict=True))

    def _rounded(self, m: Module, pipe: Pipeline, shifted: dict[str, Value]) -> Value:
        """The bits of the product."""
        kept, inexact, base, negative, infinite, nan = shifted.values()
        guard, mantissa, hidden = kept[0], kept[1:-1], kept[-1]
        odd = mantissa[0]
        up: Value = guard & (odd | inexact)
        if self.config.twos_complement:
            positive = named(m, "increment_of_positive", 1, up)
            up = Mux(negative, guard | (odd & ~inexact), positive)
        increment: Value = named(m, "increment", 1, up)
        if self.config.twos_complement:
            noted(
                increment,
                "Nearest even. A negative number is inverted, one short: that one reaches the "
                "guard bit if there are only ones below it.",
            )
        else:
            noted(increment, "Nearest even: up above half an ulp, or at half of an odd one.")
        sideband = Sideband(pipe, negative=negative, infinite=infinite, nan=nan)
        mantissa, increment, base, hidden = sideband.cross(
            "incremented",
            mantissa=mantissa,
            increment=increment,
            base=base,
            hidden=hidden,
        )
        (packed,) = sideband.cross(
            "packed", rounded=round_and_pack(m, mantissa, increment, base, hidden)
        )
        return pack_special(m, packed, *sideband.all)
