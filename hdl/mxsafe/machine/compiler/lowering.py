"""From a graph to a program: what is computed together, where tensors lie, and the descriptors.

The compiler walks a graph from its outputs to its inputs. Each operation is asked for by those
that take its result, in a `Placement`: which element stands in which lane of which beat. If one
kernel alone asks, the operation becomes a part of it, and its result stays in the vector buffer.
Otherwise it begins a kernel of its own, whose result goes to memory, or as an operand to a buffer.

A kernel is a loop over strips and beats of one placement. Its root is stored in binary32, or
converted to an operand of a product; `residency` says where operands stay and in which order
kernels come. At most one product is part of a kernel; the results of the array are then where the
loop begins. Arithmetic, function, reduction and conversion that follow one another are one pass of
the vector unit. What is emitted is a draft: `schedule` finds its order and its places.

Gathers are carried out by asking for elements in another order. A vector beat moves as a whole, so
a tensor is computed in every placement that others need: products and arithmetic have results with
their last axis along beats or along lanes, whichever is asked for. Norms and softmax have the axis
that they reduce along beats alone. Where that does not suffice, each row has a strip for itself and
uses one of its lanes: beats of one element, which can be put in any order.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mxsafe.codec import quantize
from mxsafe.machine.compiler.emitter import Emitter, Pass, Step
from mxsafe.machine.compiler.kernels import Kernel, Product, Source, Task
from mxsafe.machine.compiler.panels import Panels, Side, columns_of, filled, parts_of_k, strip_of
from mxsafe.machine.compiler.pieces import LongRow, reduce_in_pieces
from mxsafe.machine.compiler.placement import Beats, Key, Placement, load_beats
from mxsafe.machine.compiler.places import CompileError, LayoutError
from mxsafe.machine.compiler.products import store_operand, store_sums
from mxsafe.machine.compiler.residency import Rooms, ordered, settle
from mxsafe.machine.compiler.schedule import Draft, scheduled
from mxsafe.machine.compiler.sweeps import longest_row, whole_row
from mxsafe.machine.compiler.tensors import Operand, Placed, Rows, Vectors
from mxsafe.machine.compiler.timing import Engines, Times
from mxsafe.machine.compiler.units import cut, groups
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.graph import Graph, Value
from mxsafe.machine.layout import Float32Layout, OperandLayout
from mxsafe.model.softmax import softmax_factor

__all__ = ["Kernel", "Lowered", "Table", "lowered"]

Block = int | tuple[int, int]
Indices = NDArray[np.int32]
_REDUCTIONS = ("softmax", "layer_norm", "rms_norm")
_MOST_BEATS = 2032
"""Beats of a row that a kernel works on at a time: a multiple of all grains."""
_SHARES = ((1, 1), (1 / 2, 1), (0, 1), (0, 1 / 2), (0, 1 / 4))
"""Of operands' buffers what may stay there, and of the vector buffer what results may take, until
places of all parts are found."""
_SHARES_OF_STEPS = ((1 / 2, 1 / 3), (0, 1 / 2), (0, 1 / 4))
"""The same if something stays in memory: there is work for vectors beside most products."""
_MOST_STRIPS = 8
_ZEROS = 256
_NOTHING = Placement(np.zeros((1, 1, _ZEROS), np.int32))
"""Beats of zeros in memory, loaded where there is nothing."""
_GROUP = 4
"""Strips of a product that vectors are computed of together, while the next ones are multiplied."""
_FEW = 3
"""Strips for which an operand is loaded as fast as they are multiplied with it."""
_RESULTS = 64
"""Beats of results that are worth a descriptor."""
_NORMS = 2
"""Strips that are normalised together."""
_PAIR = 16
"""Columns of two tiles: LOAD begins at such a pair."""
_AHEAD = 3500
"""Cycles of vectors, at most, for which products of other kernels are emitted beside a kernel."""


class Table(NamedTuple):
    """Numbers that the host writes into memory: those of a value, in a placement."""

    value: Value
    placement: Placement
    matrices: list[int]
    vectors: list[Vectors]
    """Where the named matrices of the placement lie."""


class _Run(NamedTuple):
    """Columns of a matrix that are some of a matrix of a kernel's result.

    Attributes
    ----------
    first : int
        Of the columns.
    maker : Kernel
    matrix : int
    columns : range
        Of that.
    """

    first: int
    maker: Kernel
    matrix: int
    columns: range


class _Binary(NamedTuple):
    """Arithmetic of two values: the first one in full, the second one perhaps broadcast."""

    x: tuple[Value, Placement]
    y: tuple[Value, Placement]
    mode: str


@dataclass
class _Demand:
    """A kernel asks for a value in a placement, or the host for its elements."""

    kernel: Kernel | None
    placement: Placement
    joins: bool
    count: int = 0
    exact: bool = False
    """Whether elements must stand so: what stays in memory is read so in the next run."""


class Codes(NamedTuple):
    """An operand that stays in memory beside the input that it is made of."""

    value: Value
    placement: Placement
    operands: list[Operand]


@dataclass
class _State:
    """An input that stays in memory, the output that it becomes, and how it is read there.

    Operands that are made of it alone stay too, converted where it is updated, but those in some
    placements that cannot be had there.
    """

    old: Value
    new: Value
    placements: list[Placement] = field(default_factory=list)
    converted_again: set[Key] = field(default_factory=set)


@dataclass
class _Lazy:
    """A result with the operations of a pass that are still to be done."""

    rows: Rows
    work: Pass
    owned: bool


@dataclass
class Lowered:
    """A program, and what the host needs to know about it.

    Attributes
    ----------
    emitter : Emitter
    kernels : list of Kernel
        In the order of the program.
    tables : list of Table
        Numbers that the host writes.
    image : list of tuple
        Address and bytes of operands that are constants.
    stored : dict of int to list
        By the value, placements that are in memory, and where.
    kept : list of str
        Inputs that stay in memory.
    codes : list of Codes
        Operands that stay beside them.
    """

    emitter: Emitter
    kernels: list[Kernel]
    tables: list[Table]
    image: list[tuple[int, NDArray[np.uint8]]]
    stored: dict[int, list[Kernel]]
    kept: list[str]
    codes: list[Codes]


def lowered(
    graph: Graph,
    configuration: MachineConfiguration,
    block: Block = 64,
    kept: Mapping[str, str] | None = None,
) -> Lowered:
    """Compile a graph.

    Parameters
    ----------
    graph : Graph
    configuration : MachineConfiguration
    block : int or tuple of int
    kept : Mapping of str to str, optional
        Inputs, and the outputs that take their places in memory.

    Raises
    ------
    CompileError
        If the machine lacks what it needs; the message has every reason.
    """
    shares = _SHARES_OF_STEPS if kept else _SHARES
    for operands, results, tight in [*((*one, False) for one in shares), (*shares[-1], True)]:
        made = _planned(graph, configuration, block, kept or {}, tight=tight)
        try:
            return made.emit(operands, results)
        except CompileError as error:
            failure = error
    raise failure


def _planned(
    graph: Graph,
    configuration: MachineConfiguration,
    block: Block,
    kept: Mapping[str, str],
    *,
    tight: bool,
) -> "_Lowering":
    """Kernels of a graph."""
    try:
        return _kept(graph, configuration, block, configuration.vector_lanes, kept, tight=tight)
    except CompileError:  # with lanes that are not used, more can be had
        return _kept(graph, configuration, block, graph.largest, kept, tight=tight)


def _kept(
    graph: Graph,
    configuration: MachineConfiguration,
    block: Block,
    apart: int,
    kept: Mapping[str, str],
    *,
    tight: bool,
) -> "_Lowering":
    """Kernels of a graph, whose outputs stand where the inputs that they become are read.

    An output is computed once more for each placement in which its input is read. Where it cannot
    be had so, it does not stay in memory.
    """
    inputs = {value.name: value for value in graph.values if value.op == "input"}
    states = [_State(inputs[name], graph.outputs[new]) for name, new in kept.items()]
    joined = {id(one) for value in graph.values for one in _joined(value)}
    states = [one for one in states if id(one.old) not in joined]
    for one in states:  # vectors are read along lanes
        natural = _natural(one.old)
        one.placements += [natural.turned()] if natural.matrices * natural.lanes == 1 else []
    while True:
        made = _Lowering(graph, configuration, block, apart, states, tight=tight)
        made.plan()
        if made.again:
            continue
        if not made.missing:
            return made
        for state, placement in made.missing:
            found = made.serving(state.new, placement)
            if found is not None:
                state.placements.append(found)
            elif state in states:
                states.remove(state)


def _joined(value: Value) -> Iterator[Value]:
    """Inputs that the host writes as one tensor with others."""
    if value.op == "gather" and value.of_host and len(value.inputs) > 1:
        waiting = [*value.inputs]
        while waiting:
            one = waiting.pop()
            waiting += one.inputs
            yield one


class _Lowering:
    """The compiler's state.

    Parameters
    ----------
    graph : Graph
    configuration : MachineConfiguration
    block : int or tuple of int
    apart : int
        Rows of a tensor, at most, that may have a strip each, of which they use one lane.
    states : sequence of _State
    tight : bool
        Whether no more rows are in the vector buffer as a whole than there must be.

    Attributes
    ----------
    missing : list of tuple
        Of the states, and placements in which they are read and not written.
    again : bool
        Whether states were read as operands that are not made where they are updated.
    """

    def __init__(
        self,
        graph: Graph,
        configuration: MachineConfiguration,
        block: Block,
        apart: int,
        states: Sequence[_State],
        *,
        tight: bool,
    ) -> None:
        self._graph, self._block, self._apart, self._tight = graph, block, apart, tight
        self._states = {id(state.old): state for state in states}
        self._reads: list[tuple[Kernel, _State, Placement]] = []
        self.missing: list[tuple[_State, Placement]] = []
        self.again = False
        self._kept_operands: dict[int, tuple[_State, Kernel, list[Kernel]]] = {}
        self._codes: list[Codes] = []
        self._beside: dict[int, Kernel] = {}
        self._asking: dict[int, list[Kernel | None]] = {}
        self._c = configuration
        self._whole_row = configuration.vector_beats // 8 if tight else whole_row(configuration)
        self._e = Draft(configuration)
        self._lanes = configuration.vector_lanes
        self._kernels: list[Kernel] = []
        self._operand_kernels: dict[Any, Kernel] = {}
        self._constants: dict[Any, Operand] = {}
        self._demands: dict[int, dict[Any, _Demand]] = {}
        self._stored: dict[int, list[Kernel]] = {}
        self._beats: dict[int, Beats] = {}
        self._tables: dict[tuple[int, Key], tuple[Table, list[Vectors]]] = {}
        self._resolved: dict[tuple[int, Key], list[tuple[Value, Placement]]] = {}
        self._possible: dict[tuple[int, Key], bool] = {}
        self._binary: dict[tuple[int, Key], _Binary] = {}
        self._image: list[tuple[int, NDArray[np.uint8]]] = []
        self._affine: dict[int, tuple[Value, Placement]] = {}
        self._numbers: dict[Any, Rows] = {}
        self._errors: list[str] = []
        self._apart_from: list[Value] = []
        self._held: dict[str, tuple[Task, int, Placed]] = {}
        self._following: dict[tuple[int, int], Task] = {}
        self._rooms: Rooms = {}
        self._share = 1.0
        self._uses = Counter(id(one) for value in graph.values for one in value.inputs)
        self._nothing = Value("constant", (1,), name="nothing", data=np.zeros(1, np.float32))
        least = np.full(1, -np.inf, np.float32)
        self._below_all = Value("constant", (1,), name="below all", data=least)

    def plan(self) -> None:
        """Plan from the outputs back."""
        self._require()
        for value in self._graph.outputs.values():
            for source, placement in self._resolve(value, _natural(value)):
                if not source.of_host:
                    asked = self._demands.setdefault(id(source), {})
                    asked[None, placement.key] = _Demand(None, placement, joins=False)
        for state in self._states.values():
            asked = self._demands[id(state.new)]
            for placement in state.placements:
                if self.can(state.new, placement):
                    wanted = _Demand(None, placement, joins=False, exact=True)
                    asked[None, placement.key] = wanted
        computed = [one for one in self._graph.values if not one.of_host and one.op != "gather"]
        for value in computed:  # from the inputs on: so `can` finds what it is made of
            self.can(value, _natural(value))
        for value in reversed(computed):
            self._plan(value)
        self._fail()
        self._kernels.reverse()
        self._convert_once()
        self._convert_states()
        self._read_states()

    def _convert_states(self) -> None:
        """Let what updates a state make the operands that stay beside it."""
        for state, operand, readers in self._kept_operands.values():
            makers = (one for one in self._stored[id(state.new)] if one not in readers)
            if not any(self._convert_state(state, operand, maker) for maker in makers):
                state.converted_again.add(operand.placement.key)
                self.again = True
            self._reads += [(reader, state, operand.placement) for reader in readers]

    def _convert_state(self, state: _State, operand: Kernel, maker: Kernel) -> bool:
        """Let a kernel make an operand that stays in memory; whether it can."""
        views = _matrices(operand.placement, maker.placement)
        made = self._beside.get(id(maker))
        if views is None or maker.converted is not made or not self._has_room(maker):
            return False
        if made is None:
            made = self._beside[id(maker)] = maker.converted = Kernel(
                state.new, "operand", maker.placement
            )
            self._fix(made)
            self._codes.append(Codes(state.old, made.placement, made.targets))
            for one in made.targets:
                size = self._c.word_bytes * one.layout.strips
                self._e.keep(one.codes, size * one.code_words)
                self._e.keep(one.scales, size * one.scale_words)
        operand.targets[:] = [_columns(made.targets[matrix], own) for matrix, own in views]
        return True

    def _has_room(self, kernel: Kernel) -> bool:
        """Whether its result can be converted as it is made."""
        layout = self._layout(kernel.placement)
        grain = max(layout.word_entries * layout.length, self._lanes)
        beats = kernel.longest if kernel.whole else min(kernel.longest, grain)
        return (kernel.cost + 1) * beats <= self._c.vector_beats

    def _fix(self, kernel: Kernel) -> None:
        """Let the result of a kernel be operands in memory."""
        layout, name = self._layout(kernel.placement), f"{kernel.root.name} as operand"
        matrices = range(kernel.placement.matrices)
        kernel.kind, kernel.fixed, kernel.needed = "operand", True, {*matrices}
        kernel.targets = [self._e.operand(name, layout) for _ in matrices]

    def _layout(self, p: Placement) -> OperandLayout:
        """Of an operand of a matrix of a placement."""
        # Whole tiles are transposed: what fills the last ones stays 0.
        columns = filled(p.beats, self._block) if self._turns else p.beats
        return OperandLayout(
            configuration=self._c, rows=p.lanes, columns=columns, block=self._block
        )

    def _convert_once(self) -> None:
        """Convert what is asked for as operands alone where it is made.

        Operands that are columns of such results are not made again.
        """
        found: dict[int, tuple[Kernel, list[list[_Run]]]] = {}
        for kernel in self._kernels if self._turns else ():
            if kernel.kind == "operand" and not kernel.placed:
                runs = self._runs_of(kernel)
                if runs is not None:
                    found[id(kernel)] = kernel, runs
        while rest := [key for key, (_, runs) in found.items() if not self._serve(runs, found)]:
            for key in rest:
                del found[key]
        for kernel, runs in found.values():
            self._kernels.remove(kernel)
            for at, own in enumerate(runs):
                for maker in {id(run.maker): run.maker for run in own}.values():
                    if maker.kind == "tensor":
                        self._fix(maker)
                        del self._stored[id(maker.root)]
                parts = tuple(_columns(one.maker.targets[one.matrix], one.columns) for one in own)
                kernel.within.append([(run.maker, run.matrix) for run in own])
                whole = replace(kernel.targets[at], parts=parts)
                kernel.targets[at] = whole if len(parts) > 1 else parts[0]

    def _serve(self, runs: list[list[_Run]], found: Mapping[int, Any]) -> bool:
        """Whether nothing but some operands is made of the results that one consists of."""
        makers = (run.maker for own in runs for run in own)
        return all(id(one) in found for maker in makers for one in self._asking[id(maker.root)])

    def _runs_of(self, kernel: Kernel) -> list[list[_Run]] | None:
        """Of each matrix of an operand columns of other kernels' results; None if it has others."""
        found: list[list[_Run]] = [[] for _ in range(kernel.placement.matrices)]
        for source, own in self._resolve(kernel.root, kernel.placement):
            stored = self._stored.get(id(source), [])
            if len(stored) != 1 or stored[0].converted or not self._has_room(stored[0]):
                return None
            for matrix, runs in enumerate(found):
                more = _runs(own.index[matrix], stored[0].placement)
                if more is None:
                    return None
                runs += [_Run(first, stored[0], at, columns) for first, at, columns in more]
        for runs in found:
            runs.sort(key=lambda run: run.first)
            if sum(len(run.columns) for run in runs) != kernel.placement.beats:
                return None
        return found

    def _read_states(self) -> None:
        """Let what overwrites a state come after all that read it."""
        makers = {id(one.operand): one for one in self._kernels if one.operand is not None}
        for kernel, state, placement in self._reads:
            stored = self._stored[id(state.new)]
            if not any(self._covers(state.new, one.placement, [placement]) for one in stored):
                self.missing.append((state, placement))
            reader = makers.get(id(kernel), kernel)
            for one in stored:
                if reader is not one:
                    one.after.append(reader)

    def emit(self, share: float, results: float) -> Lowered:
        """Emit all kernels, and find the order of their descriptors.

        Operands may stay in such a share of their buffers, results take such a one of theirs.
        """
        self._share = results
        tasks = ordered(self._kernels, self._stored)
        tables = [self._in_place(state, tasks) for state in self._states.values()]
        self._rooms = settle(tasks, self._c, self._sides, share)
        self._following = {(id(one), at): nxt for (one, at), nxt in pairwise(tasks)}
        self._emit_all(tasks)
        tables += [[table for table, _ in self._tables.values()]]
        made = scheduled(self._e, in_order=self._tight)
        where = dict(zip(made.order, range(len(made.order)), strict=True))
        for kernel in self._kernels:
            kernel.steps = sorted(where[number] for number in kernel.steps)
        kept = [state.old.name for state in self._states.values()]
        written = [*chain(*tables)]
        return Lowered(
            made.emitter, self._kernels, written, self._image, self._stored, kept, self._codes
        )

    def _in_place(self, state: _State, tasks: Sequence[Task]) -> list[Table]:
        """Places in memory of what stays there."""
        found = []
        kernels = self._stored[id(state.new)]
        for kernel in kernels:
            first = next(at for at, task in enumerate(tasks) if task[0] is kernel)
            late = {id(one) for one, _ in tasks[first:]}
            if any(id(one) in late and one not in kernels for one in kernel.after):
                raise CompileError(f"{state.old.name} must be read before it is overwritten")
            self._allocate(kernel)
            for vectors in kernel.targets:
                self._e.keep(vectors.address, vectors.layout.strips * vectors.layout.strip_bytes)
            matrices = [*range(kernel.placement.matrices)]
            found.append(Table(state.old, kernel.placement, matrices, kernel.targets))
        return found

    def _allocate(self, kernel: Kernel) -> None:
        """Memory for the result of a kernel."""
        p = kernel.placement
        layout = Float32Layout(configuration=self._c, rows=p.beats, columns=p.lanes)
        kernel.targets = [self._e.vectors(kernel.root.name, layout) for _ in range(p.matrices)]

    def _fail(self) -> None:
        message = "\n".join(self._errors)
        if self._errors and self._apart_from:
            raise LayoutError(message, self._apart_from)
        if self._errors:
            raise CompileError(message)

    def _require(self) -> None:
        """Refuse what the machine does not have."""
        c = self._c
        if c.formats.a != c.formats.w:
            raise CompileError(
                f"machine must have one format for both operands, not {c.formats.a.name} and "
                f"{c.formats.w.name}"
            )
        kind = "tiles" if isinstance(self._block, tuple) else "blocks"
        if kind not in c.conversions:
            raise CompileError(
                f"block must be of the machine's conversions {c.conversions}, not {self._block}"
            )
        for value in self._graph.values:
            if value.op == "function" and value.detail not in c.functions:
                self._refuse(value, f"functions of the machine must have it, not {c.functions}")
            if value.op in _REDUCTIONS or value.detail == "window":
                length = value.inputs[0].shape[-1]
                if value.op not in c.reductions:
                    self._refuse(
                        value, f"reductions of the machine must have it, not {c.reductions}"
                    )
                elif length > (most := longest_row(c))[0]:
                    self._refuse(
                        value,
                        f"a row that is reduced must have at most {most[0]} values, {most[1]}, "
                        f"not {length}",
                    )
        self._fail()

    def _refuse(self, value: Value, reason: str) -> None:
        detail = f" {value.detail}" if value.detail else ""
        self._errors.append(f"{value.name} ({value.op}{detail}, {value.shape}): {reason}")

    # Planning.

    def _plan(self, value: Value) -> None:
        """Put a value into the kernel that asks for it, or make kernels of its own."""
        demands = list(self._demands.pop(id(value), {}).values())
        if not demands:
            return
        if len(demands) == 1 and self._joins(demands[0], value):
            return
        self._asking[id(value)] = [demand.kernel for demand in demands]
        chosen: list[Placement] = []
        for candidate in self._usual(value):
            if all(self._serves(value, candidate, d) for d in demands) and self.can(
                value, candidate
            ):
                chosen = [candidate]
                break
        else:
            for demand in demands:
                if any(self._serves(value, there, demand) for there in chosen):
                    continue
                options = chain(self._usual(value), [demand.placement])
                serving = (one for one in options if self._serves(value, one, demand))
                found = next((one for one in serving if self.can(value, one)), None)
                if found is None:
                    self._refuse(value, self._why())
                    self._apart_from += self._between(value)
                    return
                chosen.append(found)
        for placement in chosen:
            kernel = Kernel(value, "tensor", placement, longest=placement.beats)
            kernel.in_pieces = self._is_long(value)
            if value.op == "sum" and not kernel.in_pieces:
                kernel.summed = value.inputs[0].shape[-1]
                kernel.longest = max(kernel.longest, kernel.summed if self._tight else 0)
            self._kernels.append(kernel)
            self._stored.setdefault(id(value), []).append(kernel)
            asking = (d.kernel for d in demands if d.placement.key == placement.key)
            if not kernel.in_pieces:
                self._convert(kernel, [one for one in asking if one is not None])
            self._place(kernel, value, placement, 1)

    def _is_long(self, value: Value) -> bool:
        """Whether it reduces rows that come into the vector buffer in pieces."""
        if value.op not in _REDUCTIONS and value.detail != "window":
            return False
        return self._c.sweeps and value.inputs[0].shape[-1] > self._whole_row

    def _convert(self, kernel: Kernel, asking: list[Kernel]) -> None:
        """Let a kernel make an operand that is made of nothing but its result."""
        for other in asking:
            if other.kind != "operand" or other.product is not None:
                continue
            own = id(kernel.root), kernel.placement.key
            keys = {(id(value), p.key) for value, p in other.asked} - other.placed.keys()
            same = other.placement.index.shape == kernel.placement.index.shape
            whole = other.whole
            if keys != {own} or not same:
                continue
            if whole and self._loads_again(kernel.root, kernel.placement):
                continue  # the product is made first, with all of its strips
            if other.placed and not self._fits(kernel, other.cost, other.longest, whole=whole):
                continue
            kernel.converted = other
            kernel.names = [*other.names, *kernel.names]
            kernel.whole, kernel.longest = whole, max(kernel.longest, other.longest)
            kernel.cost += other.cost if other.placed else 0
            self._kernels.remove(other)
            return

    def _serves(self, value: Value, there: Placement, demand: _Demand) -> bool:
        """Whether what is asked for can be had from a placement in memory."""
        if demand.kernel is None and not demand.exact:  # the host reads elements wherever they are
            index = demand.placement.index
            return bool(np.isin(index[index >= 0], there.index).all())
        return self._covers(value, there, [demand.placement])

    def _between(self, value: Value) -> list[Value]:
        """What the host could have in between: a value, or what one is made of that never can be.

        With its operands written by the host every operation has a placement.
        """
        if any(self.can(value, one) for one in self._usual(value)):
            return [value]
        found: list[Value] = []
        waiting = [*value.inputs]
        while waiting:
            one = waiting.pop()
            if one.op == "gather":
                waiting += one.inputs
            elif not one.of_host:
                found.append(one)
        return found

    def _why(self) -> str:
        """Why no placement of a value will do."""
        if isinstance(self._block, tuple):
            return (
                "rows of operands must stay in their tiles, and results along the axis that was "
                "reduced: batches must be of 1, or of a multiple of 8 tokens, or block must be 64"
            )
        return (
            "its result must be used along the axis that was reduced, because float32 tensors are "
            "not transposed; with block=(8, 8) operands are"
        )

    def _joins(self, demand: _Demand, value: Value) -> bool:
        """Make a value part of the one kernel that asks for it, if it can be."""
        kernel, p = demand.kernel, demand.placement
        if kernel is None or not demand.joins or self._is_long(value) or not self.can(value, p):
            return False
        full = p.beats == kernel.placement.beats and p.lanes == kernel.placement.lanes
        if value.op == "product" and (kernel.product is not None or not full):
            return False
        whole = value.op in _REDUCTIONS or value.op == "sum"
        if value.op in _REDUCTIONS and not full:
            return False
        if kernel.whole and full and self._loads_again(value, p):
            return False
        shared = demand.count > 1
        shared &= _is_long(kernel, p)
        extra = int(shared) + int(value.op == "arithmetic" and len(value.inputs) == 2)
        longest = kernel.longest
        if value.op == "sum":
            longest = max(longest, value.inputs[0].shape[-1])
            extra += 1
        if not self._fits(kernel, extra, longest, whole=whole or kernel.whole):
            return False
        kernel.longest = longest
        kernel.cost += int(shared)
        self._place(kernel, value, p, demand.count)
        return True

    def _loads_again(self, value: Value, p: Placement) -> bool:
        """Whether a product in this kernel would load more than its result in memory costs.

        Whole rows leave room for few strips at a time, and the operand along beats, if it does not
        fit into its buffer, is loaded for each few.
        """
        if value.op in ("arithmetic", "function"):
            alone = (one for one in value.inputs if self._uses[id(one)] == 1)
            return any(self._loads_again(one, p) for one in alone)
        if value.op == "gather" and len(value.inputs) == 1:
            return self._loads_again(value.inputs[0], p)
        if value.op != "product":
            return False
        c, strips = self._c, -(-p.lanes // self._lanes)
        beats = -(-p.beats // c.rows) * -(-value.inputs[0].shape[-1] // c.lanes)
        together = max(1, min(_MOST_STRIPS, 2 * c.vector_beats // (5 * p.beats)))
        return beats > c.a_beats and together < min(strips, _FEW)

    def _fits(self, kernel: Kernel, extra: int, longest: int, *, whole: bool) -> bool:
        """Whether a kernel's results fit into the vector buffer, with some more."""
        beats = longest if whole else min(longest, self._grain(kernel))
        return (kernel.cost + extra + 1) * beats <= self._c.vector_beats

    def _grain(self, kernel: Kernel) -> int:
        """What the number of beats that are worked on together is a multiple of."""
        if kernel.operands is None:
            return self._lanes
        layout = kernel.operands[0].layout  # a word of scales is the least that is stored
        return max(layout.word_entries * layout.length, self._lanes)

    def _own(self, value: Value, p: Placement) -> bool:
        """Whether an operation itself can have its result so."""
        if value.op == "product":
            return _factored(value, p) is not None
        if value.op in _REDUCTIONS:
            rows = p.rows(value.shape[-1])
            if rows is None:
                return False
            if value.detail == "causal":
                own = np.arange(p.lanes)
                return bool(((rows < 0) | (rows % value.shape[-2] == own)).all())
            return True
        return value.op != "sum" or p.beats == 1

    def can(self, value: Value, p: Placement) -> bool:
        """Whether a value can be had so, with all that it is made of."""
        key = id(value), p.key
        if key not in self._possible:
            self._possible[key] = self._make(value, p)
        return self._possible[key]

    def _make(self, value: Value, p: Placement) -> bool:
        if value.of_host:
            return True
        if value.op == "gather":
            parts = self._resolve(value, p)
            return self._apart_in_beats(parts) and all(self._had(*part) for part in parts)
        if not self._own(value, p):
            return False
        if value.op == "product":
            return all(
                self._tiles_stay(wanted)
                and (source.op == "constant" or self._operand_placement(source, wanted))
                for source, wanted, _ in self._operands(value, p)
            )
        if value.op == "arithmetic" and len(value.inputs) == 2:
            made = self._broadcast(value, p)
            return self._had(*made.x) and self._had(*made.y)
        inner = _summed(value, p) if value.op == "sum" else p
        return all(self._had(one, inner) for one in value.inputs)

    def serving(self, value: Value, p: Placement) -> Placement | None:
        """A placement that a value can have, from which it can be taken as it is wanted."""
        options = chain(self._usual(value), [p])
        found = (one for one in options if self._covers(value, one, [p]))
        return next((one for one in found if self.can(value, one)), None)

    def _apart_in_beats(self, parts: Sequence[tuple[Value, Placement]]) -> bool:
        """Whether no beat has elements of two values: a beat is loaded as a whole."""
        if len(parts) == 1:
            return True
        first = parts[0][1]
        owners = np.zeros((first.matrices, -(-first.lanes // self._lanes), first.beats), np.int32)
        for _, p in parts:
            filled = p.index >= 0
            for strip in _strips(p, self._lanes):
                own = filled[:, strip * self._lanes : (strip + 1) * self._lanes]
                owners[:, strip] += own.any(axis=1)
        return bool((owners <= 1).all())

    def _had(self, value: Value, p: Placement) -> bool:
        """The same, or that it can be taken from one that can."""
        if self.can(value, p):
            return True
        if value.op == "gather":
            return False
        return any(
            self._covers(value, one, [p]) and self.can(value, one) for one in self._usual(value)
        )

    def _usual(self, value: Value) -> Iterator[Placement]:
        """Placements that a value may have for all: rows along lanes, along beats, or apart."""
        natural = _natural(value)
        yield natural
        yield natural.turned()
        if not 1 < natural.matrices * natural.lanes <= self._apart:
            return
        rows = natural.index.reshape(-1, 1, natural.beats)
        for before in range(self._lanes):  # the lane of the row that it is made of
            empty = np.full((len(rows), before, natural.beats), -1, np.int32)
            yield Placement(np.concatenate([empty, rows], axis=1))

    def _covers(self, value: Value, there: Placement, wanted: Sequence[Placement]) -> bool:
        """Whether all that is wanted consists of beats of what is there."""
        others = [one for one in wanted if one.key != there.key]
        if not others:
            return True
        beats = Beats(there, value.size, self._lanes)
        return all(
            beats.find(one.part(matrix, _strips(one, self._lanes), range(one.beats), self._lanes))
            is not None
            for one in others
            for matrix in range(one.matrices)
        )

    def _place(self, kernel: Kernel, value: Value, p: Placement, count: int) -> None:
        """Make a value part of a kernel and ask for what it is made of."""
        kernel.placed[id(value), p.key] = count
        kernel.names.append(value.name)
        if kernel.in_pieces:
            inner = _summed(value, p) if value.op == "sum" else p
            self._ask(kernel, value.inputs[0], inner, joins=False)
        elif value.op in _REDUCTIONS:
            kernel.whole = True
            self._ask(kernel, value.inputs[0], p)
        elif value.op == "sum":
            kernel.whole = True
            self._ask(kernel, value.inputs[0], _summed(value, p))
        elif value.op == "product":
            self._place_product(kernel, value, p)
        elif len(value.inputs) == 1:
            self._ask(kernel, value.inputs[0], p)
        else:
            self._place_binary(kernel, value, p)

    def _broadcast(self, value: Value, p: Placement) -> _Binary:
        """Both operands, and how the second one is broadcast."""
        x, y = ((one, p) for one in value.inputs)
        sides = [(one, self._mode(*one)) for one in (x, y)]
        sides.sort(key=lambda side: side[1] != "beats")  # the first one is there in full
        if value.detail == "add" and all(mode == "beats" for _, mode in sides):
            # What is scaled comes first: it is scaled and added in one pass.
            sides.sort(key=lambda side: side[0][0].detail != "scale")
        (first, _), (second, mode) = sides
        value_y, p_y = second
        if mode == "constant":
            p_y = Placement(p.index[:, :, :1])
        elif mode == "numbers":
            p_y = Placement(p.index[:, 0, :, None])
        return _Binary(first, (value_y, p_y), mode)

    def _place_binary(self, kernel: Kernel, value: Value, p: Placement) -> None:
        made = self._binary[id(value), p.key] = self._broadcast(value, p)
        if made.mode == "beats" or not made.y[0].of_host:
            kernel.cost += _is_long(kernel, made.y[1])
        self._ask(kernel, *made.x)
        self._ask(kernel, *made.y, joins=made.mode != "numbers")

    def _mode(self, value: Value, p: Placement) -> str:
        """How it can be broadcast as a second operand."""
        parts = self._resolve(value, p)
        if len(parts) > 1 and not value.of_host:
            return "beats"
        index = parts[0][1].index
        if p.beats > 1 and (index == index[:, :, :1]).all():
            return "constant"
        if p.lanes > 1 and (index == index[:, :1]).all():
            return "numbers"
        return "beats"

    def _operands(
        self, value: Value, p: Placement
    ) -> list[tuple[Value, list[tuple[int, Indices]], list[int]]]:
        """Sources of lanes and of beats of a product: rows of matrices, each once, and which."""
        factors = _factored(value, p)
        assert factors is not None
        a, b = value.inputs
        found = []
        for lanes in (True, False):
            rows = [(f.matrix, f.lanes if lanes else f.beats) for f in factors]
            source = a if factors[0].straight == lanes else b
            keys = [_taken(source, *one) for one in rows]
            unique = list(dict.fromkeys(keys))
            wanted = [rows[keys.index(key)] for key in unique]
            found.append((source, wanted, [unique.index(key) for key in keys]))
        return found

    def _operand_placement(
        self, value: Value, wanted: list[tuple[int, Indices]]
    ) -> tuple[Placement, bool] | None:
        """How rows of a value can be had as an operand, and whether transposed; None if not."""
        p = self._rows_wanted(value, wanted)
        options = [(p, False)]
        if self._turns:
            # What a tensor has along its last axis stands along beats: so it is there once.
            options.insert(self._along_beats(value, p), (p.turned(), True))
        return next(((one, turned) for one, turned in options if self._had(value, one)), None)

    def _along_beats(self, value: Value, p: Placement) -> bool:
        """Whether beats have what is along the last axis of a tensor."""
        if p.beats < 2:
            return True
        along = 0
        for _, own in self._resolve(value, p):
            filled = (own.index[:, :, :-1] >= 0) & (own.index[:, :, 1:] >= 0)
            ones = (np.diff(own.index) == 1) & filled
            along += ones.sum() - (filled & ~ones).sum()
        return bool(along > 0)

    def _place_product(self, kernel: Kernel, value: Value, p: Placement) -> None:
        sides = [self._source(kernel, *one) for one in self._operands(value, p)]
        kernel.product = Product(value, p.key, *sides)

    def _source(
        self,
        reader: Kernel,
        value: Value,
        wanted: list[tuple[int, Indices]],
        which: list[int],
    ) -> Source:
        """Operands of some rows of some matrices of a value."""
        if value.op == "constant":
            return Source([self._constant(value, *one) for one in wanted], which)
        own = self._rows_wanted(value, wanted)
        for turned in (False, True) if self._turns else (False,):
            known = self._operand_kernels.get(self._origin(value, own.turned() if turned else own))
            if known is not None and id(known) in self._kept_operands:
                self._kept_operands[id(known)][2].append(reader)
                return Source(known.targets, which, turned)
            if known is not None:
                self._kernels.remove(known)
                self._kernels.append(known)
                return Source(known, which, turned)
        found = self._operand_placement(value, wanted)
        assert found is not None
        p, turned = found
        kernel = Kernel(value, "operand", p, longest=p.beats)
        kernel.targets = [Operand(f"{value.name} as operand", self._layout(p)) for _ in wanted]
        self._operand_kernels[self._origin(value, p)] = kernel
        (source, own), *others = self._resolve(value, p)
        state = self._states.get(id(source))
        if state is not None and not others and own.key not in state.converted_again:
            kernel.placement = own
            self._kept_operands[id(kernel)] = state, kernel, [reader]
            return Source(kernel.targets, which, turned)
        self._kernels.append(kernel)
        self._ask(kernel, value, p)
        return Source(kernel, which, turned)

    @property
    def _turns(self) -> bool:
        """Whether operands can be transposed as they are loaded."""
        return isinstance(self._block, tuple) and self._c.rows == 16

    def _rows_wanted(self, value: Value, wanted: list[tuple[int, Indices]]) -> Placement:
        """Rows of matrices along lanes."""
        count, length = value.shape[1:]
        along = np.arange(length, dtype=np.int32)
        index = [
            np.where(rows[:, None] >= 0, (matrix * count + rows)[:, None] * length + along, -1)
            for matrix, rows in wanted
        ]
        return Placement(np.stack(index).astype(np.int32))

    def _tiles_stay(self, wanted: list[tuple[int, Indices]]) -> bool:
        """Whether rows are in the tiles in which the graph has them."""
        if not isinstance(self._block, tuple):
            return True
        for _, rows in wanted:
            place = np.arange(len(rows)) % 8
            inside = np.diff(rows)[place[1:] != 0]
            if (rows < 0).any() or (rows % 8 != place).any() or (inside != 1).any():
                return False
        return True

    def _constant(self, value: Value, matrix: int, rows: Indices) -> Operand:
        """An operand that the host converts."""
        key = id(value), matrix, rows.tobytes()
        if key not in self._constants:
            assert value.data is not None
            data = value.data[matrix][np.maximum(rows, 0)]
            data[rows < 0] = 0
            layout = OperandLayout(
                configuration=self._c, rows=len(rows), columns=value.shape[2], block=self._block
            )
            made = self._e.operand(value.name, layout)
            q = quantize(data, self._c.conversion_format, block=self._block)
            for address, part in zip((made.codes, made.scales), layout.packed(q), strict=True):
                self._image.append((address, part))
            self._constants[key] = made
        return self._constants[key]

    def _resolve(self, value: Value, p: Placement) -> list[tuple[Value, Placement]]:
        """What a placement of a gather takes from which value."""
        key = id(value), p.key
        if key not in self._resolved:
            self._resolved[key] = self._behind(value, p)
        return self._resolved[key]

    def _behind(self, value: Value, p: Placement) -> list[tuple[Value, Placement]]:
        if value.op != "gather" or (value.of_host and len(value.inputs) > 1):
            return [(value, p)]
        assert value.data is not None
        index = p.of(value.data).index
        parts, start = [], 0
        for source in value.inputs:
            own = (index >= start) & (index < start + source.size)
            if own.any():
                there = Placement(np.where(own, index - start, np.int32(-1)))
                parts += self._resolve(source, there)
            start += source.size
        if not parts:  # anything will do, but there must be something
            parts = [(self._nothing, Placement(np.zeros_like(index)))]
        return parts

    def _origin(self, value: Value, p: Placement) -> tuple[tuple[int, Key], ...]:
        """Which elements of which values a placement has, whatever gathers them."""
        return tuple((id(source), own.key) for source, own in self._resolve(value, p))

    def _ask(self, kernel: Kernel, value: Value, p: Placement, *, joins: bool = True) -> None:
        """Ask for a value in a placement."""
        parts = self._resolve(value, p)
        if len(parts) > 1:
            kernel.cost += 1
        for source, own in parts:
            if id(source) in self._states:
                self._reads.append((kernel, self._states[id(source)], own))
                continue
            if source.of_host:
                self._table(source, own)
                continue
            known = self._demands.setdefault(id(source), {})
            kernel.asked.append((source, own))
            one = known.setdefault((id(kernel), own.key), _Demand(kernel, own, joins=True))
            one.joins &= joins and len(parts) == 1
            one.count += 1
            if one.count == 2:  # it is loaded once for both
                kernel.cost += _is_long(kernel, own)

    def _table(self, value: Value, p: Placement) -> list[Vectors]:
        """Numbers of the host in memory: of each matrix where it lies, equal ones once."""
        key = id(value), p.key
        if key not in self._tables:
            layout = Float32Layout(configuration=self._c, rows=p.beats, columns=p.lanes)
            found: dict[bytes, Vectors] = {}
            matrices, places = [], []
            for matrix in range(p.matrices):
                own = p.index[matrix].tobytes()
                if own not in found:
                    found[own] = self._e.vectors(value.name, layout)
                    matrices.append(matrix)
                places.append(found[own])
            table = Table(value, p, matrices, [places[matrix] for matrix in matrices])
            self._tables[key] = table, places
        return self._tables[key][1]

    # Emission.

    def _emit_all(self, tasks: Sequence[Task]) -> None:
        """Emit tasks, and beside them others whose products the array has for while it waits.

        Their own vectors are not counted: what they wait for is not needed soon.
        """
        engines = Engines(self._c, Times())
        ahead = 0  # cycles of vectors without a product beside them
        others: list[Task] = []
        begun: Iterator[list[Step]] | None = None
        for task in tasks:
            if task[0].beside:
                others.append(task)
                continue
            if begun is not None and not self._both_fit(task, others[0]):
                _end(begun, others)
                begun = None
            for steps in self._pieces(task):
                ahead = _bounded(ahead + _work(engines, steps, "vector"))
                ahead = _bounded(ahead - _work(engines, steps, "gemm"))
                while others and ahead > 0:
                    if begun is None and not self._both_fit(task, others[0]):
                        break
                    begun = self._pieces(others[0]) if begun is None else begun
                    more = next(begun, None)
                    if more is None:
                        del others[0]
                        begun = None
                    else:
                        ahead = _bounded(ahead - _work(engines, more, "gemm"))
        while others:
            _end(self._pieces(others[0]) if begun is None else begun, others)
            begun = None

    def _both_fit(self, task: Task, other: Task) -> bool:
        """Whether buffers have room for what two tasks load, beside what stays with the first."""
        own, more = self._loads(task), self._loads(other)
        return all(
            own[side][unit] + more[side][unit] <= self._rooms[id(task[0]), task[1], side][unit]
            for side in "aw"
            for unit in range(2)
        )

    def _loads(self, task: Task) -> dict[str, tuple[int, int]]:
        """Beats and scale entries of each buffer that a task loads at most."""
        kernel, matrix = task
        if kernel.product is None:
            return dict.fromkeys("aw", (0, 0))
        found: dict[str, tuple[int, int]] = {}
        sources = kernel.product.lanes, kernel.product.beats
        for source, side in zip(sources, self._sides(*task), strict=True):
            resident = source.resident(matrix, side.name) is not None
            count = 0 if resident else side.strips
            room = self._rooms[id(kernel), matrix, side.name]
            each = side.sizes(side.inner)
            found[side.name] = min(count * each[0], room[0]), min(count * each[1], room[1])
        return found

    def _pieces(self, task: Task) -> Iterator[list[Step]]:
        """Emit a task, piece by piece."""
        pieces = self._emit(*task)
        while True:
            first = len(self._e.steps)
            ended = next(pieces, self) is self
            task[0].steps += range(first, len(self._e.steps))
            if ended:
                return
            yield self._e.steps[first:]

    def _emit(self, kernel: Kernel, matrix: int) -> Iterator[None]:
        p = kernel.placement
        if kernel.kind == "tensor" and not kernel.targets:
            self._allocate(kernel)
        own = kernel.operand
        if own is not None:
            target, size = own.targets[matrix], (p.lanes, p.beats)
            if matrix in own.needed and not own.fixed:
                own.targets[matrix] = self._e.operand(target.name, target.layout)
            for side in (Side("w", target, False, *size), Side("a", target, False, *size)):
                if (matrix, side.name) in own.stays:
                    placed = side.place(self._e, range(side.strips))
                    own.resident[matrix, side.name] = placed
        if kernel.in_pieces:
            self._in_pieces(kernel, matrix)
        elif kernel.product is None:
            for some, span in self._parts(kernel):
                _Region(self, kernel, matrix, some, span, None).emit()
                yield
        else:
            yield from self._multiplied(kernel, matrix)

    def _parts(self, kernel: Kernel) -> Iterator[tuple[range, range]]:
        """Strips and beats of a matrix that are worked on together, without a product."""
        p, c = kernel.placement, self._c
        grain = p.beats if kernel.whole else self._grain(kernel)
        fit = int(self._share * c.vector_beats) // (2 * (kernel.cost + 1))
        most = max(grain, min(fit, _MOST_BEATS) // grain * grain)
        if kernel.operands is not None:
            most = min(most, max(grain, c.out_beats * c.lanes // 2 // grain * grain))
        for span in cut(p.beats, most):
            longest = max(kernel.longest, len(span)) if kernel.whole else len(span)
            together = max(1, min(_MOST_STRIPS, fit // longest))
            if kernel.summed:
                together = max(1, min(together, c.vector_beats // kernel.summed))
            for part in groups(-(-p.lanes // self._lanes), together):
                yield part, span

    def _in_pieces(self, kernel: Kernel, matrix: int) -> None:
        """Reduce rows that do not fit into the vector buffer."""
        value, p, (x,) = kernel.root, kernel.placement, kernel.root.inputs
        inner = _summed(value, p) if value.op == "sum" else p
        affine = None
        if value.data is not None:

            def affine(span: range) -> Rows:
                return self._some_affine(value, span)

        for strip in _strips(p, self._lanes):
            strips = range(strip, strip + 1)

            def load(span: range, strips: range = strips) -> Rows:
                return self.load(x, inner, matrix, strips, span)

            work = Pass(**_reduction(value, strip * self._lanes))
            row = LongRow(inner.beats, work, load, self._hidden, affine)
            reduce_in_pieces(self._e, row, kernel.targets[matrix], strip)

    def _hidden(self, beats: int) -> Rows:
        """Beats of -Inf, of which softmax makes what it makes of those that do not count."""
        index = np.zeros((1, self._lanes, _ZEROS), np.int32)
        first = self._table(self._below_all, Placement(index))[0].address
        rows = self._e.rows(beats, 1, "what does not count")
        addresses = first + np.arange(beats)[None] % _ZEROS * self._c.beat_bytes
        load_beats(self._e, addresses, rows)
        return rows

    def _sides(self, kernel: Kernel, matrix: int) -> tuple[Side, Side]:
        """Sides w and a of the product of a kernel."""
        p, own = kernel.placement, kernel.product
        assert own is not None
        inner = own.value.inputs[0].shape[-1]
        lanes, beats = own.lanes.operand(matrix), own.beats.operand(matrix)
        least = 1 if self._c.anchored else 2  # sums in windows do not go on from part to part
        return (
            Side("w", lanes, own.lanes.turned, p.lanes, inner, least),
            Side("a", beats, own.beats.turned, p.beats, inner, least),
        )

    def _multiplied(self, kernel: Kernel, matrix: int) -> Iterator[None]:
        """A matrix of a kernel with a product."""
        p, c, own = kernel.placement, self._c, kernel.product
        assert own is not None
        sides = self._sides(kernel, matrix)
        block = self._block[1] if isinstance(self._block, tuple) else self._block
        made: dict[str, Any] = {
            "grain": p.beats if kernel.whole else self._grain(kernel),
            "block": None if kernel.operands is None else block,
            "share": int(2 * kernel.cost / self._share),
        }
        k = parts_of_k(*sides)
        if c.anchored and len(k) > 1:
            most = min(c.a_beats, c.w_beats) * c.lanes
            raise CompileError(
                f"{own.value.name}: k must be at most {most} with arithmetic window, of which "
                f"buffers of operands hold a strip, not {sides[0].inner}"
            )
        if len(k) == 1:
            w, a = (
                source.resident(matrix, side.name) or self._hold((kernel, matrix), source, side)
                for source, side in zip((own.lanes, own.beats), sides, strict=True)
            )
            if kernel.whole:
                yield from self._by_rows(kernel, matrix, sides, w, a)
                return
            if w is None and a is None and self._lanes_stay((kernel, matrix), sides):
                w = sides[0].place(self._e, range(sides[0].strips))
                for some in cut(sides[0].strips, _GROUP):
                    sides[0].load(self._e, some, k[0], w.some(some))
            if w is not None:
                yield from self._by_beats(kernel, matrix, sides, w, a)
                return
            made |= {"held_a": a, "rooms": {n: self._rooms[id(kernel), matrix, n] for n in "aw"}}
        for rows, strips, span in Panels(self._e, *sides, **made).results():
            _Region(self, kernel, matrix, strips, span, rows).emit()
            yield

    def _lanes_stay(self, task: Task, sides: tuple[Side, Side]) -> bool:
        """Whether lanes are loaded first, all of them, because beats would be loaded again."""
        beats_again = sides[1].strips > 2 * self._room(task, sides[1])
        return beats_again and sides[0].strips <= self._room(task, sides[0])

    def _room(self, task: Task, side: Side) -> int:
        """Strips of a side that a buffer has room for twice, beside those that stay."""
        beats, entries = self._rooms[id(task[0]), task[1], side.name]
        each = side.sizes(side.inner)
        return max(1, min(beats // each[0], entries // each[1]) // 2)

    def _by_rows(
        self,
        kernel: Kernel,
        matrix: int,
        sides: tuple[Side, Side],
        w: Placed | None,
        a: Placed | None,
    ) -> Iterator[None]:
        """Whole rows of a product: strips of some lanes, each with all beats."""
        e, p, task, size = self._e, kernel.placement, (kernel, matrix), self._c.rows
        inner = _inner(self, kernel)
        panel = min(
            _RESULTS // size, sides[1].strips if a is not None else self._room(task, sides[1])
        )
        # Rows of two groups have room, and what else a piece needs beside those of one.
        cost = kernel.cost
        if inner is not None and inner.last:
            cost = 1 + self._copied(kernel, matrix)
        pieces = kernel.cost * (p.beats if inner is None else min(panel * size, p.beats))
        needed = max(5 * cost * p.beats / 2, cost * p.beats + pieces)
        together = min(_MOST_STRIPS, int(self._share * self._c.vector_beats // needed))
        if w is None:
            together = min(together, self._room(task, sides[0]))
        if a is not None:  # nothing is loaded again for each group
            together = min(together, -(-sides[0].strips // 2), _GROUP)
        k = range(sides[0].inner)
        if a is None and sides[1].strips <= self._room(task, sides[1]):
            a = sides[1].place(e, range(sides[1].strips))
            for some in cut(sides[1].strips, panel):
                sides[1].load(e, some, k, a.some(some))
            together = min(together, _GROUP)
        for strips in groups(sides[0].strips, max(1, together)):
            own = sides[0].load(e, strips, k) if w is None else w.some(strips)
            rows = e.rows(p.beats, len(strips), "results")
            region = _Region(self, kernel, matrix, strips, range(p.beats), rows)
            for some in cut(sides[1].strips, panel):
                columns = sides[1].load(e, some, k) if a is None else a.some(some)
                span = range(some.start * size, min(some.stop * size, p.beats))
                self._multiply(columns, own, rows, span, 0)
                if inner is not None:
                    region.piece(inner, span)
            region.emit()
            yield

    def _copied(self, kernel: Kernel, matrix: int) -> bool:
        """Whether what becomes an operand needs rows beside those of the result."""
        other = kernel.converted
        if other is None or not other.placed:
            return False
        return sum((matrix, name) in other.stays for name in "aw") + (matrix in other.needed) > 1

    def _by_beats(
        self,
        kernel: Kernel,
        matrix: int,
        sides: tuple[Side, Side],
        w: Placed,
        a: Placed | None,
    ) -> Iterator[None]:
        """A product whose lanes stay: some beats after others, of all strips."""
        e, p, task, size = self._e, kernel.placement, (kernel, matrix), self._c.rows
        grain, own, k = self._lanes, kernel.operand, range(sides[0].inner)
        if own is not None:
            grain = (
                self._grain(kernel)
                if matrix in own.needed
                else max(grain, own.targets[0].layout.length)
            )
        room_a, whole = self._room(task, sides[1]), max(_RESULTS, grain) // size
        panel = min(room_a, whole if room_a >= whole else _RESULTS // size)
        panel = sides[1].strips if a is not None else panel
        beats = grain * max(1, min(_RESULTS, panel * size) // grain)
        room = int(self._share * self._c.vector_beats)
        most = max(1, min(_GROUP, room // (2 * kernel.cost * min(beats, p.beats))))
        parts = groups(sides[0].strips, most)
        for span in cut(p.beats, beats):
            strips = range(span.start // size, -(-span.stop // size))
            there = None
            if a is not None:
                there = a.some(strips)
            elif len(strips) <= panel:
                there = sides[1].load(e, strips, k)
            if there is not None:
                for part in parts:
                    rows = e.rows(len(span), len(part), "results")
                    self._multiply(there, w.some(part), rows, span, span.start)
                    _Region(self, kernel, matrix, part, span, rows).emit()
                    yield
                continue
            # Parts of what is along beats are loaded once for as many strips as have room.
            many = max(1, room // (2 * kernel.cost * len(span) * len(parts[0])))
            for some in cut(len(parts), many):
                own_parts = parts[some.start : some.stop]
                results = [e.rows(len(span), len(part), "results") for part in own_parts]
                for loaded in cut(len(strips), panel):
                    loaded = range(strips.start + loaded.start, strips.start + loaded.stop)
                    own_span = range(loaded.start * size, min(loaded.stop * size, span.stop))
                    columns = sides[1].load(e, loaded, k)
                    for part, rows in zip(own_parts, results, strict=True):
                        self._multiply(columns, w.some(part), rows, own_span, span.start)
                for part, rows in zip(own_parts, results, strict=True):
                    _Region(self, kernel, matrix, part, span, rows).emit()
                    yield

    def _multiply(self, a: Placed, w: Placed, rows: Rows, span: range, first: int) -> None:
        """Products that are some beats of rows, which begin at a first one."""
        size = self._c.rows
        last = len(span) - (a.strips - 1) * size
        at = rows.start + span.start - first
        self._e.multiply(a, w, at, stride_a=size, stride_w=rows.stride, last_rows=last)

    def _hold(self, task: Task, source: Source, side: Side) -> Placed | None:
        """Strips of a side that the next matrix needs as well, if half of the buffer holds them."""
        kernel, matrix = task
        which = source.which
        known = self._held.pop(side.name, None)
        placed = None
        if known is not None and known[:2] == (task, which[matrix]):
            placed = known[2]
        following = (kernel, matrix + 1)
        if (
            self._following.get((id(kernel), matrix)) != following
            or which[matrix : matrix + 2] != [which[matrix]] * 2
        ):
            return placed
        if placed is None:
            if side.strips > self._room(task, side):
                return None
            placed = side.load(self._e, range(side.strips), range(side.inner))
        self._held[side.name] = following, which[matrix], placed
        return placed

    def _addresses(
        self, value: Value, p: Placement, matrix: int, strips: range, span: range
    ) -> NDArray[np.int64]:
        """Where beats lie in memory; those that have nothing are zeros."""
        size = self._c.beat_bytes
        total = np.full((len(strips), len(span)), -1, np.int64)
        for source, own in self._resolve(value, p):
            if source.of_host and id(source) not in self._states:
                vectors = self._table(source, own)[matrix]
                strip = np.arange(strips.start, strips.stop)[:, None] * vectors.layout.strip_bytes
                found = vectors.address + strip + np.arange(span.start, span.stop) * size
                filled = own.part(matrix, strips, span, self._lanes) >= 0
                there = filled.any(axis=1) | (len(self._resolve(value, p)) == 1)
            else:
                found = self._stored_addresses(source, own, matrix, strips, span)
                there = found >= 0
            total[there] = found[there]
        if (total < 0).any():  # what stands in the buffer could be NaN
            zeros = self._table(self._nothing, _NOTHING)[0].address
            total = np.where(total < 0, zeros + np.arange(len(span)) % _ZEROS * size, total)
        return total

    def _stored_addresses(
        self, value: Value, p: Placement, matrix: int, strips: range, span: range
    ) -> NDArray[np.int64]:
        state = self._states.get(id(value))
        kernels = self._stored[id(value if state is None else state.new)]
        index = p.part(matrix, strips, span, self._lanes)
        for kernel in kernels:
            if kernel.placement.key == p.key:
                layout, size = kernel.targets[matrix].layout, self._c.beat_bytes
                strip = np.arange(strips.start, strips.stop)[:, None] * layout.strip_bytes
                beats = strip + np.arange(span.start, span.stop) * size
                filled = (index >= 0).any(axis=1)
                return np.where(filled, kernel.targets[matrix].address + beats, -1)
        for kernel in kernels:
            if id(kernel) not in self._beats:
                self._beats[id(kernel)] = Beats(kernel.placement, value.size, self._lanes)
            found = self._beats[id(kernel)].find(index)
            if found is not None and (found < 0).all():  # perhaps it is not even made yet
                return found
            if found is not None:
                p, first = kernel.placement, kernel.targets[0]
                each = -(-p.lanes // self._lanes) * p.beats
                starts = np.array([target.address for target in kernel.targets], np.int64)
                where = starts[np.maximum(found, 0) // each]
                beat = np.maximum(found, 0) % each * first.layout.beat_bytes
                return np.where(found >= 0, where + beat, -1)
        raise AssertionError(f"{value.name} is not in memory as it is wanted")

    def load(self, value: Value, p: Placement, matrix: int, strips: range, span: range) -> Rows:
        """Load some beats of some strips."""
        rows = self._e.rows(len(span), len(strips), value.name)
        load_beats(self._e, self._addresses(value, p, matrix, strips, span), rows)
        return rows

    def numbers(self, kernel: Kernel, value: Value, p: Placement, matrix: int) -> Rows:
        """Load numbers for all beats, C of them a beat; they stay for the kernel."""
        own = p.index[matrix].tobytes()
        key = id(kernel), id(value), own
        if key not in self._numbers:
            strips = _strips(p, self._lanes)
            self._numbers[key] = self.load_numbers(value, p, matrix, strips, keep=True)
        return self._numbers[key]

    def load_numbers(
        self, value: Value, p: Placement, matrix: int, strips: range, *, keep: bool = False
    ) -> Rows:
        """Load some beats of numbers."""
        rows = self._e.rows(len(strips), 1, value.name, keep=keep)
        addresses = self._addresses(value, p, matrix, strips, range(1))
        load_beats(self._e, addresses.reshape(1, -1), rows)
        return rows

    def affine(self, kernel: Kernel, value: Value) -> Rows:
        """Load gains of a norm, and behind them its biases; they stay for the kernel."""
        return self.numbers(kernel, *self._gains_and_biases(value), 0)

    def _some_affine(self, value: Value, span: range) -> Rows:
        """Load gains of some beats, and behind them their biases."""
        made, p = self._gains_and_biases(value)
        half = -(-value.shape[-1] // self._lanes)
        own = range(span.start // self._lanes, -(-span.stop // self._lanes))
        addresses = [
            self._addresses(made, p, 0, range(at + own.start, at + own.stop), range(1))
            for at in (0, half)
        ]
        rows = self._e.rows(2 * len(own), 1, made.name)
        load_beats(self._e, np.concatenate(addresses).reshape(1, -1), rows)
        return rows

    def _gains_and_biases(self, value: Value) -> tuple[Value, Placement]:
        """Gains of a norm, and behind them its biases, each from a beat of its own on."""
        if id(value) not in self._affine:
            assert value.data is not None
            length = value.shape[-1]
            whole = np.zeros((2, -(-length // self._lanes) * self._lanes), np.float32)
            whole[:, :length] = value.data
            made = Value(
                "constant", (whole.size,), (), f"gain and bias of {value.name}", data=whole
            )
            index = np.arange(whole.size, dtype=np.int32).reshape(1, -1, 1)
            self._affine[id(value)] = made, Placement(index)
        return self._affine[id(value)]


def _work(engines: Engines, steps: Sequence[Step], queue: str) -> int:
    """Cycles of a queue."""
    return sum(engines.work(step, 0)[0] for step in steps if step.kind == queue)


def _end(begun: Iterator[list[Step]], others: list[Task]) -> None:
    """Emit all that is left of the first task."""
    for _ in begun:
        pass
    del others[0]


def _bounded(ahead: int) -> int:
    return max(-_AHEAD, min(_AHEAD, ahead))


class _Inner(NamedTuple):
    """What a reduction reduces, if the operations before it can be done piece by piece.

    Attributes
    ----------
    value : Value
    placement : Placement
    last : bool
        Whether nothing but functions and conversions follows.
    """

    value: Value
    placement: Placement
    last: bool


def _inner(lowering: _Lowering, kernel: Kernel) -> _Inner | None:
    """The part of a kernel between its product and its first reduction."""
    value, p = kernel.root, kernel.placement
    # Without a reduction of its own, all of it is before that of the operand that it makes.
    found = _Inner(value, p, True)
    last = True
    while True:
        parts = lowering._resolve(value, p)
        if len(parts) > 1:
            return None
        value, p = parts[0]
        key = id(value), p.key
        if key not in kernel.placed:
            return None
        if value.op == "product":
            return found
        below = key != (id(found.value), found.placement.key)
        if value.op in _REDUCTIONS or value.op == "sum":
            value, p = value.inputs[0], _summed(value, p) if value.op == "sum" else p
            parts = lowering._resolve(value, p)
            if len(parts) > 1:
                return None
            own = parts[0]
            last &= kernel.placed.get((id(own[0]), own[1].key)) == 1
            found = _Inner(*own, last)
        elif below and kernel.placed[key] > 1:
            return None
        elif value.op == "arithmetic" and len(value.inputs) == 2:
            last = False
            sides = lowering._binary[key]
            own_sides = [
                side for side in (sides.x, sides.y) if _leads_to_product(lowering, kernel, *side)
            ]
            if len(own_sides) != 1:
                return None
            value, p = own_sides[0]
        else:
            value = value.inputs[0]


def _leads_to_product(lowering: _Lowering, kernel: Kernel, value: Value, p: Placement) -> bool:
    """Whether the product of a kernel is a part of a value."""
    parts = lowering._resolve(value, p)
    if len(parts) > 1:
        return False
    value, p = parts[0]
    key = id(value), p.key
    if key not in kernel.placed:
        return False
    if value.op == "product":
        return True
    if value.op == "arithmetic" and len(value.inputs) == 2:
        sides = lowering._binary[key]
        return any(_leads_to_product(lowering, kernel, *side) for side in (sides.x, sides.y))
    p = _summed(value, p) if value.op == "sum" else p
    return _leads_to_product(lowering, kernel, value.inputs[0], p)


class _Region:
    """Some strips and beats of a kernel."""

    def __init__(
        self,
        lowering: _Lowering,
        kernel: Kernel,
        matrix: int,
        strips: range,
        span: range,
        results: Rows | None,
    ) -> None:
        self._l, self._e, self._kernel = lowering, lowering._e, kernel
        self._matrix, self._strips, self._span = matrix, strips, span
        self._results, self._lanes = results, lowering._e.configuration.vector_lanes
        self._shared: dict[tuple[int, Key], Rows] = {}
        self._made: tuple[int, Key] | None = None
        self._placed = kernel.placed
        other = kernel.converted
        asked = [*kernel.asked, *([] if other is None else other.asked)]
        self._asked = Counter((id(one), p.key) for one, p in asked)
        self._piece: range | None = None

    def piece(self, inner: _Inner, span: range) -> None:
        """Do what is before the first reduction with some beats of the product's results."""
        assert self._results is not None
        whole = self._results
        self._piece, self._results = span, whole.cut(span.start, len(span))
        lazy = self._value(inner.value, inner.placement)
        if lazy.work != Pass() or lazy.rows != self._results:
            self._e.compute(lazy.rows, lazy.work, d=self._results)
        self._shared.clear()
        self._piece, self._results = None, whole
        self._made = id(inner.value), inner.placement.key

    def emit(self) -> None:
        """Compute the root, store it, and convert what becomes an operand."""
        kernel = self._kernel
        lazy = self._value(kernel.root, kernel.placement)
        other = kernel.converted
        if kernel.kind == "operand":
            self._converted(lazy, kernel, keep=False)
            return
        if other is None:
            rows = self._done(lazy)
        elif not other.placed:
            rows = self._converted(lazy, other, keep=True)
        else:
            rows = self._done(lazy)
            self._shared[id(kernel.root), kernel.placement.key] = rows
            self._placed = other.placed
            self._converted(self._value(other.root, other.placement), other, keep=False)
        for part in self._parts(lazy.work, range(rows.count), rows.count):
            strips = range(self._strips.start + part.start, self._strips.start + part.stop)
            own = rows.some(part)
            store_sums(self._e, kernel.targets[self._matrix], strips, self._span, own)

    def _converted(self, lazy: _Lazy, operand: Kernel, *, keep: bool) -> Rows:
        """Convert a result; keep it in the vector buffer as well, if it is needed."""
        e, c, rows = self._e, self._e.configuration, lazy.rows
        target = operand.targets[self._matrix]
        first = self._span.start // c.lanes
        there = [
            operand.resident[self._matrix, side].some(self._strips).from_beat(first)
            for side in ("w", "a")
            if (self._matrix, side) in operand.resident
        ]
        stores = self._matrix in operand.needed
        keep = lazy.work != Pass() and (keep or len(there) + stores > 1)
        if keep and not lazy.owned:
            rows = e.rows(rows.beats, rows.count, "a copy")
        own = columns_of(strip_of(target, self._strips.start), self._span)
        together = max(
            1,
            min(c.out_beats // own.layout.beats, c.out_entries // (2 * own.layout.entries + 2))
            // 2,
        )
        together = together if stores else rows.count
        for lanes, part in e.by_lanes(target.layout.rows, self._strips):
            for some in self._parts(lazy.work, part, together):
                work = _some(lazy.work, some, c.vector_lanes)
                source = lazy.rows.some(some)
                d = rows.some(some) if keep else None
                for out in there:
                    e.compute(source, work, d=d, out=out.some(some), lanes=lanes)
                    if keep:
                        source, work, d = rows.some(some), Pass(), None
                if stores:
                    out = e.place("out", own, len(some))
                    e.compute(source, work, d=d, out=out, lanes=lanes)
                    strips = range(self._strips.start + some.start, self._strips.start + some.stop)
                    store_operand(e, target, strips, self._span, out)
        return rows

    def _parts(self, work: Pass, part: range, most: int) -> list[range]:
        """Strips that a pass is done with together."""
        if work.reduction.endswith("norm"):
            most = min(most, _NORMS)
        return groups(len(part), most, part.start)

    def _own_span(self, p: Placement) -> range:
        if p.beats != self._kernel.placement.beats:
            return range(p.beats)
        if self._piece is not None:
            return self._piece
        return range(p.beats) if self._kernel.whole else self._span

    def _value(self, value: Value, p: Placement) -> _Lazy:
        """A value of this region in the vector buffer."""
        parts = self._l._resolve(value, p)
        if len(parts) == 1:
            value, p = parts[0]
            key = id(value), p.key
            if key in self._shared:
                return _Lazy(self._shared[key], Pass(), owned=False)
            if key in self._placed:
                lazy = self._computed(value, p)
                if self._placed[key] > 1:
                    rows = self._done(lazy)
                    self._shared[key] = rows
                    lazy = _Lazy(rows, Pass(), owned=False)
                return lazy
        span = self._own_span(p)
        rows = self._l.load(value, p, self._matrix, self._strips, span)
        if len(parts) == 1 and self._asked[key] > 1:
            self._shared[key] = rows
            return _Lazy(rows, Pass(), owned=False)
        return _Lazy(rows, Pass(), owned=True)

    def _computed(self, value: Value, p: Placement) -> _Lazy:
        made = self._piece is None and self._made == (id(value), p.key)
        if value.op == "product" or made:
            assert self._results is not None
            return _Lazy(self._results, Pass(), owned=True)
        if value.op == "sum":
            return self._sum(value, p)
        if value.op == "arithmetic" and len(value.inputs) == 2:
            return self._arithmetic(value, p)
        lazy = self._value(value.inputs[0], p)
        if value.op == "arithmetic":
            return self._then(lazy, arithmetic="scale", parameter=value.parameter)
        if value.op == "function":
            return self._then(lazy, function=value.detail)
        norm = _reduction(value, self._strips.start * self._lanes)
        if value.op == "softmax":
            return self._then(lazy, **norm)
        gains = self._l.affine(self._kernel, value)
        if self._e.configuration.affine:
            return self._then(lazy, **norm, affine=gains)
        half = gains.beats // 2
        lazy = self._then(lazy, **norm)
        for name, numbers in (("multiply", gains.cut(0, half)), ("add", gains.cut(half, half))):
            lazy = self._then(lazy, arithmetic=name, y=replace(numbers, stride=0), y_mode="numbers")
        return lazy

    def _arithmetic(self, value: Value, p: Placement) -> _Lazy:
        x, (value_y, p_y), mode = self._l._binary[id(value), p.key]
        lazy = self._value(*x)
        if mode == "numbers":
            span = self._own_span(p)
            start = self._numbers(value_y, p_y, span)
            y = Rows(start, -(-len(span) // self._lanes), len(self._strips))
        else:
            y = self._done(self._value(value_y, p_y))
        if value.detail == "add" and lazy.work == Pass(
            arithmetic="scale", parameter=lazy.work.parameter
        ):
            return replace(lazy, work=replace(lazy.work, arithmetic="axpy", y=y, y_mode=mode))
        return self._then(lazy, arithmetic=value.detail, y=y, y_mode=mode)

    def _numbers(self, value: Value, p: Placement, span: range) -> int:
        """Where numbers of some beats begin; few numbers stay for the kernel."""
        c = self._e.configuration
        if 8 * -(-p.lanes // self._lanes) <= c.vector_beats:
            numbers = self._l.numbers(self._kernel, value, p, self._matrix)
            return numbers.start + span.start // self._lanes
        part = range(span.start // self._lanes, -(-span.stop // self._lanes))
        return self._l.load_numbers(value, p, self._matrix, part).start

    def _sum(self, value: Value, p: Placement) -> _Lazy:
        lazy = self._value(value.inputs[0], _summed(value, p))
        if value.detail == "window":
            lazy = self._then(lazy, **_reduction(value, 0))
            rows = self._e.rows(1, lazy.rows.count, "sums")
            self._e.compute(lazy.rows, lazy.work, d=rows)
            return _Lazy(rows, Pass(), owned=True)
        rows = self._done(lazy) if lazy.owned else self._copy(lazy)
        count = rows.beats
        while count > 1:
            half = -(-count // 2)
            first, second = rows.cut(0, count - half), rows.cut(half, count - half)
            self._e.compute(first, Pass(arithmetic="add", y=second), d=first)
            count = half
        return _Lazy(rows.cut(0, 1), Pass(), owned=True)

    def _copy(self, lazy: _Lazy) -> Rows:
        rows = self._e.rows(lazy.rows.beats, lazy.rows.count, "a copy")
        self._e.compute(lazy.rows, lazy.work, d=rows)
        return rows

    def _then(self, lazy: _Lazy, **more: Any) -> _Lazy:
        """One more operation, in the same pass if it can be."""
        order = ("arithmetic", "function", "reduction")
        work = lazy.work
        stage = next(at for at, name in enumerate(order) if name in more)
        taken = [at for at, name in enumerate(order) if getattr(work, name) != "none"]
        clash = "reduction" in more and (
            work.arithmetic in ("axpy", "scale")
            or (work.arithmetic != "none" and {"causal", "affine"} & more.keys())
        )
        if (taken and max(taken) >= stage) or clash:
            rows = self._done(lazy)
            return _Lazy(rows, Pass(**more), owned=True)
        return replace(lazy, work=replace(work, **more))

    def _done(self, lazy: _Lazy) -> Rows:
        """Do what is still to be done."""
        if lazy.work == Pass():
            return lazy.rows
        if not lazy.owned:
            return self._copy(lazy)
        for part in self._parts(lazy.work, range(lazy.rows.count), lazy.rows.count):
            rows = lazy.rows.some(part)
            self._e.compute(rows, _some(lazy.work, part, self._lanes), d=rows)
        return lazy.rows


class _Factors(NamedTuple):
    """A matrix of a placement as results of one matrix of a product."""

    matrix: int
    lanes: Indices
    beats: Indices
    straight: bool
    """Whether lanes are rows of the product's first operand."""


def _factored(value: Value, p: Placement) -> list[_Factors] | None:
    """Rows of both operands that a placement of a product consists of; None if there are none."""
    found = []
    _, rows, columns = value.shape
    for index in p.index:
        filled = index >= 0
        lanes = filled.any(axis=1)
        if not lanes.any() or not filled[lanes].all():
            return None
        own = index[lanes]
        matrix = int(own[0, 0]) // (rows * columns)
        first = own - np.int32(matrix * rows * columns)
        for straight in (True, False):
            sides = (first[:, 0], first[0]) if straight else (first[0], first[:, 0])
            row, column = sides[0] // columns, sides[1] % columns
            along, across = (row * columns, column) if straight else (column, row * columns)
            inside = row.min() >= 0 and row.max() < rows
            if inside and np.array_equal(along[:, None] + across, first):
                break
        else:
            return None
        lane, beat = (row, column) if straight else (column, row)
        whole = np.full(len(index), -1, np.int32)
        whole[lanes] = lane
        found.append(_Factors(matrix, whole, beat.astype(np.int32), straight))
    if len({one.straight for one in found}) > 1:
        return None
    return found


def _taken(value: Value, matrix: int, rows: Indices) -> bytes:
    """Equal for rows of matrices that have the same elements, such as keys that heads share."""
    own = np.where(rows >= 0, matrix * value.shape[1] + rows, -1)
    if value.op != "gather":
        return own.tobytes()
    assert value.data is not None
    taken = value.data.reshape(-1, value.shape[-1])[np.maximum(own, 0)]
    return np.where(own[:, None] >= 0, taken, -1).tobytes()


def _natural(value: Value) -> Placement:
    """The last axis along beats, along lanes the one before it that is longer than 1."""
    *lead, beats = value.shape or (1,)
    lanes = next((size for size in reversed(lead) if size > 1), 1)
    return Placement(value.places.reshape(-1, lanes, beats))


def _summed(value: Value, p: Placement) -> Placement:
    """What a sum adds up."""
    length = value.inputs[0].shape[-1]
    along = np.arange(length, dtype=np.int32)
    return Placement(np.where(p.index >= 0, p.index * length + along, np.int32(-1)))


def _reduction(value: Value, first: int) -> dict[str, Any]:
    """A reduction of rows from one on, as a part of a pass."""
    made: dict[str, Any] = {"reduction": value.op}
    if value.op == "softmax":
        made["parameter"] = float(softmax_factor(value.parameter))
    elif value.op != "sum":
        made["parameter"] = value.parameter
    return made | ({"causal": first} if value.detail == "causal" else {})


def _is_long(kernel: Kernel, p: Placement) -> bool:
    """Whether a result takes as much of the vector buffer as others of a kernel."""
    return p.beats > 1 or kernel.placement.beats == 1


def _runs(index: Indices, there: Placement) -> list[tuple[int, int, range]] | None:
    """Runs of columns that are those of matrices of a placement; None if there are others.

    Of each its first column, the matrix, and columns of that.
    """
    if len(index) != there.lanes:
        return None
    places = {int(one): at for at, one in enumerate(there.index[:, 0].reshape(-1))}
    found = []
    columns = [*np.flatnonzero((index >= 0).any(axis=0))]
    while columns:
        at = int(columns[0])
        matrix, first = divmod(places.get(int(index[0, at]), -1), there.beats)
        own, wanted = there.index[matrix, :, first:], index[:, at:]
        both = min(own.shape[1], wanted.shape[1])
        same = (own[:, :both] == wanted[:, :both]).all(axis=0)
        length = both if same.all() else int(same.argmin())
        if matrix < 0 or not length or any(one % _PAIR for one in (at, first, length)):
            return None
        found.append((at, matrix, range(first, first + length)))
        columns = columns[length:]
    return found


def _matrices(own: Placement, there: Placement) -> list[tuple[int, range | None]] | None:
    """Of each matrix of a placement of which one of another it is columns; None if it is not."""
    if own.key == there.key:
        return [(matrix, None) for matrix in range(own.matrices)]
    found: list[tuple[int, range | None]] = []
    for index in own.index:
        runs = _runs(index, there)
        if runs is None or len(runs) != 1 or len(runs[0][2]) != own.beats:
            return None
        found.append(runs[0][1:])
    return found


def _columns(operand: Operand, columns: range | None) -> Operand:
    """Some columns of an operand in memory, or all with what fills the last tile."""
    return operand if columns is None else columns_of(operand, columns)


def _strips(p: Placement, lanes: int) -> range:
    return range(-(-p.lanes // lanes))


def _some(work: Pass, part: range, lanes: int) -> Pass:
    """The pass for some of its rows."""
    if work.causal is not None:
        return replace(work, causal=work.causal + part.start * lanes)
    return work if work.y is None else replace(work, y=work.y.some(part))
