"""Checks of the machine's buffers: random accesses, and lists as memories."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from verif.support.checkers import assert_equal
from verif.support.manifest import Module, Words
from verif.support.simulators import run_lockstep

_FILL = 64
"""First rows, in which every register of a memory comes to hold something; more if it is large."""
_WHOLE = 32
"""Entries of a memory all of which are used."""


def _places(depth: int) -> np.ndarray:
    """Entries that are used: the first, the last, and those at which a bit of the address turns."""
    if depth <= _WHOLE:
        return np.arange(depth)
    powers = 1 << np.arange(depth.bit_length())
    places = np.concatenate([powers - 1, powers, [depth - 2, depth - 1]])
    return np.unique(places[places < depth])


class _Stimulus:
    """Random rows for all inputs of a module.

    Parameters
    ----------
    often : dict
        By input of a single bit how often it is set; by default half of the time.
    """

    def __init__(self, module: Module, rows: int, often: dict[str, float]) -> None:
        rng = np.random.default_rng(9)
        self._ports, self._rng = module.ports, rng
        self.rows, self.first = rows, _FILL
        self.words: dict[str, Words] = {}
        for name in module.inputs:
            if name == "clk":
                continue
            width = module.ports[name].width
            bits = rng.random((rows, width)) < often.get(name, 0.5)
            self.words[name] = np.packbits(bits, axis=1, bitorder="little")

    def use(self, ports: Sequence[str], places: np.ndarray) -> None:
        """Have these entries alone in the addresses of ports, if they are not all."""
        for port in ports:
            name = f"{port}_address"
            if len(places) < 1 << self._ports[name].width:
                self.words[name] = self._ports[name].words(self._rng.choice(places, self.rows))

    def fill(self, port: str, places: np.ndarray, *, rows: int = 1) -> None:
        """Write entries in the first rows, each for so many, through a port that goes first."""
        entries = np.repeat(places, rows)
        self.first = max(self.first, 2 * len(entries))
        parts = self._ports[f"{port}_halves"].width
        for pin, values in (
            ("valid", 1 + 0 * entries),
            ("address", entries),
            ("halves", (1 << parts) - 1 + 0 * entries),
        ):
            name = f"{port}_{pin}"
            self.words[name][: len(entries)] = self._ports[name].words(values)

    def values(self, log: dict[str, Words], name: str) -> list[int]:
        """A number each row of what a pin carried."""
        return [int.from_bytes(row.tobytes(), "little") for row in log[name]]


class _Memory:
    """Entries of a few parts and the register in front of them; None is what is not defined."""

    def __init__(self, depth: int, part_bits: int, parts: int = 2) -> None:
        self._part = part_bits
        self._entries: list[list[int | None]] = [[None] * parts for _ in range(depth)]
        self.shown: list[int | None] = [None] * parts

    def clock(
        self,
        read: int | None,
        write: tuple[int, int, int] | None,
        parts: Sequence[int] | None = None,
    ) -> None:
        """Read an address, all or some parts of it, and write ``(address, parts, data)``."""
        for part in range(len(self.shown)) if parts is None else parts:
            if read is not None:
                same = write is not None and write[0] == read and write[1] >> part & 1
                self.shown[part] = None if same else self._entries[read][part]
        if write is not None:
            address, mask, data = write
            for part in range(len(self.shown)):
                if mask >> part & 1:
                    self._entries[address][part] = data >> part * self._part & (1 << self._part) - 1


def _compare(what: str, first: int, log: dict[str, Words], expected: dict[str, list[Any]]) -> None:
    """Every defined value of the outputs after the first rows."""
    for name, values in expected.items():
        got = [int.from_bytes(row.tobytes(), "little") for row in log[name]]
        known = [row for row in range(first, len(values)) if values[row] is not None]
        assert_equal(
            f"{what} {name}",
            np.array([got[row] for row in known], object),
            np.array([values[row] for row in known], object),
            row=np.array(known),
        )


def _joined(halves: Sequence[int | None], bits: int) -> int | None:
    if None in halves:
        return None
    return sum(half << bits * place for place, half in enumerate(halves) if half is not None)


def check_operand_buffer(simulator: str, module: Module, rows: int) -> None:
    """Codes and scales are read as they were written."""
    sizes = module.parameters
    is_late = sizes.get("target") == "fpga"
    writers = ("vector", "load")[: sizes["writers"]]
    stimulus = _Stimulus(module, rows, {"rst": 0.0})
    code_places, scale_places = _places(sizes["beats"]), _places(sizes["beats"] // 4)
    stimulus.use([f"{writer}_codes" for writer in writers] + ["codes"], code_places)
    stimulus.fill("vector_codes", code_places)
    word = sizes["word_bits"]
    kinds = [("codes", sizes["beats"], word, sizes.get("words", 2))]
    if sizes.get("scaled", True):
        kinds.append(("scales", sizes["beats"] // 4, word // 2, 2))
        stimulus.use([f"{writer}_scales" for writer in writers], scale_places)
        if sizes["reads_words"]:
            stimulus.use(["scales"], scale_places)
        else:
            stimulus.use(["scales"], np.concatenate([2 * scale_places, 2 * scale_places + 1]))
        stimulus.fill("vector_scales", scale_places)
    first = stimulus.first
    log = run_lockstep(simulator, module, stimulus.words, unsettled=first)
    pins = {name: stimulus.values(log, name) for name in log}
    expected: dict[str, list[Any]] = {}
    for kind, depth, bits, count in kinds:
        memory = _Memory(depth, bits, count)
        odd: int | None = None
        shown: list[Any] = []
        readies: dict[str, list[Any]] = {writer: [] for writer in writers}
        behind: tuple[int, int, int] | None = None
        for row in range(rows):
            if kind == "codes" or sizes["reads_words"]:
                shown.append(_joined(memory.shown, bits))
            else:
                shown.append(None if odd is None else memory.shown[odd])
            write, free = None, 1
            for writer in writers:
                readies[writer].append(free)
                if free and pins[f"{writer}_{kind}_valid"][row]:
                    parts = ("address", "halves", "data")
                    address, mask, data = (pins[f"{writer}_{kind}_{part}"][row] for part in parts)
                    write, free = (address, mask, data), 0
            if is_late:
                write, behind = behind, write
            place = pins[f"{kind}_address"][row]
            if not pins[f"{kind}_en"][row]:
                memory.clock(None, write)
            elif kind == "codes" or sizes["reads_words"]:
                memory.clock(place, write)
            else:
                odd = place & 1
                memory.clock(place >> 1, write, (odd,))
        expected[f"{kind}_data"] = shown
        expected |= {f"{writer}_{kind}_ready": values for writer, values in readies.items()}
    _compare("operand buffer differs in", first, log, expected)


def check_vector_buffer(simulator: str, module: Module, rows: int) -> None:
    """Beats are read as they were written, by those whose turn it is.

    Where turns come a cycle later, a user with a turn has it whatever it wants then, and what it
    reads is there a cycle later.
    """
    sizes = module.parameters
    is_late = sizes.get("target") == "fpga"
    bits, depth, banks = 16 * sizes["columns"], sizes["bank_depth"], sizes["banks"]
    writers, readers = ("gemm", "vector", "load"), ("x", "y", "store")
    often = {"rst": 0.0} | {f"{reader}_hold": 0.2 for reader in readers}
    stimulus = _Stimulus(module, rows, often)
    places = (depth * np.arange(banks)[:, None] + _places(depth)).ravel()
    stimulus.use((*writers, *readers), places)
    stimulus.fill("gemm", places, rows=1 + is_late)
    first = stimulus.first
    log = run_lockstep(simulator, module, stimulus.words, unsettled=first)
    pins = {name: stimulus.values(log, name) for name in log}
    memories = [_Memory(depth, bits) for _ in range(banks)]
    shows: dict[str, int | None] = dict.fromkeys(readers)
    turns: dict[str, int | None] = dict.fromkeys((*writers, *readers))
    behind: dict[int, tuple[int, int, int]] = {}
    expected: dict[str, list[Any]] = {f"{reader}_data": [] for reader in readers}
    expected |= {f"{name}_ready": [] for name in (*writers, *readers)}
    for row in range(rows):
        for reader in readers:
            bank = shows[reader]
            beat = None if bank is None else _joined(memories[bank].shown, bits)
            expected[f"{reader}_data"].append(beat)
        held = {shows[reader] for reader in readers if pins[f"{reader}_hold"][row]}
        unknown = None in held and not is_late
        writes: dict[int, tuple[int, int, int]] = {}
        reads: dict[int, int] = {}
        banks_of = {name: pins[f"{name}_address"][row] // depth for name in turns}
        asks = {
            name: bool(pins[f"{name}_valid"][row]) and (not is_late or turns[name] is None)
            for name in turns
        }
        if is_late:
            held |= {turns[name] for name in readers}
        following: dict[str, int | None] = {}
        for group, blocked in ((writers, set()), (readers, held)):
            wanted = set(blocked)
            for name in group:
                bank = banks_of[name]
                following[name] = bank if asks[name] and bank not in wanted else None
                if asks[name]:
                    wanted |= set(range(banks)) if is_late and group is writers else {bank}
        if not is_late:
            turns = following
        for name, turn in turns.items():
            is_unknown = unknown and name in readers
            expected[f"{name}_ready"].append(None if is_unknown else int(turn is not None))
            is_read_later = is_late and name in readers
            if turn is None or not (is_read_later or pins[f"{name}_valid"][row]):
                continue
            place = pins[f"{name}_address"][row] % depth
            if name in writers:
                parts = pins[f"{name}_halves"][row], pins[f"{name}_data"][row]
                writes[turn] = (place, *parts)
            else:
                reads[turn] = place
                shows[name] = turn
        turns = following
        if is_late:
            writes, behind = behind, writes
        for bank, memory in enumerate(memories):
            memory.clock(reads.get(bank), writes.get(bank))
    if is_late:
        for reader in readers:
            expected[f"{reader}_data"] = [None, *expected[f"{reader}_data"][:-1]]
    _compare("vector buffer differs in", first, log, expected)
