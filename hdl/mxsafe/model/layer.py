"""Model of a layer: from operands to operands of the next layer (`mxsafe.rtl.machine.layer`).

A layer is computed transposed: weights of shape (features, k) times samples of shape (k, samples).
Its quantised result, of shape (features, samples), is what the next layer has as samples.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mxsafe.codec import QuantizedTensor, quantize
from mxsafe.codec._inputs import Numbers
from mxsafe.codec.blocks import Quantized, blocked_axes
from mxsafe.formats import E8M0, MXFormat, mx_format
from mxsafe.model.functions import FUNCTIONS
from mxsafe.model.gemm import Arithmetic, matmul
from mxsafe.model.schedule import Schedule, inner_indices
from mxsafe.model.vector_arithmetic import add
from mxsafe.products import require_scale
from mxsafe.validation import (
    Alike,
    PositiveInteger,
    about,
    checked,
    limited,
    require_positive_integer,
    shown,
)

ActivationName = Literal["none", "relu", "gelu", "silu", "tanh", "sigmoid"]
ACTIVATIONS = ("none", "relu", "gelu", "silu", "tanh", "sigmoid")
STAGES = ("bias", "activation", "residual")
Block = int | tuple[int, int]
Operands = Mapping[str, NDArray[np.float32]]
"""By stage the numbers that it adds, of shapes that broadcast with the results."""


@checked
def activate(x: Numbers, activation: ActivationName = "relu") -> NDArray[np.float32]:
    """An activation function as the hardware computes it, bit for bit.

    Parameters
    ----------
    x : array_like of float32
    activation : {"none", "relu", "gelu", "silu", "tanh", "sigmoid"}
        ``relu``: numbers with a sign bit, -0 and -Inf included, become +0; NaN of either sign and
        everything else keep their bits. The others are those of `mxsafe.model.functions`.

    Raises
    ------
    TypeError
        If `x` is not of float32.
    ValueError
        If there is no such function.
    """
    values = np.asarray(x)
    if values.dtype != np.float32:
        raise TypeError(f"x must be an array of float32, not {values.dtype}")
    if activation == "none":
        return values
    return FUNCTIONS[activation](values)


@checked
def layer_output(
    weights: Quantized,
    samples: Quantized,
    *,
    activation: ActivationName = "relu",
    bias: Numbers | None = None,
    residual: Numbers | None = None,
    stages: Sequence[str] | None = None,
    block: Block | None = None,
    arithmetic: Arithmetic = "fp12",
    lanes: Alike = 4,
) -> QuantizedTensor:
    """Return the output of a layer for its operands, bit for bit.

    Parameters
    ----------
    weights : QuantizedTensor of shape (features, k)
        Blocks along the last axis, or tiles.
    samples : QuantizedTensor of shape (k, samples)
        Blocks along the first axis, or tiles, of the same length in k. Their format, which need not
        be that of the weights, is that of the result.
    activation : str
        See `activate`.
    bias : array_like of float32, shape (features,), optional
        Numbers that are added to features.
    residual : array_like of float32, shape (features, samples), optional
        Numbers that are added to results.
    stages : sequence of str, optional
        The order in which that happens to results, of ``bias``, ``activation`` and ``residual``; by
        default this one, with what is given.
    block : int or tuple of int, optional
        Blocks of the result: a length along the features, or a shape ``(features, samples)`` of
        tiles; by default that of the format.
    arithmetic, lanes
        See `matmul`.

    Returns
    -------
    QuantizedTensor of shape (features, samples)
        ``quantize(residual + activate(matmul(weights, samples) + bias))``, blocks along the first
        axis, or tiles.

    Raises
    ------
    TypeError, ValueError
        As `matmul`, `activate` and `quantize`; or if a bias or residual has another dtype or shape,
        or `stages` do not agree with them.
    """
    product = matmul(weights, samples, arithmetic=arithmetic, lanes=lanes)
    operands = _operands(product.shape, bias, residual)
    result = _staged(product, activation, operands, stages)
    return _quantised(result, samples.format, block)


def _operands(
    shape: tuple[int, ...], bias: Numbers | None, residual: Numbers | None
) -> dict[str, NDArray[np.float32]]:
    """Return the operands that stages add, by their name."""
    operands = {}
    for name, values, expected in (("bias", bias, shape[:1]), ("residual", residual, shape)):
        if values is None:
            continue
        array = np.asarray(values)
        if array.dtype != np.float32:
            raise TypeError(f"{name} must be an array of float32, not {array.dtype}")
        if array.shape != expected:
            raise ValueError(f"{name} must have shape {expected}, not {array.shape}")
        operands[name] = array if array.ndim == len(shape) else array[:, None]
    return operands


def _staged(
    product: NDArray[np.float32],
    activation: ActivationName,
    operands: Operands,
    stages: Sequence[str] | None,
) -> NDArray[np.float32]:
    """Results after all stages."""
    if stages is None:
        stages = [name for name in STAGES if name in operands or name == "activation"]
    if any(name not in STAGES for name in stages) or len(set(stages)) < len(stages):
        raise ValueError(
            f"stages must be some of {', '.join(STAGES)}, each once, not {shown(stages)}"
        )
    if operands.keys() != set(stages) - {"activation"}:
        given = ", ".join(operands) or "none"
        raise ValueError(
            f"stages must have the operands that are given, {given}, not {shown(stages)}"
        )
    for name in stages:
        if name == "activation":
            product = activate(product, activation)
        else:
            product = add(product, operands[name])
    return product


def _quantised(x: NDArray[np.float32], format: MXFormat, block: Block | None) -> QuantizedTensor:
    block = format.block if block is None else block
    return quantize(x, format, block=block, axis=-1 if isinstance(block, tuple | list) else -2)


@dataclass(frozen=True)
class OperandBeats:
    """Beats of an operand stream, strip after strip, each with all its k once.

    Attributes
    ----------
    codes : ndarray of uint8, shape (beats, columns, lanes)
    scales : ndarray of uint8, shape (beats, columns)
    block_last, last : ndarray of bool, shape (beats,)
        The beat ends a block, ends a strip.
    """

    codes: NDArray[np.uint8]
    scales: NDArray[np.uint8]
    block_last: NDArray[np.bool_]
    last: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.last)


@checked
def layer_beats(
    weights: Quantized,
    samples: Quantized,
    *,
    activation: ActivationName = "relu",
    bias: Numbers | None = None,
    residual: Numbers | None = None,
    stages: Sequence[str] | None = None,
    block: Block | None = None,
    arithmetic: Arithmetic = "fp12",
    columns: Alike = 16,
    lanes: Alike = 4,
) -> OperandBeats:
    """The beats that leave a layer's hardware, bit for bit: those of `layer_output`.

    Columns of the array beyond the last sample are part of the beats. They hold what the hardware
    makes of zero codes under the scale 1, without bias and residual: zeros, or NaN in features
    whose weights have a NaN.

    Parameters
    ----------
    weights, samples, activation, bias, residual, stages, block, arithmetic
        See `layer_output`.
    columns, lanes : int
        Columns of the array, and values of k in a beat.

    Raises
    ------
    TypeError, ValueError
        As `layer_output`, or if `columns` is not a positive integer.
    """
    for name, q in (("weights", weights), ("samples", samples)):
        require_scale(name, q.format)
    product = matmul(weights, samples, arithmetic=arithmetic, lanes=lanes)
    operands = _operands(product.shape, bias, residual)
    beyond = matmul(weights, _zeros(samples), arithmetic=arithmetic, lanes=lanes)
    missing = -product.shape[1] % columns
    padded = np.concatenate([product, np.repeat(beyond, missing, axis=1)], axis=1)
    for name, values in operands.items():
        whole = np.broadcast_to(values, product.shape)
        operands[name] = np.pad(whole, ((0, 0), (0, missing)))
    result = _staged(padded, activation, operands, stages)
    q = _quantised(result, samples.format, block)
    return operand_beats(q, columns=columns, lanes=lanes)


@checked
def bias_beats(
    bias: Numbers, samples: PositiveInteger, *, columns: Alike = 16
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Beats of `s_axis_bias`: all features for every strip.

    Parameters
    ----------
    bias : array_like of float32, shape (features,)
    samples : int
        How many there are.
    columns : int
        Columns of the array.

    Returns
    -------
    numbers : ndarray of float32, shape (strips * features,)
    last_lane : ndarray of int64, shape (strips * features,)
        The last column that is a sample.

    Raises
    ------
    ValueError
        If `bias` is not a vector, or `samples` or `columns` not a positive integer.
    """
    with np.errstate(over="ignore"):  # what is beyond binary32 is infinite
        values = np.asarray(bias, np.float32)
    if values.ndim != 1:
        raise ValueError(f"bias must be a vector, not of shape {values.shape}")
    strips = -(-samples // columns)
    last = np.full(strips, columns - 1)
    last[-1] = (samples - 1) % columns
    return np.tile(values, strips), np.repeat(last, len(values))


@checked
def residual_beats(residual: Numbers, *, columns: Alike = 16) -> NDArray[np.float32]:
    """Beats of `s_axis_residual`: strip after strip, each with all its features.

    Parameters
    ----------
    residual : array_like of float32, shape (features, samples)
    columns : int
        Columns of the array. Those beyond the last sample are zeros.

    Returns
    -------
    ndarray of float32, shape (strips * features, columns)

    Raises
    ------
    ValueError
        If `residual` is not a matrix, or `columns` not a positive integer.
    """
    with np.errstate(over="ignore"):  # what is beyond binary32 is infinite
        values = np.asarray(residual, np.float32)
    if values.ndim != 2 or not values.size:
        raise ValueError(f"residual must be a matrix, not of shape {values.shape}")
    padded = np.pad(values, ((0, 0), (0, -values.shape[1] % columns)))
    strips = padded.reshape(len(values), -1, columns).swapaxes(0, 1)
    return np.ascontiguousarray(strips).reshape(-1, columns)


def _zeros(samples: QuantizedTensor) -> QuantizedTensor:
    """A column beyond the last sample."""
    codes = np.zeros((samples.shape[0], 1), np.uint8)
    scales = np.full((samples.scales.shape[0], 1), E8M0.bias, np.uint8)
    axis = -2 if isinstance(samples.block, int) else samples.axis
    return QuantizedTensor(codes, scales, samples.format, samples.block, axis)


def _length(block: Block) -> int:
    return block[0] if isinstance(block, tuple | list) else block


@checked
def operand_beats(q: Quantized, *, columns: Alike = 16, lanes: Alike = 4) -> OperandBeats:
    """A matrix as beats of `s_axis_w`, each strip once.

    Parameters
    ----------
    q : QuantizedTensor of shape (k, samples)
        Blocks along the first axis, or tiles.
    columns, lanes : int
        Columns of the array, and values of k in a beat. Columns beyond the last sample are zero
        codes under the scale 1, as in `Schedule`.

    Raises
    ------
    TypeError
        If `q` is not a QuantizedTensor.
    ValueError
        If `q` is not a matrix with elements or its blocks run along the last axis, or a number is
        not a positive integer.
    """
    require_scale("q", q.format)
    if q.codes.ndim != 2 or not q.codes.size:
        raise ValueError(f"q must be a matrix with elements, not of shape {q.shape}")
    if isinstance(q.block, int) and q.axis != -2:
        raise ValueError(f"q must have its blocks along axis -2, not along axis {q.axis}")
    index, ends = inner_indices(q.shape[0], _length(q.block), lanes)
    missing = -q.shape[1] % columns
    strips = (q.shape[1] + missing) // columns
    codes = np.pad(q.codes, ((0, 1), (0, missing)))[index]  # row -1 is zero codes
    scales = np.pad(
        q.element_scales()[index[:, 0]],
        ((0, 0), (0, missing)),
        constant_values=E8M0.bias,
    )
    return OperandBeats(
        codes.reshape(-1, lanes, strips, columns).transpose(2, 0, 3, 1).reshape(-1, columns, lanes),
        scales.reshape(-1, strips, columns).swapaxes(0, 1).reshape(-1, columns),
        np.tile(ends, strips),
        np.tile(np.arange(len(index)) == len(index) - 1, strips),
    )


@checked
@about(scales="block: scales", tensor_scale="format: tensor_scale")
def operand_tensor(
    beats: OperandBeats, shape: tuple[int, int], format: str | MXFormat, *, block: Block
) -> QuantizedTensor:
    """The matrix that beats hold; the inverse of `operand_beats`.

    Parameters
    ----------
    beats : OperandBeats
        All strips of one matrix, each once.
    shape : tuple of int
        Length in k, and number of samples.
    format : str or MXFormat
        Format of the codes.
    block : int or tuple of int
        Length of blocks along k, or shape of tiles.

    Raises
    ------
    ValueError
        If there are not as many beats as the matrix has, or a length is not a positive integer of
        at most 2^24.
    """
    require_length = limited(require_positive_integer, 1 << 24)
    inner, samples = (require_length(f"shape[{axis}]", length) for axis, length in enumerate(shape))
    blocked_axes(2, block, -2)
    _, columns, lanes = beats.codes.shape
    index, ends = inner_indices(inner, _length(block), lanes)
    strips = -(-samples // columns)
    if len(beats) != strips * len(index):
        raise ValueError(f"beats must be the {strips * len(index)} of the matrix, not {len(beats)}")
    by_beat = beats.codes.reshape(strips, len(index), columns, lanes).transpose(1, 3, 0, 2)
    codes = np.empty((inner, strips * columns), np.uint8)
    codes[index[index >= 0]] = by_beat.reshape(*index.shape, -1)[index >= 0]
    scales = beats.scales.reshape(strips, len(index), columns).swapaxes(0, 1)
    scales = scales[ends].reshape(ends.sum(), -1)[:, :samples]
    if isinstance(block, tuple | list):
        scales = scales[:, :: block[1]]
    return QuantizedTensor(
        np.ascontiguousarray(codes[:, :samples]),
        np.ascontiguousarray(scales),
        mx_format(format),
        block,
        (-2, -1) if isinstance(block, tuple | list) else -2,
    )


@checked
class LayerSchedule(Schedule):
    """A layer cut into tiles: all features of one strip of samples, then the next strip.

    Parameters
    ----------
    weights : QuantizedTensor of shape (features, k)
    samples : QuantizedTensor of shape (k, samples)
    arithmetic, rows, columns, lanes, longest_block
        See `Schedule`.

    Attributes
    ----------
    strip_last : ndarray of bool, shape (tiles,)
        The tile is the last of its strip.
    last_row : int
        Last row of such a tile that is a feature.

    Raises
    ------
    TypeError, ValueError
        As `Schedule`.
    """

    def __init__(
        self,
        weights: QuantizedTensor,
        samples: QuantizedTensor,
        *,
        arithmetic: Arithmetic = "fp12",
        rows: int = 16,
        columns: Alike = 16,
        lanes: Alike = 4,
        longest_block: int | None = None,
    ) -> None:
        with about(a="weights", w="samples"):
            super().__init__(
                weights,
                samples,
                arithmetic=arithmetic,
                rows=rows,
                columns=columns,
                lanes=lanes,
                longest_block=longest_block,
                order="columns",
            )
        down, across = self.grid
        self.strip_last = np.tile(np.arange(down) == down - 1, across)
        self.last_row = (self.shape[0] - 1) % rows
