"""Descriptors one by one: buffers given out, tokens found, limits of fields kept."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

import numpy as np

from mxsafe.machine.assembler import Instruction, maker
from mxsafe.machine.compiler.ordering import Access, Ordering
from mxsafe.machine.compiler.places import Allocator, CompileError, Memory
from mxsafe.machine.compiler.sweeps import sweeps
from mxsafe.machine.compiler.tensors import Operand, Placed, Rows, Vectors
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.description import DESCRIPTORS, PACKING, QUEUES, Y_MODES, run_words
from mxsafe.machine.layout import Float32Layout, OperandLayout
from mxsafe.machine.reach import result_beats, second_beats
from mxsafe.machine.tokens import Header, deadlock_of

Side = Literal["a", "w"]
V = TypeVar("V", bound=Vectors)
_TILE = 8


@dataclass(frozen=True)
class Step:
    """A descriptor: its kind and the values of its fields, without the header."""

    kind: str
    fields: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class Pass:
    """Operations of a vector unit's pass over rows, beside sources and destinations.

    Attributes
    ----------
    arithmetic, function, reduction : str
        As of a descriptor's fields.
    y : Rows, optional
        Second operand; with `y_mode` ``numbers`` or ``constant`` its beats as they stand.
    y_mode : str
    parameter : float
        Binary32.
    causal : int, optional
        Values that count before the first row's own.
    affine : Rows, optional
        Gains of a norm, and behind them its biases.
    sweep : str
        What a row is there for that is too long to be reduced in one piece.
    first, last : bool
        Whether a row begins with this piece of it, and whether it ends.
    """

    arithmetic: str = "none"
    y: Rows | None = None
    y_mode: str = "beats"
    function: str = "none"
    reduction: str = "none"
    parameter: float = 0.0
    causal: int | None = None
    affine: Rows | None = None
    sweep: str = "whole"
    first: bool = True
    last: bool = True

    def named(self) -> dict[str, int]:
        """Fields of the descriptor."""
        own = DESCRIPTORS["vector"]
        fields = {"parameter": int(np.float32(self.parameter).view(np.uint32))}
        for name in ("arithmetic", "y_mode", "function", "reduction", "sweep"):
            names = own.field(name).enumeration
            assert names is not None
            fields[name] = names[getattr(self, name)]
        if self.causal is not None:
            fields |= {"causal": 1, "y": self.causal}
        elif self.y is not None:
            fields |= {"y": self.y.start, "y_stride": self.y.stride}
        if self.affine is not None:
            fields |= {"affine": 1, "y": self.affine.start}
        fields["clear"] = int(self.first and self.sweep == "largest")
        fields["ends"] = int(self.last and self.sweep not in ("whole", "results"))
        return fields


@dataclass
class Emitter:
    """A program in the making.

    Attributes
    ----------
    configuration : MachineConfiguration
    steps : list of Step
    ordering : Ordering
    memory : Memory
    a, w, out, a_scales, w_scales, out_scales, vector : Allocator
        Buffers: of operand beats, of scale entries, of vector beats.
    """

    configuration: MachineConfiguration
    steps: list[Step] = field(default_factory=list)
    ordering: Ordering = field(default_factory=Ordering)

    def __post_init__(self) -> None:
        c = self.configuration
        self._bounds = {
            kind: {field.name: field.bounds(c) for field in descriptor.fields}
            for kind, descriptor in DESCRIPTORS.items()
        }
        self.memory = Memory(c.word_bytes)
        self.allocators = {
            side: Allocator(f"buffer {side}", getattr(c, f"{side}_beats"))
            for side in ("a", "w", "out")
        }
        # LOAD and STORE move whole words, which hold two entries.
        self.scale_allocators = {
            side: Allocator(f"scales of buffer {side}", getattr(c, f"{side}_entries"), multiple=2)
            for side in ("a", "w", "out")
            if c.scaled
        }
        self.vector = Allocator("the vector buffer", c.vector_beats)

    def program(self) -> list[Instruction]:
        """The program: descriptors with their tokens.

        Raises
        ------
        CompileError
            If the machine would wait for ever at one of them.
        """
        make = maker(self.configuration)
        return [
            make(step.kind, {**step.fields, "wait": header.wait, "signal": header.signal})
            for step, header in zip(self.steps, self.headers(), strict=True)
        ]

    def headers(self) -> list[Header]:
        """Queue and tokens of each descriptor.

        Raises
        ------
        CompileError
            If the machine would wait for ever at one of them.
        """
        ordering = self.ordering
        found = list(map(Header, ordering.queues, ordering.waits, ordering.signals))
        if deadlock := deadlock_of(found, self.configuration.queue_depth):
            raise CompileError(f"descriptor {deadlock.descriptor}: {deadlock.reason}")
        return found

    def emit(self, kind: str, fields: Mapping[str, int], accesses: Iterable[Access]) -> None:
        """Add a descriptor.

        Raises
        ------
        CompileError
            If a value does not fit into its field.
        """
        bounds = self._bounds[kind]
        for name, value in fields.items():
            least, most = bounds[name]
            if not least <= value <= most:
                raise CompileError(f"{name} of {kind} must be from {least} to {most}, not {value}")
        self.steps.append(Step(kind, fields))
        self.ordering.add(QUEUES.index(kind), accesses)

    # Memory.

    def layout(self, rows: int, columns: int) -> OperandLayout:
        """Layout of an operand of the machine, in blocks along its rows."""
        return OperandLayout(configuration=self.configuration, rows=rows, columns=columns)

    def operand(self, name: str, layout: OperandLayout) -> Operand:
        """Allocate an operand in memory."""
        made = Operand(name, layout)
        codes = self.memory.alloc(layout.strips * made.code_words)
        return replace(
            made, codes=codes, scales=self.memory.alloc(layout.strips * made.scale_words)
        )

    def vectors(self, name: str, layout: Float32Layout) -> Vectors:
        """Allocate a float32 tensor in memory."""
        return self._in_memory(Vectors(name, layout))

    def _in_memory(self, made: V) -> V:
        words = made.layout.strips * made.strip_words
        return replace(made, address=self.memory.alloc(words))

    # Buffers.

    def place(self, side: Literal["a", "w", "out"], like: Operand, strips: int) -> Placed:
        """Allocate so many strips of an operand in a buffer."""
        entries, beats = 2 * like.buffer_words["scales"], like.layout.beats
        purpose = f"{strips} strips of {like.name}"
        codes = self.allocators[side].alloc(strips * beats, purpose)
        scales = 0
        if side in self.scale_allocators:
            try:
                scales = self.scale_allocators[side].alloc(strips * entries, f"scales of {purpose}")
            except CompileError:
                self.allocators[side].free(codes)
                raise
        return Placed(
            side=side,
            codes=codes,
            stride=beats,
            scales=scales,
            scale_stride=entries,
            strips=strips,
            beats=beats,
            block_beats=like.layout.block_beats,
            entries=like.layout.entries,
            last_rows=self.configuration.rows,
            rows=self.configuration.rows,
        )

    def free(self, placed: Placed) -> None:
        """The strips are no longer needed."""
        self.allocators[placed.side].free(placed.codes)
        if placed.side in self.scale_allocators:
            self.scale_allocators[placed.side].free(placed.scales)

    def rows(self, beats: int, count: int, purpose: str) -> Rows:
        """Allocate rows in the vector buffer, one behind the other."""
        return Rows(self.vector.alloc(beats * count, purpose), beats, count, beats)

    # Descriptors.

    def by_lanes(self, columns: int, strips: range) -> list[tuple[int, range]]:
        """Lanes that count, and strips, counted from the first: whole ones, and the last.

        The last strip stands by itself only if some of its lanes are beyond the columns: in memory
        these are +0.
        """
        lanes, count = self.configuration.vector_lanes, len(strips)
        rest = columns - strips[-1] * lanes
        if rest >= lanes:
            return [(lanes, range(count))]
        whole = [(lanes, range(count - 1))] if count > 1 else []
        return [*whole, (rest, range(count - 1, count))]

    def load(
        self, operand: Operand, strips: range, side: Side, into: Placed | None = None
    ) -> Placed:
        """Strips of memory to a buffer of operands, perhaps to a place that they have there."""
        placed = self.place(side, operand, len(strips)) if into is None else into
        placed = replace(placed, last_rows=operand.last_rows(strips))
        own = operand.from_strip(strips[0])
        self._move_operand("load", placed, own, operand, len(strips))
        return placed

    def load_transposed(
        self, operand: Operand, strips: range, side: Side, into: Placed | None = None
    ) -> Placed:
        """Strips of the transposed matrix: its rows are the columns of what is in memory.

        Parameters
        ----------
        operand : Operand
            In tiles, or without scales, with a multiple of 8 columns.
        strips : range
            Of the columns.
        side : {"a", "w"}
        into : Placed, optional
            A place that they have there.

        Raises
        ------
        CompileError
            If it has no such tiles, or the machine cannot transpose scales.
        """
        c, source = self.configuration, operand.layout
        if not source.turns or source.columns % _TILE or not c.turns_operands:
            needs = ("tiles of 8x8, ", "16") if c.scaled else ("", "8 or 16")
            raise CompileError(
                f"{operand.name} must have {needs[0]}a multiple of 8 columns and strips of "
                f"{needs[1]} rows to be transposed, not blocks of {source.block}, "
                f"{source.columns} columns and strips of {c.rows}"
            )
        target = replace(source, rows=source.columns, columns=source.strips * c.rows)
        turned = Operand(operand.name, target)
        placed = self.place(side, turned, len(strips)) if into is None else into
        beats = -(-source.rows // c.lanes)
        entries = c.entries(beats, placed.block_beats)
        placed = replace(placed, beats=beats, entries=entries, last_rows=turned.last_rows(strips))
        # The tiles of a source strip become beats of 8 rows; as many columns of tiles are a strip,
        # of which the last one may have fewer.
        tiles = c.rows // _TILE
        odd = source.columns % c.rows and strips[-1] + 1 == target.strips
        whole = len(strips) - bool(odd)
        tile = 2 * source.beat_bytes // c.word_bytes  # words of memory of 8 columns
        common = {
            "buffer": _buffer("load", f"{side}_codes"),
            "transpose": 1,
            "packing": PACKING[source.packings["codes"]],
            "count_0": 2 * c.beat_words,
            "count_2": source.strips,
            "stride_1": tile,
            "stride_2": operand.code_words,
            "stride_3": tiles * tile,
            "step_0": c.code_bytes * tiles,
            "step_1": c.code_bytes,
            "step_2": c.rows // c.lanes * c.beat_words,
            "step_3": c.beat_words * placed.stride,
        }
        for first, count, columns in ((0, whole, tiles), (whole, len(strips) - whole, 1)):
            if count:
                address = operand.codes + (strips[0] + first) * tiles * tile * c.word_bytes
                start = c.beat_words * (placed.codes + first * placed.stride)
                fields = {"count_1": columns, "count_3": count, "address": address, "to": start}
                self._emit_transposed(f"{side}_codes", {**common, **fields}, operand, start, count)
        if c.scaled:
            self._load_transposed_scales(operand, strips, placed)
        return placed

    def _load_transposed_scales(self, operand: Operand, strips: range, placed: Placed) -> None:
        # From part to part of a word it is a strip further, from strip to strip a part.
        source, start = operand.layout, placed.scales // 2
        fields = {
            "buffer": _buffer("load", f"{placed.side}_scales"),
            "transpose": 1,
            **self._scales_at("load", source, operand.scales + strips[0] * 2 * source.entry_bytes),
            "count_0": len(strips),
            "count_1": source.strips,
            "count_2": 1,
            "count_3": 1,
            "stride_1": operand.scale_words,
            "to": start,
            "step_0": placed.scale_stride // 2,
            "step_1": 1,
        }
        self._emit_transposed(f"{placed.side}_scales", fields, operand, 2 * start, len(strips))

    def _scales_at(self, kind: str, layout: OperandLayout, address: int) -> dict[str, int]:
        """Fields for scales; only LOAD begins at a part of a word."""
        word, packing = self.configuration.word_bytes, layout.packings["scales"]
        fields = {"packing": PACKING[packing], "address": address // word * word}
        if kind == "load" and packing == "tiles":
            fields["part"] = address % word // (2 * layout.entry_bytes)
        return fields

    def _emit_transposed(
        self, buffer: str, fields: Mapping[str, int], operand: Operand, start: int, strips: int
    ) -> None:
        """A transposed load; what it reads is taken for all of the operand's codes or scales."""
        scales = buffer.endswith("scales")
        address = operand.scales if scales else operand.codes
        words = operand.scale_words if scales else operand.code_words
        c = self.configuration
        of_strip = 2 if scales else c.rows // c.lanes * c.beat_words
        length = operand.layout.strips * of_strip * strips
        memory = words * operand.layout.strips * self.configuration.word_bytes
        self.emit(
            "load",
            fields,
            [
                Access.rows(buffer, start, length, writes=True),
                Access.rows("memory", address, memory, writes=False),
            ],
        )

    def store(self, placed: Placed, operand: Operand, strips: range) -> None:
        """Strips of the buffer of results to memory."""
        self._move_operand("store", placed, operand.from_strip(strips[0]), operand, len(strips))

    def store_part(self, placed: Placed, own: Operand, whole: Operand) -> None:
        """As many strips of the buffer of results to memory as are placed, of some columns.

        Parameters
        ----------
        placed : Placed
        own : Operand
            The columns, from the first of the strips on.
        whole : Operand
            What they are a part of.
        """
        self._move_operand("store", placed, own, whole, placed.strips)

    def _move_operand(
        self, kind: str, placed: Placed, own: Operand, whole: Operand, strips: int
    ) -> None:
        """Codes and scales of so many strips, between memory and a buffer."""
        layout, word = own.layout, self.configuration.word_bytes
        codes = {"packing": PACKING[layout.packings["codes"]], "address": own.codes}
        scales = self._scales_at(kind, layout, own.scales)
        beat = self.configuration.beat_words
        # Two entries are a word: ordering counts words of codes, and entries.
        moves = {
            "codes": (codes, whole.code_words, beat * placed.codes, beat * placed.stride, 1),
            "scales": (scales, whole.scale_words, placed.scales // 2, placed.scale_stride // 2, 2),
        }
        for part in self.configuration.operand_parts:
            at, stride, start, step, units = moves[part]
            buffer, length = f"{placed.side}_{part}", own.buffer_words[part]
            fields = {
                "buffer": _buffer(kind, buffer),
                **at,
                "count_0": length,
                "count_1": strips,
                "count_2": 1,
                "count_3": 1,
                "stride_1": stride,
                "to" if kind == "load" else "from": start,
                "step_0": 1,
                "step_1": step,
            }
            loads, run = kind == "load", run_words(fields, self.configuration) * word
            places = (units * start, units * length, strips, units * step)
            memory = (fields["address"], run, strips, stride * word)
            self.emit(
                kind,
                fields,
                [
                    Access.rows(buffer, *places, writes=loads),
                    Access.rows("memory", *memory, writes=not loads),
                ],
            )

    def multiply(
        self,
        a: Placed,
        w: Placed,
        result: int,
        *,
        stride_a: int,
        stride_w: int,
        clear: bool = True,
        write: bool = True,
        last_rows: int | None = None,
    ) -> None:
        """Products of all strips of a with all of w, into the vector buffer.

        Raises
        ------
        CompileError
            If the array's sums do not hold so many products.
        """
        c = self.configuration
        if a.beats > c.product_beats:
            raise CompileError(
                f"k of a product must be at most {c.product_beats * c.lanes} with arithmetic "
                f"{c.arithmetic}, not {a.beats * c.lanes}"
            )
        rows = a.last_rows if last_rows is None else last_rows
        size = self.configuration.rows
        spans = []
        for j in range(w.strips):
            for i in range(a.strips):
                start = result + i * stride_a + j * stride_w
                spans.append((start, start + (rows if i + 1 == a.strips else size)))
        accesses = [_written(spans)] if write else []
        fields: dict[str, int] = {}
        for name, operand in (("a", a), ("w", w)):
            accesses += self._places(operand, operand.beats, operand.entries, operand.strips)
            fields |= {f"{name}_codes": operand.codes, f"{name}_stride": operand.stride}
            if c.scaled:
                fields |= {
                    f"{name}_scales": operand.scales,
                    f"{name}_scale_stride": operand.scale_stride,
                }
        fields |= {
            "strips_a": a.strips,
            "strips_w": w.strips,
            "beats": a.beats,
            "block": a.block_beats,
            "last_rows": rows,
            "result": result,
            "result_stride_a": stride_a,
            "result_stride_w": stride_w,
            "clear": int(clear),
            "write": int(write),
        }
        self.emit("gemm", fields, accesses)

    def compute(
        self,
        x: Rows,
        work: Pass,
        *,
        d: Rows | None = None,
        out: Placed | None = None,
        lanes: int | None = None,
    ) -> None:
        """A pass of the vector unit over rows.

        Parameters
        ----------
        x : Rows
        work : Pass
        d : Rows, optional
            Where results are written in the vector buffer.
        out : Placed, optional
            Where results are written as codes and scales: a strip for each row, of which only the
            beats of the row are written, from its first beat on.
        lanes : int, optional
            Lanes that count; by default all.
        """
        c = self.configuration
        is_long = work.reduction != "none" and x.beats > c.reduction_beats
        if is_long and work.sweep == "whole":
            for row, arguments in sweeps(x, work, d, out, c):
                self.compute(row, **arguments, lanes=lanes)
            return
        fields = work.named()
        fields |= {
            "x": x.start,
            "x_stride": x.stride,
            "beats": x.beats,
            "rows": x.count,
            "lanes": c.vector_lanes if lanes is None else lanes,
        }
        accesses = [_read(x)]
        if work.y is not None:
            beats = second_beats(Y_MODES[work.y_mode], x.beats, c.vector_lanes)
            y = Rows(work.y.start, beats, x.count, work.y.stride)
            accesses.append(_read(y))
        if work.affine is not None:
            accesses.append(_read(work.affine))
        if d is not None:
            fields |= {"d": d.start, "d_stride": d.stride, "to_vector": 1}
            written = Rows(d.start, result_beats(fields), x.count, d.stride)
            accesses.append(_read(written)._replace(writes=True))
        if out is not None:
            converted, places = self._converted(x, out)
            fields |= converted
            accesses += places
        self.emit("vector", fields, accesses)

    def _converted(self, x: Rows, out: Placed) -> tuple[dict[str, int], list[Access]]:
        c = self.configuration
        own = DESCRIPTORS["vector"]
        convert, target = own.field("convert").enumeration, own.field("target").enumeration
        assert convert is not None
        assert target is not None
        beats = -(-x.beats // c.lanes)
        entries = c.entries(beats, out.block_beats)
        fields = {
            "convert": convert[c.conversion(out.block_beats)],
            "target": target[out.side],
            "out": out.codes,
            "out_stride": out.stride if x.count > 1 else 0,
        }
        if c.scaled:
            fields |= {
                "out_scales": out.scales,
                "out_scale_stride": out.scale_stride if x.count > 1 else 0,
            }
        return fields, self._places(out, beats, entries, x.count, writes=True)

    def _places(
        self, placed: Placed, beats: int, entries: int, strips: int, *, writes: bool = False
    ) -> list[Access]:
        """Words of codes, and entries, of so many beats of some strips."""
        unit = self.configuration.beat_words
        sizes = {
            "codes": (unit * placed.codes, unit * beats, strips, unit * placed.stride),
            "scales": (placed.scales, entries, strips, placed.scale_stride),
        }
        return [
            Access.rows(f"{placed.side}_{part}", *sizes[part], writes=writes)
            for part in self.configuration.operand_parts
        ]


def _buffer(kind: str, name: str) -> int:
    names = DESCRIPTORS[kind].field("buffer").enumeration
    assert names is not None
    return names[name]


def _read(rows: Rows) -> Access:
    return Access.rows("vector", rows.start, rows.beats, rows.count, rows.stride, writes=False)


def _written(spans: list[tuple[int, int]]) -> Access:
    """Of the vector buffer; runs that meet are one."""
    merged: list[tuple[int, int]] = []
    for start, stop in sorted(spans):
        if merged and merged[-1][1] == start:
            merged[-1] = (merged[-1][0], stop)
        else:
            merged.append((start, stop))
    return Access("vector", tuple(merged), True)
