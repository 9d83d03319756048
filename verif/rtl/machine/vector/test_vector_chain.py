"""Refusals of the chain of vector units; the vector engine's test checks its results."""

import pytest

from mxsafe.machine.configuration import FUNCTIONS as FUNCTION_NAMES
from mxsafe.machine.configuration import REDUCTIONS as REDUCTION_NAMES
from mxsafe.rtl.machine.vector.vector_chain import REDUCTIONS, VectorChain
from mxsafe.rtl.vector.function_lane import FUNCTIONS
from verif.support.tests import refused

test_configurations_that_cannot_work = refused(
    VectorChain,
    [
        ({"columns": 12}, "columns must be a power of two, not 12"),
        ({"depth": 100}, "depth must be a power of two, not 100"),
        (
            {"reductions": ("softmax", "maximum")},
            "reductions must be different ones of softmax, layer_norm, rms_norm, sum, "
            "not softmax, maximum",
        ),
    ],
)


def test_numbers_are_those_of_descriptors() -> None:
    assert FUNCTIONS == FUNCTION_NAMES
    assert REDUCTIONS == REDUCTION_NAMES


@pytest.mark.parametrize(
    ("functions", "name"),
    [
        ("+".join(FUNCTIONS), "vector_chain"),
        ("relu+relu_derivative", "vector_chain_relu_relud"),
        ("", "vector_chain_no_functions"),
    ],
)
def test_names_are_identifiers(functions: str, name: str) -> None:
    assert VectorChain(functions=functions).module_name == name
