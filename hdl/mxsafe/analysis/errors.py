"""How much a tensor loses in a format: errors by exponent gap, and errors of whole tensors.

The *exponent gap* of an element is ``S_e - e_x``: how many binades it lies below the largest
magnitude of its block (paper, section III-A). Which format is best depends on little else.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mxsafe.codec import QuantizedTensor, dequantize, quantize
from mxsafe.codec._inputs import Numbers, require_numbers, to_float64
from mxsafe.codec._parts import block_lengths, parts
from mxsafe.codec._scales import require_tensor_scale, scale_values
from mxsafe.codec.blocks import Block, ScaleMode, default_tensor_scale
from mxsafe.codec.elements import Rounding
from mxsafe.formats import MXFormat, mx_format
from mxsafe.validation import (
    Count,
    Seed,
    checked,
    limited,
    require_one_of,
    require_positive_integer,
    settled,
    shown,
)

_SUMMANDS = 1 << 18  # so few that halves of their significands add up exactly in float64
SLAB = 1 << 18  # elements of a tensor that are looked at a time
_MAX_GAP = 1000
_NO_EXPONENT = -(1 << 20)  # below that of every float64


@dataclass(frozen=True, kw_only=True)
class GapError:
    """Relative error of elements that lie a number of binades below their block's maximum.

    Attributes
    ----------
    format : str
        Name of the format.
    gaps : tuple of int
        Exponent gaps, in binades.
    mean, largest : tuple of float
        Mean and largest ``|x - q| / |x|`` for each gap; 1 is an element that is lost.
    underflow : tuple of float
        Share of the elements of each gap that become zero.
    """

    format: str
    gaps: tuple[int, ...]
    mean: tuple[float, ...]
    largest: tuple[float, ...]
    underflow: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class TensorError:
    """Errors of a tensor that is stored in a format.

    Blocks that hold a NaN or an Inf are counted and left out of everything else. Where they leave
    nothing, the errors are NaN.

    Attributes
    ----------
    format : str
        Name of the format.
    block : int or tuple of int
        Length of 1-D blocks or shape of tiles.
    elements : int
        Elements of the tensor.
    mse : float
        Mean squared error; Inf or 0 where it is beyond float64, as with errors above 1e154 or
        below 1e-162. The ratios that follow are right there too.
    relative_error : float
        Frobenius norm of the error over that of the tensor.
    sqnr_db : float
        Signal to quantisation noise, ``-20 log10(relative_error)`` in dB; Inf without any error.
    underflow_ratio : float
        Non-zero elements that become zero, over non-zero elements.
    saturated_ratio : float
        Elements beyond the largest value of their block, over all elements.
    mean_gap : float
        Mean exponent gap of the non-zero elements, in binades.
    nan_blocks : int
        Blocks whose scale is NaN.
    """

    format: str
    block: Block
    elements: int
    mse: float
    relative_error: float
    sqnr_db: float
    underflow_ratio: float
    saturated_ratio: float
    mean_gap: float
    nan_blocks: int


def _exact_sum(values: NDArray[np.float64]) -> Fraction | float:
    """Sum of non-negative float64 values without any rounding; Inf if one of them is."""
    return _sum_of_parts(values, np.frexp)


def _exact_sum_of_squares(values: NDArray[np.float64]) -> Fraction | float:
    """Sum of the squares, each rounded to 53 bits whatever its exponent; Inf if a value is."""
    return _sum_of_parts(values, _frexp_of_squares)


_Frexp = Callable[[NDArray[np.float64]], tuple[NDArray[np.float64], NDArray[np.int32]]]


def _frexp_of_squares(
    values: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Significands in [0.5, 1) and exponents of squares, which may be beyond float64's range."""
    significands, exponents = np.frexp(values)
    squares, carries = np.frexp(np.square(significands))
    return squares, 2 * exponents + carries


def _sum_of_parts(values: NDArray[np.float64], frexp: _Frexp) -> Fraction | float:
    if not np.isfinite(values).all():
        return math.inf
    flat = values.ravel()
    starts = range(0, flat.size, _SUMMANDS)
    sums = (_exact_part(*frexp(flat[start : start + _SUMMANDS])) for start in starts)
    return sum(sums, Fraction(0))


def _exact_part(significands: NDArray[np.float64], exponents: NDArray[np.int32]) -> Fraction:
    quanta = np.ldexp(significands, 53).astype(np.int64)
    lowest = int(exponents.min())
    # In halves of 27 and 26 bits, whose float64 sums stay exact integers.
    high, low = (
        np.bincount(exponents - lowest, weights=half.astype(np.float64))
        for half in (quanta >> 26, quanta & ((1 << 26) - 1))
    )
    total = sum(
        ((int(h) << 26) + int(lo)) << place
        for place, (h, lo) in enumerate(zip(high, low, strict=True))
    )
    return Fraction(total) * Fraction(2) ** (lowest - 53)


def _as_float(value: Fraction | float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _ratio(numerator: Fraction | float, denominator: Fraction | float) -> float:
    """Quotient, rounded once; 0/0 is 0."""
    if numerator == 0:
        return 0.0
    if denominator == 0:
        return math.inf
    return _as_float(numerator / denominator)


def _root_of_ratio(numerator: Fraction | float, denominator: Fraction | float) -> float:
    """Square root of a quotient that may itself be too large or small for float64; of 0/0 it is 0.

    The quotient is rounded once, and its root once.
    """
    if isinstance(numerator, float) or isinstance(denominator, float):
        return math.sqrt(_ratio(numerator, denominator))
    if not (numerator and denominator):
        return math.sqrt(_ratio(numerator, denominator))
    quotient = numerator / denominator
    halved = (quotient.numerator.bit_length() - quotient.denominator.bit_length()) // 2
    root = math.sqrt(quotient / Fraction(4) ** halved)  # of a number between 1/2 and 8
    return _as_float(Fraction(root) * Fraction(2) ** halved)


def _generator(random: np.random.Generator | int | None) -> np.random.Generator | None:
    if random is None or isinstance(random, np.random.Generator):
        return random
    if isinstance(random, int | np.integer) and not isinstance(random, bool) and random >= 0:
        return np.random.default_rng(random)
    raise TypeError(f"random must be a numpy Generator or a seed, not {shown(random)}")


def _gap_tuple(gaps: Iterable[int]) -> tuple[int, ...]:
    numbers = tuple(gaps)
    for gap in numbers:
        is_int = isinstance(gap, int | np.integer) and not isinstance(gap, bool)
        if not is_int or not 0 <= gap <= _MAX_GAP:
            raise ValueError(f"gaps must be integers from 0 to {_MAX_GAP}, not {shown(gap)}")
    return tuple(int(gap) for gap in numbers)


_MOST_SAMPLES = 1 << 24


def gap_error(
    format: str | MXFormat,
    *,
    gaps: Iterable[int] = range(20),
    samples: int = 4096,
    rounding: Rounding = "rne",
    scale_mode: ScaleMode | None = None,
    random: np.random.Generator | int | None = None,
) -> GapError:
    """Relative error of a format against the exponent gap.

    Elements have the significands ``1 + k / samples``, ``k = 0 .. samples - 1``, and so have the
    maxima of their blocks: each element meets each maximum. At gap 0 an element is its block's
    maximum. With ``scale_mode="floor"`` nothing depends on the maximum's significand. The scale of
    the tensor, where the format has one, is that of all maxima together.

    Parameters
    ----------
    format : str or MXFormat
        Name in the catalogue, or a specification.
    gaps : iterable of int
        Exponent gaps ``S_e - e_x``, 0 to 1000, where ``S_e`` is the exponent of the maximum.
    samples : int
        Evenly spaced significands in a binade.
    rounding, scale_mode
        As in `mxsafe.quantize`.
    random : numpy.random.Generator or int, optional
        Generator or seed for ``rounding="sr"``.

    Returns
    -------
    GapError
        Means are exact sums, rounded once.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as above; the message names it.

    Notes
    -----
    Source: MX-SAFE, Eq. (1) to (6) and Fig. 3 (right).

    Examples
    --------
    >>> gap_error("mxsf", gaps=[2, 3, 12, 13]).underflow
    (0.0, 0.0, 0.000244140625, 1.0)
    """
    fmt = mx_format(format)
    numbers = _gap_tuple(settled("gaps", Iterable, gaps))
    samples = limited(require_positive_integer, _MOST_SAMPLES)("samples", samples)
    source = _generator(random)
    significands = 1.0 + np.arange(samples) / samples
    # Maxima with the same scale are one case, of the weight of their number.
    maxima = quantize(significands, fmt, block=1, scale_mode=scale_mode)
    _, first, weights = np.unique(maxima.scales, return_index=True, return_counts=True)

    def quantised(x: NDArray[np.float64], block: int) -> NDArray[np.float64]:
        q = quantize(
            x,
            fmt,
            block=block,
            rounding=rounding,
            scale_mode=scale_mode,
            tensor_scale=maxima.tensor_scale,
            random=source,
        )
        return dequantize(q, dtype=np.float64)

    rows = []
    for gap in numbers:
        x = np.ldexp(significands, -gap)
        if gap == 0:
            cases = [(samples, quantised(x, 1))]
        else:
            cases = [
                (
                    int(weight),
                    quantised(np.append(x, significands[index]), samples + 1)[:-1],
                )
                for index, weight in zip(first, weights, strict=True)
            ]
        total, largest, lost = Fraction(0), 0.0, 0
        for weight, q in cases:
            relative = np.abs(x - q) / x
            total += weight * Fraction(_exact_sum(relative))
            largest = max(largest, float(relative.max()))
            lost += weight * int(np.count_nonzero(q == 0.0))
        rows.append((float(total / samples**2), largest, lost / samples**2))
    mean, peak, underflow = zip(*rows, strict=True) if rows else ((), (), ())
    return GapError(format=fmt.name, gaps=numbers, mean=mean, largest=peak, underflow=underflow)


@checked
def block_name(block: int | tuple[int, int]) -> str:
    """A block's shape as the paper writes it: ``1x64``, ``8x8``."""
    return f"{block[0]}x{block[1]}" if isinstance(block, tuple) else f"1x{block}"


class _Sums:
    """Running sums over slabs, exact in themselves.

    The squares that are summed are exact for float32 and narrower values. Those of float64 are
    rounded to 53 bits; none is too large or too small.
    """

    def __init__(self) -> None:
        self.elements = 0
        self.finite = 0
        self.nonzero = 0
        self.underflowed = 0
        self.saturated = 0
        self.gaps = 0
        self.nan_blocks = 0
        self.squared_error: Fraction | float = Fraction(0)
        self.squared_signal: Fraction | float = Fraction(0)

    def add(self, values: NDArray[np.float64], q: QuantizedTensor) -> None:
        fmt = q.format
        self.elements += values.size
        self.nan_blocks += int(np.count_nonzero(q.scales == fmt.nan_scale))
        element_scales = q.element_scales()
        finite = element_scales != fmt.nan_scale
        x = np.where(finite, values, 0.0)
        result = np.where(finite, dequantize(q, dtype=np.float64), 0.0)
        nonzero = x != 0.0
        self.finite += int(np.count_nonzero(finite))
        self.nonzero += int(np.count_nonzero(nonzero))
        self.underflowed += int(np.count_nonzero(nonzero & (result == 0.0)))
        largest = fmt.element.max_value * (1.0 if q.tensor_scale is None else float(q.tensor_scale))
        limit = scale_values(element_scales, fmt.scale) * largest
        self.saturated += int(np.count_nonzero(np.abs(x) > limit))
        self.gaps += _sum_of_gaps(x, q)
        self.squared_error += _exact_sum_of_squares(x - result)
        self.squared_signal += _exact_sum_of_squares(x)

    def result(self, fmt: MXFormat, block: Block) -> TensorError:
        relative = mse = math.nan
        if self.finite:
            mse = _as_float(self.squared_error / self.finite)
            relative = _root_of_ratio(self.squared_error, self.squared_signal)
        return TensorError(
            format=fmt.name,
            block=block,
            elements=self.elements,
            mse=mse,
            relative_error=relative,
            sqnr_db=math.inf if relative == 0.0 else -20.0 * math.log10(relative),
            underflow_ratio=_ratio(self.underflowed, self.nonzero),
            saturated_ratio=_ratio(self.saturated, self.finite),
            mean_gap=_ratio(self.gaps, self.nonzero),
            nan_blocks=self.nan_blocks,
        )


def _blocked_axes(q: QuantizedTensor) -> list[tuple[int, int]]:
    """Pairs of (axis counted from the end, block length)."""
    if isinstance(q.block, tuple):
        return [(-2, q.block[0]), (-1, q.block[1])]
    assert isinstance(q.axis, int)
    return [(q.axis, q.block)]


def _sum_of_gaps(x: NDArray[np.float64], q: QuantizedTensor) -> int:
    nonzero = x != 0.0
    exponents = np.frexp(x)[1].astype(np.int64)
    shared, count = np.where(nonzero, exponents, _NO_EXPONENT), nonzero.astype(np.int64)
    for axis, length in _blocked_axes(q):
        starts = np.arange(0, x.shape[axis], min(length, x.shape[axis]))
        shared = np.maximum.reduceat(shared, starts, axis=axis)
        count = np.add.reduceat(count, starts, axis=axis)
    return int((shared * count).sum() - exponents[nonzero].sum())


def error_of_slabs(
    slabs: Iterable[ArrayLike],
    format: str | MXFormat = "mxsf",
    *,
    block: Block | None = None,
    axis: int = -1,
    rounding: Rounding = "rne",
    scale_mode: ScaleMode | None = None,
    tensor_scale: float | np.float32 | None = None,
    random: np.random.Generator | int | None = None,
) -> TensorError:
    """Error of a tensor that comes in slabs, one after another.

    Parameters
    ----------
    slabs : iterable of array_like
        Parts of a tensor, cut between blocks; each is quantised on its own. Only one is held.
    format, block, axis, rounding, scale_mode
        As in `mxsafe.quantize`.
    tensor_scale : float, optional
        Scale of the tensor. A format that has one needs it: no slab knows the others.
    random : numpy.random.Generator or int, optional
        Generator or seed for ``rounding="sr"``; slabs draw from it in turn.

    Returns
    -------
    TensorError
        Squared errors are float64, their sum is exact and rounded once: how a tensor is cut into
        slabs changes no bit. Numbers below the smallest scale (``2^-127`` in the catalogue) and the
        smallest element are lost, as they are in a tensor, and count as underflow.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as above, or there is no element at all.
    """
    fmt = mx_format(format)
    shared = require_tensor_scale(tensor_scale, fmt)
    source = _generator(random)
    sums = _Sums()
    shape: Block = fmt.block if block is None else block
    for slab in settled("slabs", Iterable, slabs):
        values = np.asarray(slab)
        q = quantize(
            values,
            fmt,
            block=block,
            axis=axis,
            rounding=rounding,
            scale_mode=scale_mode,
            tensor_scale=shared,
            random=source,
        )
        shape = q.block
        if values.size:
            sums.add(to_float64("x", values), q)
    if not sums.elements:
        raise ValueError("slabs must hold elements, not be empty")
    return sums.result(fmt, shape)


def tensor_error(
    x: Numbers,
    format: str | MXFormat = "mxsf",
    *,
    block: Block | None = None,
    axis: int = -1,
    rounding: Rounding = "rne",
    scale_mode: ScaleMode | None = None,
    tensor_scale: float | np.float32 | None = None,
    random: np.random.Generator | int | None = None,
) -> TensorError:
    """Error of a tensor in a format.

    Beside the tensor itself, which may be memory-mapped, the memory in use is a dozen times the
    larger of a quarter million float64 numbers and one block.

    Parameters
    ----------
    x : array_like of float64, float32, float16 or bfloat16
        Tensor of any shape.
    format, block, axis, rounding, scale_mode, tensor_scale
        As in `mxsafe.quantize`.
    random : numpy.random.Generator or int, optional
        Generator or seed for ``rounding="sr"``, whose words go to the elements in C order.

    Returns
    -------
    TensorError
        See `error_of_slabs`.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as above, or `x` is empty.

    Examples
    --------
    >>> error = tensor_error(np.float32([1.0, -0.3, 0.004, 0.0001]), "mxsf", block=4)
    >>> error.underflow_ratio, error.mean_gap
    (0.25, 6.0)
    """
    fmt = mx_format(format)
    tensor = np.asarray(require_numbers("x", x))
    probe = quantize(
        np.zeros((1,) * tensor.ndim, tensor.dtype),
        fmt,
        block=block,
        axis=axis,
        tensor_scale=tensor_scale,
    )  # knows which axes the blocks lie along, and refuses what quantize refuses
    if not tensor.size:
        raise ValueError(f"x must have elements, not the shape {tensor.shape}")
    lengths = block_lengths(tensor.shape, _blocked_axes(probe))
    return error_of_slabs(
        (tensor[part] for part in parts(tensor.shape, lengths, SLAB, in_order=random is not None)),
        fmt,
        block=block,
        axis=axis,
        rounding=rounding,
        scale_mode=scale_mode,
        tensor_scale=default_tensor_scale(tensor, fmt) if tensor_scale is None else tensor_scale,
        random=random,
    )


Shape = tuple[int, ...]


DISTRIBUTIONS: Mapping[str, Callable[[np.random.Generator, Shape], NDArray[np.float64]]] = (
    MappingProxyType(
        {
            "normal": lambda rng, shape: rng.standard_normal(shape),
            "lognormal": lambda rng, shape: (
                rng.lognormal(0.0, 1.0, shape) * rng.choice([-1.0, 1.0], shape)
            ),
            "student_t": lambda rng, shape: rng.standard_t(3.0, shape),
            "uniform": lambda rng, shape: rng.uniform(-1.0, 1.0, shape),
            "gradient": lambda rng, shape: (
                np.exp2(rng.normal(-14.0, 3.0, shape))
                * rng.choice([-1.0, 0.0, 1.0], shape, p=[0.35, 0.3, 0.35])
            ),
        }
    )
)
"""Tensors to try formats on, by name: standard normal; log-normal of sigma 1 with random signs;
Student's t with three degrees of freedom; uniform in -1..1; and like the gradients behind a ReLU,
30 % zeros, magnitudes log-normal around 2^-14 with a standard deviation of three binades."""


@checked
def draw_tensor(
    distribution: str, shape: tuple[Count, ...] = (256, 1024), *, seed: Seed = 0
) -> NDArray[np.float32]:
    """Draw a tensor from a named distribution.

    Parameters
    ----------
    distribution : str
        Name in `DISTRIBUTIONS`.
    shape : tuple of int
        Shape of the result.
    seed : int
        Seed; the same one gives the same tensor.

    Returns
    -------
    ndarray of float32

    Raises
    ------
    ValueError
        If there is no such distribution.
    """
    require_one_of("distribution", distribution, tuple(DISTRIBUTIONS))
    return DISTRIBUTIONS[distribution](np.random.default_rng(seed), shape).astype(np.float32)
