"""All arguments of one exponent field through a function's model, and through its lanes."""

import functools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from studies.function_errors import promises
from studies.function_errors.errors import (
    BLOCK,
    BOUNDS,
    Worst,
    check,
    errors,
    limits,
    numbers,
    ranges,
)
from studies.function_errors.lanes import Lane
from studies.function_errors.models import EXACT, MODELS, function_of
from studies.function_errors.reference import reference

Floats = NDArray[np.float64]
Words = NDArray[np.uint32]

FIELDS = 256
"""Exponent fields; each is examined with both signs."""
_MANTISSA_BITS = 23
_CHUNK = 1 << 15
"""Arguments at a time: what is made of them stays in a cache."""
_SECTION = 1 << 19
"""Arguments whose references are computed together."""
_ORDER = np.arange(_CHUNK, dtype=np.uint32).reshape(-1, BLOCK).T.copy()
"""Places in a chunk: a row for each place in a block, so that blocks stand side by side."""
_SIGN = np.uint32(1 << 31)


@dataclass(frozen=True)
class Found:
    """Result of an exponent field, or of more.

    Attributes
    ----------
    worst : Worst
        Largest error, or one that was known before and is as large.
    arguments : int
        How many were examined.
    references : int
        At how many of them the expensive reference was taken.
    seconds : float
        Of a core.
    """

    worst: Worst
    arguments: int = 0
    references: int = 0
    seconds: float = 0.0

    def __add__(self, other: "Found") -> "Found":
        return Found(
            self.worst.over(other.worst),
            self.arguments + other.arguments,
            self.references + other.references,
            self.seconds + other.seconds,
        )


def sample(name: str, count: int = 256) -> Worst:
    """Largest error over a few finite arguments of each sign and exponent: where to begin."""
    worst = Worst(0.0, 0)
    mantissas = np.linspace(1, (1 << _MANTISSA_BITS) - 1, count).astype(np.uint32)
    for upper in range(2 * FIELDS):
        if name in BOUNDS and _has_errors(name, upper):
            worst = worst.over(check(name, mantissas | np.uint32(upper << _MANTISSA_BITS)))
    return worst


def _has_errors(name: str, upper: int) -> bool:
    """Whether arguments with these nine upper bits have results with errors."""
    finite = upper & (FIELDS - 1) != FIELDS - 1
    return finite and name not in EXACT and (function_of(name) != "rsqrt" or upper < FIELDS)


def _results(name: str, words: Words) -> NDArray[np.float32]:
    return MODELS[name](words.view(np.float32))


def examine_chunk(
    name: str, first: int, known: Worst, lanes: Sequence[Lane] = ()
) -> tuple[Words, Found]:
    """Results at `_CHUNK` arguments from one on, of the same sign and exponent, and their errors.

    Lanes have to give the same results.

    Parameters
    ----------
    name : str
        A function.
    first : int
        Word of the first argument.
    known : Worst
        Largest error that is known. What is below it is not looked at more closely.

    Returns
    -------
    results : ndarray of uint32
        Words, at the places that `_ORDER` says.
    found : Found

    Raises
    ------
    BrokenPromiseError
        If a promise is broken, or a lane gives another result.
    """
    words = _ORDER + np.uint32(first)
    got = _results(name, words)
    bits = got.view(np.uint32)
    upper = first >> _MANTISSA_BITS
    worst, references = known, 0
    if not _has_errors(name, upper):
        promises.check_exact(name, words, bits)
    else:
        promises.check_range(name, words, bits)
        chosen = _undecided(name, first, got, known.error)
        if chosen.size:
            some, results = words[:, chosen].T.ravel(), got[:, chosen].T.ravel()
            start = 1 if some[0] & ~_SIGN == 0 else 0  # zeros have a check of their own
            part = errors(name, numbers(some[start:]), results[start:])
            largest = part.max()
            at = some[start:][part == largest].min()
            worst, references = known.over(Worst(float(largest), int(at))), part.size
    _compare(name, first, bits.T.ravel(), lanes)
    return bits, Found(worst, words.size, references)


def _compare(name: str, first: int, right: Words, lanes: Sequence[Lane]) -> None:
    """Lanes give these words at an argument and those that follow."""
    for lane in lanes:
        if (found := lane.first_wrong(first, right)) is not None:
            word, came = found
            raise promises.BrokenPromiseError(
                f"{name}: {lane.name} gives 0x{came:08x} and the model 0x{right[word - first]:08x} "
                f"at 0x{word:08x}"
            )


def _undecided(name: str, first: int, got: NDArray[np.float32], known: float) -> NDArray[np.int64]:
    """Numbers of blocks whose errors may be as large as one that is known."""
    blocks = _blocks_of(first)
    least, largest = _ranges(name, first // _SECTION, known)[:, blocks]
    within = (got.min(axis=0) > least) & (got.max(axis=0) < largest)
    chosen = np.flatnonzero(~within)
    if not chosen.size:
        return chosen
    ends, exact = (each[:, blocks] for each in _references(name, first // _SECTION))
    if chosen.size > got.shape[1] // 4:  # to pick them out would take longer
        return np.flatnonzero(~(limits(name, ends, exact, got) < known))
    near = limits(name, ends[:, chosen], exact[:, chosen], got[:, chosen])
    return chosen[~(near < known)]


def _blocks_of(first: int) -> slice:
    """The blocks of a chunk among those of its section."""
    at = first % _SECTION // BLOCK
    return slice(at, at + _CHUNK // BLOCK)


@functools.lru_cache(maxsize=4)
def _references(name: str, section: int) -> tuple[Floats, Floats]:
    """Where the blocks of many chunks begin, and what follows each; and references there.

    Few numbers at a time would take longer.
    """
    first = section * _SECTION
    ends = numbers(np.arange(first, first + _SECTION, BLOCK, dtype=np.uint32))
    field = first >> _MANTISSA_BITS & (FIELDS - 1)
    step = np.ldexp(float(BLOCK), max(field, 1) - 150)
    ends = np.append(ends, ends[-1] + np.copysign(step, ends[-1]))
    exact = reference(function_of(name), ends)
    return np.stack([ends[:-1], ends[1:]]), np.stack([exact[:-1], exact[1:]])


@functools.lru_cache(maxsize=4)
def _ranges(name: str, section: int, known: float) -> Floats:
    """`ranges` of the blocks of many chunks."""
    return ranges(name, *_references(name, section), known)


def _chunks(field: int) -> Iterator[int]:
    """Words of first arguments above 0."""
    yield from range(field << _MANTISSA_BITS, (field + 1) << _MANTISSA_BITS, _CHUNK)


def examine(name: str, field: int, known: Worst, lanes: Sequence[Lane] = ()) -> Found:
    """All 2^24 arguments of both signs with this exponent field.

    Raises
    ------
    BrokenPromiseError
        If a promise is broken, or a lane gives another result than the model.
    """
    start = time.process_time()
    promises.check_special(name)
    found = Found(known)
    for first in _chunks(field):
        above, of_above = examine_chunk(name, first, found.worst, lanes)
        below, of_below = examine_chunk(name, first | int(_SIGN), of_above.worst, lanes)
        found += of_above + of_below
        if function_of(name) in promises.ODD and field < FIELDS - 1:
            promises.check_odd(name, _ORDER + np.uint32(first), above, below)
        if function_of(name) == "exp" and field < FIELDS - 1:
            _check_order(name, first, above)
            _check_order(name, first | int(_SIGN), below)
    return Found(found.worst, found.arguments, found.references, time.process_time() - start)


def _check_order(name: str, first: int, bits: Words) -> None:
    """``exp`` does not fall in a chunk, nor from the argument before it, if there is one."""
    promises.check_rising(name, _ORDER + np.uint32(first), bits)
    if first & ~int(_SIGN):
        beside = np.array([[first - 1], [first]], np.uint32)
        pair = _results(name, beside[:1]).view(np.uint32), bits[:1, :1]
        promises.check_rising(name, beside, np.concatenate(pair))
