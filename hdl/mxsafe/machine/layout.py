"""Matrices as bytes in memory: operands in strips of rows, float32 tensors in vector beats."""

from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mxsafe.codec import QuantizedTensor, quantize
from mxsafe.codec._inputs import floats, widened
from mxsafe.codec.blocks import tensor_of
from mxsafe.formats import BF16, FloatFormat, MXFormat, mx_format
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.products import require_scale
from mxsafe.validation import (
    PositiveInteger,
    checked,
    require_one_of,
    require_positive_integer,
    shown,
)

Bytes = NDArray[np.uint8]
Converted = QuantizedTensor | NDArray[np.uint16]
"""What operands are: numbers in blocks with scales, or those of bfloat16 as their bits."""

_TILE = 8
_NIBBLE = 4
_NAN_BFLOAT16 = 0x7FC0
_NUMBER_BYTES = {"float32": 4, "bfloat16": 2}


@checked
@dataclass(frozen=True, kw_only=True)
class OperandLayout:
    """Layout of an operand in memory.

    The operand is a matrix whose rows (the outer index: features or tokens) come in strips, and
    whose columns (k) are the index that products sum over. For an operand w of shape (k, n) that
    is its transpose. Codes of a strip stand one operand beat after the other, then come those of
    the next strip; codes of 4 bits are two in a byte, those of bfloat16 two bytes, the lower one
    first. Its scale entries, if it has scales, stand in a place of their own; an entry of tiles has
    a byte for each tile, not for each row. Rows and columns that are missing have the code 0, and
    scales that are missing are 0 too.

    Parameters
    ----------
    configuration : MachineConfiguration
    rows, columns : int
        Shape of the matrix.
    block : int or tuple of int, optional
        Length of blocks along a row, a multiple of the array's lanes, or ``(8, 8)``. 0, the
        default, stands for 64, or without scales for 4, the numbers of a beat: there is no other.
    format : MXFormat or str, optional
        By default the one that the machine converts to; without scales there is no other.

    Raises
    ------
    ValueError
        If a parameter is not as above; the message names it.
    """

    configuration: MachineConfiguration
    rows: PositiveInteger
    columns: PositiveInteger
    block: int | tuple[int, int] = 0
    format: MXFormat | FloatFormat | str | None = None

    def __post_init__(self) -> None:
        if self.block == 0:
            object.__setattr__(self, "block", self.configuration.default_block)
        object.__setattr__(self, "format", self._settled_format())
        if not self.configuration.scaled and self.block != self.configuration.default_block:
            raise ValueError(
                f"block must be {self.configuration.default_block} without scales, not {self.block}"
            )
        if isinstance(self.block, tuple):
            if self.block != (_TILE, _TILE):
                raise ValueError(f"block must be a length or ({_TILE}, {_TILE}), not {self.block}")
            return
        lanes = self.configuration.lanes
        most = self.configuration.default_block
        if require_positive_integer("block", self.block) % lanes or self.block > most:
            raise ValueError(f"block must be a multiple of {lanes} up to {most}, not {self.block}")

    def _settled_format(self) -> Any:
        if not self.configuration.scaled:
            if self.format not in (None, BF16):
                raise ValueError(
                    f"format must be {BF16.name} without scales, "
                    f"not {getattr(self.format, 'name', self.format)}"
                )
            return BF16
        default = self.configuration.conversion_format
        fmt = default if self.format is None else mx_format(cast(MXFormat, self.format))
        require_scale("format", fmt)
        return fmt

    @property
    def packings(self) -> dict[str, str]:
        """Packing of codes and scales: names in `mxsafe.machine.description.PACKING`."""
        return {
            "codes": "nibbles" if cast(MXFormat, self.format).width == _NIBBLE else "none",
            "scales": "tiles" if isinstance(self.block, tuple) else "none",
        }

    @property
    def length(self) -> int:
        """Values of k that share an entry."""
        return self.block[1] if isinstance(self.block, tuple) else self.block

    @property
    def strips(self) -> int:
        """Strips of rows."""
        return -(-self.rows // self.configuration.rows)

    @property
    def beats(self) -> int:
        """Operand beats of a strip."""
        return -(-self.columns // self.configuration.lanes)

    @property
    def block_beats(self) -> int:
        """Operand beats that share an entry: `block` of a GEMM descriptor."""
        return self.length // self.configuration.lanes

    @property
    def entries(self) -> int:
        """Scale entries of a strip."""
        return self.configuration.entries(self.beats, self.block_beats)

    @property
    def turns(self) -> bool:
        """Whether the transpose can be read: converted tiles, or numbers, are the same in it."""
        return isinstance(self.block, tuple) or not self.configuration.scaled

    @property
    def beat_bytes(self) -> int:
        """Bytes of an operand beat in memory: whole words."""
        parts = self.configuration.word_parts[self.packings["codes"]]
        return self.configuration.beat_bytes // parts

    @property
    def entry_bytes(self) -> int:
        """Bytes of a scale entry in memory."""
        parts = self.configuration.word_parts[self.packings["scales"]]
        return self.configuration.entry_bytes // parts

    @property
    def word_entries(self) -> int:
        """Scale entries of a word of memory."""
        return self.configuration.word_bytes // self.entry_bytes

    @property
    def strip_bytes(self) -> int:
        """Bytes from strip to strip of the codes."""
        return self.beats * self.beat_bytes

    @property
    def scale_strip_bytes(self) -> int:
        """Bytes from strip to strip of the scales: whole words."""
        return -(-self.entries // self.word_entries) * self.configuration.word_bytes

    def filled(self, count: int) -> int:
        """So many columns, or as many as whole tiles have, if the transpose can be read."""
        return -(-count // _TILE) * _TILE if self.turns else count

    def converted(self, x: NDArray[np.float32]) -> Converted:
        """A matrix of float32 as the machine converts it, in the format of this layout."""
        if self.configuration.scaled:
            return quantize(x, cast(MXFormat, self.format), block=self.block)
        return narrowed(np.ascontiguousarray(x).view(np.uint32))

    def packed(self, q: Converted) -> tuple[Bytes, Bytes]:
        """Codes and scales of a matrix as bytes; without scales there are none of the second.

        Parameters
        ----------
        q : QuantizedTensor or ndarray of uint16, shape (rows, columns)
            Bits of bfloat16 numbers, for a machine whose operands have no scales.

        Raises
        ------
        TypeError, ValueError
            If the matrix is not one of this layout.
        """
        own_codes, own_scales = self._parts(q)
        height, lanes = self.configuration.rows, self.configuration.lanes
        codes = np.zeros((self.strips * height, self.beats * lanes), own_codes.dtype)
        codes[: self.rows, : self.columns] = own_codes
        beats = codes.reshape(self.strips, height, self.beats, lanes).swapaxes(1, 2)
        as_bytes = beats.reshape(-1).astype(own_codes.dtype.newbyteorder("<")).view(np.uint8)
        words = as_bytes.reshape(-1, self.configuration.word_bytes)
        data = packed_words(words, self.packings["codes"], self.configuration)
        height, width = self.entry_bytes, self.scale_strip_bytes // self.entry_bytes
        scales = np.zeros((self.strips * height, width), np.uint8)
        own = np.repeat(own_scales, self._strips_of_tile, axis=0)[: len(scales)]
        scales[: len(own), : self.entries] = own
        ordered = scales.reshape(self.strips, height, width).swapaxes(1, 2)
        return data.reshape(-1), ordered.reshape(-1).copy()

    def _parts(self, q: Converted) -> tuple[NDArray[Any], Bytes]:
        """Codes and scales of a matrix of this layout."""
        if not self.configuration.scaled:
            if not isinstance(q, np.ndarray) or q.dtype != np.uint16:
                raise TypeError(f"q must be an array of uint16, not {shown(q)}")
            self._require_shape(q.shape)
            return q, np.zeros((self.rows, 0), np.uint8)
        q = tensor_of("q", q)
        self._require_shape(q.shape)
        if q.block != self.block or (not isinstance(q.block, tuple) and q.axis != -1):
            raise ValueError(
                f"q must have blocks of {self.block} along its rows, not of {q.block} along "
                f"axis {q.axis}"
            )
        if q.format != self.format:
            raise ValueError(
                f"q must have format {cast(MXFormat, self.format).name}, not {q.format.name}"
            )
        return q.codes, q.scales

    def _require_shape(self, shape: tuple[int, ...]) -> None:
        if shape != (self.rows, self.columns):
            raise ValueError(f"q must have shape {(self.rows, self.columns)}, not {shape}")

    def unpacked(self, codes: ArrayLike, scales: ArrayLike) -> Converted:
        """The matrix whose codes and scales are these bytes.

        Raises
        ------
        ValueError
            If there are not as many bytes.
        """
        c = self.configuration
        flat = _as_bytes("codes", codes, self.strips * self.strip_bytes)
        words = unpacked_words(flat.reshape(-1, c.word_bytes), self.packings["codes"], c)
        each = words.reshape(-1).view(f"<u{c.code_bytes}")
        beats = each.reshape(self.strips, self.beats, c.rows, c.lanes).swapaxes(1, 2)
        matrix = beats.reshape(self.strips * c.rows, -1)[: self.rows, : self.columns]
        flat = _as_bytes("scales", scales, self.strips * self.scale_strip_bytes)
        if not c.scaled:
            return np.ascontiguousarray(matrix)
        entries = flat.reshape(self.strips, -1, self.entry_bytes).swapaxes(1, 2)
        by_row = entries.reshape(self.strips * self.entry_bytes, -1)[:: self._strips_of_tile]
        tall = isinstance(self.block, tuple)
        count = -(-self.rows // _TILE) if tall else self.rows
        return QuantizedTensor(
            np.ascontiguousarray(matrix),
            np.ascontiguousarray(by_row[:count, : self.entries]),
            cast(MXFormat, self.format),
            self.block,
            (-2, -1) if tall else -1,
        )

    @property
    def _strips_of_tile(self) -> int:
        """Strips that a tile reaches over: each of them has its scale."""
        height = self.configuration.rows
        return max(_TILE // height, 1) if isinstance(self.block, tuple) else 1


@checked
@dataclass(frozen=True, kw_only=True)
class Float32Layout:
    """Layout of a float32 (or bfloat16) tensor in memory.

    Its columns come in strips of as many as a vector beat has lanes; a strip is its rows, one
    vector beat after the other. Columns that are missing are +0.

    Parameters
    ----------
    configuration : MachineConfiguration
    rows, columns : int
        Shape of the matrix: beats of a strip, and lanes of all strips.
    number : {"float32", "bfloat16"}

    Raises
    ------
    ValueError
        If a parameter is not as above; the message names it.
    """

    configuration: MachineConfiguration
    rows: PositiveInteger
    columns: PositiveInteger
    number: Literal["float32", "bfloat16"] = "float32"

    @property
    def strips(self) -> int:
        """Strips of columns."""
        return -(-self.columns // self.configuration.vector_lanes)

    @property
    def beat_bytes(self) -> int:
        """Bytes of a vector beat in memory: two words, or one of bfloat16."""
        return self.configuration.vector_lanes * _NUMBER_BYTES[self.number]

    @property
    def strip_bytes(self) -> int:
        """Bytes from strip to strip."""
        return self.rows * self.beat_bytes

    def packed(self, x: ArrayLike) -> Bytes:
        """A matrix of floats as bytes; numbers are rounded to nearest even where they must be.

        Raises
        ------
        TypeError, ValueError
            If it is of float64 or has another shape.
        """
        values = floats("x", x)
        if values.dtype.name == "float64":
            raise TypeError("x must have dtype float32, float16, bfloat16, not float64")
        if values.shape != (self.rows, self.columns):
            raise ValueError(f"x must have shape {(self.rows, self.columns)}, not {values.shape}")
        lanes = self.configuration.vector_lanes
        words = np.zeros((self.rows, self.strips * lanes), np.uint32)
        single = np.ascontiguousarray(widened(values, np.float32))
        words[:, : self.columns] = single.view(np.uint32)
        beats = words.reshape(self.rows, self.strips, lanes).swapaxes(0, 1).reshape(-1)
        if self.number == "bfloat16":
            return narrowed(beats).astype("<u2").view(np.uint8)
        return beats.astype("<u4").view(np.uint8)

    def unpacked(self, data: ArrayLike) -> NDArray[np.float32]:
        """The matrix that bytes are, as float32.

        Raises
        ------
        ValueError
            If there are not as many bytes.
        """
        flat = _as_bytes("data", data, self.strips * self.strip_bytes)
        words = flat.view("<u4") if self.number == "float32" else widened_words(flat.view("<u2"))
        lanes = self.configuration.vector_lanes
        matrix = words.reshape(self.strips, self.rows, lanes).swapaxes(0, 1)
        whole = matrix.reshape(self.rows, -1)[:, : self.columns]
        return np.ascontiguousarray(whole.astype(np.uint32)).view(np.float32)


def _as_bytes(name: str, data: ArrayLike, count: int) -> Bytes:
    try:
        flat = np.ascontiguousarray(data)
    except ValueError:  # lists of unlike lengths
        raise ValueError(f"{name} must be {count} bytes, not {shown(data)}") from None
    if flat.dtype != np.uint8 or flat.shape != (count,):
        raise ValueError(f"{name} must be {count} bytes, not {flat.dtype} of shape {flat.shape}")
    return flat


@checked
def narrowed(words: NDArray[np.uint32]) -> NDArray[np.uint16]:
    """Bits of binary32 numbers as bfloat16, rounded to nearest even; a NaN becomes ``0x7fc0``."""
    wide = words.astype(np.uint64)
    rounded = wide + 0x7FFF + (wide >> 16 & 1) >> 16
    is_nan = (wide & 0x7FFFFFFF) > 0x7F800000
    return np.where(is_nan, _NAN_BFLOAT16, rounded).astype(np.uint16)


@checked
def widened_words(words: NDArray[np.uint16]) -> NDArray[np.uint32]:
    """Bits of bfloat16 numbers as binary32."""
    return words.astype(np.uint32) << np.uint32(16)


@checked
def unpacked_words(words: Bytes, packing: str, configuration: MachineConfiguration) -> Bytes:
    """Words of a buffer that words of memory are.

    Parameters
    ----------
    words : ndarray of uint8, shape (..., count, word bytes)
    packing : {"none", "nibbles", "tiles"}
    configuration : MachineConfiguration

    Returns
    -------
    ndarray of uint8, shape (..., parts * count, word bytes)
    """
    parts = _parts_of(words, packing, configuration)
    if packing == "nibbles":
        spread = np.stack([words & 15, words >> 4], axis=-1)
    else:
        spread = np.repeat(words, parts, axis=-1)
    return spread.reshape(*words.shape[:-2], -1, configuration.word_bytes)


@checked
def packed_words(words: Bytes, packing: str, configuration: MachineConfiguration) -> Bytes:
    """Words of memory that hold words of a buffer; what they lack of the last one is 0.

    Parameters
    ----------
    words : ndarray of uint8, shape (..., count, word bytes)
    packing : {"none", "nibbles", "tiles"}
    configuration : MachineConfiguration

    Returns
    -------
    ndarray of uint8, shape (..., ceil(count / parts), word bytes)
    """
    parts = _parts_of(words, packing, configuration)
    size, lead = configuration.word_bytes, words.shape[:-2]
    whole = np.zeros((*lead, -(-words.shape[-2] // parts) * parts, size), np.uint8)
    whole[..., : words.shape[-2], :] = words
    apart = whole.reshape(*lead, -1, parts)
    packed = apart[..., 0]
    if packing == "nibbles":
        packed = packed & 15 | apart[..., 1] << 4
    return packed.reshape(*lead, -1, size)


def _parts_of(words: Bytes, packing: str, configuration: MachineConfiguration) -> int:
    require_one_of("packing", packing, configuration.word_parts)
    if words.ndim < 2 or words.shape[-1] != configuration.word_bytes:
        raise ValueError(
            f"words must be of {configuration.word_bytes} bytes, not of shape {words.shape}"
        )
    return configuration.word_parts[packing]


@checked
def transposed_codes(groups: Bytes, configuration: MachineConfiguration) -> Bytes:
    """Groups of words of codes, the tiles of 8 columns of a strip, with tiles transposed.

    Parameters
    ----------
    groups : ndarray of uint8, shape (..., 4 or 8, word bytes)
        Two operand beats.
    configuration : MachineConfiguration

    Returns
    -------
    ndarray of uint8, shape of `groups`
        In the order in which words go to `to`, `to + step_0` and so on: with 16 rows the first
        and second four columns of the upper tile's transpose, each of 8 rows and so half a beat of
        a strip, and those of the lower one's; with 8 rows both beats of the one tile's. Codes of
        two bytes take two words for each of these, the first four rows and the second.
    """
    lanes, rows, count = configuration.lanes, configuration.rows, 2 * configuration.beat_words
    lead = groups.shape[:-2]
    if groups.shape[-2:] != (count, configuration.word_bytes):
        raise ValueError(
            f"groups must be of {count} words of {configuration.word_bytes} bytes, "
            f"not of shape {groups.shape}"
        )
    tiles = rows // _TILE
    codes = np.ascontiguousarray(groups).view(f"<u{configuration.code_bytes}")
    # (beat, tile, row, lane): element (row of the tile, lanes * beat + lane).
    beats = codes.reshape(*lead, _TILE // lanes, tiles, _TILE, lanes)
    by_tile = np.moveaxis(beats, -4, -2).reshape(*lead, tiles, _TILE, _TILE)
    turned = by_tile.swapaxes(-1, -2).reshape(*lead, tiles, _TILE, _TILE // lanes, lanes)
    ordered = np.ascontiguousarray(turned.swapaxes(-2, -3))
    return ordered.reshape(-1).view(np.uint8).reshape(groups.shape)


@checked
def transposed_scales(words: Bytes) -> Bytes:
    """Words of two scale entries of a strip of 16 rows as the entries of transposed tiles.

    Parameters
    ----------
    words : ndarray of uint8, shape (..., 32)

    Returns
    -------
    ndarray of uint8, shape (..., 32)
    """
    if words.shape[-1:] != (4 * _TILE,):
        raise ValueError(f"words must be of {4 * _TILE} bytes, not of shape {words.shape}")
    quarters = words.reshape(*words.shape[:-1], 2, 2, _TILE)
    return np.ascontiguousarray(quarters.swapaxes(-2, -3)).reshape(words.shape)
