"""The buffer of operands: halves, entries, and two who write."""

from pathlib import Path

import pytest

from mxsafe.rtl.arithmetic.target import Target
from mxsafe.rtl.machine.buffers.operand_buffer import OperandBuffer
from verif.rtl.machine.buffers.buffer_checks import check_operand_buffer
from verif.support.generated import generated
from verif.support.published import published
from verif.support.tests import Tally, available, typical


@pytest.mark.parametrize(("writers", "target"), [(2, "asic"), (1, "asic"), (2, "fpga")])
def test_random_accesses(
    writers: int, target: Target, simulator: str, tmp_path: Path, tally: Tally
) -> None:
    unit = OperandBuffer(word_bits=32, beats=16, writers=writers, target=target)
    module = generated(unit, tmp_path)
    count = check_operand_buffer(simulator, module, 2_000)
    tally(simulator, "values of operand buffers", count)


@pytest.mark.parametrize("name", typical(published(OperandBuffer), every=3))
def test_published_ones(name: str, tally: Tally) -> None:
    """The first and last entries, and those at which a bit of the address turns."""
    simulator, module = available("icarus"), published(OperandBuffer)[name]
    tally(simulator, "values of operand buffers", check_operand_buffer(simulator, module, 800))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"word_bits": 24}, "word_bits must be a multiple of 16, not 24"),
        ({"beats": 4}, "beats must be a multiple of 4 from 8 on, not 4"),
        ({"beats": 10}, "beats must be a multiple of 4 from 8 on, not 10"),
        ({"writers": 3}, "writers must be 1 or 2, not 3"),
        ({"writers": 0}, "writers must be a positive integer, not 0"),
    ],
)
def test_configurations_that_cannot_work(parameters: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError) as error:
        OperandBuffer(**parameters)
    assert str(error.value) == message
