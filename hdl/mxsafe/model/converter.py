"""Model of the converter: what beats come out for what beats go in (`mxsafe.rtl.stream.converter`).

A stream is a list of beats of `width` values; `last` ends a *packet*. Blocks lie in a packet as in
a matrix of which a packet is a row (1-D blocks, several beats a row) or a strip of `width` columns
(tiles), so a packet is quantised as such a matrix, ragged edge included.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mxsafe.codec import QuantizedTensor, quantize
from mxsafe.codec._inputs import Numbers, floats
from mxsafe.formats import MXFormat, mx_format
from mxsafe.validation import Alike, about, checked, require_positive_integer

Block = int | tuple[int, int]


@dataclass(frozen=True)
class ConvertedBeats:
    """Output of a converter.

    Attributes
    ----------
    codes : ndarray of uint8, shape (beats, width)
    scales : ndarray of uint8, shape (beats, blocks side by side)
        The scale byte of each block in every beat of it.
    block_last, last : ndarray of bool, shape (beats,)
        The beat ends a block, ends a packet.
    """

    codes: NDArray[np.uint8]
    scales: NDArray[np.uint8]
    block_last: NDArray[np.bool_]
    last: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.last)


def _shape(block: Block, width: int) -> tuple[int, int]:
    """Beats of a block, and values of a block in a beat."""
    if isinstance(block, tuple | list):
        beats, span = (require_positive_integer("block", length) for length in block)
        if width % span:
            raise ValueError(f"block must have columns that divide width {width}, not {span}")
        return beats, span
    length = require_positive_integer("block", block)
    if width % length and length % width:
        raise ValueError(f"block must divide width {width} or be divided by it, not {length}")
    return max(length // width, 1), min(length, width)


@checked
def matrix_beats(
    x: Numbers, *, block: Block = 64, width: Alike = 16
) -> tuple[NDArray[np.generic], NDArray[np.bool_]]:
    """Beats of a matrix in the order in which a converter reads it.

    With 1-D blocks row by row, a packet a row; with tiles in strips of `width` columns, a packet a
    strip. The last columns are filled up with +0.

    Parameters
    ----------
    x : array_like of shape (rows, columns)
        Floats.
    block : int or tuple of int
        Length of blocks along the rows, or shape of tiles.
    width : int
        Values in a beat.

    Returns
    -------
    values : ndarray, shape (beats, width)
    last : ndarray of bool, shape (beats,)

    Raises
    ------
    ValueError
        If `x` is not a matrix or is empty, or the block does not fit the width.
    """
    values = floats("x", x)
    _shape(block, width)
    if values.ndim != 2 or not values.size:
        raise ValueError(f"x must be a matrix with elements, not of shape {values.shape}")
    rows, columns = values.shape
    strips = -(-columns // width)
    padded = np.zeros((rows, strips * width), values.dtype)
    padded[:, :columns] = values
    beats = padded.reshape(rows, strips, width)
    if isinstance(block, tuple | list):
        beats = beats.swapaxes(0, 1)
    last = np.zeros(beats.shape[:2], np.bool_)
    last[:, -1] = True
    return beats.reshape(-1, width), last.ravel()


@checked
def convert_beats(
    values: Numbers,
    last: Numbers,
    format: str | MXFormat = "mxsf",
    *,
    block: Block | None = None,
) -> ConvertedBeats:
    """Return the output of a converter for beats, bit for bit.

    Parameters
    ----------
    values : array_like of float32 or bfloat16, shape (beats, width)
        What goes in.
    last : array_like of bool, shape (beats,)
        The beat ends a packet, and its block however few beats that has. Beats after the last
        packet belong to one that goes on: its unfinished block does not come out.
    format : str or MXFormat
        Name in the catalogue, or a specification.
    block : int or tuple of int, optional
        Length of blocks along a row, or shape of tiles; by default that of the format.

    Returns
    -------
    ConvertedBeats

    Raises
    ------
    ValueError
        If shapes do not fit each other.
    """
    fmt = mx_format(format)
    block = fmt.block if block is None else block
    beats = floats("values", values)
    ends = np.asarray(last, np.bool_)
    if beats.ndim != 2 or ends.shape != beats.shape[:1]:
        raise ValueError(f"last must have one flag a beat, not {ends.shape} for {beats.shape}")
    width = beats.shape[1]
    length, span = _shape(block, width)
    groups = width // span
    whole = len(beats)
    start = int(np.flatnonzero(ends)[-1]) + 1 if ends.any() else 0
    whole -= (whole - start) % length
    codes = np.empty((whole, width), np.uint8)
    scales = np.empty((whole, groups), np.uint8)
    block_last = np.zeros(whole, np.bool_)
    start = 0
    for stop in dict.fromkeys([*(np.flatnonzero(ends) + 1).tolist(), whole]):
        packet = beats[start:stop]
        row = np.arange(len(packet))
        if isinstance(block, tuple | list):
            q = quantize(packet, fmt, block=(length, span))
            codes[start:stop], scales[start:stop] = q.codes, q.scales[row // length]
        else:
            q = quantize(packet.reshape(1, -1), fmt, block=block)
            codes[start:stop] = q.codes.reshape(-1, width)
            scales[start:stop] = np.repeat(q.scales.reshape(-1, groups), length, axis=0)[row]
        block_last[start:stop] = (row % length == length - 1) | (row == len(row) - 1)
        start = stop
    return ConvertedBeats(codes, scales, block_last, ends[:whole])


@checked
@about(scales="block: scales", tensor_scale="format: tensor_scale")
def converted_tensor(
    beats: ConvertedBeats, shape: tuple[int, int], format: str | MXFormat, *, block: Block
) -> QuantizedTensor:
    """The quantised matrix that left a converter as beats; the inverse of `matrix_beats`.

    Parameters
    ----------
    beats : ConvertedBeats
        All beats of one matrix.
    shape : tuple of int
        Rows and columns of the matrix.
    format : str or MXFormat
        Format of the codes.
    block : int or tuple of int
        As for `matrix_beats`.

    Raises
    ------
    ValueError
        If there are not as many beats as the matrix has.
    """
    rows, columns = shape
    width = beats.codes.shape[1]
    length, span = _shape(block, width)
    strips = -(-columns // width)
    if len(beats) != rows * strips:
        raise ValueError(f"beats must be the {rows * strips} of the matrix, not {len(beats)}")
    if isinstance(block, tuple | list):
        codes = beats.codes.reshape(strips, rows, width).swapaxes(0, 1)
        scales = beats.scales.reshape(strips, rows, -1)[:, ::length].swapaxes(0, 1)
        blocks_across = -(-columns // span)
    else:
        codes = beats.codes.reshape(rows, strips, width)
        scales = beats.scales.reshape(rows, strips, -1)[:, ::length]
        blocks_across = -(-columns // block)
    return QuantizedTensor(
        np.ascontiguousarray(codes.reshape(rows, -1)[:, :columns]),
        np.ascontiguousarray(scales.reshape(len(scales), -1)[:, :blocks_across]),
        mx_format(format),
        block,
        -1,
    )
