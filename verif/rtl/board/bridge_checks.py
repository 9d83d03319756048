"""Checks of a bridge, against a model of its frames that is written down a second time."""

import random
import struct
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from verif.support.checkers import assert_same
from verif.support.manifest import Module
from verif.support.simulators import run_bench

PATIENCE = 40
MEMORY_WORDS = 300
BUS_ERRORS = (0x30, 0x84)
"""Addresses of registers that answer with errors."""
_REGISTER_WORDS = 64
_STATUS_ADDRESS = 0x44
_WRONG = ["refused", "flipped", "cut", "broken", "garbage", "late", "reset"]
"""Faults of a frame."""
READ_REGISTERS, WRITE_REGISTERS, READ_MEMORY, WRITE_MEMORY, READ_BOARD = range(5)
_DONE, _CHECKSUM, _COMMAND, _ADDRESS, _BUS = range(5)


@dataclass
class Model:
    """A bridge with the registers and the memory behind it."""

    registers: list[int]
    memory: list[int]
    written: list[tuple[int, int]] = field(default_factory=list)
    broken_frames: int = 0
    broken_bytes: int = 0
    last: tuple[int, int] | None = None

    def reset(self) -> None:
        """Forget what is counted and kept."""
        self.broken_frames = self.broken_bytes = 0
        self.last = None

    def answer(self, data: Sequence[int], broken: int | None, irq: int) -> bytes:
        """Return the answer to bytes with silence before and behind them."""
        place = 0
        while place < len(data):
            if place == broken:
                self.broken_bytes += 1
            is_mark = data[place] == 0xA5 and place != broken
            place += 1
            if not is_mark:
                continue
            end = place + 11
            if place + 2 < len(data) and data[place] & 1:
                end += 4 * (data[place + 2] + 1)
            if broken is not None and place <= broken < end:
                self.broken_frames += 1
                self.broken_bytes += 1
                place = broken + 1
                continue
            if end > len(data):
                self.broken_frames += 1
                return b""
            self.broken_bytes += broken is not None and broken >= end
            return self._frame(bytes(data[place:end]), irq)
        return b""

    def _frame(self, frame: bytes, irq: int) -> bytes:
        command, number, less, address = struct.unpack_from("<BBBI", frame)
        found: list[int] = []
        if zlib.crc32(frame[:-4]) != int.from_bytes(frame[-4:], "little"):
            self.broken_frames += 1
            status = _CHECKSUM
        elif self.last is not None and self.last[0] == number and command & 1:
            status = self.last[1]
        else:
            status, found = self._do(command, address, less + 1, frame[7:-4])
            self.last = number, status
        data = b"".join(struct.pack("<I", word) for word in found)
        body = bytes([status | irq << 7, number]) + data
        return b"\x5a" + body + struct.pack("<I", zlib.crc32(body))

    def _do(self, command: int, address: int, words: int, data: bytes) -> tuple[int, list[int]]:
        if command > READ_BOARD:
            return _COMMAND, []
        board = [1, 4 * MEMORY_WORDS, self.broken_frames, self.broken_bytes]
        space = (self.registers, self.memory, board)[command >> 1]
        first = address // 4
        if address % 4 or first + words > len(space) or (space is board and first):
            return _ADDRESS, []
        if space is self.registers and not command & 1:
            wrong = any(4 * at in BUS_ERRORS for at in range(first, first + words))
            return (_BUS, []) if wrong else (_DONE, space[first : first + words])
        if not command & 1:
            return _DONE, space[first : first + words]
        status = _DONE
        for at, (value,) in enumerate(struct.iter_unpack("<I", data), start=first):
            if space is self.registers:
                self.written.append((4 * at, value))
                if 4 * at in BUS_ERRORS:
                    status = _BUS
                    continue
            space[at] = value
        return status, []


def _request(command: int, number: int, address: int, words: int, data: bytes) -> bytes:
    body = struct.pack("<BBBI", command, number, words - 1, address) + data
    return b"\xa5" + body + struct.pack("<I", zlib.crc32(body))


class _Maker:
    """Random episodes."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._number = 0

    def _good(self) -> bytes:
        rng = self._random
        command = rng.choice([READ_REGISTERS, WRITE_REGISTERS, READ_MEMORY, WRITE_MEMORY] * 3 + [4])
        room = (_REGISTER_WORDS, MEMORY_WORDS, 4)[command >> 1]
        words = rng.randint(1, rng.choice([1, 4, min(room, 256)]))
        words = min(words, room)
        first = 0 if command == READ_BOARD else rng.randint(0, room - words)
        data = rng.randbytes(4 * words) if command & 1 else b""
        # Sometimes the number of the frame before: it is taken for that one again.
        self._number = (self._number + (rng.random() < 0.85)) & 0xFF
        return _request(command, self._number, 4 * first, words, data)

    def _refused(self) -> bytes:
        """Wrong commands, and addresses that do not fit."""
        rng = self._random
        self._number = (self._number + 1) & 0xFF
        command, words, address = rng.choice(
            [
                (5, 1, 0),
                (255, 2, 0),
                (READ_MEMORY, 2, 4 * MEMORY_WORDS - 4),
                (WRITE_MEMORY, 1, 4 * MEMORY_WORDS),
                (READ_MEMORY, 1, 0xFFFF_FFFC),
                (WRITE_MEMORY, 1, 2),
                (READ_REGISTERS, 256, 0),
                (WRITE_REGISTERS, 1, 0x100),
                (READ_REGISTERS, 1, 1),
                (READ_BOARD, 1, 4),
                (READ_BOARD, 5, 0),
            ]
        )
        data = rng.randbytes(4 * words) if command & 1 else b""
        return _request(command, self._number, address, words, data)

    def episode(self) -> dict[str, Any]:
        """Bytes, where they are broken, and how fast they come."""
        rng = self._random
        kind = rng.choice(["good"] * 6 + _WRONG)
        frame = bytearray(self._refused() if kind == "refused" else self._good())
        broken = resets = None
        start = 0
        if kind == "flipped":
            # Not in the length or the bit that says that there is data: that is another frame.
            places = [at for at in range(2, len(frame)) if at != 3]
            frame[rng.choice(places)] ^= 1 << rng.randrange(8)
        elif kind == "cut":
            del frame[rng.randrange(1, len(frame)) :]
        elif kind == "broken":
            broken = rng.randrange(len(frame))
        elif kind == "garbage":
            junk = bytes(byte for byte in rng.randbytes(20) if byte != 0xA5)
            start = len(junk)
            frame = bytearray(junk + frame)
        elif kind == "late":
            frame += rng.randbytes(2)
        elif kind == "reset":
            del frame[rng.randrange(1, len(frame) - 1) :]
            start = len(frame)
            resets = start - 1
            frame += self._good()
        words = frame[start + 3] + 1 if len(frame) > start + 3 else 0
        return {
            "kind": kind,
            "bytes": list(frame),
            "broken": broken,
            "resets": resets,
            "irq": rng.randrange(2),
            "reset": rng.random() < 0.05,
            # Longer than any word takes, or a frame is given up in.
            "silence": PATIENCE + 10 + 5 * words + 12 * min(words, _REGISTER_WORDS),
            "pauses": [0, 0, 1] if kind == "late" else [0, 1, 5, PATIENCE // 2],
        }


_SEED = 1


def check_bridge(simulator: str, module: Module, count: int) -> Counter[int]:
    """Answers, registers and memory are the model's; returns how often each status was answered."""
    assert module.parameters == {"memory_bytes": 4 * MEMORY_WORDS, "patience": PATIENCE}
    rng, maker = random.Random(_SEED), _Maker(_SEED)
    registers = [rng.getrandbits(32) for _ in range(_REGISTER_WORDS)]
    memory = [rng.getrandbits(32) for _ in range(MEMORY_WORDS)]
    model = Model(list(registers), list(memory))
    episodes = [maker.episode() for _ in range(count)]
    job = {
        "episodes": episodes,
        "seed": _SEED,
        "registers": registers,
        "memory": memory,
        "bus_errors": BUS_ERRORS,
    }
    log = run_bench(simulator, module, "serial_bridge", job)
    statuses: Counter[int] = Counter()
    for number, (episode, got) in enumerate(zip(episodes, log["answers"], strict=True)):
        if episode["reset"] or episode["resets"] is not None:
            model.reset()
        first = 0 if episode["resets"] is None else episode["resets"] + 1
        wanted = model.answer(episode["bytes"][first:], episode["broken"], episode["irq"])
        assert bytes(got) == wanted, (
            f"answer {number}, to a frame that is {episode['kind']}, is {bytes(got).hex()}, "
            f"not {wanted.hex()}"
        )
        if wanted:
            statuses[wanted[1] & 0x7F] += 1
    assert_same("writes of registers", log["written"], model.written)
    assert_same("registers", log["registers"], model.registers)
    assert_same("words of memory", log["memory"], model.memory)
    assert log["status"] == model.registers[_STATUS_ADDRESS // 4] & 7, "the status differs"
    return statuses
