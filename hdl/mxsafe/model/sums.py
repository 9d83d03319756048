"""Sums of products of the array: an object for each arithmetic, with operands decoded once.

Arithmetics ``fp12`` and ``exact`` are here, whose sums are binary32; `mxsafe.model.window` has the
third one.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mxsafe.codec import elements
from mxsafe.codec._scales import scale_values
from mxsafe.codec.blocks import QuantizedTensor
from mxsafe.formats import FloatFormat, MXFormat, has_special_codes
from mxsafe.model.safe_mac import partial_sums
from mxsafe.products import OperandFormats

FLOAT64_BITS = 53
"""Bits of the integers that float64 holds."""


class Place(NamedTuple):
    """Rows and columns of a tile in the whole product."""

    rows: slice
    columns: slice


class Decoded(NamedTuple):
    """A rectangle of an operand.

    Attributes
    ----------
    format : MXFormat
    values : ndarray of float32
        Elements; zero for NaN and Inf.
    scale_codes : ndarray of uint8
        Code of the scale of each element.
    scales : ndarray of float64
        Its value; NaN in the whole stretch of k that has an element which is NaN or Inf. Not in its
        block alone: the sum stays NaN anyway.
    """

    format: MXFormat
    values: NDArray[np.float32]
    scale_codes: NDArray[np.uint8]
    scales: NDArray[np.float64]

    @classmethod
    def of(cls, q: QuantizedTensor, rows: slice, columns: slice, inner: int) -> "Decoded":
        """Decode a rectangle, whose inner dimension is along this axis."""
        scale_codes = q.element_scales(rows, columns)
        scales = scale_values(scale_codes, q.format.scale)
        values = elements.decode(q.codes[rows, columns], q.format)
        if has_special_codes(q.format):
            special = ~np.isfinite(values)
            stretch = np.broadcast_to(special.any(axis=inner, keepdims=True), scales.shape)
            scales[stretch] = np.nan
            values[special] = 0
        return cls(q.format, values, scale_codes, scales)

    @property
    def integers(self) -> NDArray[np.int64]:
        """Elements in units of the smallest positive one."""
        exponent = self.format.element.quantum_exponent
        return np.ldexp(self.values.astype(np.float64), -exponent).astype(np.int64)


class Sums(Protocol):
    """An arithmetic: what sums begin with, how products are added, what becomes of the sums."""

    def begin(self, place: Place, shape: tuple[int, int]) -> NDArray[Any]:
        """Sums of a tile before its first product."""

    def add(self, sums: NDArray[Any], a: Decoded, w: Decoded, place: Place) -> None:
        """Add the products of a stretch of k, which begins with a block."""

    def result(self, sums: NDArray[Any], place: Place) -> NDArray[np.float32]:
        """The tile in binary32, once all products are in its sums."""


@dataclass(frozen=True)
class _Binary32Sums:
    """Sums that are binary32 from the first product on.

    Attributes
    ----------
    start : ndarray of float32 or None
        Sums of the whole product to begin with; zeros if None.
    """

    start: NDArray[np.float32] | None

    def begin(self, place: Place, shape: tuple[int, int]) -> NDArray[np.float32]:
        """Zeros, or the part of `start`."""
        return np.zeros(shape, np.float32) if self.start is None else self.start[place].copy()

    def result(self, sums: NDArray[np.float32], place: Place) -> NDArray[np.float32]:
        """The sums as they are."""
        return sums


@dataclass(frozen=True)
class Fp12(_Binary32Sums):
    """``sum (+)= f32(partial * X)`` for every few products, which the adder tree adds.

    Attributes
    ----------
    lanes : int
    sum_format : FloatFormat
        Of products and partial sums.
    """

    lanes: int
    sum_format: FloatFormat

    def add(self, sums: NDArray[np.float32], a: Decoded, w: Decoded, place: Place) -> None:
        """Add the products of a stretch of k."""
        missing = -a.values.shape[1] % self.lanes
        columns_a = np.pad(a.values, ((0, 0), (0, missing))).T[:, :, None]
        rows_w = np.pad(w.values, ((0, missing), (0, 0)))[:, None, :]
        with np.errstate(over="ignore", invalid="ignore"):
            for k in range(0, a.values.shape[1], self.lanes):
                lanes = slice(k, k + self.lanes)
                partial = partial_sums(list(columns_a[lanes]), list(rows_w[lanes]), self.sum_format)
                scale = a.scales[:, k, None] * w.scales[k]
                sums += (partial * scale).astype(np.float32)


@dataclass(frozen=True)
class Exact(_Binary32Sums):
    """``sum (+)= f32(sum of a block * X)``, where float64 holds the sum of a block.

    The scales go into the operands. All products of a block then share the factor X, so their sum
    is an integer below 2^53 times a power of two, exact in whatever order BLAS adds.
    """

    block: int

    def add(self, sums: NDArray[np.float32], a: Decoded, w: Decoded, place: Place) -> None:
        """Add the products of a stretch of k."""
        add_blocks(sums, a.values * a.scales, w.values * w.scales, self.block)


def add_blocks(
    sums: NDArray[np.float32], a: NDArray[np.float64], w: NDArray[np.float64], block: int
) -> None:
    """Add products of matrices to sums, each block of the inner dimension rounded once.

    Parameters
    ----------
    sums : ndarray of float32, shape (..., M, N)
        Written to.
    a, w : ndarray of float64, shapes (..., M, K) and (..., K, N)
        Dequantised; float64 holds the sum of a block exactly.
    block : int
        Length of a block.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(0, a.shape[-1], block):
            own = slice(k, k + block)
            sums += (a[..., own] @ w[..., own, :]).astype(np.float32)


@dataclass(frozen=True)
class WideExact(_Binary32Sums):
    """`Exact` for sums that float64 does not hold: low and high bits apart, joined afterwards.

    Some bits of one operand times some of the other have so few bits that BLAS adds many of their
    products exactly; more are added in turns, as integers. The joined sum is rounded to float64
    towards the odd neighbour, after which rounding it to float32 rounds it as a whole (Boldo and
    Melquiond, "When double rounding is odd", 2005).
    """

    block: int
    formats: OperandFormats

    def add(self, sums: NDArray[np.float32], a: Decoded, w: Decoded, place: Place) -> None:
        """Add the products of a stretch of k."""
        formats, end = self.formats, a.values.shape[1]
        half = -(-max(formats.element_bits("a"), formats.element_bits("w")) // 2)
        turn = 1 << max(FLOAT64_BITS - 2 * half, 0)  # products of such parts that BLAS adds exactly
        low_a, high_a = _low_and_high(a.integers, half)
        low_w, high_w = _low_and_high(w.integers, half)
        quantum = 2.0**formats.quantum_exponent
        with np.errstate(over="ignore", invalid="ignore"):
            for k in range(0, end, self.block):
                low, middle, high = (np.zeros(sums.shape, np.int64) for _ in range(3))
                for start in range(k, min(k + self.block, end), turn):
                    stop = min(start + turn, k + self.block)
                    i, j = np.s_[:, start:stop], np.s_[start:stop]
                    low += (low_a[i] @ low_w[j]).astype(np.int64)
                    middle += (high_a[i] @ low_w[j]).astype(np.int64)
                    middle += (low_a[i] @ high_w[j]).astype(np.int64)
                    high += (high_a[i] @ high_w[j]).astype(np.int64)
                low += (middle & (1 << half) - 1) << half
                high += (middle >> half) + (low >> 2 * half)
                low &= (1 << 2 * half) - 1
                total = _rounded_to_odd(np.ldexp(high.astype(np.float64), 2 * half), low)
                scale = a.scales[:, k, None] * w.scales[k]
                sums += (total * quantum * scale).astype(np.float32)


def _low_and_high(
    integers: NDArray[np.int64], half: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The low bits of integers, not negative, and those above them, with the sign."""
    low = integers & (1 << half) - 1
    return low.astype(np.float64), (integers >> half).astype(np.float64)


def _rounded_to_odd(high: NDArray[np.float64], low: NDArray[np.int64]) -> NDArray[np.float64]:
    """``high + low`` in float64; what lies between two numbers becomes the odd one of them.

    `high` is a multiple of a power of two above every `low`, which is not negative.
    """
    addend = low.astype(np.float64)
    total = high + addend
    error = addend - (total - high)
    moved = np.nextafter(total, np.copysign(np.inf, error))
    even = total.view(np.int64) & 1 == 0
    return np.where((error != 0) & even, moved, total)
