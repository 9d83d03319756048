"""The memory of a board: bursts and words at once, strobes, what lies beyond its end."""

from pathlib import Path

import pytest

from mxsafe.rtl.board.block_memory import BlockMemory
from verif.rtl.board.block_memory_checks import check_block_memory
from verif.support.generated import generated
from verif.support.simulators import lint
from verif.support.tests import Tally, Volume, some

SIZE = 4 * 4096


@pytest.mark.one_simulator("icarus")
@pytest.mark.parametrize("data_bits", some([64, 32, 256], 3))
def test_block_memory(
    data_bits: int, simulator: str, tmp_path: Path, tally: Tally, volume: Volume
) -> None:
    size = volume(SIZE // 4, SIZE, SIZE)
    module = generated(BlockMemory(data_bits=data_bits, memory_bytes=size), tmp_path)
    compared = check_block_memory(simulator, module, volume(2, 40), seed=data_bits)
    tally(simulator, "beats of the board's memory", compared)
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
