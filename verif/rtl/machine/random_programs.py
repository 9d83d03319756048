"""Random programs: descriptors of all kinds, in order by tokens, over data with corner values.

Whatever comes is drawn so that the machine takes it, so that no address is outside, and so that no
descriptor reads what it writes itself. What it means is not asked.
"""

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mxsafe.machine.assembler import Assembler, Instruction
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.description import (
    ARITHMETIC,
    CONVERT,
    DESCRIPTORS,
    FOLLOWING,
    LOAD_BUFFERS,
    PACKING,
    QUEUES,
    REDUCTION,
    STORE_BUFFERS,
    SWEEP,
    TARGETS,
    Y_MODES,
    Enumeration,
    run_words,
)
from mxsafe.machine.reach import address_fault, result_beats
from mxsafe.model.softmax import softmax_factor
from verif.rtl.machine.accelerator_checks import Program
from verif.rtl.machine.descriptor_places import Tokens, space_sizes, touched
from verif.rtl.machine.power_up import powered_up

_KINDS = ("load", "load", "vector", "load", "gemm", "vector", "store", "store")
"""Kinds of descriptors as often as they come."""
_REGIONS = {"codes": 200, "scales": 96, "numbers": 320, "halves": 128, "work": 320}
"""Parts of memory, and their words; only ``work`` is written."""
_OF_BUFFER = {
    "a_codes": "codes",
    "w_codes": "codes",
    "a_scales": "scales",
    "w_scales": "scales",
    "vector": "numbers",
}
_LONG = 0.1
"""How often loops, rows and tiles are long."""
_SPECIAL = np.array(
    [0, 1 << 31, 1, 0x807FFFFF, 0x00800000, 0x7F800000, 0xFF800000, 0x7FC00001, 0x7F7FFFFF],
    np.uint32,
)
_TRIES = 100
_LONGER = 4
"""How many times as long as it was to be a program may become for what it needs."""
_MORE = 25
"""Descriptors that are drawn at once for that."""
Fields = dict[str, int]


class _Decks:
    """Choices of which each comes as often as the others: gone through again and again."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._left: dict[str, list[int]] = {}

    def draw(self, name: str, options: Sequence[int]) -> int:
        """The next one of a deck."""
        left = self._left.setdefault(name, [])
        if not left:
            left.extend(int(option) for option in self._rng.permutation(options))
        return left.pop()


@dataclass
class _Writer:
    """A program in the making."""

    configuration: MachineConfiguration
    rng: np.random.Generator
    base: int
    steps: list[tuple[str, Fields]] = field(default_factory=list)
    missing: AbstractSet[str] = frozenset()

    def __post_init__(self) -> None:
        self.decks = _Decks(self.rng)
        self.regions, at = {}, 0
        c = self.configuration
        dump = 2 * c.vector_beats + (c.beat_words + 1) * c.out_beats
        for name, words in {**_REGIONS, "dump": dump}.items():
            self.regions[name] = range(at, at + words)
            at += words
        self.tokens = Tokens(space_sizes(self.configuration, at))
        self.stored = np.zeros(at, np.bool_)
        self.pieces: list[Fields] = []

    # Numbers.

    def upto(self, most: int, least: int = 0) -> int:
        """Any number in a range, both ends included."""
        return int(self.rng.integers(least, most + 1))

    def chance(self, probability: float) -> bool:
        """Whether something is done."""
        return bool(self.rng.random() < probability)

    def any_of(self, kind: str, name: str) -> int:
        """Return any value that fits into a field that nobody looks at."""
        return self.upto((1 << DESCRIPTORS[kind].field(name).width) - 1)

    def loops(self, counts: Sequence[int], room: int, widest: Sequence[int]) -> list[int]:
        """Strides of loops that stay within so many places; any where there is one turn."""
        strides, reach, dense = [], 0, 1
        contiguous = self.chance(0.4)
        for count, most in zip(counts, widest, strict=True):
            if count == 1:
                strides.append(self.upto(most))
                continue
            largest = min((room - 1 - reach) // (count - 1), most)
            assert largest >= 0, f"{room} places have no room for {counts}"
            strides.append(dense if contiguous and dense <= largest else self.upto(largest))
            reach += (count - 1) * strides[-1]
            dense *= count
        return strides

    def start(self, loops: Sequence[tuple[int, int]], places: range) -> int:
        """Beginning of loops that stay within places."""
        reach = sum((count - 1) * stride for count, stride in loops)
        return places.start + self.upto(len(places) - 1 - reach)

    # Descriptors.

    def draw(self, count: int) -> None:
        """Draw about so many descriptors of all kinds."""
        for _ in range(count):
            kind = _KINDS[self.decks.draw("kind", range(len(_KINDS)))]
            getattr(self, kind)()

    def add(self, kind: str, fields: Fields) -> None:
        """Add a descriptor that waits for what it must wait for, and perhaps for more."""
        made = Instruction(kind, fields)
        assert made.fault(self.configuration) is None, made.fault(self.configuration)
        assert address_fault(made, self.configuration) is None, str(made)
        places = touched(made, self.configuration)
        queue = QUEUES.index(kind)
        besides = []
        for other in range(len(QUEUES)):
            later = self.tokens.later(queue, other)
            if other != queue and later and self.chance(0.05):
                besides.append(int(self.rng.choice(later)))
        self.tokens.add(queue, places, besides)
        self.stored[places.writes.get("memory", np.zeros(0, np.int64))] = True
        self.steps.append((kind, fields))

    def instructions(self) -> Iterator[Instruction]:
        """Descriptors with their tokens."""
        tokens = self.tokens
        for (kind, fields), wait, signal in zip(
            self.steps, tokens.waits, tokens.signals, strict=True
        ):
            yield Instruction(kind, {**fields, "wait": wait, "signal": signal})

    def walk(
        self, kind: str, counts: Sequence[int], region: range, room: int, beside: int = 1
    ) -> Fields:
        """Loops through a region of memory and through so many places of a buffer.

        There so many words of the innermost loop stand side by side.
        """
        room -= beside - 1
        turns = [counts[0] // beside, *counts[1:]]
        place = "to" if kind == "load" else "from"
        widths = {f.name: f.width for f in DESCRIPTORS[kind].fields}
        widest = [(1 << widths[f"step_{at}"]) - 1 for at in range(4)]
        steps = self.loops(turns, room, widest)
        if f"{kind} step 0" in self.missing:  # it is rare where buffers are large
            steps = [0 if count > 1 else step for count, step in zip(turns, steps, strict=True)]
        # The innermost loop of memory goes from word to word.
        far = [(1 << widths[f"stride_{at}"]) - 1 for at in (1, 2, 3)]
        strides = [1, *self.loops(counts[1:], len(region) - counts[0] + 1, far)]
        first = self.start(list(zip(counts, strides, strict=True)), region)
        return {
            "address": first * self.configuration.word_bytes,
            place: self.start(list(zip(turns, steps, strict=True)), range(room)),
            **{f"count_{at}": count for at, count in enumerate(counts)},
            **{f"stride_{at}": strides[at] for at in (1, 2, 3)},
            **{f"step_{at}": step for at, step in enumerate(steps)},
        }

    def counts(self, inner: int | None = None) -> list[int]:
        """Turns of four loops."""
        if inner is None:
            inner = self.upto(64, 8) if self.chance(_LONG) else self.upto(6, 1)
        outer = [self.upto(3, 1) if self.chance(0.5) else 1 for _ in range(3)]
        return [inner, *outer]

    def load(self) -> None:
        """A load to any buffer, of data that it is meant for, or of what has been stored."""
        c = self.configuration
        buffer = self.decks.draw("load buffer", _numbers_of(LOAD_BUFFERS, c.load_buffers))
        name = LOAD_BUFFERS.name_of(buffer)
        assert name is not None
        fields = {"buffer": buffer}
        inner, beside = None, 1
        packings = [0, *_packings_of(name, c.load_packings)]
        if name == "vector":
            fields["widen"] = self.decks.draw("widen", (0, 1))
        elif name.endswith("codes"):
            fields["transpose"] = self.decks.draw("transpose codes", (0, 1)) if c.transposes else 0
            if fields["transpose"]:
                inner, beside = 2 * c.beat_words, c.code_bytes
        else:
            ways = [*((0, packing) for packing in packings), *([(1, 2)] if c.rows == 16 else [])]
            fields["transpose"], fields["packing"] = ways[
                self.decks.draw("scales", range(len(ways)))
            ]
            fields["part"] = self.upto(c.last_part)
        if name.endswith("codes"):
            fields["packing"] = self.decks.draw("codes", packings)
        room = space_sizes(c, 0)[name] // (2 if name.endswith("scales") else 1)
        room //= 1 + fields.get("widen", 0)
        if fields.get("packing") == PACKING["tiles"]:  # runs of several words of memory too
            inner = self.upto(min(room, 20), 1)
        usual = self.regions["halves" if fields.get("widen") else _OF_BUFFER[name]]
        counts = self.counts(inner)
        fields |= self.walk("load", counts, usual, room, beside)
        if self.chance(0.4):
            # Memory that this program has not written yet would be different a second time.
            for _ in range(_TRIES):
                again = fields | self.walk("load", counts, self.regions["work"], room, beside)
                words = touched(Instruction("load", again), c).reads["memory"]
                if self.stored[words].all():
                    fields = again
                    break
        self.add("load", fields)

    def store(self) -> None:
        """A store from any buffer to the part of memory that is written."""
        c = self.configuration
        names = c.store_buffers if c.conversions else ("vector",)
        buffer = self.decks.draw("store buffer", _numbers_of(STORE_BUFFERS, names))
        name = STORE_BUFFERS.name_of(buffer)
        assert name is not None
        fields = {"buffer": buffer}
        if name == "vector":
            fields["narrow"] = self.decks.draw("narrow", (0, 1))
        else:
            packings = [0, *_packings_of(name, c.store_packings)]
            fields["packing"] = self.decks.draw(f"store {name}", packings)
        room = space_sizes(c, 0)[name] // (2 if name.endswith("scales") else 1)
        room //= 1 + fields.get("narrow", 0)
        is_long = fields.get("packing") == PACKING["tiles"]
        counts = self.counts(self.upto(min(room, 20), 1) if is_long else None)
        self.add("store", fields | self.walk("store", counts, self.regions["work"], room))

    def gemm(self) -> None:
        """Strips, strides, blocks and edges of any kind."""
        c = self.configuration
        fields = {"clear": 1, "write": 1}
        if c.anchored:  # no tile continues another, but one may be for nothing
            fields["write"] = self.decks.draw("write of gemm", (1, 1, 1, 0))
        elif any(kind == "gemm" for kind, _ in self.steps):
            clear, write = divmod(self.decks.draw("clear and write", (0, 1, 1, 2, 3, 3, 3)), 2)
            fields = {"clear": clear, "write": write}
        sizes = space_sizes(c, 0)
        strips = {side: self.upto(3, 1) if fields["clear"] else 1 for side in "aw"}
        longest = min(sizes["a_codes"], sizes["w_codes"]) // c.beat_words
        short = min(c.tile_beats, c.block_beats)
        blocks = (short, c.block_beats, self.upto(c.block_beats, 1))
        block = blocks[self.decks.draw("block", range(3))]
        most = 70 if self.chance(_LONG) else 40 if block == c.block_beats else 12
        beats = self.upto(min(longest, most), 1)
        entries = -(-beats // block)
        if c.scaled and entries > min(sizes["a_scales"], sizes["w_scales"]):
            return
        fields |= {"beats": beats, "block": block}
        for side in "aw":
            for kind, need in (("codes", beats), *((("scales", entries),) if c.scaled else ())):
                room = sizes[f"{side}_{kind}"] // (c.beat_words if kind == "codes" else 1)
                name = f"{side}_stride" if kind == "codes" else f"{side}_scale_stride"
                fields |= self._rows("gemm", (f"{side}_{kind}", name), strips[side], need, room)
            fields[f"strips_{side}"] = strips[side]
        fields["last_rows"] = self.upto(c.rows, 1) if self.chance(0.5) else c.rows
        if not fields["write"]:
            names = ("result", "result_stride_a", "result_stride_w")
            fields |= {name: self.any_of("gemm", name) for name in names}
        else:
            room = sizes["vector"] // 2
            counts = (c.rows, strips["a"], strips["w"])
            widest = (1, *(2 * [(1 << 14) - 1]))
            strides = [1, *self.loops(counts[1:], room - c.rows + 1, widest[1:])]
            fields["result"] = self.start(list(zip(counts, strides, strict=True)), range(room))
            fields |= {"result_stride_a": strides[1], "result_stride_w": strides[2]}
        self.add("gemm", fields)

    def _rows(self, kind: str, names: tuple[str, str], rows: int, length: int, room: int) -> Fields:
        """First place and stride of rows of a length, within so many places."""
        most = (1 << DESCRIPTORS[kind].field(names[1]).width) - 1
        (stride,) = self.loops((rows,), room - length + 1, (most,))
        return {
            names[0]: self.start(((length, 1), (rows, stride)), range(room)),
            names[1]: stride,
        }

    def vector(self) -> None:
        """Rows through steps of any kind, or a piece of a row."""
        if self.configuration.sweeps and not self.pieces and self.chance(0.3):
            self.pieces = self._row_in_pieces()
        piece: Fields = {}
        if self.pieces and self.chance(0.9):
            piece = self.pieces.pop(0)
        else:
            self.pieces = []  # a row that is given up
        for _ in range(_TRIES):
            fields = self._vector_steps(piece)
            fields |= self._vector_places(fields)
            made = Instruction("vector", fields)
            if self._is_apart(made):
                self.add("vector", fields)
                return
        assert not piece, "the pieces behind would not follow"

    def _row_in_pieces(self) -> list[Fields]:
        """Fields of the pieces of a row, sweep after sweep."""
        reductions = DESCRIPTORS["vector"].field("reduction").allowed(self.configuration) or (0,)
        number = self.decks.draw("swept reduction", reductions[1:])
        name = REDUCTION.name_of(number)
        assert name is not None
        pieces: list[Fields] = []
        for sweep in FOLLOWING[name]:
            for left in reversed(range(self.upto(2, 1))):
                ends = int(left == 0 and sweep != "results")
                gives = sweep == "results" or (name == "sum" and sweep == "sums" and ends)
                own = {"reduction": number, "sweep": SWEEP[sweep], "ends": ends, "rows": 1}
                pieces.append(own | ({} if gives else {"convert": 0, "target": 0, "to_vector": 0}))
        pieces[0]["clear"] = 1
        return pieces

    def _vector_steps(self, piece: Fields) -> Fields:
        """Return the fields of the steps of a vector descriptor, and of the size of its rows.

        Parameters
        ----------
        piece : Mapping
            What is settled of them, for a piece of a row.
        """
        c, draw = self.configuration, self.decks.draw
        own = DESCRIPTORS["vector"]
        fields: Fields = {}
        reductions = own.field("reduction").allowed(c) or (0,)
        fields["reduction"] = piece.get("reduction") or draw("reduction", (0, *reductions))
        takes_parameter = fields["reduction"] not in (0, REDUCTION["sum"])
        kinds = range(3) if takes_parameter else range(5)
        softmax = fields["reduction"] == REDUCTION["softmax"]
        fields["causal"] = draw("causal", (0, 1)) if softmax else 0
        norm = takes_parameter and not softmax
        gives = "to_vector" not in piece
        fields["affine"] = draw("affine", (0, 1)) if norm and c.affine and gives else 0
        without = fields["causal"] or fields["affine"]
        fields["arithmetic"] = 0 if without else draw(f"arithmetic {len(kinds)}", kinds)
        fields["y_mode"] = draw("y_mode", range(3))
        functions = own.field("function").allowed(c) or (0,)
        fields["function"] = draw("function", functions) if self.chance(0.6) else 0
        if gives:
            fields["convert"] = draw("convert", (0, *(own.field("convert").allowed(c) or (0,))))
            fields["target"] = draw(f"target {fields['convert']}", range(3))
            fields["to_vector"] = int(not fields["convert"] or self.chance(0.5))
        fields["parameter"] = self._parameter(fields)
        longest = c.reduction_beats if fields["reduction"] and not piece else 80
        fields["beats"] = self.upto(longest, 1) if self.chance(_LONG) else self.upto(20, 1)
        fields["beats"] = min(fields["beats"], longest)
        fields["rows"] = self.upto(3, 1)
        fields["lanes"] = self.upto(c.vector_lanes, 1) if self.chance(0.3) else c.vector_lanes
        return fields | piece

    def _parameter(self, fields: Fields) -> int:
        if fields["reduction"] == REDUCTION["softmax"]:
            return int(softmax_factor(float(np.exp2(self.rng.uniform(-5, 1)))).view(np.uint32))
        if fields["reduction"] not in (0, REDUCTION["sum"]):
            return int(np.float32(self.rng.choice([0.0, 1e-5, 0.5])).view(np.uint32))
        return int(_numbers(self.rng, 1, 1)[0, 0])

    def _vector_places(self, fields: Fields) -> Fields:
        """Places of rows."""
        c, rows, beats = self.configuration, fields["rows"], fields["beats"]
        room, short = c.vector_beats, -(-beats // c.vector_lanes)
        places = self._rows("vector", ("x", "x_stride"), rows, beats, room)
        uses_y = fields["arithmetic"] not in (ARITHMETIC["none"], ARITHMETIC["scale"])
        along = {Y_MODES["beats"]: beats, Y_MODES["numbers"]: short, Y_MODES["constant"]: 1}
        places |= {name: self.any_of("vector", name) for name in ("y", "y_stride")}
        if uses_y:
            length = along[fields["y_mode"]]
            places |= self._rows("vector", ("y", "y_stride"), rows, length, room)
        elif fields["affine"]:
            places["y"] = self.start(((2 * short, 1),), range(room))
        elif fields["causal"] and self.chance(0.9):
            places["y"] = self.upto(beats)
        places |= {name: self.any_of("vector", name) for name in ("d", "d_stride")}
        if fields["to_vector"]:
            places |= self._results(places, fields, uses_y)
        return places | self._converted(fields)

    def _results(self, places: Fields, fields: Fields, uses_y: bool) -> Fields:
        """Place of results: anywhere, or in place of an operand."""
        rows, beats = fields["rows"], result_beats(fields)
        instead = [name for name in "xy" if places[f"{name}_stride"] >= beats or rows == 1]
        if not uses_y or fields["y_mode"] != Y_MODES["beats"]:
            instead = [name for name in instead if name == "x"]
        if instead and self.chance(0.3):
            name = str(self.rng.choice(instead))
            return {"d": places[name], "d_stride": places[f"{name}_stride"]}
        return self._rows("vector", ("d", "d_stride"), rows, beats, self.configuration.vector_beats)

    def _converted(self, fields: Fields) -> Fields:
        c = self.configuration
        names = {"out": "out_stride"}
        if c.scaled:
            names["out_scales"] = "out_scale_stride"
        if not fields["convert"]:
            every = (*names, *names.values())
            return {name: self.any_of("vector", name) for name in every}
        owner = TARGETS.name_of(fields["target"])
        codes = -(-result_beats(fields) // c.lanes)
        span = c.block_beats if fields["convert"] == CONVERT["blocks"] else c.tile_beats
        lengths = {"out": codes, "out_scales": -(-codes // span)}
        rooms = {"out": getattr(c, f"{owner}_beats"), "out_scales": getattr(c, f"{owner}_entries")}
        places: Fields = {}
        for name, stride in names.items():
            both = name, stride
            places |= self._rows("vector", both, fields["rows"], lengths[name], rooms[name])
        return places

    def _is_apart(self, made: Instruction) -> bool:
        """Whether results stay clear of operands, but for those that they replace beat by beat."""
        if not made["to_vector"]:
            return True
        written = touched(made, self.configuration).writes["vector"]
        replaced = [
            name
            for name in "xy"
            if all(made[f"{name}{end}"] == made[f"d{end}"] for end in ("", "_stride"))
            and (made["rows"] == 1 or made["d_stride"] >= made["beats"])
        ]
        # Looked at without what is replaced, which is y only where it is read in beats.
        rest = _reads_of(made, self.configuration, replaced)
        return not np.isin(rest, written).any()

    # Beginning and end.

    def fill(self) -> None:
        """Fill every buffer, so that nothing is read that nobody wrote."""
        c = self.configuration
        for name, region in _OF_BUFFER.items():
            if name not in c.load_buffers:
                continue
            words = space_sizes(c, 0)[name] // (2 if name.endswith("scales") else 1)
            inner = int(np.gcd(words, 64))
            where = self.regions[region]
            turns = words // inner
            stride = self.upto((len(where) - inner) // max(turns - 1, 1))
            fields = {"buffer": LOAD_BUFFERS[name], "step_0": 1, "step_1": inner}
            fields |= {"count_0": inner, "count_1": turns, "count_2": 1, "count_3": 1}
            address = where.start * c.word_bytes
            self.add("load", {**fields, "address": address, "stride_1": stride})
        if c.conversions:
            _, most = DESCRIPTORS["vector"].field("rows").bounds(c)
            for first in range(0, c.out_beats // 2, most):
                rows = min(most, c.out_beats // 2 - first)
                fields = {"beats": 2 * c.lanes, "rows": rows, "lanes": c.vector_lanes}
                fields |= {"x_stride": 1, "out": 2 * first, "out_stride": 2}
                fields |= {"convert": CONVERT[c.conversions[0]], "target": TARGETS["out"]}
                if c.scaled:
                    fields |= {"out_scales": first, "out_scale_stride": 1}
                self.add("vector", fields)

    def dump(self) -> None:
        """Store all buffers that can be stored."""
        c, at = self.configuration, self.regions["dump"].start
        results = [name for name in c.store_buffers if name != "vector"]
        for name in ("vector", *(results if c.conversions else ())):
            words = space_sizes(c, 0)[name] // (2 if name.endswith("scales") else 1)
            inner = int(np.gcd(words, 64))
            fields = {"buffer": STORE_BUFFERS[name], "step_0": 1, "step_1": inner}
            fields |= {"count_0": inner, "count_1": words // inner, "count_2": 1, "count_3": 1}
            self.add("store", {**fields, "address": at * c.word_bytes, "stride_1": inner})
            at += words

    def memory(self) -> NDArray[np.uint8]:
        """Return the initial content of memory."""
        rng, size = self.rng, self.configuration.word_bytes
        end = max(region.stop for region in self.regions.values())
        words = rng.integers(0, 256, (end, size)).astype(np.uint8)
        scales = words[slice(*_ends(self.regions["scales"]))]
        rare = rng.random(scales.shape) < 0.005
        scales[~rare] = rng.integers(119, 136, scales.shape)[~rare]
        numbers = words[slice(*_ends(self.regions["numbers"]))]
        numbers[:] = _numbers(rng, len(numbers), size // 4).astype("<u4").view(np.uint8)
        halves = words[slice(*_ends(self.regions["halves"]))]
        upper = _numbers(rng, len(halves), size // 2) >> 16
        halves[:] = upper.astype("<u2").view(np.uint8)
        if not self.configuration.scaled:
            codes = words[slice(*_ends(self.regions["codes"]))]
            upper = _numbers(rng, len(codes), size // 2) >> 16
            codes[:] = upper.astype("<u2").view(np.uint8)
        return words.reshape(-1)


def _numbers_of(buffers: Enumeration, names: Sequence[str]) -> list[int]:
    """Numbers of buffers, in their order."""
    return sorted(buffers[name] for name in names)


def _packings_of(buffer: str, packings: Sequence[str]) -> list[int]:
    """Packings of a buffer's words."""
    kinds = {"codes": "nibbles", "scales": "tiles"}
    return [PACKING[name] for name in packings if kinds.get(buffer.partition("_")[2]) == name]


def _ends(region: range) -> tuple[int, int]:
    return region.start, region.stop


def _reads_of(
    made: Instruction, configuration: MachineConfiguration, replaced: Sequence[str]
) -> NDArray[np.int64]:
    """Places of the vector buffer that a descriptor reads, without operands that are replaced."""
    values = {name: value for name, value in made.values.items() if name != "opcode"}
    everything = touched(made, configuration).reads["vector"]
    if "x" not in replaced and "y" not in replaced:
        return everything
    is_beats = made["y_mode"] == Y_MODES["beats"]
    if "y" in replaced and not is_beats:
        return everything
    if "y" in replaced:
        values["arithmetic"] = ARITHMETIC["none"]
    without = touched(Instruction("vector", values), configuration).reads["vector"]
    if "x" in replaced:
        # The beats of x come first.
        without = without[2 * made["rows"] * made["beats"] :]
    return without


def _numbers(rng: np.random.Generator, rows: int, count: int) -> NDArray[np.uint32]:
    """Rows of usual numbers of several magnitudes, a few others between them; rarely any bits."""
    scale = np.exp2(rng.integers(-6, 7, (rows, 1)))
    values = (rng.standard_normal((rows, count)) * scale).astype(np.float32).view(np.uint32)
    special = rng.random(values.shape) < np.where(rng.random((rows, 1)) < 0.1, 0.05, 0.0)
    values = np.where(special, rng.choice(_SPECIAL, values.shape), values)
    anything = rng.random((rows, 1)) < 0.02
    values = np.where(anything, rng.integers(0, 1 << 32, values.shape, np.uint32), values)
    return values.astype(np.uint32)


def random_program(
    configuration: MachineConfiguration,
    seed: int,
    count: int,
    *,
    base: int = 0,
    needed: AbstractSet[str] = frozenset(),
) -> Program:
    """A program of about so many descriptors; run again, it does the same again.

    Parameters
    ----------
    base : int
        What its addresses are relative to: a multiple of a word.
    needed : set of str
        Modes for which it goes on beyond so many descriptors, up to `_LONGER` times as many.
    """
    rng = np.random.default_rng(seed)
    writer = _Writer(configuration, rng, base)
    writer.fill()
    writer.draw(count)
    while len(writer.steps) < _LONGER * count:
        writer.missing = needed - modes_of(writer.instructions(), configuration)
        if not writer.missing:
            break
        writer.draw(_MORE)
    writer.dump()
    instructions = tuple(writer.instructions())
    data = Assembler(configuration).assemble(instructions)
    size = configuration.word_bytes
    memory = writer.memory()
    # What stands around it must stay as it is. The program begins at any word.
    around = rng.integers(0, 256, base + 3 * size).astype(np.uint8)
    whole = np.concatenate(
        [
            around[:base],
            memory,
            around[base : base + size],
            np.frombuffer(data, np.uint8),
            around[base + size :],
        ]
    )
    return Program(instructions, whole, base + len(memory) + size, base)


def covering_programs(
    configuration: MachineConfiguration, seeds: Sequence[int], count: int, *, base: int
) -> list[Program]:
    """Random programs, one a seed, that together do all that descriptors can do.

    The last one goes on until they do, so that no seed has to be looked for again where a machine
    can do more than before.

    Parameters
    ----------
    count, base : int
        As of `random_program`.

    Raises
    ------
    AssertionError
        If they do not, or something that is not among `all_modes`.
    """
    wanted = all_modes(configuration)
    done: set[str] = set()
    programs = []
    for seed in seeds:
        needed = wanted - done if seed == seeds[-1] else frozenset()
        programs.append(random_program(configuration, seed, count, base=base, needed=needed))
        done |= modes_of(programs[-1].instructions, configuration)
    assert done == wanted
    return programs


def run_in_sequence(
    program: Program, configuration: MachineConfiguration
) -> tuple[NDArray[np.uint8], float]:
    """Memory after descriptors one by one, and how many results are finite and not 0.

    These are results of products and of rows in the vector buffer; a share of them.
    """
    machine = powered_up(configuration, seed=1)
    memory = program.memory.copy()
    size = configuration.word_bytes
    words = memory[program.base :]
    words = words[: len(words) // size * size].reshape(-1, size)
    usual = total = 0
    for one in program.instructions:
        machine.execute(one, words)
        if one.kind not in ("gemm", "vector"):
            continue
        places = touched(one, configuration).writes.get("vector", np.zeros(0, np.int64))
        beats = machine.buffers.vector[places[::2] // 2].view(np.float32)
        usual += int((np.isfinite(beats) & (beats != 0)).sum())
        total += beats.size
    return memory, usual / max(total, 1)


def modes(instruction: Instruction, configuration: MachineConfiguration) -> set[str]:
    """Names of what a descriptor does."""
    of_kind = {"load": _move_modes, "store": _move_modes, "gemm": _gemm_modes}
    found = of_kind.get(instruction.kind, _vector_modes)(instruction, configuration)
    wait, signal = instruction["wait"], instruction["signal"]
    for at, queue in enumerate(QUEUES):
        if wait >> at & 1:
            found.add(f"token from {queue} to {instruction.kind}")
        if signal >> at & 1:
            found.add(f"token from {instruction.kind} to {queue}")
    return found


def modes_of(instructions: Iterable[Instruction], configuration: MachineConfiguration) -> set[str]:
    """Names of what descriptors do."""
    return set().union(*(modes(one, configuration) for one in instructions))


def _move_modes(i: Instruction, c: MachineConfiguration) -> set[str]:
    names = LOAD_BUFFERS if i.kind == "load" else STORE_BUFFERS
    name = names.name_of(i["buffer"])
    flags = ("transpose", "widen") if i.kind == "load" else ("narrow",)
    ways = [flag for flag in flags if i[flag]] or ["plain"]
    packing = PACKING.name_of(i["packing"])
    found = {f"{i.kind} {name} {way} {packing}" for way in ways}
    words = run_words(i.values, c)
    if packing != "none" and words > 1:
        found.add(f"{i.kind} {packing} of several words")
    found |= {f"{i.kind} loop {at}" for at in range(4) if i[f"count_{at}"] > 1}
    if any(i[f"step_{at}"] == 0 and i[f"count_{at}"] > 1 for at in range(4)):
        found.add(f"{i.kind} step 0")
    return found


def _gemm_modes(i: Instruction, c: MachineConfiguration) -> set[str]:
    found = {f"gemm clear {i['clear']} write {i['write']}"}
    found |= {f"gemm strips_{side}" for side in "aw" if i[f"strips_{side}"] > 1}
    if i["last_rows"] < c.rows:
        found.add("gemm last_rows")
    if i["beats"] % i["block"] and i["beats"] > i["block"]:
        found.add("gemm short block")
    for name in ("block_beats", "tile_beats"):
        if i["block"] == getattr(c, name) < i["beats"]:
            found.add(f"gemm {name}")
    return found


def _vector_modes(i: Instruction, c: MachineConfiguration) -> set[str]:
    def name(field_name: str) -> str | None:
        enumeration = DESCRIPTORS["vector"].field(field_name).enumeration
        assert enumeration is not None
        return enumeration.name_of(i[field_name])

    found = {f"vector {which} {name(which)}" for which in ("arithmetic", "function", "reduction")}
    if name("arithmetic") in ("add", "multiply", "axpy"):
        found.add(f"vector y_mode {name('y_mode')}")
    if i["convert"] and not i["sweep"]:  # a piece of a row, which follows another, is not enough
        found.add(f"vector {name('convert')} to {name('target')}")
        if i["to_vector"]:
            found.add("vector converts and writes")
    for flag in ("causal", "affine"):
        if i[flag]:
            found.add(f"vector {flag}")
    if c.sweeps:
        found.add(f"vector sweep {name('sweep')}")
    if i["lanes"] < c.vector_lanes:
        found.add("vector lanes")
    if i["to_vector"] and i["x"] == i["d"]:
        found.add("vector in place")
    if i["rows"] > 1:
        found.add("vector rows")
    return found


def _all_moves(c: MachineConfiguration) -> Iterator[str]:
    for name in c.load_buffers:
        packings = ["none", *map(PACKING.name_of, _packings_of(name, c.load_packings))]
        yield from (f"load {name} plain {packing}" for packing in packings)
        if name.endswith("codes") and c.transposes:
            yield from (f"load {name} transpose {packing}" for packing in packings)
        elif name.endswith("scales") and c.rows == 16:
            yield f"load {name} transpose tiles"
    yield from ("load vector widen none", "store vector plain none", "store vector narrow none")
    if c.conversions:
        for name in c.store_buffers[:-1]:  # the last one is that of vectors
            packings = ["none", *map(PACKING.name_of, _packings_of(name, c.store_packings))]
            yield from (f"store {name} plain {packing}" for packing in packings)
    for kind, names in (("load", c.load_packings), ("store", c.store_packings)):
        yield from (f"{kind} {name} of several words" for name in names)
    for kind in ("load", "store"):
        yield from (f"{kind} loop {at}" for at in range(4))
        yield f"{kind} step 0"


def all_modes(configuration: MachineConfiguration) -> set[str]:
    """Names of everything that a machine's descriptors can do."""
    c = configuration
    own = {f.name: f for f in DESCRIPTORS["vector"].fields}
    found = set(_all_moves(c))
    for name in ("arithmetic", "function", "reduction"):
        enumeration, allowed = own[name].enumeration, own[name].allowed(c)
        assert enumeration is not None
        assert allowed is not None
        found |= {f"vector {name} {enumeration.name_of(number)}" for number in allowed}
    if c.sweeps:
        steps = {"whole"}.union(*(FOLLOWING[name] for name in c.reductions))
        found |= {f"vector sweep {step}" for step in steps}
    found |= {f"vector y_mode {name}" for name in Y_MODES.members}
    found |= {f"vector {name} to {target}" for name in c.conversions for target in TARGETS.members}
    found |= {"vector lanes", "vector in place", "vector rows"}
    found |= {"vector converts and writes"} if c.conversions else set()
    found |= {"vector affine"} if c.affine else set()
    found |= {"vector causal"} if "softmax" in c.reductions else set()
    clears = (1,) if c.anchored else (0, 1)
    found |= {f"gemm clear {clear} write {write}" for clear in clears for write in (0, 1)}
    found |= {"gemm strips_a", "gemm strips_w", "gemm last_rows", "gemm block_beats"}
    found |= {"gemm short block", "gemm tile_beats"} if c.scaled else set()
    apart = [(i, j) for i in QUEUES for j in QUEUES if i != j]
    # GEMM touches no memory, and no buffer that STORE or LOAD writes or reads but for operands.
    return found | {f"token from {i} to {j}" for i, j in apart}
