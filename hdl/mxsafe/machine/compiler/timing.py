"""Predicted cycles and transfers of a program, from its descriptors alone."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations

from mxsafe.machine.accesses import accesses_of, name_in, places_of
from mxsafe.machine.compiler.emitter import Emitter, Step
from mxsafe.machine.compiler.places import CompileError
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.description import (
    ARITHMETIC,
    DESCRIPTOR_BITS,
    LOAD_BUFFERS,
    MOST_TOKENS,
    PASSES,
    QUEUES,
    STORE_BUFFERS,
    run_words,
)
from mxsafe.machine.program import Program
from mxsafe.machine.reach import second_beats
from mxsafe.machine.tokens import Header, bits, deadlock_of
from mxsafe.validation import checked

__all__ = ["Engines", "Prediction", "Run", "Times", "predict"]


@dataclass(frozen=True, kw_only=True)
class Times:
    """Cycles that a machine takes beside those of its work, in its default configuration.

    `mxsafe.rtl.machine.times.times_of` has those of any machine, from its units; `of` those of the
    default sizes.

    Attributes
    ----------
    memory : int
        From a request to the first word of memory.
    start : int
        From the start of a program to the request for its first word, and from a word that is a
        descriptor to its queue, together.
    ahead : int
        Descriptors that are asked for before they are handed over; half of them at a time.
    queue : int
        From a descriptor in an empty queue to its start.
    load, store : int
        From a descriptor's start to its first request, and from the last word that memory gives or
        takes to the end of the descriptor, together.
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
    turns : int
        Of which a block takes a multiple.
    parts, handover : int
        In which vector units take a beat; and more for it, if rows are not reduced.
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
    convert, codes : int
        More of that with a conversion, beside the values of a block; and cycles for one of these.
    softmax, layer_norm, rms_norm, sum : int
        For a row, beside its passes; of norms it depends on numbers, and this is for a row whose
        largest value is from two to four times its deviation.
    """

    memory: int = 100
    start: int = 5
    ahead: int = 16
    queue: int = 3
    load: int = 7
    store: int = 9
    gemm: int = 24
    products: int = 3
    transfers: int = 2
    tile: int = 16
    block: int = 2
    beat: int = 1
    turns: int = 2
    parts: int = 1
    handover: int = 0
    move: int = 1
    pace: int = 1
    vector: int = 4
    arithmetic: int = 6
    function: int = 3
    narrow_functions: tuple[str, ...] = ("exp", "sigmoid", "reciprocal", "rsqrt")
    narrow: int = 12
    narrow_pace: int = 4
    convert: int = 7
    codes: int = 1
    softmax: int = 48
    layer_norm: int = 294
    rms_norm: int = 187
    sum: int = 108

    @classmethod
    def of(cls, configuration: MachineConfiguration) -> "Times":
        """Those of a machine of default sizes whose operands have scales, or have none."""
        if configuration.scaled:
            return cls()
        return cls(block=1, turns=1, convert=4)  # a beat of numbers is added, or rounded, by itself

    def block_cycles(self, beats: int) -> int:
        """Cycles in which the array takes a block of so many beats."""
        return -(-beats * self.beat // self.turns) * self.turns


@dataclass(frozen=True)
class Run:
    """Times of a descriptor: when it begins and ends.

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
    accesses : dict of str to int
        By names of `mxsafe.machine.description.ACCESSES`: exact too.
    """

    cycles: int
    array_busy: int
    busy: dict[str, int]
    words_read: int
    words_written: int
    runs: list[Run] = field(default_factory=list, repr=False)
    accesses: dict[str, int] = field(default_factory=dict, repr=False)

    def idle(self) -> dict[str, int]:
        """Cycles in which the array has no beat, by what its next product waits for."""
        found: dict[str, int] = {}
        at = work = 0
        for run in self.runs:
            if run.queue == "gemm":
                found[run.waits_for] = found.get(run.waits_for, 0) + run.start - at
                at, work = run.stop, work + run.stop - run.start
        return {**found, "tiles": work - self.array_busy, "end": self.cycles - at}


_LOADS = 4
"""Last loads, of which words may come while vectors are computed that follow them."""
_FETCHES = 4
"""Last groups of descriptors, which may come while words of a load do."""
_OF_ONE = ARITHMETIC["none"], ARITHMETIC["scale"]
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
        self.fetches = deque([(0, 0)], _FETCHES)
        self.word = max(8 * configuration.word_bytes // configuration.data_width, 1)

    def ready(self, queue: int) -> int:
        """Cycle in which an engine can begin its next descriptor."""
        return max(self.free[queue], self.under_way[queue][0])

    def ran(self, queue: int, stop: int, end: int) -> None:
        """Note that an engine has a descriptor until then, and that it ends then."""
        self.free[queue] = stop
        self.under_way[queue].append(end)

    def work(self, step: Step, start: int) -> tuple[int, int]:
        """Cycles in which the engine is free for the next descriptor, and this one has ended."""
        times = self.times
        if step.kind in _BUFFERS:
            of_vectors = step.fields["buffer"] == _BUFFERS[step.kind]["vector"]
            pace = times.pace if of_vectors else times.move
            words = max(_words(step, self.configuration) * self.word, places_of(step.fields) * pace)
            begins = max(start + times.memory, self.bus[step.kind])
            if step.kind == "load":
                for first, last in self.fetches:  # they come over the same bus
                    if begins < last and first < begins + words:
                        words += last - max(first, begins)
            self.bus[step.kind] = begins + words
            return max(start + 2, begins + words - times.memory), begins + words + getattr(
                times, step.kind
            )
        if step.kind == "gemm":
            own = step.fields
            tiles = own["strips_a"] * own["strips_w"]
            whole, rest = divmod(own["beats"], own["block"])
            blocks = whole + bool(rest)
            cycles = whole * times.block_cycles(own["block"]) + times.block_cycles(rest)
            # For anchors each scale is read twice: of the first tile before it begins, of each
            # other one while the tile before it is multiplied.
            anchor = int(self.configuration.anchored)
            tile = max(cycles, times.tile, blocks * max(times.block, 2 * anchor))
            stop = start + blocks * anchor + tiles * tile
            return stop, stop + times.gemm
        end = start + vector_clocks(step.fields, self.configuration, times)
        return end, end


class _Model(Engines):
    """The same with descriptors that are fetched, tokens between queues, and banks of the buffer.

    Of a draft nobody knows yet what stands in the same bank.
    """

    def __init__(
        self, configuration: MachineConfiguration, times: Times, headers: Sequence[Header]
    ) -> None:
        super().__init__(configuration, times)
        self.headers, self.group = headers, times.ahead // 2
        self.beats = -(-DESCRIPTOR_BITS // configuration.data_width)
        # When words of the last loads of vectors came, and to which bank.
        self.loads: deque[tuple[int, int, int]] = deque(maxlen=_LOADS)
        # When the next descriptor has come, when each was in its queue, and those of each queue.
        self.comes = 0
        self.handed: list[int] = []
        self.entered = [0] * len(QUEUES)
        self.ends: list[list[int]] = [[] for _ in QUEUES]
        # By pair of queues when each token is there, and when there is room for each next one.
        pairs = list(permutations(range(len(QUEUES)), 2))
        self.tokens: dict[tuple[int, int], deque[int]] = {pair: deque() for pair in pairs}
        self.rooms = {pair: deque([0] * MOST_TOKENS) for pair in pairs}

    def work(self, step: Step, start: int) -> tuple[int, int]:
        """The same, with waits for a bank that somebody else reads or writes."""
        own, before = step.fields, self.bus["load"]
        stop, end = super().work(step, start)
        if step.kind == "load" and own["buffer"] == LOAD_BUFFERS["vector"]:
            bank = own["to"] // (1 if own.get("widen") else 2) // self.configuration.bank_beats
            self.loads.append((max(before, start + self.times.memory), self.bus["load"], bank))
        if step.kind != "vector":
            return stop, end
        if self.times.parts * self.times.pace == 1:
            more = max(0, _shared_reads(own, self.configuration) - _AHEAD)
            stop, end = stop + more, end + more
        if own.get("to_vector"):
            # Results go first, and words that come to the same bank meanwhile wait.
            results = own["beats"] * own["rows"]
            for first, last, bank in self.loads:
                meanwhile = min(last, end) - max(first, start)
                if meanwhile > 0 and bank == own["d"] // self.configuration.bank_beats:
                    self.bus["load"] += results * meanwhile // (end - start)
        return stop, end

    def _hand_over(self) -> None:
        """The next descriptor finds a place in its queue."""
        number, last = len(self.handed), self.handed[-1] if self.handed else 0
        queue = self.headers[number].queue
        if number % self.group == 0:
            # Half of the places are free: those behind the ones that come are asked for.
            for first in (0, self.group) if number == 0 else (number + self.group,):
                begins = max(last + self.times.memory, self.fetches[-1][1])
                count = min(max(len(self.headers) - first, 0), self.group)
                self.fetches.append((begins, begins + count * self.beats))
            self.comes = self.fetches[-2][0] + self.times.start
        self.comes += self.beats
        before = self.entered[queue] - self.configuration.queue_depth
        place = self.ends[queue][before] if before >= 0 else 0
        self.entered[queue] += 1
        self.handed.append(max(self.comes, last + 1, place))

    def run(self, step: Step, number: int) -> Run:
        """Run the next descriptor."""
        # Which places are free is known for as many more as a queue has.
        known = min(number + self.configuration.queue_depth, len(self.headers))
        while len(self.handed) < known:
            self._hand_over()
        header = self.headers[number]
        queue = header.queue
        tokens = {QUEUES[o]: self.tokens[o, queue].popleft() for o in bits(header.wait)}
        fetched = self.handed[number] + self.times.queue
        ready = {"fetch": fetched, "engine": self.ready(queue), **tokens}
        waits_for = max(ready, key=lambda name: ready[name])
        start = ready[waits_for]
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
        self.ends[queue].append(end)
        return Run(number, step.kind, start, stop, end, waits_for)


@checked
def predict(program: Emitter | Program, times: Times | None = None) -> Prediction:
    """Cycles and words of a program.

    Parameters
    ----------
    program : Emitter or Program
    times : Times, optional
        By default those of the machine with default sizes.

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
    times = Times.of(program.configuration) if times is None else times
    model = _Model(program.configuration, times, headers)
    busy = dict.fromkeys(QUEUES, 0)
    words = dict.fromkeys(("load", "store"), 0)
    runs: list[Run] = []
    array = 0
    for number, step in enumerate(steps):
        run = model.run(step, number)
        runs.append(run)
        busy[step.kind] += run.stop - run.start
        if step.kind in words:
            words[step.kind] += _words(step, program.configuration)
        if step.kind == "gemm":
            own = step.fields
            array += own["strips_a"] * own["strips_w"] * own["beats"]
    end = max((run.end for run in runs), default=0)
    accesses = accesses_of(((step.kind, step.fields) for step in steps), program.configuration)
    return Prediction(end, array, busy, words["load"], words["store"], runs, accesses)


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
    is_narrow = name_in("vector", "function", fields) in times.narrow_functions
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
        stage = name_in("vector", "reduction", fields), name_in("vector", "sweep", fields)
        clocks += beats * max(pace, narrow) + fields["ends"] * found.get(stage, 0)
    elif fields["reduction"]:
        name = name_in("vector", "reduction", fields)
        # The first row enters the memory; then passes of rows follow one another. First parts of
        # beats come as they are read, the others from memories.
        passes = PASSES[name]
        clocks += beats * (pace + rows * (times.pace - 1))
        row = max(passes * beats + getattr(times, name), narrow * beats)
        clocks += rows * times.parts * row
        if fields.get("affine") and times.pace > 1:
            # Gain and bias of a beat of results are read one after the other, and handed on.
            clocks += rows * beats * max(3 * times.pace - times.parts, 0)
    else:
        clocks += beats * rows * max(times.parts + times.handover, pace)
    if fields.get("convert"):
        block = configuration.block_beats * configuration.lanes
        clocks += times.convert + times.codes * min(beats, block)
    return clocks


_AHEAD = 3
"""Beats of an operand that have been read before they are needed."""


def _shared_reads(fields: Mapping[str, int], configuration: MachineConfiguration) -> int:
    """Reads of second operands from the bank in which the first ones stand: they take turns."""
    if fields["arithmetic"] in _OF_ONE or fields["reduction"] or fields.get("causal"):
        return 0
    each = second_beats(fields["y_mode"], fields["beats"], configuration.vector_lanes)
    x, y, size = fields["x"], fields["y"], configuration.bank_beats
    return each * sum(
        (x + row * fields["x_stride"]) // size == (y + row * fields["y_stride"]) // size
        for row in range(fields["rows"])
    )


def _words(step: Step, configuration: MachineConfiguration) -> int:
    """Words of memory that LOAD or STORE moves."""
    own = step.fields
    return run_words(own, configuration) * own["count_1"] * own["count_2"] * own["count_3"]
