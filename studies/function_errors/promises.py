"""Promises of functions besides errors: special values, signs, ranges, order and symmetry."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from studies.function_errors.models import MODELS, function_of

Words = NDArray[np.uint32]

_SIGN, _ONE, _HALF = 0x80000000, 0x3F800000, 0x3F000000
_INFINITY, _NAN = 0x7F800000, 0x7FC00000
_SIGN_OF_ARGUMENT = ("gelu", "silu", "tanh", "reciprocal")
_LARGEST: Mapping[str, int] = {"tanh": _ONE, "sigmoid": _ONE}
"""Words that sizes of results do not exceed; of all others of `_SIGNED` Inf."""
_SIGNED = (*_SIGN_OF_ARGUMENT, "exp", "sigmoid", "rsqrt")
"""Functions whose results' sign is known."""
ODD = ("tanh",)
"""Functions whose results of opposite numbers are opposite."""
SPECIAL: Mapping[str, tuple[int, int, int, int]] = {
    "relu": (0, 0, _INFINITY, 0),
    "gelu": (0, _SIGN, _INFINITY, _SIGN),
    "silu": (0, _SIGN, _INFINITY, _SIGN),
    "tanh": (0, _SIGN, _ONE, _SIGN | _ONE),
    "exp": (_ONE, _ONE, _INFINITY, 0),
    "sigmoid": (_HALF, _HALF, _ONE, 0),
    "reciprocal": (_INFINITY, _SIGN | _INFINITY, 0, _SIGN),
    "rsqrt": (_INFINITY, _SIGN | _INFINITY, 0, _NAN),
    "relu_derivative": (0, 0, _ONE, 0),
    "gelu_derivative": (_HALF, _HALF, _ONE, 0),
    "silu_derivative": (_HALF, _HALF, _ONE, 0),
    "tanh_derivative": (_ONE, _ONE, 0, 0),
}
"""Words of results at +0, -0, Inf and -Inf."""


class BrokenPromiseError(Exception):
    """A promise that a result breaks."""


def _demand(held: NDArray[np.bool_] | np.bool_, name: str, promise: str, words: Words) -> None:
    """Raise unless a promise is held everywhere; name the first argument where it is not."""
    if not np.all(held):
        at = int(np.broadcast_to(words, np.shape(held))[~held].min())
        raise BrokenPromiseError(f"{name}: {promise}, not so at 0x{at:08x}")


def check_range(name: str, words: Words, got: Words) -> None:
    """Results at finite arguments of one sign have their sign, and no more than their size.

    No result of a function whose sign is known is NaN; of others that shows as an error.

    Raises
    ------
    BrokenPromiseError
        If not.
    """
    function = function_of(name)
    if function not in _SIGNED:
        return
    sign = int(words.flat[0]) & _SIGN if function in _SIGN_OF_ARGUMENT else 0
    largest = _LARGEST.get(function, _INFINITY)
    # Two reductions are faster than two comparisons.
    if int(got.min()) < sign or int(got.max()) > sign | largest:
        held = (got >= sign) & (got <= sign | largest)
        _demand(held, name, f"results lie in 0x{sign:08x}..0x{sign | largest:08x}", words)


def check_rising(name: str, words: Words, got: Words) -> None:
    """``exp`` does not fall: from row to row, and from the last row to the next column.

    Arguments have one sign; the smallest in size is first.

    Raises
    ------
    BrokenPromiseError
        If it does.
    """
    pairs = (got[:-1], got[1:], words[1:]), (got[-1, :-1], got[0, 1:], words[0, 1:])
    for before, after, at in pairs:
        held = after <= before if int(words[0, 0]) & _SIGN else after >= before
        _demand(held, name, "it never falls", at)


def check_odd(name: str, words: Words, above: Words, below: Words) -> None:
    """Results of one of `ODD` at arguments above 0 are opposite to those at their opposites.

    Raises
    ------
    BrokenPromiseError
        If not.
    """
    _demand(above ^ below == _SIGN, name, "it is odd", words)


def _at(name: str, words: Words) -> Words:
    return MODELS[name](words.view(np.float32)).view(np.uint32)


def check_special(name: str) -> None:
    """Results at zeros and infinities are those of `SPECIAL`.

    Raises
    ------
    BrokenPromiseError
        If not.
    """
    words = np.array([0, _SIGN, _INFINITY, _SIGN | _INFINITY], np.uint32)
    wanted = np.array(SPECIAL[function_of(name)], np.uint32)
    listed = ", ".join(f"0x{word:08x}" for word in wanted.tolist())
    _demand(_at(name, words) == wanted, name, f"0, -0, Inf and -Inf give {listed}", words)


def check_exact(name: str, words: Words, got: Words) -> None:
    """Results where they are known: a NaN gives the NaN, below 0 `rsqrt` does, `relu` is simple.

    Those of `SPECIAL` count as right.

    Parameters
    ----------
    name : str
    words : ndarray of uint32
        Arguments of one sign and exponent: not finite; or of `rsqrt` below 0, or of `EXACT`.
    got : ndarray of uint32
        Results.

    Raises
    ------
    BrokenPromiseError
        If one is another.
    """
    least, most = int(words.min()), int(words.max())
    wanted: Words | int
    if (most & ~_SIGN) > _INFINITY:
        wanted, promise = words if name == "relu" else _NAN, "a NaN gives a NaN"
    elif function_of(name) == "rsqrt":
        wanted, promise = _NAN, "a number below 0 gives a NaN"
    elif name == "relu":
        wanted, promise = 0 if most & _SIGN else words, "it is the argument, or +0"
    else:
        wanted, promise = 0 if most & _SIGN else _ONE, "it is 1 above 0, else +0"
    held = got == wanted
    if (least & ~_SIGN) in (0, _INFINITY):
        held |= (words & ~np.uint32(_SIGN)) == (least & ~_SIGN)
    _demand(held, name, promise, words)
