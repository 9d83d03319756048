"""Errors of results in units of their bound, and a cheap limit of them that proves most.

The limit takes references at the ends of *blocks* only, runs of `BLOCK` arguments that follow one
another. Let ``h`` be the distance of the ends ``a`` and ``b``. Between them the exact function
``f`` is off the straight line through its values at both ends, its *chord*, by at most
``h^2 / 8`` times the largest ``abs(f'')``. All functions satisfy ``abs(x^2 f''(x)) <= k * u(x)``,
with ``u(x)`` what the bound is relative to:

- exp: f'' = f, so k = x^2; sigmoid s: f'' = s (1 - s) (1 - 2 s), so k = x^2 does, too; above 0,
  where 1 - s < exp(-x) and s >= 1/2, abs(x^2 f'') < 1.1 f;
- reciprocal: f'' = 2 f / x^2; rsqrt: f'' = 3/4 f / x^2;
- tanh: f'' = -2 f / cosh(x)^2, and x^2 / cosh(x)^2 < 0.44;
- gelu: f'' = p(x) (2 - x^2), p the density of the normal distribution: abs(x f'') < 0.34, and u
  is at least abs(x) / 2;
- silu: with s = sigmoid(x), f'' = s (1 - s) (2 + x (1 - 2 s)): abs(x f'') < 0.31, and u the same;
- derivatives: u = 1. gelu: f'' = x (x^2 - 4) p(x); silu and tanh likewise fall off like exp(-x),
  and abs(x^2 f'') < 2 for all three.

With ``k = 2`` for all but exp and sigmoid below 0, chords are off by at most 2^-36 of u in blocks
of 64 arguments of a binade; with ``k = x^2 < 2^14``, where results are not yet out of range, by
2^-23: one part in a hundred of the bound. But for that, the function lies between its values at
both ends of a block, and results lie between the smallest and the largest of the block. Where no
two such numbers are further apart than the largest error that is known, no argument of the block
can be worse. Results of other blocks are compared with the chord, argument by argument, and only
those of blocks where that does not decide with references.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mxsafe.tables import Grade
from studies.function_errors.models import EXACT, MODELS, function_of, grade_of
from studies.function_errors.reference import REFERENCE_ERROR, reference
from studies.tables.activation import LOOSER, PROMISED

Floats = NDArray[np.float64]
Results = NDArray[np.float32]
Words = NDArray[np.uint32]


def _is_absolute(name: str) -> bool:
    return function_of(name).endswith("derivative")


BOUNDS: Mapping[str, float] = {
    name: PROMISED[grade_of(name)] * (LOOSER[grade_of(name)] if _is_absolute(name) else 1)
    for name in MODELS
    if name not in EXACT
}
"""Errors that are promised."""
BLOCK = 64
"""Arguments between two references."""
_PLACES = np.arange(BLOCK)[:, np.newaxis] / BLOCK
_SMALLEST_NORMAL = 2.0**-126
_UNITS: Mapping[Grade, float] = {"compact": 2.0**-140, "fine": 2.0**-149}
"""Allowance for errors of subnormal results."""
_LARGEST = float(np.finfo(np.float32).max)
_MAY_VANISH = ("exp", "reciprocal", "rsqrt")
"""Functions whose results below 2^-126 may be 0."""


@dataclass(frozen=True)
class Worst:
    """Largest error of a function so far, in units of its bound, and the first argument with it."""

    error: float
    word: int

    def __str__(self) -> str:
        return f"{self.error:.4f} of the bound at 0x{self.word:08x}"

    def over(self, other: "Worst") -> "Worst":
        """The larger of both."""
        return min(self, other, key=lambda each: (-each.error, each.word))


def numbers(words: Words) -> Floats:
    """Arguments in float64."""
    return words.view(np.float32).astype(np.float64)


def _of_argument(name: str, x: Floats) -> bool:
    """Whether the bound is relative to the argument."""
    return function_of(name) in ("gelu", "silu") and bool(np.signbit(x.flat[0]))


def errors(name: str, x: Floats, got: Results) -> Floats:
    """Errors of results at finite arguments of the same sign and exponent, in units of the bound.

    Where the exact result is subnormal, a unit in its last place is taken off the error, or of the
    compact grade 2^9 of them; results of `exp`, `reciprocal` and `rsqrt` below 2^-126 may be 0. A
    NaN is infinitely wrong.

    Parameters
    ----------
    name : str
        One of `BOUNDS`.
    x : ndarray of float64
        Arguments, the smallest in size first.
    got : ndarray of float32
        Results.
    """
    exact = reference(function_of(name), x)
    results = got.astype(np.float64)
    if _is_absolute(name):
        allowed = np.full_like(exact, BOUNDS[name])
    else:
        allowed = BOUNDS[name] * np.abs(x if _of_argument(name, x) else exact)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(results - exact)
    # Beyond the largest number by less than the bound, both Inf and that number will do.
    over = (np.abs(exact) > _LARGEST * (1 - BOUNDS[name])) & (
        np.abs(results) >= _LARGEST * (1 - 2.0**-15)
    )
    error[over & (np.sign(exact) == np.sign(results))] = 0.0
    tiny = np.abs(exact) < _SMALLEST_NORMAL
    if function_of(name) in _MAY_VANISH:
        error[tiny & (results == 0)] = 0.0
    error[tiny] = np.maximum(error[tiny] - _UNITS[grade_of(name)], 0.0)
    with np.errstate(divide="ignore", over="ignore"):
        part = np.divide(error, allowed, out=np.zeros_like(error), where=error != 0)
    part += REFERENCE_ERROR / BOUNDS[name]
    part[error == 0] = 0.0
    part[np.isnan(results)] = np.inf
    return part


def check(name: str, words: Words) -> Worst:
    """Largest error over finite arguments of the same sign and exponent, the smallest first."""
    part = errors(name, numbers(words), MODELS[name](words.view(np.float32)))
    return Worst(float(part.max()), int(words[part == part.max()].min()))


def _bend(name: str, ends: Floats, exact: Floats) -> tuple[Floats, Floats]:
    """Return the least unit of the bound in a block, and how far the bound is off its chord."""
    sizes = np.abs(exact)
    unit, largest_unit = sizes.min(axis=0), sizes.max(axis=0)
    near, far = np.abs(ends)
    if _is_absolute(name):
        unit = largest_unit = np.ones_like(unit)
    elif _of_argument(name, ends):
        unit, largest_unit = near, far
    function = function_of(name)
    steep = function == "exp" or (function == "sigmoid" and np.signbit(ends[0, 0]))
    curvature = far**2 if steep else 2.0
    return unit, ((far - near) / near) ** 2 / 8 * curvature * largest_unit


def ranges(name: str, ends: Floats, exact: Floats, known: float) -> Floats:
    """Where all results of a block may lie for no error to be as large as one that is known.

    Parameters
    ----------
    name, ends, exact
        As of `limits`.
    known : float
        In units of the bound.

    Returns
    -------
    ndarray of float64, shape (2, blocks)
        Smallest and largest; in which order, or NaN, where no result will do.
    """
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        unit, bend = _bend(name, ends, exact)
        room = (known - 4 * REFERENCE_ERROR / BOUNDS[name]) * BOUNDS[name] * unit - bend
        # Just less, for the rounding of these sums.
        room -= REFERENCE_ERROR * unit
        return np.stack([exact.max(axis=0) - room, exact.min(axis=0) + room])


def limits(name: str, ends: Floats, exact: Floats, got: Results) -> Floats:
    """Return a limit that no error of a block exceeds, in units of the bound; NaN where that fails.

    Parameters
    ----------
    name : str
        One of `BOUNDS`.
    ends : ndarray of float64, shape (2, blocks)
        The first argument of each block, and what follows its last one: all of the same sign and
        binade, the smallest in size first.
    exact : ndarray of float64, shape (2, blocks)
        References there.
    got : ndarray of float32, shape (BLOCK, blocks)
        Results.
    """
    sizes = np.abs(exact)
    least, most = sizes.min(axis=0), sizes.max(axis=0)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        unit, bend = _bend(name, ends, exact)
        error = _from_chord(exact, got) + bend
        tiny = most + error < _SMALLEST_NORMAL
        if function_of(name) in _MAY_VANISH:
            vanished, over = most < _SMALLEST_NORMAL, least > _LARGEST * (1 - BOUNDS[name])
            if vanished.any() or over.any():
                size = np.abs(got)
                vanished &= size.max(axis=0) == 0
                over &= size.min(axis=0) == np.inf
                error = np.where(vanished | over, 0.0, error)
        error = np.where(tiny, np.maximum(error - _UNITS[grade_of(name)], 0.0), error)
        slack = 4 * REFERENCE_ERROR / BOUNDS[name]
        return np.where(error == 0, 0.0, error / (BOUNDS[name] * unit) + slack)


def _from_chord(exact: Floats, got: Results) -> Floats:
    """Largest distance of results from the chord of their block."""
    rest = _PLACES * (exact[0] - exact[1])
    rest += got
    return np.maximum(rest.max(axis=0) - exact[0], exact[0] - rest.min(axis=0))
