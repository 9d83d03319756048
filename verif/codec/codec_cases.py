"""Tensors, blocks and formats that are hard for a codec."""

from typing import Any

import ml_dtypes
import numpy as np

from mxsafe.formats import FloatFields, FloatFormat, IntFormat, MXFormat

BLOCKINGS: list[dict[str, Any]] = [
    {"block": 64},
    {"block": 7, "axis": 0},
    {"block": (8, 8)},
    {"block": (5, 3)},
    {"block": 1},
]
DTYPES = (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)
BELOW_ONE = FloatFormat(
    name="below_one", fields=FloatFields(exponent_bits=2, mantissa_bits=2, bias=6)
)
OWN_FORMATS = (
    MXFormat(name="below_one", element=BELOW_ONE),
    MXFormat(name="int4", element=IntFormat(name="int4", width=4, fraction_bits=2)),
)


def hard_values(dtype: type, seed: int) -> np.ndarray:
    """Rows of every kind: wide ranges, random bits, ties, zeros, extremes; some mixed."""
    rng = np.random.default_rng(seed)
    shape = (96, 70)
    words = np.dtype(f"u{np.dtype(dtype).itemsize}")
    limits = ml_dtypes.finfo(dtype)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        binades = rng.integers(-30, 4, shape) + rng.integers(-150, 128, (shape[0], 1))
        x = (rng.standard_normal(shape) * np.exp2(binades)).astype(dtype)
        x[::7] = rng.integers(0, np.iinfo(words).max, x[::7].shape, words, True).view(dtype)
        x[1::9] = (rng.integers(-4096, 4096, x[1::9].shape) / 2048).astype(dtype)  # ties
        x[2::9] = (rng.integers(-4096, 4096, x[2::9].shape) / 2048 * 2.0**-100).astype(dtype)
        x[3::11] = -0.0
        x[::13, ::5] = 0.0
        x[4::9, :3] = limits.max, -limits.tiny, limits.smallest_subnormal
        x[5::9] = np.nextafter(x[5::9], np.array(0, dtype))
        x[6::9, 1] = [np.nan, np.inf, -np.inf, 1.0, 1.5, 1.984375, 2.0**-127, 0, 3, 7][
            : len(x[6::9])
        ]
    return x


def own_formats(count: int) -> list[MXFormat]:
    """Random element formats, with second modes that touch the first or leave a gap."""
    rng = np.random.default_rng(77)
    found: list[MXFormat] = []
    while len(found) < count:
        exponent, mantissa = int(rng.integers(1, 5)), int(rng.integers(0, 5))
        if exponent + mantissa > 7:
            continue
        fields = FloatFields(
            exponent_bits=exponent, mantissa_bits=mantissa, bias=int(rng.integers(0, 12))
        )
        sub = None
        if mantissa > 2 and rng.random() < 0.5:
            split = int(rng.integers(1, mantissa + 1))
            top = (1 << split) - 1
            sub = FloatFields(
                exponent_bits=split,
                mantissa_bits=mantissa - split,
                bias=top - fields.min_exponent + int(rng.integers(1, 3)),
            )
        specials = "none" if sub else str(rng.choice(["none", "nan", "ieee"]))
        try:
            element = FloatFormat(name="own", fields=fields, sub=sub, specials=specials)
        except ValueError:
            continue  # nothing but 0, or nothing finite
        found.append(MXFormat(name=f"own{len(found)}", element=element))
    return found
