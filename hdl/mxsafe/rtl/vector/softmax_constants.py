"""Row constants of a softmax lane, from the row's largest value and the factor."""

from typing import ClassVar

from amaranth.hdl import Cat, Const, Module, Mux, Value
from amaranth.lib.wiring import In, Out

from mxsafe.rtl.arithmetic.bits import named
from mxsafe.rtl.arithmetic.float_steps import (
    EXPONENT_BITS,
    INFINITY,
    LARGEST_EXPONENT,
    MANTISSA_BITS,
    normalise,
    normalise_in_stages,
    shift_sticky,
)
from mxsafe.rtl.arithmetic.pipeline import Pipeline, Sideband
from mxsafe.rtl.unit import Ports, Unit
from mxsafe.rtl.vector.row_lane import POSITION, digits_of_factor, windowed
from mxsafe.rtl.vector.softmax_stages import SoftmaxPartConfiguration
from mxsafe.tables.softmax import FLOAT_BITS, REACHES

_STAGES = ("aligned", "subtracted", "normalised", "rounded")
_FPGA_STAGES = (
    "reached",
    "ordered",
    "aligned",
    "subtracted",
    "normal_decided",
    "normalised",
    "rounded",
)
_BIAS = 127
_EXTRA_BITS = 3  # below the significand: two, and a sticky one


class SoftmaxConstantsConfiguration(SoftmaxPartConfiguration):
    """A `SoftmaxConstants`: for an FPGA with three registers more."""

    stages_for: ClassVar = {"asic": _STAGES, "fpga": _FPGA_STAGES}


class SoftmaxConstants(Unit[SoftmaxConstantsConfiguration]):
    """Constants of a row, see `RowLane`.

    The threshold is the difference of the largest value and the reach, the largest difference that
    counts, rounded up. Constants of the factor alone are combinational.

    Attributes
    ----------
    en : In(1)
        Clock enable.
    factor : In(32)
        A binary32 number from ``2^-120`` to ``2^121``.
    maximum : In(32)
        Key of the largest value.
    spoilt : In(1)
        The results are NaN in any case.
    position, digits, start : Out
        Of the factor; `start` is the offset of the first pass.
    threshold, complement, invalid : Out
        Of the maximum of `latency` enabled cycles before.
    """

    def ports(self) -> Ports:
        widths = self.config.widths
        return {
            "en": In(1),
            "factor": In(32),
            "maximum": In(32),
            "spoilt": In(1),
            "position": Out(POSITION),
            "digits": Out(digits_of_factor(widths)),
            "start": Out(widths.product_bits),
            "threshold": Out(32),
            "complement": Out(widths.window_bits),
            "invalid": Out(1),
        }

    def fill(self, m: Module, platform: object) -> None:
        stages = self.config.stages
        pipe = Pipeline(m, self.en, stages, len(stages), reset=False)
        significand, scale = self._factor(m)
        self._digits(m, significand)
        reach = self._reach(m, significand, scale)
        maximum: Value = self.maximum
        maximum, position, reach, spoilt = pipe.cross_all(
            "reached", maximum=maximum, position=self.position, reach=reach, spoilt=self.spoilt
        )

        def cross(name: str, value: Value) -> Value:
            return pipe.cross("ordered", name, value)

        place = windowed(m, "place", maximum, position, self.config.widths.window_bits, cross)
        finite = named(m, "is_finite", 1, maximum.as_signed() < INFINITY)
        complement, invalid = ~place, spoilt | ~finite
        for stage in stages[:-1]:
            if stage not in ("reached", "ordered"):
                complement = pipe.cross(stage, "complement", complement)
            if stage != "reached":
                invalid = pipe.cross(stage, "invalid", invalid)
        threshold = self._threshold(m, pipe, maximum, reach)
        threshold, complement, invalid = pipe.cross_all(
            "rounded", threshold=threshold, complement=complement, invalid=invalid
        )
        m.d.comb += [
            self.threshold.eq(threshold),
            self.complement.eq(complement),
            self.invalid.eq(invalid),
        ]

    def _factor(self, m: Module) -> tuple[Value, Value]:
        """The factor's significand from 0.75 to 1.5, and its exponent with the usual bias."""
        mantissa = self.factor[:MANTISSA_BITS]
        field = self.factor[MANTISSA_BITS : MANTISSA_BITS + EXPONENT_BITS]
        halved = named(m, "is_halved", 1, mantissa[-1])
        whole = Cat(mantissa, 1)
        significand = Mux(halved, Cat(whole, 0), Cat(0, whole))
        scale = named(m, "scale", EXPONENT_BITS + 1, field + halved)
        # A distance of 0 is where the top bit of a significand is the lowest of the window.
        lowest = 2 * _BIAS - self.config.widths.window_fraction_bits
        m.d.comb += self.position.eq(scale - lowest)
        return named(m, "significand", FLOAT_BITS + 1, significand), scale

    def _digits(self, m: Module, significand: Value) -> None:
        """Digits of the factor, and the offset that makes up for what rows leave out."""
        widths = self.config.widths
        # From one bit below: with it the digits are those of the nearest number with their bits.
        low = Cat(Const(0, 1), significand)[FLOAT_BITS - widths.factor_fraction_bits :]
        places = range(widths.digits)
        bits = [(low[2 * place], low[2 * place + 1], low[2 * place + 2]) for place in places]
        negative = Cat(top & ~(middle & bottom) for bottom, middle, top in bits)
        m.d.comb += [
            self.digits.one.eq(Cat(middle ^ bottom for bottom, middle, _ in bits)),
            self.digits.two.eq(
                Cat((top ^ middle) & ~(middle ^ bottom) for bottom, middle, top in bits)
            ),
            self.digits.negative.eq(negative),
        ]
        # Rows of negative digits lack the ones above them; differences are 64 too large, and an
        # exponent of 63 stands for 0.
        width, above = widths.product_bits, widths.window_bits + 1
        ones = Const(0, 0)
        for place in places:
            gap = above - widths.digit_shifts[place] - len(ones)
            ones = Cat(ones, Const(0, gap), self.digits.negative[place])
        unit = 1 << widths.product_fraction_bits
        nearest = low[1:] + low[0]
        surplus = Cat(Const(0, width - widths.factor_fraction_bits), nearest)[:width]
        m.d.comb += self.start.eq(-(surplus + ones + unit))

    def _reach(self, m: Module, significand: Value, scale: Value) -> Value:
        """The largest difference that counts, as the bits of a binary32 number."""
        sixteenths = named(m, "sixteenths", 5, significand[FLOAT_BITS - 4 :])
        # From 32 on steps are of 4, of which the highest bits of the mantissa count three bits; the
        # last reach of all is a step of 2 below.
        steps: Value = Const(7, 3)
        for limit, most in reversed(REACHES[:-1]):
            steps = Mux(sixteenths < limit, (most - 32) // 4, steps)
        below = named(m, "reach_is_below_32", 1, sixteenths >= REACHES[-2][0])
        field = named(m, "reach_field", EXPONENT_BITS, (2 * _BIAS + 3 + 2) - scale - below)
        return Cat(Const(0, MANTISSA_BITS - 3), steps[:3], field)

    def _threshold(self, m: Module, pipe: Pipeline, maximum: Value, reach: Value) -> Value:
        """Key of the maximum less the reach, rounded up."""
        below_zero: Value = maximum[-1]
        magnitude = named(m, "magnitude", 31, maximum[:31] ^ below_zero.replicate(31))
        swap: Value = named(m, "reach_is_larger", 1, magnitude < reach)
        large: Value = named(m, "large", 31, Mux(swap, reach, magnitude))
        small: Value = named(m, "small", 31, Mux(swap, magnitude, reach))
        # Which exponent is larger is known before which number is. Where they are the same, so is
        # the distance either way.
        left, right = _exponent(m, "magnitude", magnitude), _exponent(m, "reach", reach)
        above, below = (
            named(m, f"{name}_apart", EXPONENT_BITS + 1, difference)
            for name, difference in (("largest", left - right), ("reach", right - left))
        )
        distance: Value = named(
            m, "apart", EXPONENT_BITS, Mux(above[-1], below, above)[:EXPONENT_BITS]
        )
        large, small, distance, below_zero, swap = pipe.cross_all(
            "ordered",
            large=large,
            small=small,
            distance=distance,
            below_zero=below_zero,
            swap=swap,
        )
        extended = Cat(Const(0, _EXTRA_BITS), _significand(small))
        aligned: Value = shift_sticky(m, "shifted", extended, distance)
        aligned, large, below_zero, swap = pipe.cross_all(
            "aligned", aligned=aligned, large=large, below_zero=below_zero, swap=swap
        )
        addend = Cat(Const(0, _EXTRA_BITS), _significand(large))
        width = len(addend) + 1
        total: Value = named(
            m, "total", width, Mux(below_zero, addend + aligned, (addend - aligned)[:width])
        )
        exponent: Value = large[MANTISSA_BITS:]
        total, exponent, negative = pipe.cross_all(
            "subtracted", total=total, exponent=exponent, negative=below_zero | swap
        )
        raised = named(m, "raised", EXPONENT_BITS + 1, Mux(exponent.any(), exponent, 1) + 1)
        shifted: Value
        field: Value
        if "normal_decided" in self.config.stages:  # a register within
            sideband = Sideband(pipe, negative=negative)
            shifted, field = normalise_in_stages(m, "normal", total, raised, sideband)
            negative = sideband["negative"]
        else:
            shifted, field = normalise(m, "normal", total, raised)
        shifted, field, negative = pipe.cross_all(
            "normalised", shifted=shifted, field=field, negative=negative
        )
        rest = width - 1 - MANTISSA_BITS
        exact = Cat(shifted[rest:-1], field)
        inexact = named(m, "is_inexact", 1, shifted[:rest].any())
        up = named(m, "rounds_up", 1, inexact & ~negative)
        rounded = named(m, "threshold_magnitude", len(exact) + 1, exact + up)
        # Not below the least finite number, so that -Inf never counts.
        outside = named(m, "is_outside", 1, field > LARGEST_EXPONENT)
        kept = named(m, "kept", 31, Mux(outside, INFINITY - 1, rounded))
        return Cat(kept ^ negative.replicate(31), negative)


def _exponent(m: Module, name: str, magnitude: Value) -> Value:
    """Exponent field, 1 for that of subnormals too."""
    field = magnitude[MANTISSA_BITS:]
    normal = named(m, f"{name}_is_normal", 1, field.any())
    return Cat(field[0] | ~normal, field[1:])


def _significand(magnitude: Value) -> Value:
    """Hidden bit and mantissa."""
    return Cat(magnitude[:MANTISSA_BITS], magnitude[MANTISSA_BITS:].any())
