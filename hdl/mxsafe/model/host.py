"""Operations of a model on the host, in NumPy: in binary64, rounded to binary32 once.

Sums run in an order that their length alone decides, so that no library and no thread changes a
bit. Functions are those of NumPy and of C in binary64, which may differ by a unit of that from
machine to machine; after rounding to binary32 this is hardly ever seen.
"""

import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]

_erf = np.vectorize(math.erf, otypes=[np.float64])
_erfc = np.vectorize(math.erfc, otypes=[np.float64])
FUNCTIONS: Mapping[str, Callable[[Doubles], Doubles]] = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: x * 0.5 * _erfc(-x / math.sqrt(2)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "exp": np.exp,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "reciprocal": lambda x: 1 / x,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "abs": np.abs,
    "cos": np.cos,
    "erf": _erf,
    "log": np.log,
    "sin": np.sin,
}
"""Functions of the host: all but derivatives that the vector unit has, and some that it lacks."""


def function(name: str, x: Floats) -> Floats:
    """A function of `FUNCTIONS` of each value."""
    with np.errstate(all="ignore"):
        return FUNCTIONS[name](x.astype(np.float64)).astype(np.float32)


def product(a: Floats, b: Floats) -> Floats:
    """``y[..., m, n]``, the sum over k of ``a[..., m, k] * b[..., n, k]``, k by k in binary64."""
    left, right = a.astype(np.float64), b.astype(np.float64)
    total = np.zeros((*a.shape[:-1], b.shape[-2]))
    with np.errstate(all="ignore"):
        for k in range(a.shape[-1]):
            total += left[..., :, None, k] * right[..., None, :, k]
        return total.astype(np.float32)


def softmax(x: Floats, scale: float = 1.0, *, causal: bool = False) -> Floats:
    """Softmax of ``scale * x`` along the last axis; if causal, row m counts m + 1 values."""
    with np.errstate(all="ignore"):
        scores = x.astype(np.float64) * scale
        if causal:
            scores = np.where(np.tri(*x.shape[-2:], dtype=np.bool_), scores, -np.inf)
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        return (powers / _sum(powers)).astype(np.float32)


def norm(x: Floats, gain: Floats, bias: Floats, epsilon: float, *, centre: bool) -> Floats:
    """Layer norm (centred) or RMS norm along the last axis."""
    with np.errstate(all="ignore"):
        values = x.astype(np.float64)
        if centre:
            values = values - _sum(values) / x.shape[-1]
        spread = np.sqrt(_sum(values * values) / x.shape[-1] + epsilon)
        return (values / spread * gain + bias).astype(np.float32)


def _sum(x: Doubles) -> Doubles:
    """As `half_sums`, in binary64."""
    while (count := x.shape[-1]) > 1:
        half = -(-count // 2)
        x, rest = x[..., :half].copy(), x[..., half:]
        x[..., : count - half] += rest
    return x
