"""Constants of rows, against fractions and integers."""

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from mxsafe.rtl.timing import TARGETS, Target
from mxsafe.rtl.vector.softmax_constants import SoftmaxConstants
from mxsafe.tables import GRADES, Grade
from verif.support.checkers import assert_equal
from verif.support.simulators import lint, run_lockstep
from verif.support.units import generated

LARGEST = float(np.finfo(np.float32).max)


def _key(value: float) -> int:
    bits = int(np.float32(value).view(np.uint32))
    return bits ^ 0x7FFFFFFF if bits >> 31 else bits


def _taken_apart(factor: float) -> tuple[Fraction, int]:
    """A number from 0.75 to 1.5, and the exponent of what it is multiplied by."""
    exponent = math.floor(math.log2(factor / 0.75))
    return Fraction(factor) / Fraction(2) ** exponent, exponent


def _reach(factor: float) -> Fraction:
    """The largest difference that counts."""
    significand, exponent = _taken_apart(factor)
    # An exponent of 40 at least: a multiple of 4, or of 2 below 32, for each part of the factors.
    part = Fraction(math.floor(significand * 16 // (1 + (significand >= 1))), 16)
    least = 40 / (part * (1 + (significand >= 1)))
    unit = 4 if least > 30 else 2
    return math.ceil(least / unit) * unit / Fraction(2) ** exponent


def _threshold(maximum: float, factor: float) -> int:
    """Key of the smallest number that is not too far below the maximum."""
    if maximum == -np.inf:
        return _key(-LARGEST)
    exact = Fraction(maximum) - _reach(factor)
    if exact <= -Fraction(LARGEST):
        return _key(-LARGEST)
    with np.errstate(over="ignore"):
        near = np.float32(float(exact))
    if np.isinf(near):
        near = np.float32(-LARGEST)
    while Fraction(float(near)) >= exact:
        near = np.nextafter(near, np.float32(-np.inf))
    while Fraction(float(near)) < exact:
        near = np.nextafter(near, np.float32(np.inf))
    return _key(float(near)) if exact else 0


def _maxima(rng: np.random.Generator, factors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Numbers of all sizes, half of them about as large as the reach, and zeros of either sign."""
    count = len(factors)
    reach = 40 / factors.astype(np.float64) * rng.choice([-1, 1], count)
    near = reach * 2.0 ** rng.integers(-4, 28, count) * rng.uniform(0.5, 1, count)
    unit = 3 - np.frexp(factors)[1] + 1
    few_bits = np.ldexp(rng.integers(3, 9, count), unit)
    exact = few_bits * np.where(rng.random(count) < 0.5, 1, 2.0 ** rng.integers(0, 26, count))
    exact *= rng.choice([-1, 1], count)
    nudge = 1 + rng.choice([-1, 1], count) * 2.0 ** -rng.integers(1, 24, count)
    cancels = np.ldexp(rng.integers(4, 8, count), unit) * nudge
    sizes = np.choose(rng.choice(3, count, p=[0.5, 0.25, 0.25]), [near, exact, cancels])
    numbers = np.clip(sizes, -LARGEST, LARGEST).astype(np.float32)
    anything = rng.integers(0, 1 << 32, count, np.uint32).view(np.float32)
    numbers = np.where((rng.random(count) < 0.2) & ~np.isnan(anything), anything, numbers)
    numbers[:4] = -np.inf, LARGEST, -LARGEST, 0
    numbers[4::40], numbers[5::40] = 0.0, -0.0
    return np.where(numbers == np.inf, np.float32(1), numbers)


@pytest.mark.parametrize("grade", GRADES)
@pytest.mark.parametrize("target", TARGETS)
def test_constants(target: Target, grade: Grade) -> None:
    unit = SoftmaxConstants(target=target, grade=grade)
    module, widths = generated(unit), unit.config.widths
    assert lint(module) == ""
    rng = np.random.default_rng(1)
    count, latency = 1500, module.latency
    factors = (2.0 ** rng.integers(-120, 121, count) * rng.uniform(1, 2, count)).astype(np.float32)
    factors[::5] = 2.0 ** rng.integers(-120, 121, len(factors[::5])) * 1.5
    factors[1::5] = 2.0 ** rng.integers(-120, 121, len(factors[1::5]))
    maxima = _maxima(rng, factors)
    # Large factors, with which thresholds are about as large as the smallest normal number.
    few = len(factors[7::5])
    factors[7::5] = 2.0 ** rng.integers(100, 121, few) * rng.uniform(1, 2, few)
    reaches = np.array([float(_reach(factor)) for factor in factors[7::5].tolist()])
    apart = 2.0 ** -rng.integers(120, 134, few) * rng.uniform(1, 2, few)
    maxima[7::5] = reaches + apart * rng.choice([-1, 1], few)
    # A factor stays while what follows from a maximum is on the way.
    en = np.append(rng.random(count * (latency + 1) * 5 // 4) < 0.9, True)
    number = np.cumsum(en) - en
    last = np.minimum(number // (latency + 1), count - 1)
    assert number[-1] >= count * (latency + 1)
    shown = (number % (latency + 1) == latency) & (number < count * (latency + 1))
    rows = last[shown]
    noise = rng.integers(0, 1 << 32, len(en))
    ports = module.ports
    keys = np.array([_key(value) for value in maxima.tolist()])
    spoilt = rng.random(count) < 0.1
    log = run_lockstep(
        "icarus",
        module,
        {
            "rst": 0,
            "en": en,
            "factor": factors.view(np.uint32)[last],
            "maximum": np.where(en, keys[last], noise),
            "spoilt": np.where(en, spoilt[last], noise & 1),
        },
        unsettled=latency,
    )
    got = {
        name: ports[name].numbers(log[name])[shown]
        for name in ("threshold", "complement", "invalid", "position", "start")
    }
    digits = ports["digits"].split(log["digits"])[shown]
    thresholds, complements, starts, positions, significands = [], [], [], [], []
    for maximum, factor in zip(maxima.tolist(), factors.tolist(), strict=True):
        significand, exponent = _taken_apart(factor)
        thresholds.append(_threshold(maximum, factor))
        positions.append(exponent + 127 - 254 + widths.window_fraction_bits)
        number = 0.0 if np.isinf(maximum) else maximum
        negative = np.signbit(np.float32(number))
        size = math.floor(
            abs(Fraction(number)) * Fraction(2) ** (exponent + widths.window_fraction_bits)
        )
        complements.append((size if negative else -1 - size) % (1 << widths.window_bits))
        nearest = math.floor(significand * 2**widths.factor_fraction_bits + Fraction(1, 2))
        significands.append(nearest)
        one = 1 << widths.product_fraction_bits
        starts.append(-(nearest * 64 * one >> widths.factor_fraction_bits) - one)
    finite = np.isfinite(maxima)[rows]
    assert_equal("threshold", got["threshold"], np.array(thresholds)[rows], maximum=keys[rows])
    assert_equal(
        "complement",
        got["complement"][finite],
        np.array(complements)[rows][finite],
        maximum=keys[rows][finite],
    )
    assert_equal("invalid", got["invalid"], spoilt[rows].astype(np.int64))
    assert_equal("position", got["position"], np.array(positions)[rows])
    # Digits make up the factor; those below 0 leave something above their rows to the offset.
    places = np.arange(widths.digits)
    ones, twos, negative_digits = (digits[:, at, None] >> places & 1 for at in range(3))
    values = (ones + 2 * twos) * (1 - 2 * negative_digits)
    sums = (values << 2 * places).sum(axis=1) + 4**widths.digits
    assert_equal("digits", sums, np.array(significands)[rows])
    lowest = widths.window_bits + 1 - widths.digit_shifts[0]
    above = (negative_digits << lowest + 2 * places).sum(axis=1)
    expected = (np.array(starts)[rows] - above) % (1 << widths.product_bits)
    assert_equal("start", got["start"], expected)
