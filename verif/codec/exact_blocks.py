"""Blocks of numbers over many binades, and their scales in rational arithmetic."""

from fractions import Fraction

import numpy as np

from mxsafe.formats import MX_FORMATS
from verif.support import exact


def wide_values(shape: tuple[int, ...]) -> np.ndarray:
    """float32 values over many binades, both signs, zeros among them."""
    rng = np.random.default_rng(11)
    values = rng.standard_normal(shape) * np.exp2(rng.integers(-20, 4, shape))
    values[rng.random(shape) < 0.05] = 0.0
    return values.astype(np.float32)


def exact_scale(amax: Fraction, name: str, mode: str) -> int:
    """Scale code of a block with that largest magnitude, in a mode of `quantize`."""
    fmt = MX_FORMATS[name]
    if amax == 0:
        return 0
    table = exact.mx_table(name)
    if mode == "floor":
        exponent = exact.floor_log2(amax) - fmt.emax
    elif mode == "ceil":
        low = exact.floor_log2(amax)
        exponent = low + (amax > Fraction(2) ** low) - fmt.emax
    elif mode == "even":
        unit = Fraction(2) ** (exact.floor_log2(amax) - fmt.element.mantissa_bits)
        exponent = exact.floor_log2((amax / unit + Fraction(1, 2)).__floor__() * unit) - fmt.emax
    else:
        low = exact.floor_log2(amax / table[-1])
        exponent = low + (amax / table[-1] > Fraction(2) ** low)
    return min(max(exponent + 127, 0), 254)
