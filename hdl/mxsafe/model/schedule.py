"""Beats of the systolic array for a matrix product of any size, and a matrix of its rows.

The same code feeds the simulated array and can feed a real one: each `Beats` is what goes into the
two operand streams for one output tile, and `Schedule.assemble` takes what comes out.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from mxsafe.codec.blocks import QuantizedTensor
from mxsafe.formats import E8M0, FormatSet, MXFormat
from mxsafe.model.gemm import ProductArithmetic, inner_block
from mxsafe.model.window import anchors
from mxsafe.products import OperandFormats, require_scale
from mxsafe.validation import (
    Alike,
    PositiveInteger,
    checked,
    limited,
    require_one_of,
    require_positive_integer,
    settled,
)

Codes = NDArray[np.uint8] | NDArray[np.uint16]
Operand = QuantizedTensor | NDArray[np.uint16]


@dataclass(frozen=True)
class Beats:
    """The operand beats of one output tile, in order.

    Attributes
    ----------
    a_codes, w_codes : ndarray of uint8, shape (beats, rows or columns, lanes)
        Of uint16 with arithmetic ``bf16``.
    a_scales, w_scales : ndarray of uint8, shape (beats, rows or columns)
        With arithmetic ``bf16`` there are none: the last length is 0.
    first, block_last, last : ndarray of bool, shape (beats,)
        The beat starts the tile, ends a block, ends the tile.
    a_anchors, w_anchors : ndarray of uint8, shape (beats, rows or columns), optional
        With arithmetic ``window``, see `mxsafe.model.window`.
    """

    a_codes: Codes
    a_scales: NDArray[np.uint8]
    w_codes: Codes
    w_scales: NDArray[np.uint8]
    first: NDArray[np.bool_]
    block_last: NDArray[np.bool_]
    last: NDArray[np.bool_]
    a_anchors: NDArray[np.uint8] | None = None
    w_anchors: NDArray[np.uint8] | None = None

    def __len__(self) -> int:
        return len(self.first)


def _block(a: Operand, w: Operand, arithmetic: str, lanes: int) -> int:
    """Block length in k; with ``bf16``, which has no blocks, all of k."""
    if arithmetic != "bf16":
        pair = cast(tuple[QuantizedTensor, QuantizedTensor], (a, w))
        block = inner_block(*pair, arithmetic=cast(ProductArithmetic, arithmetic), lanes=lanes)
        for name, q in zip("aw", pair, strict=True):
            require_scale(name, q.format)
        return block
    for name, codes in (("a", a), ("w", w)):
        if not isinstance(codes, np.ndarray) or codes.dtype != np.uint16:
            kind = getattr(codes, "dtype", type(codes).__name__)
            raise TypeError(f"{name} must be an array of uint16 for arithmetic bf16, not {kind}")
        if codes.ndim != 2:
            raise ValueError(f"{name} must be a matrix, not a tensor of rank {codes.ndim}")
    if a.shape[1] != w.shape[0]:
        raise ValueError(f"w must have the {a.shape[1]} rows that a has columns, not {w.shape[0]}")
    return max(a.shape[1], 1)


@checked
def inner_indices(
    inner: Annotated[int, limited(require_positive_integer, 1 << 24)],
    block: PositiveInteger,
    lanes: Alike,
    beats: Alike = 1,
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Indices of the inner dimension in the beats of a tile: a block starts a new beat.

    Parameters
    ----------
    inner, block : int
        Length of the inner dimension, and of a block in it.
    lanes : int
        Elements in a beat.
    beats : int
        Number whose multiple the beats of each block are.

    Returns
    -------
    indices : ndarray of int, shape (beats, lanes)
        Inner index of every lane, -1 where a block does not fill its last beat.
    block_last : ndarray of bool, shape (beats,)
        The beat ends a block.
    """
    indices, ends = [], []
    for start in range(0, inner, block):
        members = np.arange(start, min(start + block, inner))
        whole = lanes * beats
        padded = np.full(-(-len(members) // whole) * whole, -1)
        padded[: len(members)] = members
        indices.append(padded.reshape(-1, lanes))
        ends.append(np.arange(len(indices[-1])) == len(indices[-1]) - 1)
    return np.concatenate(indices), np.concatenate(ends)


def _packed(q: Operand, operands: OperandFormats | None, side: Literal["a", "w"]) -> int:
    """Codes of an operand that lie in one place of its stream."""
    if operands is None or not isinstance(q, QuantizedTensor):
        return 1
    format = operands.of(side)
    if isinstance(format, FormatSet):
        return format.packed[format.mode(q.format)]
    if q.format != format:
        raise ValueError(f"{side} must have the format {format.name}, not {q.format.name}")
    return 1


@dataclass(frozen=True)
class StreamBeats:
    """Beats of one operand as they go into its stream.

    Attributes
    ----------
    codes : ndarray of uint8, shape (beats, rows or columns, lanes)
        Places of the stream, with one code each or several.
    scales : ndarray of uint8, shape (beats, rows or columns)
    mode : int
        Which format of a set the codes have; 0 without one.
    first, block_last, last : ndarray of bool, shape (beats,)
        As of `Beats`.
    anchors : ndarray of uint8, shape (beats, rows or columns), optional
        Where the stream has them.
    """

    codes: Codes
    scales: NDArray[np.uint8]
    mode: int
    first: NDArray[np.bool_]
    block_last: NDArray[np.bool_]
    last: NDArray[np.bool_]
    anchors: NDArray[np.uint8] | None = None


@checked
def stream_beats(
    beats: Beats, side: Literal["a", "w"], format: MXFormat, format_set: FormatSet | None = None
) -> StreamBeats:
    """Return the stream of an operand for a tile.

    Parameters
    ----------
    beats : Beats
        Of a `Schedule` that was given the same operands.
    side : {"a", "w"}
        Which operand.
    format : MXFormat
        Format of its codes.
    format_set : FormatSet, optional
        The formats that the array can take there.

    Raises
    ------
    ValueError
        If the format is not among them.
    """
    codes, scales = getattr(beats, f"{side}_codes"), getattr(beats, f"{side}_scales")
    flags = (beats.first, beats.block_last, beats.last)
    if format_set is None:
        return StreamBeats(codes, scales, 0, *flags, getattr(beats, f"{side}_anchors"))
    mode = format_set.mode(format)
    many = format_set.packed[mode]
    count, lanes = codes.shape[1:]
    # The codes of a row in the order of k, as many bits each as they have.
    in_order = codes.reshape(-1, many, count, lanes).swapaxes(1, 2).reshape(-1, count, many * lanes)
    if many > 1:
        bits = np.unpackbits(in_order[..., None], axis=-1, count=format.width, bitorder="little")
        rows = bits.reshape(*in_order.shape[:2], lanes, -1)
        in_order = np.packbits(rows, axis=-1, bitorder="little")[..., 0]
    first, block_last, last = (flag.reshape(-1, many) for flag in flags)
    return StreamBeats(in_order, scales[::many], mode, first[:, 0], block_last[:, -1], last[:, -1])


class Schedule:
    """A matrix product cut into output tiles of the array's size.

    Tiles go row by row (or column by column), each over the whole inner dimension. Edges are padded
    with zero codes, under the block's own scale, or under the scale 1 where there is no block; that
    changes no bit of a result.

    Parameters
    ----------
    a : QuantizedTensor of shape (M, K)
        Blocks along the last axis, or tiles. With ``bf16`` an ndarray of bfloat16 codes, uint16.
    w : QuantizedTensor of shape (K, N)
        Blocks along the first axis, or tiles, of the same length in k. With ``bf16`` like `a`.
    arithmetic : {"fp12", "exact", "window", "bf16"}
        Arithmetic of the array: with ``fp12``, `lanes` divides the blocks, as for `matmul`. With
        ``window`` the operands have to have the whole of k: parts of it that are scheduled one by
        one get anchors of their own, which neither the schedule nor the array can notice.
    rows, columns : int
        Rows and columns of the array (16 x 16 for 4 x 4 units of 4 x 4 MACs).
    lanes : int
        Values of k in a beat.
    longest_block : int, optional
        Longest block in k that the array's sums hold (its parameter ``block``; `exact` and
        `window`).
    longest_tile : int, optional
        Most products that its outputs hold (its parameter ``inner``; `window` only).
    operands : OperandFormats, optional
        What the array takes, by default the formats of `a` and `w`. With a set of formats blocks
        are filled up to whole beats of packed codes: see `stream_beats`.
    order : {"rows", "columns"}
        Which tiles come one after the other: those side by side, or those above each other, as a
        layer wants them.

    Attributes
    ----------
    operands : dict
        The operands by name: ``a`` and ``w``.
    tiles : int
        Number of output tiles.
    grid : tuple of int
        Output tiles above each other, and side by side.
    beats_per_tile : int
        Operand beats of each.
    ideal_beats : int
        Beats of a product without ragged blocks: ``ceil(M / rows) * ceil(N / columns) *
        ceil(K / lanes)``.

    Raises
    ------
    TypeError, ValueError
        If the operands do not fit each other or the array, K is 0, or a size is not positive.
    """

    def __init__(
        self,
        a: Operand,
        w: Operand,
        *,
        arithmetic: ProductArithmetic | Literal["bf16"] = "fp12",
        rows: int = 16,
        columns: int = 16,
        lanes: int = 4,
        longest_block: int | None = None,
        longest_tile: int | None = None,
        operands: OperandFormats | None = None,
        order: Literal["rows", "columns"] = "rows",
    ) -> None:
        require_one_of("order", order, ("rows", "columns"))
        arithmetic = settled("arithmetic", Literal["fp12", "exact", "window", "bf16"], arithmetic)
        operands = settled("operands", OperandFormats | None, operands)
        rows = settled("rows", Alike, rows)
        columns = settled("columns", Alike, columns)
        lanes = settled("lanes", Alike, lanes)
        longest_block = settled("longest_block", PositiveInteger | None, longest_block)
        longest_tile = settled("longest_tile", PositiveInteger | None, longest_tile)
        self._block = _block(a, w, arithmetic, lanes)
        if longest_block is not None and self._block > longest_block:
            raise ValueError(
                f"a must have blocks of at most {longest_block} in k, which the array's sums hold, "
                f"not {self._block}"
            )
        if a.shape[1] == 0:
            raise ValueError("a must have at least one column, not 0")
        self.operands = {"a": a, "w": w}
        self._rows, self._columns, self._lanes = rows, columns, lanes
        self.shape = (a.shape[0], w.shape[1])
        self._order = order
        self.grid = (-(-a.shape[0] // rows), -(-w.shape[1] // columns))
        self.tiles = self.grid[0] * self.grid[1]

        inner = a.shape[1]
        packed = max(_packed(a, operands, "a"), _packed(w, operands, "w"))
        self._inner, self._block_last = inner_indices(inner, self._block, lanes, packed)
        self.beats_per_tile = len(self._inner)
        if longest_tile is not None and self.beats_per_tile > longest_tile // lanes:
            raise ValueError(
                f"a must have tiles of at most {longest_tile // lanes} beats, which the array's "
                f"sums hold, not {self.beats_per_tile}"
            )
        self._all_anchors: tuple[NDArray[np.uint8], ...] = ()
        if arithmetic == "window":
            pair = cast(tuple[QuantizedTensor, QuantizedTensor], (a, w))
            self._all_anchors = anchors(pair[0], 1), anchors(pair[1], 0)
        self.ideal_beats = self.tiles * -(-inner // lanes)

    def __iter__(self) -> Iterator[Beats]:
        """Beats of each output tile in turn."""
        last = np.arange(self.beats_per_tile) == self.beats_per_tile - 1
        first = np.arange(self.beats_per_tile) == 0
        rows_of_a, columns_of_w = self.operands["a"], self.operands["w"].T
        sides = [
            (rows_of_a, self._rows, self.grid[0]),
            (columns_of_w, self._columns, self.grid[1]),
        ]
        by_rows = self._order == "rows"
        (outer, outer_size, outer_tiles), (inner, inner_size, inner_tiles) = sides[
            :: 1 if by_rows else -1
        ]
        for i in range(outer_tiles):
            held = self._operand(outer, i, outer_size)
            for j in range(inner_tiles):
                moving = self._operand(inner, j, inner_size)
                a, w = (held, moving) if by_rows else (moving, held)
                place = (i, j) if by_rows else (j, i)
                yield Beats(*a, *w, first, self._block_last, last, *self._anchors(*place))

    def _anchors(self, row: int, column: int) -> tuple[NDArray[np.uint8] | None, ...]:
        """Anchors (beats, count) of the rows and columns of a tile, if there are such."""
        if not self._all_anchors:
            return None, None
        found = []
        numbers, counts = (row, column), (self._rows, self._columns)
        for whole, number, count in zip(self._all_anchors, numbers, counts, strict=True):
            own = whole[number * count : (number + 1) * count]
            padded = np.pad(own, (0, count - len(own)), constant_values=E8M0.bias)
            found.append(np.broadcast_to(padded, (self.beats_per_tile, count)))
        return tuple(found)

    def _operand(self, q: Operand, tile: int, count: int) -> tuple[Codes, NDArray[np.uint8]]:
        """Codes (beats, count, lanes) and scales (beats, count) of `count` rows of an operand."""
        part = slice(tile * count, (tile + 1) * count)
        if isinstance(q, QuantizedTensor):
            codes: Codes = q.codes[part]
            # A beat beyond the end of a block has the scale of the beats before it.
            beginnings = np.maximum.accumulate(self._inner[:, 0])
            scales = q.element_scales(part, slice(None))[:, beginnings]
        else:
            codes, scales = q[part], np.zeros((0, len(self._inner)), np.uint8)
        missing = count - len(codes)
        padded = np.pad(codes, ((0, missing), (0, 1)))  # column -1 is a zero code
        beats: Any = padded[:, self._inner].transpose(1, 0, 2)
        if not isinstance(q, QuantizedTensor):
            return beats, scales.T
        return beats, np.pad(scales, ((0, missing), (0, 0)), constant_values=E8M0.bias).T

    @checked
    def assemble(self, results: NDArray[np.float32]) -> NDArray[np.float32]:
        """Put result rows together again.

        Parameters
        ----------
        results : ndarray of float32, shape (tiles * rows, columns)
            Rows in the order in which the array puts them out.

        Returns
        -------
        ndarray of float32, shape (M, N)

        Raises
        ------
        TypeError, ValueError
            If `results` is another array, or has another shape.
        """
        expected = (self.tiles * self._rows, self._columns)
        if results.shape != expected:
            raise ValueError(f"results must have the shape {expected}, not {results.shape}")
        down, across = self.grid
        if self._order == "rows":
            tiles = results.reshape(down, across, self._rows, self._columns)
        else:
            tiles = results.reshape(across, down, self._rows, self._columns).swapaxes(0, 1)
        whole = tiles.swapaxes(1, 2).reshape(down * self._rows, across * self._columns)
        return whole[: self.shape[0], : self.shape[1]]
