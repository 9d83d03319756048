"""How long a program takes and what it moves, from its descriptors alone."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import permutations

from mxsafe.machine.compiler.emitter import Emitter, Step
from mxsafe.machine.compiler.places import CompileError
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.description import (
    DESCRIPTORS,
    LOAD_BUFFERS,
    MOST_TOKENS,
    QUEUES,
    STORE_BUFFERS,
    run_words,
)
from mxsafe.machine.program import Program
from mxsafe.machine.tokens import Header, bits, deadlock_of
from mxsafe.validation import checked

__all__ = ["Engines", "Prediction", "Run", "Times", "predict"]


@dataclass(frozen=True, kw_only=True)
class Times:
    """Cycles that a machine takes beside those of its work, in its default configuration.

    `mxsafe.rtl.machine.times.times_of` has those of any machine, from its units.

    Attributes
    ----------
    memory : int
        From a request to the first word of memory.
    queue : int
        From a descriptor in a queue, or its last token, to its start.
    load, store : int
        From the last word that memory gives or takes to the end of the descriptor.
    gemm : int
        From the last beat of a tile to its last row in the vector buffer.
    products : int
        Products in flight.
    transfers : int
        Descriptors of LOAD, and of STORE, in flight.
    tile, block : int
        From the end of a tile to that of the next, at least; and of a block.
    beat : int
        In which the array takes an operand beat.
    parts : int
        In which vector units take a beat.
    move : int
        From a word of a buffer to the next one of LOAD or STORE, at least.
    pace : int
        From an access to the vector buffer to the next one of the same engine, at least.
    vector : int
        From a descriptor's start to its first result and from its last one to the end, together,
        without what follows.
    function, arithmetic : int
        More of that with a function, and with arithmetic.
    narrow_functions : tuple of str
        Functions with fewer lanes than the others.
    narrow, narrow_pace : int
        More of that with one of these, and cycles in which it takes a beat.
    convert : int
        More of that with a conversion, beside the values of a block.
    softmax, layer_norm, rms_norm, sum : int
        For a row, beside its passes; of norms it depends on numbers, and this is for a row whose
        largest value is from two to four times its deviation.
    """

    memory: int = 100
    queue: int = 3
    load: int = 2
    store: int = 2
    gemm: int = 29
    products: int = 3
    transfers: int = 2
    tile: int = 16
    block: int = 2
    beat: int = 1
    parts: int = 1
    move: int = 1
    pace: int = 1
    vector: int = 5
    arithmetic: int = 6
    function: int = 3
    narrow_functions: tuple[str, ...] = ("exp", "sigmoid", "reciprocal", "rsqrt")
    narrow: int = 12
    narrow_pace: int = 4
    convert: int = 7
    softmax: int = 45
    layer_norm: int = 294
    rms_norm: int = 187
    sum: int = 108


@dataclass(frozen=True)
class Run:
    """When a descriptor runs.

    Attributes
    ----------
    number : int
        Of the descriptor.
    queue : str
    start, stop : int
        Cycles in which it keeps its engine from the next one.
    end : int
        When its tokens are there.
    waits_for : str
        What its start waited for longest: ``fetch``, its own ``engine``, or the queue of a token.
    """

    number: int
    queue: str
    start: int
    stop: int
    end: int
    waits_for: str


@dataclass(frozen=True)
class Prediction:
    """Figures of a program, predicted before it runs.

    Attributes
    ----------
    cycles : int
    array_busy : int
        Cycles in which the array takes a beat.
    busy : dict of str to int
        Cycles in which each queue works.
    words_read, words_written : int
        Words that LOAD and STORE move: exact.
    runs : list of Run
        When each descriptor runs.
    """

    cycles: int
    array_busy: int
    busy: dict[str, int]
    words_read: int
    words_written: int
    runs: list[Run] = field(default_factory=list, repr=False)

    def idle(self) -> dict[str, int]:
        """Cycles in which the array has no beat, by what its next product waits for."""
        found: dict[str, int] = {}
        at = work = 0
        for run in self.runs:
            if run.queue == "gemm":
                found[run.waits_for] = found.get(run.waits_for, 0) + run.start - at
                at, work = run.stop, work + run.stop - run.start
        return {**found, "tiles": work - self.array_busy, "end": self.cycles - at}


_BUFFERS = {"load": LOAD_BUFFERS, "store": STORE_BUFFERS}


class Engines:
    """The engines of the four queues and the bus, in cycles."""

    def __init__(self, configuration: MachineConfiguration, times: Times) -> None:
        self.configuration, self.times = configuration, times
        under_way = {"load": times.transfers, "store": times.transfers, "gemm": times.products}
        self.under_way = [
            deque([0] * under_way.get(name, 1), under_way.get(name, 1)) for name in QUEUES
        ]
        self.free = [0] * len(QUEUES)
        self.bus = {"load": 0, "store": 0}
        self.word = max(8 * configuration.word_bytes // configuration.data_width, 1)

    def ready(self, queue: int) -> int:
        """When an engine can begin its next descriptor."""
        return max(self.free[queue], self.under_way[queue][0])

    def ran(self, queue: int, stop: int, end: int) -> None:
        """Note that an engine has a descriptor until then, and that it ends then."""
        self.free[queue] = stop
        self.under_way[queue].append(end)

    def work(self, step: Step, start: int) -> tuple[int, int]:
        """When the engine is free for the next descriptor, and when this one has ended."""
        times = self.times
        if step.kind in _BUFFERS:
            of_vectors = step.fields["buffer"] == _BUFFERS[step.kind]["vector"]
            pace = times.pace if of_vectors else times.move
            words = max(_words(step, self.configuration) * self.word, _places(step) * pace)
            begins = max(start + times.memory, self.bus[step.kind])
            self.bus[step.kind] = begins + words
            return max(start + 2, begins + words - times.memory), begins + words + getattr(
                times, step.kind
            )
        if step.kind == "gemm":
            own = step.fields
            tiles, beats = own["strips_a"] * own["strips_w"], own["beats"]
            blocks = -(-beats // own["block"])
            # For anchors each scale is read twice: of the first tile before it begins, of each
            # other one while the tile before it is multiplied.
            anchor = int(self.configuration.anchored)
            tile = max(beats * times.beat, times.tile, blocks * max(times.block, 2 * anchor))
            stop = start + blocks * anchor + tiles * tile
            return stop, stop + times.gemm
        end = start + vector_clocks(step.fields, self.configuration, times)
        return end, end


class _Model(Engines):
    """The same with tokens between the queues."""

    def __init__(self, configuration: MachineConfiguration, times: Times) -> None:
        super().__init__(configuration, times)
        depth = configuration.queue_depth
        self.places = [deque([0] * depth, depth) for _ in QUEUES]
        # By pair of queues when each token is there, and when there is room for each next one.
        pairs = list(permutations(range(len(QUEUES)), 2))
        self.tokens: dict[tuple[int, int], deque[int]] = {pair: deque() for pair in pairs}
        self.rooms = {pair: deque([0] * MOST_TOKENS) for pair in pairs}

    def run(self, step: Step, number: int, fetched: int, header: Header) -> Run:
        """Run a descriptor that is fetched at this time."""
        queue = header.queue
        tokens = {QUEUES[o]: self.tokens[o, queue].popleft() for o in bits(header.wait)}
        ready = {"fetch": fetched, "engine": self.ready(queue) - self.times.queue, **tokens}
        waits_for = max(ready, key=lambda name: ready[name])
        start = ready[waits_for] + self.times.queue
        for other in bits(header.wait):
            self.rooms[other, queue].append(start)
        stop, end = self.work(step, start)
        # A token that finds no room in its counter keeps the next descriptor from its start.
        room = max((self.rooms[queue, o].popleft() for o in bits(header.signal)), default=0)
        if room > end:
            stop = end = room
        for other in bits(header.signal):
            self.tokens[queue, other].append(end)
        if waits_for == "engine" and step.kind == "gemm":
            start = max(self.free[queue], start - self.times.queue)
        self.ran(queue, stop, end)
        self.places[queue].append(end)
        return Run(number, step.kind, start, stop, end, waits_for)


@checked
def predict(program: Emitter | Program, times: Times | None = None) -> Prediction:
    """Cycles and words of a program.

    Parameters
    ----------
    program : Emitter or Program
    times : Times, optional

    Returns
    -------
    Prediction

    Raises
    ------
    CompileError
        If the machine would wait for ever at one of its descriptors.
    ValueError
        If it does not take one of them.
    """
    steps, headers = _descriptors(program)
    times = Times() if times is None else times
    model = _Model(program.configuration, times)
    busy = dict.fromkeys(QUEUES, 0)
    words = dict.fromkeys(("load", "store"), 0)
    runs: list[Run] = []
    # Descriptors are asked for in groups, but come one after the other.
    fetched, array = times.memory, 0
    for number, (step, header) in enumerate(zip(steps, headers, strict=True)):
        fetched = max(fetched + model.word, model.places[header.queue][0])
        run = model.run(step, number, fetched, header)
        runs.append(run)
        busy[step.kind] += run.stop - run.start
        if step.kind in words:
            words[step.kind] += _words(step, program.configuration)
        if step.kind == "gemm":
            own = step.fields
            array += own["strips_a"] * own["strips_w"] * own["beats"]
    end = max(run.end for run in runs)
    return Prediction(end, array, busy, words["load"], words["store"], runs)


def _descriptors(program: Emitter | Program) -> tuple[list[Step], list[Header]]:
    if isinstance(program, Emitter):
        return program.steps, program.headers()
    instructions = program.instructions()
    headers = [one.header for one in instructions]
    if deadlock := deadlock_of(headers, program.configuration.queue_depth):
        raise CompileError(f"descriptor {deadlock.descriptor}: {deadlock.reason}")
    return [Step(one.kind, one.values) for one in instructions], headers


def vector_clocks(
    fields: Mapping[str, int], configuration: MachineConfiguration, times: Times
) -> int:
    """Cycles of a descriptor of vectors."""
    beats, rows = fields["beats"], fields["rows"]
    clocks = times.queue + times.vector
    clocks += times.arithmetic * bool(fields["arithmetic"] or fields.get("affine"))
    is_narrow = _name("function", fields) in times.narrow_functions
    clocks += (times.narrow if is_narrow else times.function) * bool(fields["function"])
    narrow = times.narrow_pace * is_narrow
    pace = max(times.pace, times.parts * narrow)
    if fields.get("sweep"):
        # Beats come once. What follows from them is found where the sweep ends.
        found = {
            ("softmax", "sums"): times.softmax,
            ("sum", "sums"): times.sum,
            ("layer_norm", "sums"): times.layer_norm - times.rms_norm,
            ("layer_norm", "squares"): times.rms_norm,
            ("rms_norm", "squares"): times.rms_norm,
        }
        stage = _name("reduction", fields), _name("sweep", fields)
        clocks += beats * max(pace, narrow) + fields["ends"] * found.get(stage, 0)
    elif fields["reduction"]:
        name = _name("reduction", fields)
        # The first row enters the memory; then passes of rows follow one another. First parts of
        # beats come as they are read, the others from memories.
        passes = {"softmax": 2, "layer_norm": 3, "rms_norm": 2, "sum": 1}[name]
        clocks += beats * (pace + rows * (times.pace - 1))
        row = max(passes * beats + getattr(times, name), narrow * beats)
        clocks += rows * times.parts * row
        if fields.get("affine") and times.pace > 1:
            # Gain and bias of a beat of results are read one after the other, and handed on.
            clocks += rows * beats * max(3 * times.pace - times.parts, 0)
    else:
        clocks += beats * rows * max(times.parts, pace)
    if fields.get("convert"):
        block = configuration.block_beats * configuration.lanes
        clocks += times.convert + min(beats, block)
    return clocks


def _name(field: str, fields: Mapping[str, int]) -> str:
    """The name of a field's value."""
    enumeration = DESCRIPTORS["vector"].field(field).enumeration
    assert enumeration is not None
    name = enumeration.name_of(fields[field])
    assert name is not None
    return name


def _words(step: Step, configuration: MachineConfiguration) -> int:
    """Words of memory that LOAD or STORE moves."""
    own = step.fields
    return run_words(own, configuration) * own["count_1"] * own["count_2"] * own["count_3"]


def _places(step: Step) -> int:
    """Words of its buffer."""
    own = step.fields
    return own["count_0"] * own["count_1"] * own["count_2"] * own["count_3"]
