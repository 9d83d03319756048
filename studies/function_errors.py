"""``python -m studies.function_errors [--tables] [NAME...]``: errors over all binary32 numbers.

Sweeps all 2^32 arguments of the functions of these names, or of all, and prints the largest error
of each in the measure that its bound is in. That takes a core about half an hour a function; with
``--tables`` a few minutes, for only the arguments whose results need a table: what is left out
depends on the exponent in the simplest way. References are computed in float64 from series and
tables made with mpmath, and hold to 2^-44: no library function is trusted.
"""

import functools
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import mpmath
import numpy as np
from numpy.typing import NDArray

from mxsafe.model.functions import FUNCTIONS
from mxsafe.tables import activation
from studies.tables.activation import value
from studies.tables.fit import series

__all__ = [
    "BOUNDS",
    "REFERENCE_ERROR",
    "Worst",
    "check",
    "main",
    "reference",
    "sweep",
    "table_fields",
]

Floats = NDArray[np.float64]
Words = NDArray[np.uint32]

REFERENCE_ERROR = 2.0**-44
"""How far references may be off: relative to the result; to 1 for derivatives; and to the argument
where `gelu` and `silu` are negative."""
BOUNDS: Mapping[str, float] = {
    name: 2.0**-14 if name.endswith("derivative") else 2.0**-16
    for name in FUNCTIONS
    if not name.startswith("relu")
}
"""Errors that are promised."""
_SMALLEST_NORMAL, _UNIT = 2.0**-126, 2.0**-149
_CHUNK = 1 << 14
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


def _piecewise(name: str, words: Words) -> Floats:
    """A function of positive numbers from 2^-12 to 2^5 with the same exponent."""
    exponent = int(words[0] >> np.uint32(23)) - 127
    mantissas = (words & np.uint32(0x7FFFFF)).astype(np.int64)
    parts = mantissas >> 20
    places = (mantissas & ((1 << 20) - 1)) * 2.0**-20
    result = np.empty(words.shape)
    for part in np.unique(parts):
        chosen = parts == part
        result[chosen] = _part(name, exponent, int(part))(places[chosen])
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


def _exact(name: str, words: Words) -> Floats:
    """A function of positive numbers with the same exponent."""
    x = words.view(np.float32).astype(np.float64)
    if x[0] < 2.0**-12:
        return _NEAR_ZERO[name](x)
    return _FAR[name](x) if x[0] >= 32.0 else _piecewise(name, words)


def reference(name: str, words: Words) -> Floats:
    """Exact values of a function, but for `REFERENCE_ERROR`, at finite arguments.

    Parameters
    ----------
    name : str
        One of `BOUNDS`.
    words : ndarray of uint32
        Arguments that have the same sign and exponent.
    """
    x = words.view(np.float32).astype(np.float64)
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
    if words[0] >> np.uint32(31) == 0:
        return _exact(name, words)
    return _MIRRORED[name](x, _exact(name, words & np.uint32(0x7FFFFFFF)))


@dataclass(frozen=True)
class Worst:
    """Largest error of a function so far, in units of its bound, and the argument."""

    error: float
    word: int

    def __str__(self) -> str:
        return f"{self.error:.4f} of the bound at 0x{self.word:08x}"


def check(name: str, words: Words) -> Worst:
    """Largest error over finite arguments that have the same sign and exponent.

    Where the exact result is subnormal, one unit in its last place is taken off the error; results
    of `exp`, `reciprocal` and `rsqrt` below 2^-126 may be 0.

    Raises
    ------
    AssertionError
        If a result is beyond the range of the function, or has the wrong sign.
    """
    got = FUNCTIONS[name](words.view(np.float32)).astype(np.float64)
    exact = reference(name, words)
    x = words.view(np.float32).astype(np.float64)
    _check_range(name, x, got)
    negative = name in ("gelu", "silu") and x[0] < 0
    if name.endswith("derivative"):
        allowed = np.full_like(exact, BOUNDS[name])
        slack = REFERENCE_ERROR
    else:
        allowed = BOUNDS[name] * np.abs(x if negative else exact)
        slack = REFERENCE_ERROR * 2.0**16
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(got - exact)
    # Beyond the largest number by less than the bound, both Inf and that number will do.
    largest = float(np.finfo(np.float32).max)
    over = (np.abs(exact) > largest * (1 - BOUNDS[name])) & (
        np.abs(got) >= largest * (1 - 2.0**-15)
    )
    error[over & (np.sign(exact) == np.sign(got))] = 0.0
    tiny = np.abs(exact) < _SMALLEST_NORMAL
    if name in ("exp", "reciprocal", "rsqrt"):
        error[tiny & (got == 0)] = 0.0
    error[tiny] = np.maximum(error[tiny] - _UNIT, 0.0)
    part = np.divide(error, allowed, out=np.zeros_like(error), where=error > 0) + slack
    part[error == 0] = 0.0
    at = int(np.argmax(part))
    return Worst(float(part[at]), int(words[at]))


def _check_range(name: str, x: Floats, got: Floats) -> None:
    sign = np.signbit(got)
    if name in ("gelu", "silu", "tanh", "reciprocal"):
        assert (sign == np.signbit(x)).all(), f"{name} has a wrong sign"
    if name in ("exp", "sigmoid", "rsqrt"):
        assert not sign[~np.isnan(got) & (x > 0)].any(), f"{name} is negative"
    if name in ("tanh", "sigmoid"):
        assert (np.abs(got) <= 1).all(), f"{name} is beyond 1"


def sweep(name: str, fields: Iterable[int], progress: Callable[[str], None]) -> Worst:
    """Largest error over all arguments with these signs and exponents.

    Parameters
    ----------
    name : str
    fields : iterable of int
        Upper nine bits of the arguments; what is not finite is left out.
    progress : callable
        Called with a line now and then.
    """
    worst = Worst(0.0, 0)
    fields = [field for field in fields if field & 255 != 255]
    if name == "rsqrt":
        fields = [field for field in fields if field < 256]
    start = time.monotonic()
    for done, field in enumerate(fields):
        last = np.float32(-np.inf)
        for low, high in pairwise(range(0, (1 << 23) + 1, _CHUNK)):
            words = np.arange(low, high, dtype=np.uint32) | np.uint32(field << 23)
            if name == "rsqrt" and field == 0 and low == 0:
                words = words[1:]
            if name == "reciprocal" and field & 255 == 0 and low == 0:
                words = words[1:]
            found = check(name, words)
            worst = max(worst, found, key=lambda each: each.error)
            if name == "exp":
                last = _check_rising(words, last)
        if done % 16 == 15:
            progress(
                f"{name}: {done + 1} of {len(fields)}, {time.monotonic() - start:.0f} s, {worst}"
            )
    return worst


def _check_rising(words: Words, last: np.float32) -> np.float32:
    """``exp`` does not fall where the size of the argument grows; returns the last value."""
    values = FUNCTIONS["exp"](words.view(np.float32))
    if words[0] >> np.uint32(31):
        values = -values
    first = values[0] if np.isneginf(last) else last
    assert (np.diff(values, prepend=first) >= 0)[np.isfinite(values)].all(), "exp falls"
    return np.float32(values[-1])


def table_fields(name: str) -> list[int]:
    """Upper nine bits of arguments whose results need a table.

    Of a reciprocal or its root those of every class: mantissas mean the same at all others.
    """
    if name in ("reciprocal", "rsqrt"):
        return [field | side for field in (0, 1, 2, 126, 127, 128, 253, 254) for side in (0, 256)]
    if name in ("exp", "sigmoid"):
        exponents = range(-21, 8)
    else:
        function = activation.FUNCTIONS[name]
        exponents = range(function.first - 1, function.last + 2)
    return [exponent + 127 | side for exponent in exponents for side in (0, 256)]


def main(arguments: Sequence[str]) -> int:
    """Sweep the functions of these names, or all."""
    only_tables = "--tables" in arguments
    arguments = [argument for argument in arguments if argument != "--tables"]
    unknown = [name for name in arguments if name not in BOUNDS]
    if unknown:
        print(f"functions must be of {', '.join(BOUNDS)}, not {unknown[0]!r}", file=sys.stderr)
        return 2
    failed = False
    for name in arguments or BOUNDS:
        fields = table_fields(name) if only_tables else range(512)
        worst = sweep(name, fields, lambda line: print(line, flush=True))
        failed |= worst.error > 1
        print(f"{name}: {worst}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
