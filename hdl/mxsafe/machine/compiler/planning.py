"""From a graph to kernels: what is computed together, and where tensors stand.

The compiler walks a graph from its outputs to its inputs. Each operation is asked for by those
that take its result, in a `Placement`: which element stands in which lane of which beat. If one
kernel alone asks, the operation becomes a part of it, and its result stays in the vector buffer.
Otherwise it begins a kernel of its own, whose result goes to memory, or as an operand to a buffer.

Gathers are carried out by asking for elements in another order. A vector beat moves as a whole, so
a tensor is computed in every placement that others need: products and arithmetic have results with
their last axis along beats or along lanes, whichever is asked for. Norms and softmax have the axis
that they reduce along beats alone. Where that does not suffice, each row has a strip for itself and
uses one of its lanes: beats of one element, which can be put in any order.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mxsafe.machine.compiler.kernels import Kernel, Product, Source
from mxsafe.machine.compiler.panels import columns_of, length_of
from mxsafe.machine.compiler.placement import Beats, Key, Placement
from mxsafe.machine.compiler.places import CompileError, LayoutError
from mxsafe.machine.compiler.schedule import Draft
from mxsafe.machine.compiler.sweeps import longest_row, whole_row
from mxsafe.machine.compiler.tensors import Operand, Vectors
from mxsafe.machine.compiler.views import (
    factored,
    matrices_of,
    natural,
    runs_of,
    strips_of,
    summed,
    taken,
)
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.graph import Graph, Value
from mxsafe.machine.layout import Float32Layout, OperandLayout

Block = int | tuple[int, int]
Indices = NDArray[np.int32]
REDUCTIONS = ("softmax", "layer_norm", "rms_norm")
MOST_STRIPS = 8
"""Strips that a kernel works on together, at most."""
_FEW = 3
"""Strips for which an operand is loaded as fast as they are multiplied with it."""


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
class State:
    """An input that stays in memory, the output that it becomes, and how it is read there.

    Operands that are made of it alone stay too, converted where it is updated, but those in some
    placements that cannot be had there. A kernel of its own has to store the new values if that
    which computes them first reads old ones later on.
    """

    old: Value
    new: Value
    placements: list[Placement] = field(default_factory=list)
    converted_again: set[Key] = field(default_factory=set)
    apart: bool = False


def planned(
    graph: Graph,
    configuration: MachineConfiguration,
    block: Block,
    kept: Mapping[str, str],
    *,
    tight: bool,
) -> "Plan":
    """Find the kernels of a graph.

    Parameters
    ----------
    graph : Graph
    configuration : MachineConfiguration
    block : int or tuple of int
    kept : Mapping of str to str
        Inputs, and the outputs that take their places in memory.
    tight : bool
        Whether as little as can be is in the vector buffer together: long rows come in pieces, and
        results go to memory before they are converted.

    Raises
    ------
    CompileError
        If there are none; the message has every reason.
    """
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
) -> "Plan":
    """Kernels of a graph, whose outputs stand where the inputs that they become are read.

    An output is computed once more for each placement in which its input is read. Where it cannot
    be had so, it does not stay in memory.
    """
    inputs = {value.name: value for value in graph.values if value.op == "input"}
    states = [State(inputs[name], graph.outputs[new]) for name, new in kept.items()]
    joined = {id(one) for value in graph.values for one in _joined(value)}
    # What the host lays out, and what two states become, has no place of its own.
    becomes = Counter(id(one.new) for one in states)
    states = [
        one
        for one in states
        if id(one.old) not in joined and one.new.op != "gather" and becomes[id(one.new)] == 1
    ]
    for one in states:  # vectors are read along lanes
        p = natural(one.old)
        if p.matrices * p.lanes == 1 and not _is_row(one.new):
            one.placements.append(p.turned())
    while True:
        made = Plan(graph, configuration, block, apart, states, tight=tight)
        made.plan()
        if made.again:
            continue
        if made.mixed:
            states = [one for one in states if id(one) not in made.mixed]
            continue
        if not made.missing:
            return made
        for state, placement in made.missing:
            found = made.serving(state.new, placement)
            if found is not None:
                state.placements.append(found)
            elif state in states:
                states.remove(state)


def _is_row(value: Value) -> bool:
    """Whether it is made of a row of something larger, which is there along beats."""
    seen: set[int] = set()
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if id(one) in seen or one.size != value.size or one.of_host:
            continue
        seen.add(id(one))
        if one.op == "gather" and any(source.size > one.size for source in one.inputs):
            return True
        if one.op in ("arithmetic", "function", "gather"):
            waiting += one.inputs
    return False


def _joined(value: Value) -> Iterator[Value]:
    """Inputs that the host writes as one tensor with others."""
    if value.op == "gather" and value.of_host and len(value.inputs) > 1:
        waiting = [*value.inputs]
        while waiting:
            one = waiting.pop()
            waiting += one.inputs
            yield one


class Plan:
    """Kernels of a graph, and what they ask for.

    Parameters
    ----------
    graph : Graph
    configuration : MachineConfiguration
    block : int or tuple of int
    apart : int
        Rows of a tensor, at most, that may have a strip each, of which they use one lane.
    states : sequence of State
    tight : bool
        Whether as little as can be is in the vector buffer together: long rows come in pieces, and
        results go to memory before they are converted.

    Attributes
    ----------
    missing : list of tuple
        Of the states, and placements in which they are read and not written.
    mixed : set of int
        States whose places a kernel would read after it has written them: they cannot stay.
    again : bool
        Whether states were read as operands that are not made where they are updated, or by what
        had stored the new values already.
    kernels : list of Kernel
        In the order of the graph, once there is a plan.
    stored : dict of int to list
        By the value, kernels whose results are in memory.
    states : dict of int to State
        By the input.
    binary : dict of tuple to tuple
        How operations of two values are broadcast, by value and placement.
    tables, image, codes : dict, list, list
        What the host writes: numbers, constant operands, and operands beside states.
    draft : Draft
        Where memory is allocated.
    nothing : Value
        Zeros, for what is not there.
    """

    def __init__(
        self,
        graph: Graph,
        configuration: MachineConfiguration,
        block: Block,
        apart: int,
        states: Sequence[State],
        *,
        tight: bool,
    ) -> None:
        self._graph, self.block, self._apart, self._tight = graph, block, apart, tight
        self.states = {id(state.old): state for state in states}
        self._updates = {id(state.new) for state in states if not state.apart}
        self._reads: list[tuple[Kernel, State, Placement]] = []
        self.missing: list[tuple[State, Placement]] = []
        self.mixed: set[int] = set()
        self.again = False
        self._kept_operands: dict[int, tuple[State, Kernel, list[Kernel]]] = {}
        self.codes: list[Codes] = []
        self._beside: dict[int, Kernel] = {}
        self._asking: dict[int, list[Kernel | None]] = {}
        self.configuration = configuration
        self._whole_row = configuration.vector_beats // 8 if tight else whole_row(configuration)
        self.draft = Draft(configuration)
        self.lanes = configuration.vector_lanes
        self.kernels: list[Kernel] = []
        self._operand_kernels: dict[Any, Kernel] = {}
        self._constants: dict[Any, Operand] = {}
        self._demands: dict[int, dict[Any, _Demand]] = {}
        self.stored: dict[int, list[Kernel]] = {}
        self.tables: dict[tuple[int, Key], tuple[Table, list[Vectors]]] = {}
        self._resolved: dict[tuple[int, Key], list[tuple[Value, Placement]]] = {}
        self._possible: dict[tuple[int, Key], bool] = {}
        self.binary: dict[tuple[int, Key], _Binary] = {}
        self.image: list[tuple[int, NDArray[np.uint8]]] = []
        self._errors: list[str] = []
        self._apart_from: list[Value] = []
        self._uses = Counter(id(one) for value in graph.values for one in value.inputs)
        self.nothing = Value("constant", (1,), name="nothing", data=np.zeros(1, np.float32))

    def plan(self) -> None:
        """Plan from the outputs back."""
        self._require()
        for value in self._graph.outputs.values():
            for source, placement in self.resolve(value, natural(value)):
                if not source.of_host:
                    asked = self._demands.setdefault(id(source), {})
                    asked[None, placement.key] = _Demand(None, placement, joins=False)
        for state in self.states.values():
            asked = self._demands[id(state.new)]
            for placement in state.placements:
                if self.can(state.new, placement):
                    wanted = _Demand(None, placement, joins=False, exact=True)
                    asked[None, placement.key] = wanted
        computed = [one for one in self._graph.values if not one.of_host and one.op != "gather"]
        for value in computed:  # from the inputs on: so `can` finds what it is made of
            self.can(value, natural(value))
        for value in reversed(computed):
            self._plan(value)
        self._fail()
        self.kernels.reverse()
        self._convert_once()
        self._convert_states()
        self._read_states()

    def _convert_states(self) -> None:
        """Let what updates a state make the operands that stay beside it."""
        for state, operand, readers in self._kept_operands.values():
            makers = (one for one in self.stored[id(state.new)] if one not in readers)
            if not any(self._convert_state(state, operand, maker) for maker in makers):
                state.converted_again.add(operand.placement.key)
                self.again = True
            self._reads += [(reader, state, operand.placement) for reader in readers]

    def _convert_state(self, state: State, operand: Kernel, maker: Kernel) -> bool:
        """Let a kernel make an operand that stays in memory; whether it can."""
        views = matrices_of(operand.placement, maker.placement)
        made = self._beside.get(id(maker))
        if (
            maker.of is not None
            or views is None
            or maker.converted is not made
            or not self._has_room(maker)
        ):
            return False
        if made is None:
            made = self._beside[id(maker)] = maker.converted = Kernel(
                state.new, "operand", maker.placement
            )
            self._fix(made)
            self.codes.append(Codes(state.old, made.placement, made.targets))
            for one in made.targets:
                size = self.configuration.word_bytes * one.layout.strips
                self.draft.keep(one.codes, size * one.code_words)
                self.draft.keep(one.scales, size * one.scale_words)
        operand.targets[:] = [_columns(made.targets[matrix], own) for matrix, own in views]
        return True

    def _has_room(self, kernel: Kernel) -> bool:
        """Whether its result can be converted as it is made."""
        if self._tight:
            return False
        layout = self._layout(kernel.placement)
        grain = max(layout.word_entries * layout.length, self.lanes)
        beats = kernel.longest if kernel.whole else min(kernel.longest, grain)
        return (kernel.cost + 1) * beats <= self.configuration.vector_beats

    def _fix(self, kernel: Kernel) -> None:
        """Let the result of a kernel be operands in memory."""
        layout, name = self._layout(kernel.placement), f"{kernel.root.name} as operand"
        matrices = range(kernel.placement.matrices)
        kernel.kind, kernel.fixed, kernel.needed = "operand", True, {*matrices}
        kernel.targets = [self.draft.operand(name, layout) for _ in matrices]

    def _layout(self, p: Placement) -> OperandLayout:
        """Layout of an operand of a matrix of a placement."""
        # Whole tiles are transposed: what fills the last ones stays 0.
        layout = OperandLayout(
            configuration=self.configuration, rows=p.lanes, columns=p.beats, block=self.block
        )
        return replace(layout, columns=layout.filled(p.beats)) if self._turns else layout

    def _convert_once(self) -> None:
        """Convert what is asked for as operands alone where it is made.

        Operands that are columns of such results are not made again.
        """
        found: dict[int, tuple[Kernel, list[list[_Run]]]] = {}
        for kernel in self.kernels if self._turns else ():
            if kernel.kind == "operand" and not kernel.placed:
                runs = self._runs_of(kernel)
                if runs is not None:
                    found[id(kernel)] = kernel, runs
        while rest := [key for key, (_, runs) in found.items() if not self._serve(runs, found)]:
            for key in rest:
                del found[key]
        for kernel, runs in found.values():
            self.kernels.remove(kernel)
            for at, own in enumerate(runs):
                for maker in {id(run.maker): run.maker for run in own}.values():
                    if maker.kind == "tensor":
                        self._fix(maker)
                        del self.stored[id(maker.root)]
                parts = tuple(_columns(one.maker.targets[one.matrix], one.columns) for one in own)
                kernel.within.append([(run.maker, run.matrix) for run in own])
                whole = replace(kernel.targets[at], parts=parts)
                kernel.targets[at] = whole if len(parts) > 1 else parts[0]

    def _serve(self, runs: list[list[_Run]], found: Mapping[int, Any]) -> bool:
        """Whether nothing but some operands is made of the results that one consists of."""
        makers = (run.maker for own in runs for run in own)
        return all(id(one) in found for maker in makers for one in self._asking[id(maker.root)])

    def _runs_of(self, kernel: Kernel) -> list[list[_Run]] | None:
        """Columns of other kernels' results in each matrix of an operand; None if it has others."""
        found: list[list[_Run]] = [[] for _ in range(kernel.placement.matrices)]
        for source, own in self.resolve(kernel.root, kernel.placement):
            stored = self.stored.get(id(source), [])
            if len(stored) != 1 or stored[0].converted or stored[0].of:
                return None
            if not self._has_room(stored[0]):
                return None
            for matrix, runs in enumerate(found):
                more = runs_of(own.index[matrix], stored[0].placement)
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
        makers = {id(one.operand): one for one in self.kernels if one.operand is not None}
        own: dict[int, list[tuple[State, Placement]]] = {}
        for kernel, state, placement in self._reads:
            stored = self.stored[id(state.new)]
            if not any(self._covers(state.new, one.placement, [placement]) for one in stored):
                self.missing.append((state, placement))
            reader = makers.get(id(kernel), kernel)
            own.setdefault(id(reader), []).append((state, placement))
            for maker in (one.maker for one in stored):
                if reader is not maker:
                    maker.after.append(reader)
        for state in self.states.values():
            for one in self.stored.get(id(state.new), ()):
                read = [p for of, p in own.get(id(one.maker), ()) if of is state]
                if self._reads_what_it_wrote(one, state, read):
                    if one.of is None:
                        self.mixed.add(id(state))
                    else:
                        state.apart = self.again = True

    def _reads_what_it_wrote(self, stored: Kernel, state: State, read: list[Placement]) -> bool:
        """Whether a kernel that overwrites a state may read new values in place of old ones.

        Its regions come one after the other: each must read the places that it writes, no others.
        What is stored as soon as it is computed must have all reads of the kernel below it.
        """
        if any(p.key != stored.placement.key for p in read):
            return True
        if stored.of is None:
            return False
        below = self._reads_below(stored.of, stored.root, stored.placement, state, set())
        return below < len(read)

    def _reads_below(
        self, kernel: Kernel, value: Value, p: Placement, state: State, seen: set[tuple[int, Key]]
    ) -> int:
        """How often what a kernel computes a value from is a state's old value."""
        found = 0
        for source, own in self.resolve(value, p):
            key = id(source), own.key
            if source is state.old:
                found += 1
            elif key in kernel.placed and key not in seen:
                seen.add(key)
                inputs = self.inputs(source, own)
                found += sum(self._reads_below(kernel, *one, state, seen) for one in inputs)
        return found

    def inputs(self, value: Value, p: Placement) -> list[tuple[Value, Placement]]:
        """What vector units compute a value from, and in which placements; a product ends it."""
        if value.op == "product":
            return []
        if value.op == "arithmetic" and len(value.inputs) == 2:
            sides = self.binary[id(value), p.key]
            return [sides.x, sides.y]
        return [(value.inputs[0], summed(value, p) if value.op == "sum" else p)]

    def _fail(self) -> None:
        message = "\n".join(self._errors)
        if self._errors and self._apart_from:
            raise LayoutError(message, self._apart_from)
        if self._errors:
            raise CompileError(message)

    def _require(self) -> None:
        """Refuse what the machine does not have."""
        c = self.configuration
        if c.format_a != c.format_w:
            names = (getattr(one, "name", "") for one in (c.format_a, c.format_w))
            raise CompileError(
                f"machine must have one format for both operands, not {' and '.join(names)}"
            )
        if c.conversion(length_of(self.block) // c.lanes) not in c.conversions:
            raise CompileError(
                f"block must be of the machine's conversions {c.conversions}, not {self.block}"
            )
        for value in self._graph.values:
            if value.op == "function" and value.detail not in c.functions:
                self._refuse(value, f"functions of the machine must have it, not {c.functions}")
            if value.op in REDUCTIONS or value.detail == "window":
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

    def _plan(self, value: Value) -> None:
        """Put a value into the kernel that asks for it, or make kernels of its own."""
        demands = list(self._demands.pop(id(value), {}).values())
        if not demands:
            return
        if len(demands) == 1 and self._joins(demands[0], value):
            return
        if self._stored_within(demands, value):
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
            self.kernels.append(kernel)
            self.stored.setdefault(id(value), []).append(kernel)
            asking = (d.kernel for d in demands if d.placement.key == placement.key)
            if not kernel.in_pieces and not self._tight:
                self._convert(kernel, [one for one in asking if one is not None])
            self._place(kernel, value, placement, 1)

    def _is_long(self, value: Value) -> bool:
        """Whether it reduces rows that come into the vector buffer in pieces."""
        if value.op not in REDUCTIONS and value.detail != "window":
            return False
        return self.configuration.sweeps and value.inputs[0].shape[-1] > self._whole_row

    def _counts(self, kernel: Kernel, p: Placement) -> bool:
        """Whether a result counts in a kernel's room: it takes as much of it as others."""
        return self._tight or p.beats > 1 or kernel.placement.beats == 1

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
            self.kernels.remove(other)
            return

    def _serves(self, value: Value, there: Placement, demand: _Demand) -> bool:
        """Whether what is asked for can be had from a placement in memory."""
        if demand.kernel is None and not demand.exact:  # the host reads elements wherever they are
            index = demand.placement.index
            return bool(np.isin(index[index >= 0], there.index).all())
        return self._covers(value, there, [demand.placement])

    def _between(self, value: Value) -> list[Value]:
        """Values the host could have in between: this one, or else those that it is made of.

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
        """Message: the reason why no placement of a value will do."""
        if isinstance(self.block, tuple):
            return (
                "rows of operands must stay in their tiles, and results along the axis that was "
                "reduced: batches must be of 1, or of a multiple of 8 tokens, or block must be 64"
            )
        others = "; with block=(8, 8) operands are" if self.configuration.scaled else ""
        return (
            "its result must be used along the axis that was reduced, because float32 tensors are "
            f"not transposed{others}"
        )

    def _joins(self, demand: _Demand, value: Value) -> bool:
        """Make a value part of the one kernel that asks for it, if it can be."""
        kernel, p = demand.kernel, demand.placement
        if kernel is None or not demand.joins or self._is_long(value) or not self.can(value, p):
            return False
        full = p.beats == kernel.placement.beats and p.lanes == kernel.placement.lanes
        if value.op == "product" and (kernel.product is not None or not full):
            return False
        whole = value.op in REDUCTIONS or value.op == "sum"
        if value.op in REDUCTIONS and not full:
            return False
        if kernel.whole and full and self._loads_again(value, p):
            return False
        shared = demand.count > 1
        shared &= self._counts(kernel, p)
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

    def _stored_within(self, demands: Sequence[_Demand], value: Value) -> bool:
        """Let the one kernel that asks for what updates a state compute and store it, if it can.

        So moments are read and written where the weight is that they change.
        """
        asking = [one for one in demands if one.kernel is not None]
        if self._tight or len(asking) != 1 or id(value) not in self._updates:
            return False
        (own,) = asking
        kernel, p = own.kernel, own.placement
        assert kernel is not None
        same = p.index.shape == kernel.placement.index.shape
        if kernel.kind != "tensor" or not same:
            return False
        if not all(self._serves(value, p, one) for one in demands):
            return False
        stored = replace(own, count=own.count + 1)  # it must be there to be stored
        if not self._joins(stored, value):
            return False
        made = Kernel(value, "tensor", p, of=kernel)
        kernel.also.append(made)
        self.stored.setdefault(id(value), []).append(made)
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
        c, strips = self.configuration, -(-p.lanes // self.lanes)
        beats = -(-p.beats // c.rows) * -(-value.inputs[0].shape[-1] // c.lanes)
        together = max(1, min(MOST_STRIPS, 2 * c.vector_beats // (5 * p.beats)))
        return beats > c.a_beats and together < min(strips, _FEW)

    def _fits(self, kernel: Kernel, extra: int, longest: int, *, whole: bool) -> bool:
        """Whether a kernel's results fit into the vector buffer, with some more."""
        beats = longest if whole else min(longest, self.grain(kernel))
        return (kernel.cost + extra + 1) * beats <= self.configuration.vector_beats

    def grain(self, kernel: Kernel) -> int:
        """Step of the number of beats that are worked on together."""
        if kernel.operands is None:
            return self.lanes
        layout = kernel.operands[0].layout  # a word of scales is the least that is stored
        return max(layout.word_entries * layout.length, self.lanes)

    def _own(self, value: Value, p: Placement) -> bool:
        """Whether an operation itself can have its result so."""
        if value.op == "product":
            return factored(value, p) is not None
        if value.op in REDUCTIONS:
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
            parts = self.resolve(value, p)
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
        inner = summed(value, p) if value.op == "sum" else p
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
        owners = np.zeros((first.matrices, -(-first.lanes // self.lanes), first.beats), np.int32)
        for _, p in parts:
            filled = p.index >= 0
            for strip in strips_of(p, self.lanes):
                own = filled[:, strip * self.lanes : (strip + 1) * self.lanes]
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
        own = natural(value)
        yield own
        yield own.turned()
        if not 1 < own.matrices * own.lanes <= self._apart:
            return
        rows = own.index.reshape(-1, 1, own.beats)
        for before in range(self.lanes):  # the lane of the row that it is made of
            empty = np.full((len(rows), before, own.beats), -1, np.int32)
            yield Placement(np.concatenate([empty, rows], axis=1))

    def _covers(self, value: Value, there: Placement, wanted: Sequence[Placement]) -> bool:
        """Whether all that is wanted consists of beats of what is there."""
        others = [one for one in wanted if one.key != there.key]
        if not others:
            return True
        beats = Beats(there, value.size, self.lanes)
        return all(
            beats.find(one.part(matrix, strips_of(one, self.lanes), range(one.beats), self.lanes))
            is not None
            for one in others
            for matrix in range(one.matrices)
        )

    def _place(self, kernel: Kernel, value: Value, p: Placement, count: int) -> None:
        """Make a value part of a kernel and ask for what it is made of."""
        kernel.placed[id(value), p.key] = count
        kernel.names.append(value.name)
        if kernel.in_pieces:
            inner = summed(value, p) if value.op == "sum" else p
            self._ask(kernel, value.inputs[0], inner, joins=False)
        elif value.op in REDUCTIONS:
            kernel.whole = True
            self._ask(kernel, value.inputs[0], p)
        elif value.op == "sum":
            kernel.whole = True
            self._ask(kernel, value.inputs[0], summed(value, p))
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
        made = self.binary[id(value), p.key] = self._broadcast(value, p)
        if made.mode == "beats" or not made.y[0].of_host:
            kernel.cost += self._counts(kernel, made.y[1])
        self._ask(kernel, *made.x)
        self._ask(kernel, *made.y, joins=made.mode != "numbers")

    def _mode(self, value: Value, p: Placement) -> str:
        """Mode in which it can be broadcast as a second operand."""
        parts = self.resolve(value, p)
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
        factors = factored(value, p)
        assert factors is not None
        a, b = value.inputs
        found = []
        for lanes in (True, False):
            rows = [(f.matrix, f.lanes if lanes else f.beats) for f in factors]
            source = a if factors[0].straight == lanes else b
            keys = [taken(source, *one) for one in rows]
            unique = list(dict.fromkeys(keys))
            wanted = [rows[keys.index(key)] for key in unique]
            found.append((source, wanted, [unique.index(key) for key in keys]))
        return found

    def _operand_placement(
        self, value: Value, wanted: list[tuple[int, Indices]]
    ) -> tuple[Placement, bool] | None:
        """Placement of rows of a value as an operand, and whether transposed; or None."""
        p = self._rows_wanted(value, wanted)
        options = [(p, False)]
        if self._turns:
            # What a tensor has along its last axis stands along beats: so it is there once.
            options.insert(self._along_beats(value, p), (p.turned(), True))
        if not self.configuration.scaled:
            # Without tiles that rows must stay in, both are mostly possible: rather one that is
            # there than one for which what it is made of is computed again.
            options.sort(key=lambda option: not self._is_usual(value, option[0]))
        return next(((one, turned) for one, turned in options if self._had(value, one)), None)

    def _is_usual(self, value: Value, p: Placement) -> bool:
        """Whether it can be taken from tensors as they usually are, or turned."""
        parts = [(source, natural(source), own) for source, own in self.resolve(value, p)]
        return all(
            any(self._covers(source, one, [own]) for one in (usual, usual.turned()))
            for source, usual, own in parts
        )

    def _along_beats(self, value: Value, p: Placement) -> bool:
        """Whether beats have what is along the last axis of a tensor."""
        if p.beats < 2:
            return True
        along = 0
        for _, own in self.resolve(value, p):
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
                self.kernels.remove(known)
                self.kernels.append(known)
                return Source(known, which, turned)
        found = self._operand_placement(value, wanted)
        assert found is not None
        p, turned = found
        kernel = Kernel(value, "operand", p, longest=p.beats)
        kernel.targets = [Operand(f"{value.name} as operand", self._layout(p)) for _ in wanted]
        self._operand_kernels[self._origin(value, p)] = kernel
        (source, own), *others = self.resolve(value, p)
        state = self.states.get(id(source))
        if state is not None and not others and own.key not in state.converted_again:
            kernel.placement = own
            self._kept_operands[id(kernel)] = state, kernel, [reader]
            return Source(kernel.targets, which, turned)
        self.kernels.append(kernel)
        self._ask(kernel, value, p)
        return Source(kernel, which, turned)

    @property
    def _turns(self) -> bool:
        """Whether operands can be transposed as they are loaded."""
        c = self.configuration
        return (isinstance(self.block, tuple) or not c.scaled) and c.turns_operands

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
        if not isinstance(self.block, tuple):
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
            data = value.numbers[matrix][np.maximum(rows, 0)]
            data[rows < 0] = 0
            layout = OperandLayout(
                configuration=self.configuration,
                rows=len(rows),
                columns=value.shape[2],
                block=self.block,
            )
            made = self.draft.operand(value.name, layout)
            packed = layout.packed(layout.converted(data))
            for address, part in zip((made.codes, made.scales), packed, strict=True):
                self.image.append((address, part))
            self._constants[key] = made
        return self._constants[key]

    def resolve(self, value: Value, p: Placement) -> list[tuple[Value, Placement]]:
        """Values that a placement of a gather takes from, and the elements."""
        key = id(value), p.key
        if key not in self._resolved:
            self._resolved[key] = self._behind(value, p)
        return self._resolved[key]

    def _behind(self, value: Value, p: Placement) -> list[tuple[Value, Placement]]:
        if value.op != "gather" or (value.of_host and len(value.inputs) > 1):
            return [(value, p)]
        index = p.of(value.numbers).index
        parts, start = [], 0
        for source in value.inputs:
            own = (index >= start) & (index < start + source.size)
            if own.any():
                there = Placement(np.where(own, index - start, np.int32(-1)))
                parts += self.resolve(source, there)
            start += source.size
        if not parts:  # anything will do, but there must be something
            parts = [(self.nothing, Placement(np.zeros_like(index)))]
        return parts

    def _origin(self, value: Value, p: Placement) -> tuple[tuple[int, Key], ...]:
        """Elements of a placement and the values they come from, through all gathers."""
        return tuple((id(source), own.key) for source, own in self.resolve(value, p))

    def _ask(self, kernel: Kernel, value: Value, p: Placement, *, joins: bool = True) -> None:
        """Ask for a value in a placement."""
        parts = self.resolve(value, p)
        if len(parts) > 1:
            kernel.cost += 1
        for source, own in parts:
            if id(source) in self.states:
                self._reads.append((kernel, self.states[id(source)], own))
                continue
            if source.of_host:
                self.table(source, own)
                continue
            known = self._demands.setdefault(id(source), {})
            kernel.asked.append((source, own))
            one = known.setdefault((id(kernel), own.key), _Demand(kernel, own, joins=True))
            one.joins &= joins and len(parts) == 1
            one.count += 1
            if one.count == 2:  # it is loaded once for both
                kernel.cost += self._counts(kernel, own)

    def table(self, value: Value, p: Placement) -> list[Vectors]:
        """Numbers of the host in memory: of each matrix where it lies, equal ones once."""
        key = id(value), p.key
        if key not in self.tables:
            layout = Float32Layout(configuration=self.configuration, rows=p.beats, columns=p.lanes)
            found: dict[bytes, Vectors] = {}
            matrices, places = [], []
            for matrix in range(p.matrices):
                own = p.index[matrix].tobytes()
                if own not in found:
                    found[own] = self.draft.vectors(value.name, layout)
                    matrices.append(matrix)
                places.append(found[own])
            table = Table(value, p, matrices, [places[matrix] for matrix in matrices])
            self.tables[key] = table, places
        return self.tables[key][1]


def _columns(operand: Operand, columns: range | None) -> Operand:
    """Some columns of an operand in memory, or all with what fills the last tile."""
    return operand if columns is None else columns_of(operand, columns)
