"""Vector arithmetic: every operation in every lane, streams that stall by themselves, resets."""

from typing import Any

import numpy as np
import pytest

from mxsafe.rtl.vector.multiply_add import MultiplyAdd
from mxsafe.rtl.vector.vector_arithmetic import VectorArithmetic
from verif.rtl.vector.vector_checks import check_vectors, random_vectors
from verif.support.simulators import lint
from verif.support.tests import refused
from verif.support.units import generated, published

OPERATIONS = "add+multiply+axpy+scale"


@pytest.mark.parametrize(
    ("simulator", "operations", "lanes", "count"),
    [
        ("icarus", OPERATIONS, 2, 150),
        ("verilator", "add", 1, 1_000),  # an adder is quickly built
        pytest.param("verilator", OPERATIONS, 16, 20_000, marks=pytest.mark.full),
    ],
)
def test_beats_of_all_kinds(simulator: str, operations: str, lanes: int, count: int) -> None:
    """All operations mixed, while each stream stalls by itself."""
    unit = VectorArithmetic(operations=operations, lanes=lanes, operand="both")
    module = generated(unit)
    assert lint(module) == ""
    beats = random_vectors(module, 1, count)
    assert len(set(beats.operation)) == len(module.parameters["operations"])
    moments = range(1, 30, 7)
    check_vectors(simulator, module, beats, stall_in=0.2, stall_out=0.2, resets_after=moments)


CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "bias, a number a beat": {
        "operations": ("add",),
        "operand": "beat",
        "ragged": True,
        "add_stages": 0,
    },
    "most registers": {"operations": "axpy", "multiply_stages": 4, "add_stages": 4},
    "no operand": {"operations": "scale", "multiply_stages": 0},
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_other_configurations(name: str) -> None:
    module = generated(VectorArithmetic(lanes=2, **CONFIGURATIONS[name]))
    beats = random_vectors(module, 2, 60)
    check_vectors("icarus", module, beats, stall_in=0.1, stall_out=0.3)


@pytest.mark.variant
@pytest.mark.parametrize("name", published(VectorArithmetic))
def test_published_ones(name: str) -> None:
    """All operations on numbers of all sizes, while each stream stalls; resets before."""
    module = published(VectorArithmetic)[name]
    beats = random_vectors(module, 5, 200 // module.parameters["lanes"] + 40)
    assert len(set(beats.operation)) == len(module.parameters["operations"])
    resets = (module.latency + 2,)
    check_vectors("icarus", module, beats, stall_in=0.3, stall_out=0.1, resets_after=resets)


def test_a_beat_a_clock() -> None:
    """Each result comes `latency` cycles after its beat, and operands are taken with the beats."""
    module = generated(VectorArithmetic(lanes=2, operations="add"))
    beats = random_vectors(module, 3, 50)
    streamed = check_vectors("icarus", module, beats)
    assert (np.diff(streamed.taken) == 1).all()
    assert (streamed.left - streamed.taken == module.latency).all()
    assert np.array_equal(streamed.taken_apart["s_axis_operand"], streamed.taken)


def test_parts_that_are_not_needed() -> None:
    config = VectorArithmetic(operations="add").config
    assert not config.lane.multiply
    assert config.module_name == "vector_add"
    assert config == VectorArithmetic(operations=["add"], multiply_stages=4).config
    scale = VectorArithmetic(operations="scale", operand="both").config
    assert not scale.lane.add
    assert scale == VectorArithmetic(operations="scale").config
    assert VectorArithmetic(operations="axpy+multiply+add").module_name == "vector_arithmetic"
    assert MultiplyAdd().latency == 5


test_configurations_that_cannot_work = refused(
    VectorArithmetic,
    [
        ({"lanes": 0}, "lanes must be a positive integer, not 0"),
        ({"ragged": True}, "operand must be beat with ragged, not 'lanes'"),
        ({"operand": "row"}, "operand must be one of lanes, beat, both, not 'row'"),
        ({"multiply_stages": 5}, "multiply_stages must be an integer from 0 to 4, not 5"),
        ({"add_stages": 5}, "add_stages must be an integer from 0 to 4, not 5"),
        *(
            (
                {"operations": given},
                f"operations must be some of add, multiply, axpy, scale, each once, not {given!r}",
            )
            for given in ("", "add+add", ("divide",), ())
        ),
    ],
)


def test_no_lane_without_arithmetic() -> None:
    with pytest.raises(ValueError) as error:
        MultiplyAdd(multiply=False, add=False)
    assert str(error.value) == "multiply or add must be set"
