"""Products of matrices in memory, of any shape and in every orientation."""

from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from mxsafe.codec import QuantizedTensor
from mxsafe.codec.blocks import tensor_of
from mxsafe.formats import BF16, FloatFormat, MXFormat
from mxsafe.machine.compiler.emitter import Emitter, Pass
from mxsafe.machine.compiler.ordering import Access
from mxsafe.machine.compiler.panels import Block, Panels, Side, columns_of, length_of, strip_of
from mxsafe.machine.compiler.places import CompileError
from mxsafe.machine.compiler.tensors import Operand, Placed, Rows, Vectors
from mxsafe.machine.compiler.units import cut
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.description import DESCRIPTORS, STORE_BUFFERS
from mxsafe.machine.layout import Converted, Float32Layout, OperandLayout
from mxsafe.validation import checked, require_one_of

Bytes = NDArray[np.uint8]
_MOST_WORDS = (1 << DESCRIPTORS["store"].field("count_0").width) - 1
_BLOCKS: tuple[Block, ...] = (64, (8, 8))


@checked
@dataclass(frozen=True)
class Matrix:
    """A matrix of operands in memory: strips of its rows, perhaps with blocks along them.

    Attributes
    ----------
    operand : Operand
        Of tiles it has whole ones: columns that are missing are zeros.
    columns : int
        Without those.
    format : MXFormat
    transposed : bool
        Whether what is meant is the transpose of what is in memory.
    """

    operand: Operand
    columns: int
    format: MXFormat | FloatFormat
    transposed: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        stored = self.operand.layout.rows, self.columns
        return stored[::-1] if self.transposed else stored

    @property
    def T(self) -> "Matrix":
        """The transpose, of the same bytes."""
        return replace(self, transposed=not self.transposed)

    def write(self, memory: Bytes, q: Converted) -> None:
        """Put a matrix into an image of memory.

        Parameters
        ----------
        memory : ndarray of uint8
        q : QuantizedTensor or ndarray of uint16
            Bits of bfloat16 numbers for a machine whose operands have no scales.

        Raises
        ------
        TypeError, ValueError
            If its shape, format or blocks are others.
        """
        layout = self.operand.layout
        if layout.configuration.scaled:
            q = tensor_of("q", q)
        fmt = q.format if isinstance(q, QuantizedTensor) else BF16
        if q.shape != self.shape or fmt != self.format:
            raise ValueError(
                f"q must be {self.format.name} of shape {self.shape}, not {fmt.name} of "
                f"shape {q.shape}"
            )
        stored = q.T if self.transposed else q
        self.operand.write(memory, _with_columns(stored, layout.columns))

    def read(self, memory: Bytes) -> Converted:
        """The matrix in an image of memory."""
        o = self.operand
        spans = (o.codes, o.layout.strip_bytes), (o.scales, o.layout.scale_strip_bytes)
        codes, scales = (memory[at : at + o.layout.strips * size] for at, size in spans)
        cut = _with_columns(o.layout.unpacked(codes, scales), self.columns)
        return cut.T if self.transposed else cut


def _with_columns(q: Converted, count: int) -> Converted:
    """A matrix with fewer columns, or with more of zeros."""
    codes = q.codes if isinstance(q, QuantizedTensor) else q
    own = codes[:, :count]
    whole: NDArray[Any] = np.zeros((len(codes), count), codes.dtype)
    whole[:, : own.shape[1]] = own
    return replace(q, codes=whole) if isinstance(q, QuantizedTensor) else whole


@dataclass(frozen=True)
class Sums:
    """A float32 or bfloat16 tensor in memory: strips of its rows.

    Attributes
    ----------
    vectors : Vectors
        Its transpose.
    """

    vectors: Vectors

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.vectors.layout.columns, self.vectors.layout.rows

    def read(self, memory: Bytes) -> NDArray[np.float32]:
        """The matrix in an image of memory."""
        return np.ascontiguousarray(self.vectors.read(memory).T)


@checked
class Products:
    """A program of products ``C = A W``, one after the other, of matrices in memory.

    A matrix is stored once. In tiles of 8x8 it serves as A and as W, itself and transposed. With
    blocks along its rows it serves where products sum along its rows: ``A``, and ``W`` where its
    transpose is stored. Results have the bits of `mxsafe.matmul` with the machine's arithmetic
    (with ``window`` of the sum of several, if k has several `parts`), and those that are converted
    the bits of `mxsafe.quantize` after it.

    Parameters
    ----------
    configuration : MachineConfiguration

    Attributes
    ----------
    emitter : Emitter
        The program, and how much memory it has.

    Examples
    --------
    With ``x = products.matrix("x", samples, inputs, (8, 8))`` and so on, a forward pass and both
    gradients of a layer are ``x @ w``, ``dy @ w.T`` and ``x.T @ dy``:

    >>> from mxsafe.machine.configuration import MachineConfiguration
    >>> products = Products(MachineConfiguration())
    >>> tiles = (8, 8)
    >>> x, w = products.matrix("x", 40, 24, tiles), products.matrix("w", 24, 10, tiles)
    >>> dy = products.matrix("dy", 40, 10, tiles)
    >>> y, dx, dw = (products.product(*p) for p in ((x, w), (dy, w.T), (x.T, dy)))
    >>> y.shape, dx.shape, dw.shape
    ((40, 10), (40, 24), (24, 10))
    """

    def __init__(self, configuration: MachineConfiguration) -> None:
        self.emitter = Emitter(configuration)

    def matrix(
        self,
        name: str,
        rows: int,
        columns: int,
        block: Block | None = None,
        format: MXFormat | str | None = None,
    ) -> Matrix:
        """Allocate a matrix in memory.

        Parameters
        ----------
        name : str
            For messages.
        rows, columns : int
        block : int or tuple of int, optional
            Length of blocks along its rows, by default 64, or ``(8, 8)``. Without scales there are
            none.
        format : MXFormat or str, optional
            By default the one that the machine converts to. A machine whose operands have two
            formats multiplies from the left what has that of operand w, and from the right what
            has that of operand a.
        """
        layout = OperandLayout(
            configuration=self.emitter.configuration,
            rows=rows,
            columns=columns,
            block=0 if block is None else block,
            format=format,
        )
        whole = replace(layout, columns=layout.filled(columns))
        fmt = cast(MXFormat | FloatFormat, layout.format)
        return Matrix(self.emitter.operand(name, whole), columns, fmt)

    def parts(self, a: Matrix, w: Matrix) -> list[range]:
        """Parts of k of a product ``A W``: several if it is too long for the buffers.

        With arithmetic ``window`` a part has at most 4,096 values. There each part is a product of
        its own, and their sum is in binary32, one after the other.

        Raises
        ------
        CompileError
            As `product`.
        """
        return Panels(self.emitter, *self._sides(a, w), grain=self.emitter.configuration.rows).k

    def product(
        self, a: Matrix, w: Matrix, number: Literal["float32", "bfloat16"] = "float32"
    ) -> Sums:
        """Add ``C = A W`` in binary32 or bfloat16 to the program.

        Raises
        ------
        CompileError
            If shapes, blocks or formats do not fit each other or the machine; the message has the
            numbers.
        """
        require_one_of("number", number, ("float32", "bfloat16"))
        e = self.emitter
        panels = Panels(e, *self._sides(a, w), grain=e.configuration.rows)
        layout = Float32Layout(
            configuration=e.configuration,
            rows=w.shape[1],
            columns=a.shape[0],
            number=number,
        )
        result = e.vectors(f"{a.operand.name} {w.operand.name}", layout)
        for rows, strips, span in panels.results():
            lanes, part = e.by_lanes(layout.columns, strips)[-1]
            if lanes < e.configuration.vector_lanes:
                last = rows.some(part)
                e.compute(last, Pass(), d=last, lanes=lanes)
            store_sums(e, result, strips, span, rows)
            e.vector.free(rows.start)
        return Sums(result)

    def converted(self, a: Matrix, w: Matrix, block: Block | None = None) -> Matrix:
        """Add ``C = A W``, converted to the machine's format, to the program.

        Parameters
        ----------
        a, w : Matrix
        block : int or tuple of int, optional
            64 or ``(8, 8)``; by default that of the operands. Blocks lie along the rows of C;
            ``converted(w.T, a.T).T`` has them along its columns.

        Raises
        ------
        CompileError
            If shapes, blocks or formats do not fit each other or the machine; the message has the
            numbers.
        """
        e = self.emitter
        sides = self._sides(a, w)
        block = a.operand.layout.block if block is None else block
        known = [str(one) for one in _blocks_of(e.configuration)]
        if str(block) not in known:
            raise CompileError(
                f"block of a converted product must be {' or '.join(known) or 'none'} on this "
                f"machine, not {block}"
            )
        result = self.matrix(f"{a.operand.name} {w.operand.name}", a.shape[0], w.shape[1], block)
        # The least that is stored is a word of scales.
        own = result.operand.layout
        grain = max(own.word_entries * own.length, e.configuration.rows)
        panels = Panels(e, *sides, grain=grain, block=block)
        for rows, strips, span in panels.results():
            out = e.place("out", columns_of(result.operand, span), len(strips))
            for lanes, part in e.by_lanes(result.operand.layout.rows, strips):
                e.compute(rows.some(part), Pass(), out=out.some(part), lanes=lanes)
            e.vector.free(rows.start)
            store_operand(e, result.operand, strips, span, out)
            e.free(out)
        return result

    def _sides(self, a: Matrix, w: Matrix) -> tuple[Side, Side]:
        """Rows of A on the array's side w, and columns of W on its side a."""
        if a.shape[1] != w.shape[0]:
            raise CompileError(
                f"w must have the {a.shape[1]} rows that a has columns, not {w.shape[0]}"
            )
        blocks = a.operand.layout.block, w.operand.layout.block
        if blocks[0] != blocks[1]:
            raise CompileError(f"w must have blocks of {blocks[0]} like a, not of {blocks[1]}")
        c = self.emitter.configuration
        for name, own, needed in (("a", a.format, c.format_w), ("w", w.format, c.format_a)):
            if own != needed:
                wanted = getattr(needed, "name", needed)
                raise CompileError(f"{name} must be {wanted} on this machine, not {own.name}")
        return (
            Side("w", a.operand, a.transposed, *a.shape),
            Side("a", w.operand, not w.transposed, *w.shape[::-1]),
        )


def _blocks_of(c: MachineConfiguration) -> list[Block]:
    """Blocks of results that a machine converts."""
    known = _BLOCKS if c.scaled else (c.default_block,)
    return [one for one in known if c.conversion(length_of(one) // c.lanes) in c.conversions]


def store_operand(e: Emitter, operand: Operand, strips: range, span: range, out: Placed) -> None:
    """Some converted results of some strips."""
    e.store_part(out, columns_of(strip_of(operand, strips.start), span), operand)


def store_sums(e: Emitter, result: Vectors, strips: range, span: range, rows: Rows) -> None:
    """Some results of some strips."""
    own = result.layout.beat_bytes // e.configuration.word_bytes
    for part in cut(len(span), _MOST_WORDS // own):
        beats = range(span.start + part.start, span.start + part.stop)
        _store_run(e, result, strips, beats, rows.cut(part.start, len(part)))


def _store_run(e: Emitter, result: Vectors, strips: range, span: range, rows: Rows) -> None:
    layout, word = result.layout, e.configuration.word_bytes
    start = result.address + strips.start * layout.strip_bytes + span.start * layout.beat_bytes
    length, count = len(span) * layout.beat_bytes, len(strips)
    narrow = layout.number == "bfloat16"
    unit = 1 if narrow else 2  # a beat, as the descriptor counts
    fields = {
        "buffer": STORE_BUFFERS["vector"],
        "narrow": int(narrow),
        "address": start,
        "count_0": length // word,
        "count_1": count,
        "count_2": 1,
        "count_3": 1,
        "stride_1": layout.strip_bytes // word,
        "from": rows.start * unit,
        "step_0": 1,
        "step_1": rows.stride * unit,
    }
    accesses = [
        Access.rows("vector", rows.start, len(span), count, rows.stride, writes=False),
        Access.rows("memory", start, length, count, layout.strip_bytes, writes=True),
    ]
    e.emit("store", fields, accesses)
