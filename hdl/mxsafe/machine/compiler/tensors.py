"""Tensors of a program: in memory, and in the machine's buffers."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mxsafe.machine.layout import Converted, Float32Layout, OperandLayout

Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Operand:
    """An operand in memory.

    Attributes
    ----------
    name : str
    layout : OperandLayout
        Its rows are the outer index, its columns are k.
    codes, scales : int
        Addresses; that of scales of tiles may be one of a part of a word.
    whole : OperandLayout, optional
        Of what it is some columns of.
    parts : tuple of Operand
        Whose columns are its own, one part's behind the other's, if it has none in memory itself.
    """

    name: str
    layout: OperandLayout
    codes: int = 0
    scales: int = 0
    whole: OperandLayout | None = None
    parts: "tuple[Operand, ...]" = ()

    @property
    def code_words(self) -> int:
        """Words of memory from strip to strip of the codes."""
        own = self.whole or self.layout
        return own.strip_bytes // own.configuration.word_bytes

    @property
    def scale_words(self) -> int:
        """Words of memory from strip to strip of the scales."""
        own = self.whole or self.layout
        return own.scale_strip_bytes // own.configuration.word_bytes

    @property
    def buffer_words(self) -> dict[str, int]:
        """Words of a buffer of the codes and of the scales of a strip."""
        codes = self.layout.configuration.beat_words * self.layout.beats
        return {"codes": codes, "scales": -(-self.layout.entries // 2)}

    def from_strip(self, first: int) -> "Operand":
        """The same from a later strip on: addresses alone, the layout is that of all strips."""
        size = self.layout.configuration.word_bytes
        return replace(
            self,
            codes=self.codes + first * self.code_words * size,
            scales=self.scales + first * self.scale_words * size,
        )

    def write(self, memory: Bytes, q: Converted) -> None:
        """Put a matrix of the layout into an image of memory."""
        for start, data in zip((self.codes, self.scales), self.layout.packed(q), strict=True):
            memory[start : start + len(data)] = data

    def last_rows(self, strips: range) -> int:
        """Rows that count of the last of these strips."""
        rows = self.layout.configuration.rows
        return min(rows, self.layout.rows - rows * strips[-1])


@dataclass(frozen=True)
class Vectors:
    """Numbers in memory.

    Attributes
    ----------
    name : str
    layout : Float32Layout
        Its rows are the beats of a strip, its columns are lanes.
    address : int
    """

    name: str
    layout: Float32Layout
    address: int = 0

    @property
    def strip_words(self) -> int:
        """Words of a strip."""
        return self.layout.strip_bytes // self.layout.configuration.word_bytes

    def write(self, memory: Bytes, x: ArrayLike) -> None:
        """Put a matrix of the layout into an image of memory."""
        data = self.layout.packed(x)
        memory[self.address : self.address + len(data)] = data

    def read(self, memory: Bytes) -> NDArray[np.float32]:
        """The matrix in an image of memory."""
        stop = self.address + self.layout.strips * self.layout.strip_bytes
        return self.layout.unpacked(memory[self.address : stop])


@dataclass(frozen=True)
class Placed:
    """Strips of an operand in a buffer.

    Attributes
    ----------
    side : {"a", "w", "out"}
        The buffer.
    codes, stride : int
        Operand beat of the first strip, and beats from strip to strip.
    scales, scale_stride : int
        The same of scale entries.
    strips, beats, block_beats, entries : int
        Strips, beats of a strip, beats of a block, scale entries of a strip.
    last_rows, rows : int
        Rows of the last strip that count, and of the others.
    """

    side: Literal["a", "w", "out"]
    codes: int
    stride: int
    scales: int
    scale_stride: int
    strips: int
    beats: int
    block_beats: int
    entries: int
    last_rows: int
    rows: int

    def some(self, strips: range) -> "Placed":
        """Some of the strips."""
        return replace(
            self,
            codes=self.codes + strips.start * self.stride,
            scales=self.scales + strips.start * self.scale_stride,
            strips=len(strips),
            last_rows=self.last_rows if strips.stop == self.strips else self.rows,
        )

    def from_beat(self, beats: int) -> "Placed":
        """The same strips from a later beat on, a whole number of blocks."""
        return replace(
            self, codes=self.codes + beats, scales=self.scales + beats // self.block_beats
        )


@dataclass(frozen=True)
class Rows:
    """Rows of vector beats in the vector buffer.

    Attributes
    ----------
    start : int
        First beat of the first row.
    beats : int
        Beats of a row.
    count, stride : int
        Rows, and beats from one to the next.
    """

    start: int
    beats: int
    count: int = 1
    stride: int = 0

    def row(self, index: int) -> "Rows":
        """One of them."""
        return Rows(self.start + index * self.stride, self.beats)

    def some(self, rows: range) -> "Rows":
        """Some of them."""
        return Rows(self.start + rows.start * self.stride, self.beats, len(rows), self.stride)

    def cut(self, first: int, beats: int) -> "Rows":
        """Some beats of each."""
        return Rows(self.start + first, beats, self.count, self.stride)
