"""The buffer of operands: halves, entries, and two who write."""

import pytest

from mxsafe.rtl.machine.buffers.operand_buffer import OperandBuffer
from mxsafe.rtl.timing import Target
from verif.rtl.machine.buffers.buffer_checks import check_operand_buffer
from verif.support.tests import refused, typical
from verif.support.units import generated, published


@pytest.mark.parametrize(("writers", "target"), [(2, "asic"), (1, "asic"), (2, "fpga")])
def test_random_accesses(writers: int, target: Target, simulator: str) -> None:
    unit = OperandBuffer(word_bits=32, beats=16, writers=writers, target=target)
    module = generated(unit)
    check_operand_buffer(simulator, module, 2_000)


@pytest.mark.parametrize("writers", [2, 1])
def test_beats_of_four_words(writers: int, simulator: str) -> None:
    """Codes alone, in two bytes each."""
    unit = OperandBuffer(word_bits=32, beats=16, words=4, scaled=False, writers=writers)
    module = generated(unit)
    assert not [name for name in module.ports if "scales" in name]
    check_operand_buffer(simulator, module, 2_000)


@pytest.mark.parametrize("name", typical(published(OperandBuffer), every=3))
def test_published_ones(name: str) -> None:
    """The first and last entries, and those at which a bit of the address turns."""
    module = published(OperandBuffer)[name]
    check_operand_buffer("icarus", module, 800)


test_configurations_that_cannot_work = refused(
    OperandBuffer,
    [
        ({"word_bits": 24}, "word_bits must be a multiple of 16, not 24"),
        ({"beats": 4}, "beats must be a multiple of 4 from 8 on, not 4"),
        ({"beats": 10}, "beats must be a multiple of 4 from 8 on, not 10"),
        ({"writers": 3}, "writers must be 1 or 2, not 3"),
        ({"writers": 0}, "writers must be a positive integer, not 0"),
        ({"words": 3}, "words must be a power of two, not 3"),
        ({"words": 1}, "words must be 2 or more, not 1"),
        (
            {"scaled": False, "reads_words": True},
            "reads_words must be False without scales, not True",
        ),
    ],
)
