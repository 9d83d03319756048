"""The buffer of operands: halves, entries, and two who write."""

import pytest

from mxsafe.rtl.arithmetic.target import Target
from mxsafe.rtl.machine.buffers.operand_buffer import OperandBuffer
from verif.rtl.machine.buffers.buffer_checks import check_operand_buffer
from verif.support.tests import refused, typical
from verif.support.units import generated, published


@pytest.mark.parametrize(("writers", "target"), [(2, "asic"), (1, "asic"), (2, "fpga")])
def test_random_accesses(writers: int, target: Target, simulator: str) -> None:
    unit = OperandBuffer(word_bits=32, beats=16, writers=writers, target=target)
    module = generated(unit)
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
    ],
)
