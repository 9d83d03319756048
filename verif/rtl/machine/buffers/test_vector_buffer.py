"""The buffer between the engines: banks, turns, beats that somebody holds."""

import pytest

from mxsafe.rtl.machine.buffers.vector_buffer import VectorBuffer
from mxsafe.rtl.timing import Target
from verif.rtl.machine.buffers.buffer_checks import check_vector_buffer
from verif.support.tests import refused, typical
from verif.support.units import generated, published


@pytest.mark.parametrize(("banks", "target"), [(4, "asic"), (1, "asic"), (4, "fpga"), (1, "fpga")])
def test_random_accesses(banks: int, target: Target, simulator: str) -> None:
    buffer = VectorBuffer(columns=2, banks=banks, bank_depth=4, target=target)
    module = generated(buffer)
    check_vector_buffer(simulator, module, 2_000)


@pytest.mark.parametrize("name", typical(published(VectorBuffer), every=3))
def test_published_ones(name: str) -> None:
    """The first and last entries, and those at which a bit of the address turns."""
    module = published(VectorBuffer)[name]
    check_vector_buffer("icarus", module, 800)


test_configurations_that_cannot_work = refused(
    VectorBuffer,
    [
        ({"columns": 3}, "columns must be even, not 3"),
        ({"banks": 3}, "banks must be a power of two, not 3"),
        ({"bank_depth": 1}, "bank_depth must be 2 or more, not 1"),
        ({"bank_depth": 12}, "bank_depth must be a power of two, not 12"),
    ],
)
