"""Blocks on which quantisers part ways, by name, and random ones between them."""

import numpy as np
from numpy.typing import NDArray

from mxsafe.formats import MX_FORMATS
from verif.support import exact

BLOCK = 32
FLT_MAX = float(np.finfo(np.float32).max)

Blocks = NDArray[np.float32]


def _neighbours(values: NDArray[np.floating], reach: int) -> NDArray[np.float32]:
    """Positive float32 values and all those up to so many units in the last place away."""
    bits = values.astype(np.float32).view(np.int32)
    steps = np.arange(-reach, reach + 1, dtype=np.int32)
    return (bits[..., None] + steps).view(np.float32)


def corner_blocks(name: str) -> dict[str, Blocks]:
    """Blocks of a format by what is special about them, arrays of shape (blocks, 32)."""
    element = MX_FORMATS[name].element
    table = np.array([float(value) for value in exact.mx_table(name)])
    points = np.concatenate([table[1:], (table[1:] + table[:-1]) / 2])
    powers = np.ldexp(1.0, np.arange(-120, 128))
    tops = np.ldexp(element.max_value, np.arange(-120, 127 - element.emax))
    finite = {
        "zeros of both signs": [[0.0, -0.0], [-0.0, -0.0]],
        "-0 and what rounds to it": [[1.0, -0.0, -1e-9, -(2.0**-149)]],
        "FLT_MAX": [[FLT_MAX, 1.0, -1e38], [-FLT_MAX, 3e38, -1e36], [3.3e38, -3e-38, 1e30]],
        "subnormals": [[1e-40, -3e-45, 1e-45], [2.0**-126, -(2.0**-130)], [2.0**-149]],
        "scale byte 0": [
            [amax * sign, amax / 3, -amax / 100, 2.0**-149]
            for amax in np.ldexp(1.5, np.arange(-140, -100))
            for sign in (1.0, -1.0)
        ],
        "next to a power of two": [
            [top, -0.3 * top, below, 0.1 * top]
            for below, *rest in _neighbours(powers, 30).tolist()
            for top in rest[::7]
        ],
        "next to the largest element": [
            [top, -0.4 * top, 0.01 * top] for top in _neighbours(tops, 3).reshape(-1).tolist()
        ],
    }
    special = {
        "NaN": [[1.0, np.nan, -2.0, 0.0], [np.nan, -np.nan]],
        "Inf": [[1.0, np.inf, -2.0, -0.0], [-np.inf, 3e38, -3e38, 1e36, -1e30], [np.inf, -np.inf]],
        "NaN and Inf": [[np.nan, np.inf, 1.0, -1.0]],
    }
    blocks = {}
    for kind, rows in (finite | special).items():
        array = np.zeros((len(rows), BLOCK), np.float32)
        for row, values in zip(array, rows, strict=True):
            row[: len(values)] = values
        blocks[kind] = array
    # Elements at and next to every value and midpoint, under scale 2^0.
    near = _neighbours(np.minimum(points, element.max_value), 2).reshape(-1)
    near = np.resize(near, (-(-near.size // (BLOCK - 1)), BLOCK - 1))
    top = np.full((len(near), 1), 2.0**element.emax, np.float32)
    blocks["values and midpoints"] = np.concatenate(
        [np.hstack([top, near]), np.hstack([top, -near])]
    )
    return blocks


def random_blocks(seed: int, n: int) -> Blocks:
    """Finite blocks well inside the range of every format's scales."""
    rng = np.random.default_rng(seed)
    spread = np.exp2(rng.integers(-10, 1, (n, BLOCK)) + rng.integers(-80, 80, (n, 1)))
    return (rng.standard_normal((n, BLOCK)) * spread).astype(np.float32)


def mixed_blocks(name: str, seed: int, n: int) -> Blocks:
    """Every corner block, `n` random ones, and `n` of random bits."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 1 << 32, (n, BLOCK), dtype=np.uint32).view(np.float32)
    narrow = rng.random(n) < 0.8  # with 32 of all exponents nearly every block has one near 2^127
    exponent = rng.integers(1, 255, (n, 1), dtype=np.uint32) << np.uint32(23)
    same = ((bits.view(np.uint32) & np.uint32(0x807FFFFF)) | exponent).view(np.float32)
    bits = np.where(narrow[:, None], same, bits)
    return np.concatenate([*corner_blocks(name).values(), random_blocks(seed, n), bits])
