"""Exact values of functions in float64, from series and tables made with mpmath.

No library function but the square root, which IEEE defines, is trusted. A value holds to
`REFERENCE_ERROR`.
"""

import functools
from collections.abc import Callable, Mapping

import mpmath
import numpy as np
from numpy.typing import NDArray

from studies.tables.activation import value
from studies.tables.fit import series

Floats = NDArray[np.float64]

REFERENCE_ERROR = 2.0**-44
"""How far references may be off: relative to the result; to 1 for derivatives; and to the argument
where `gelu` and `silu` are negative."""
_STEPS_LOG = 6
"""Exponentials: a table with steps of 2^-6, and a series for the rest."""


@functools.cache
def _powers() -> Floats:
    """``exp(k / 64)``, k from -128 * 64 to 128 * 64."""
    with mpmath.workdps(30):
        step = mpmath.mpf(2) ** -_STEPS_LOG
        most = 128 << _STEPS_LOG
        return np.array([float(mpmath.exp(k * step)) for k in range(-most, most + 1)])


def _exp(x: Floats) -> Floats:
    """``exp`` of numbers of size 128 at most; a product of two numbers, each within 2^-50."""
    nearest = np.rint(x * 2.0**_STEPS_LOG)
    rest = x - nearest * 2.0**-_STEPS_LOG
    total = np.ones_like(rest)
    for power in range(9, 0, -1):  # the next term is below 2^-80
        total = 1.0 + rest * total / power
    return total * _powers()[nearest.astype(np.int64) + (128 << _STEPS_LOG)]


@functools.cache
def _part(name: str, exponent: int, part: int) -> Callable[[Floats], Floats]:
    """A function on an eighth of a binade of positive numbers, from a series."""
    unit = mpmath.mpf(2) ** exponent
    return series(lambda t: value(name, unit * (1 + (part + t) / 8)))


def _piecewise(name: str, x: Floats) -> Floats:
    """A function of positive numbers from 2^-12 to 2^5 of one binade, its end included."""
    exponent = int(np.frexp(x[0])[1]) - 1
    eighths = (np.ldexp(x, -exponent) - 1.0) * 8.0
    parts = np.minimum(eighths.astype(np.int64), 7)
    result = np.empty(x.shape)
    for part in np.unique(parts):
        chosen = parts == part
        result[chosen] = _part(name, exponent, int(part))(eighths[chosen] - part)
    return result


_ROOT = 0.3989422804014327
"""1 / sqrt(2 pi)."""
_NEAR_ZERO: Mapping[str, Callable[[Floats], Floats]] = {
    "gelu": lambda x: x * (0.5 + _ROOT * x * (1 - x**2 / 6)),
    "silu": lambda x: x * (0.5 + x / 4 * (1 - x**2 / 12)),
    "tanh": lambda x: x * (1 - x**2 / 3 * (1 - x**2 * 2 / 5)),
    "gelu_derivative": lambda x: 0.5 + _ROOT * 2 * x * (1 - x**2 / 3),
    "silu_derivative": lambda x: 0.5 + x / 2 * (1 - x**2 / 6),
    "tanh_derivative": lambda x: 1 - x**2 * (1 - x**2 * 2 / 3),
}
"""The first terms, for sizes below 2^-12: what follows is below 2^-46."""
_FAR: Mapping[str, Callable[[Floats], Floats]] = {
    "gelu": lambda x: x,
    "silu": lambda x: x,
    "tanh": np.ones_like,
    "gelu_derivative": np.ones_like,
    "silu_derivative": np.ones_like,
    "tanh_derivative": np.zeros_like,
}
"""For numbers from 32 on: what is left out is below 2^-40, and even of a result below 2^-46."""
_MIRRORED: Mapping[str, Callable[[Floats, Floats], Floats]] = {
    "gelu": lambda x, y: x + y,
    "silu": lambda x, y: x + y,
    "tanh": lambda x, y: -y,
    "gelu_derivative": lambda x, y: 1 - y,
    "silu_derivative": lambda x, y: 1 - y,
    "tanh_derivative": lambda x, y: y,
}
"""The value at a number below 0, from that at its opposite."""


def _exact(name: str, x: Floats) -> Floats:
    """A function of positive numbers of one binade."""
    if x[0] < 2.0**-12:
        return _NEAR_ZERO[name](x)
    return _FAR[name](x) if x[0] >= 32.0 else _piecewise(name, x)


def reference(name: str, x: Floats) -> Floats:
    """Exact values of a function, but for `REFERENCE_ERROR`, at finite arguments.

    Parameters
    ----------
    name : str
        A function with errors.
    x : ndarray of float64
        Arguments of one sign and one binade, the smallest in size first; a power of two also ends
        the binade below it.
    """
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        if name == "reciprocal":
            return 1.0 / x
        if name == "rsqrt":
            return 1.0 / np.sqrt(x)
        if name in ("exp", "sigmoid"):
            near = np.clip(x, -127.0, 127.0)
            power = _exp(near if name == "exp" else -near)
            if name == "sigmoid":
                return np.where(np.abs(x) < 127.0, 1.0 / (1.0 + power), np.where(x < 0, 0.0, 1.0))
            return np.where(np.abs(x) < 127.0, power, np.where(x < 0, 0.0, np.inf))
    if not np.signbit(x[0]):
        return _exact(name, x)
    return _MIRRORED[name](x, _exact(name, -x))
