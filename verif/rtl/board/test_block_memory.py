"""The memory of a board: bursts and words at once, strobes, what lies beyond its end."""

import random
from collections.abc import Sequence
from typing import Any

import pytest

from mxsafe.rtl.board.block_memory import BlockMemory
from verif.support.checkers import assert_same
from verif.support.manifest import Module
from verif.support.simulators import lint, run_bench
from verif.support.tests import Volume, some
from verif.support.units import generated

_PAGE = 4096
_DECODE_ERROR = 3


class _Model:
    """Bytes, and what is expected of each channel."""

    def __init__(self, module: Module, seed: int) -> None:
        self.random = random.Random(seed)
        self.size = module.parameters["memory_bytes"]
        self.beat = module.parameters["data_bits"] // 8
        self.content = bytearray(self.size)
        self.read: list[list[int]] = []
        self.answers: list[int] = []
        self.found: list[int] = []

    def fill(self) -> dict[str, Any]:
        """Write all of it by the bridge."""
        self.content = bytearray(self.random.randbytes(self.size))
        words = [[1, at // 4, self._number(at, 4)] for at in range(0, self.size, 4)]
        return {"reads": [], "writes": [], "beats": [], "words": words}

    def _number(self, address: int, size: int) -> int:
        return int.from_bytes(self.content[address : address + size], "little")

    def _channel(self, address: int, beats: int) -> list[int]:
        return [address, beats - 1, self.beat.bit_length() - 1, 1, 3, 0]

    def _burst(self, pages: Sequence[int]) -> tuple[int, int]:
        """Address and beats of a burst within a page; pages beyond the end are outside."""
        page = self.random.choice(pages) * _PAGE
        beats = self.random.choice([1, 2, self.random.randint(1, min(40, _PAGE // self.beat))])
        return page + self.beat * self.random.randint(0, _PAGE // self.beat - beats), beats

    def phase(self, count: int) -> dict[str, Any]:
        """Bursts that are read of some pages, written to others, words of the bridge to others."""
        rng, pages = self.random, list(range(self.size // _PAGE))
        rng.shuffle(pages)
        third = len(pages) // 3
        beyond = [self.size // _PAGE, (1 << 52) - 1, 1 << 40]
        reads, writes, beats, words = [], [], [], []
        for _ in range(count):
            address, length = self._burst([*pages[:third] * 3, *beyond])
            reads.append(self._channel(address, length))
            for at in range(length):
                place = address + at * self.beat
                outside = place >= self.size
                value = -1 if outside else self._number(place, self.beat)
                self.read.append([value, _DECODE_ERROR * outside, int(at + 1 == length)])
            words.append(self._word([*pages[2 * third :]]))
        for _ in range(count):
            address, length = self._burst([*pages[third : 2 * third] * 3, *beyond])
            writes.append(self._channel(address, length))
            self.answers.append(_DECODE_ERROR * (address >= self.size))
            beats += [self._beat(address + at * self.beat) for at in range(length)]
            for last in beats[-length:]:
                last.append(0)
            beats[-1][2] = 1
        return {"reads": reads, "writes": writes, "beats": beats, "words": words}

    def _word(self, pages: Sequence[int]) -> list[int]:
        address = self.random.choice(pages) * _PAGE + 4 * self.random.randrange(_PAGE // 4)
        value = self.random.getrandbits(32)
        if self.random.random() < 0.5:
            self.content[address : address + 4] = value.to_bytes(4, "little")
            return [1, address // 4, value]
        self.found.append(self._number(address, 4))
        return [0, address // 4, value]

    def _beat(self, place: int) -> list[int]:
        data = self.random.randbytes(self.beat)
        strobes = self.random.choice([(1 << self.beat) - 1, self.random.getrandbits(self.beat)])
        for at, byte in enumerate(data):
            if place < self.size and strobes >> at & 1:
                self.content[place + at] = byte
        return [int.from_bytes(data, "little"), strobes]

    def words_of_all(self, every: int) -> dict[str, Any]:
        """Read one of so many words of all of it by the bridge."""
        places = range(0, self.size, 4 * every)
        self.found += [self._number(at, 4) for at in places]
        words = [[0, at // 4, 0] for at in places]
        return {"reads": [], "writes": [], "beats": [], "words": words}


def check_block_memory(
    simulator: str,
    module: Module,
    phases: int,
    *,
    every: int,
    seed: int = 1,
) -> None:
    """Check that reads give what was written; return the number of beats and words compared."""
    model = _Model(module, seed)
    job = {
        "seed": seed,
        "phases": [
            model.fill(),
            *(model.phase(12) for _ in range(phases)),
            model.words_of_all(every),
        ],
    }
    assert any(value >= 0 for value, *_ in model.read), "nothing is read but what is outside"
    assert 0 in model.answers, "nothing is written but what is outside"
    log = run_bench(simulator, module, "block_memory", job)
    for got, wanted in zip(log["read"], model.read, strict=True):
        if wanted[0] < 0:
            got[0] = -1  # beyond the end any data will do
    assert_same("beats that were read", log["read"], model.read)
    assert_same("answers to writes", log["answers"], model.answers)
    assert_same("words of the bridge", log["found"], model.found)


SIZE = 4 * 4096


@pytest.mark.one_simulator("icarus")
@pytest.mark.parametrize("data_bits", some([64, 32, 256], 3))
def test_block_memory(data_bits: int, simulator: str, volume: Volume) -> None:
    module = generated(BlockMemory(data_bits=data_bits, memory_bytes=SIZE))
    check_block_memory(simulator, module, volume(2, 40), every=volume(5, 1, 1), seed=data_bits)
    assert lint(module) == ""


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"memory_bytes": 5000}, "memory_bytes must be a multiple of 4096 up to 524288, "),
        ({"memory_bytes": 1 << 20}, "memory_bytes must be a multiple of 4096 up to 524288, "),
        ({"memory_bytes": 0}, "memory_bytes must be a positive integer, not 0"),
        ({"data_bits": 16}, "data_bits must be at least 32, not 16"),
        ({"data_bits": 96}, "data_bits must be a power of two, not 96"),
    ],
)
def test_memories_that_are_refused(given: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError) as error:
        BlockMemory(**given)
    assert str(error.value).startswith(message)
