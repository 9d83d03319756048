"""A training step with every product on hardware equals the step in software in every bit."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

import mxsafe as mx
from mxsafe.codec import _engines, numpy_engine
from mxsafe.model.gemm import Arithmetic
from studies.training import array_numbers
from studies.training.array import Hardware, StoredTensor, Transposed
from studies.training.array_numbers import ArrayNumbers
from studies.training.checks import check_step
from studies.training.data import load_digits
from studies.training.network import Optimiser, State, initial_state, training_step
from verif.rtl.array.array_checks import small_array
from verif.support.manifest import Module
from verif.support.tests import available

DATA = load_digits()
Sizes = tuple[int, ...]


def start(sizes: Sizes) -> State:
    """Weights, and velocities of an earlier step."""
    first, before = initial_state(sizes, 4), initial_state(sizes, 5)
    return State(first.layers, before.layers)


def images(sizes: Sizes, count: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Middle pixels of digits, in as many classes as there are outputs."""
    first = (64 - sizes[0]) // 2
    pixels = slice(first, first + sizes[0])
    return DATA.train_inputs[:count, pixels], DATA.train_labels[:count] % sizes[-1]


def check(hardware: Hardware, sizes: Sizes, count: int) -> int:
    numbers, compared = check_step(hardware, start(sizes), *images(sizes, count))
    weights = sum(inputs * outputs + outputs for inputs, outputs in pairwise(sizes))
    assert compared == count * sizes[-1] + 3 * weights
    assert len(numbers.stored) == 3 * (len(sizes) - 1)
    return compared


@pytest.mark.full
@pytest.mark.parametrize("arithmetic", ["fp12", "exact"])
def test_a_step_of_a_network(arithmetic: Arithmetic, modules: dict[str, Module]) -> None:
    module = modules["mxsf_sta" if arithmetic == "fp12" else "mxsf_sta_exact"]
    hardware = Hardware(available("verilator"), module, modules["transposer"])
    check(hardware, (64, 32, 10), 20)


def test_a_step_of_a_small_network(modules: dict[str, Module]) -> None:
    """No size is a multiple of a tile's."""
    module = small_array("exact")
    hardware = Hardware(available("icarus"), module, modules["transposer"], stall=0.1)
    check(hardware, (10, 9, 3), 3)


def without_simulation(monkeypatch: pytest.MonkeyPatch, *, turned: bool) -> list[tuple[int, ...]]:
    """Let the model take the place of the hardware; shapes of what is transposed in return."""
    shapes = []

    def multiply(hardware: Hardware, products: list) -> tuple[list[NDArray[np.float32]], int]:
        return [mx.matmul(a, w, arithmetic="fp12") for a, w in products], 1

    def transpose(hardware: Hardware, tensors: list[StoredTensor]) -> Transposed:
        shapes.extend(one.shape for one in tensors)
        results = []
        for one in tensors:
            q = one.tensor().T
            codes = q.codes
            if not turned:  # tiles are where they belong, each as it was
                n, m = one.shape
                codes = one.tensor().codes.reshape(n // 8, 8, m // 8, 8).transpose(2, 1, 0, 3)
                codes = codes.reshape(m, n)
            q = mx.QuantizedTensor(np.ascontiguousarray(codes), q.scales, q.format, q.block, q.axis)
            results.append(array_numbers.store(q))
        return Transposed(results, cycles=1)

    monkeypatch.setattr(array_numbers, "multiply", multiply)
    monkeypatch.setattr(array_numbers, "transpose", transpose)
    return shapes


def test_what_is_quantised_and_transposed(
    modules: dict[str, Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three tensors a layer, once each; W goes through the transposer where there is a dX."""
    calls = []
    quantize_part = numpy_engine.quantize_part

    def counted(values: NDArray[np.float32], *arguments: object) -> None:
        calls.append(values.shape)
        quantize_part(values, *arguments)

    shapes = without_simulation(monkeypatch, turned=True)
    monkeypatch.setattr(numpy_engine, "quantize_part", counted)
    monkeypatch.setattr(_engines, "WORTH_CALLING", 1 << 20)  # compiled code is not counted
    hardware = Hardware("verilator", modules["mxsf_sta"], modules["transposer"])
    numbers = ArrayNumbers(hardware)
    sizes = (64, 32, 10)
    training_step(start(sizes), *images(sizes, 20), numbers=numbers, optimiser=Optimiser())
    tensors = [(20, 64), (64, 32), (20, 32), (32, 10), (20, 10), (20, 32)]
    assert calls == tensors
    assert [one.shape for one in numbers.stored] == tensors
    assert shapes == [(20, 32), (32, 10), (20, 64)]


def test_a_step_without_the_transposer_is_found(
    modules: dict[str, Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    hardware = Hardware("verilator", modules["mxsf_sta"], modules["transposer"])
    without_simulation(monkeypatch, turned=True)
    check(hardware, (64, 32, 8), 16)
    without_simulation(monkeypatch, turned=False)
    with pytest.raises(AssertionError, match=r"gradient 0: \d+ of 64 differ"):
        check(hardware, (64, 32, 8), 16)
