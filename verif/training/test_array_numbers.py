"""A training step with every product on hardware equals the step in software in every bit."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import mxsafe as mx
from mxsafe.codec import numpy_engine
from mxsafe.model.gemm import Arithmetic
from verif.array_checks import small_array
from verif.checkers import assert_equal
from verif.conftest import Tally, available
from verif.manifest import Module
from verif.training import array_numbers
from verif.training.array import Hardware, StoredTensor, Transposed
from verif.training.array_numbers import ArrayNumbers
from verif.training.data import load_digits
from verif.training.network import (
    Microscaling,
    Numbers,
    Optimiser,
    State,
    Step,
    initial_state,
    training_step,
)

DATA = load_digits()


def start(sizes: tuple[int, ...]) -> State:
    """Weights, and velocities of an earlier step."""
    first, before = initial_state(sizes, 4), initial_state(sizes, 5)
    return State(first.layers, before.layers)


def step(state: State, pixels: slice, images: int, numbers: Numbers) -> Step:
    return training_step(
        state,
        DATA.train_inputs[:images, pixels],
        DATA.train_labels[:images] % state.layers[-1].biases.size,
        numbers=numbers,
        optimiser=Optimiser(),
    )


def arrays(step: Step) -> dict[str, NDArray[np.float32]]:
    """Everything that a step gives, by name."""
    found = {"logits": step.logits}
    for kind, layers in (
        ("gradient", step.gradients),
        ("weights", step.state.layers),
        ("velocity", step.state.velocities),
    ):
        for place, layer in enumerate(layers):
            found |= {
                f"{kind} {place}": layer.weights,
                f"{kind} {place} of biases": layer.biases,
            }
    return found


def check_step(
    hardware: Hardware, sizes: tuple[int, ...], images: int, pixels: slice = slice(None)
) -> int:
    """A step on hardware is that with `mxsafe.matmul`; returns how many numbers were compared."""
    parameters = hardware.array.parameters
    product = partial(mx.matmul, arithmetic=parameters["arithmetic"], lanes=parameters["lanes"])
    numbers = ArrayNumbers(hardware)
    got = step(start(sizes), pixels, images, numbers)
    expected = step(start(sizes), pixels, images, Microscaling(product=product))
    compared = 0
    for (name, mine), wanted in zip(arrays(got).items(), arrays(expected).values(), strict=True):
        compared += assert_equal(name, mine.view(np.uint32), wanted.view(np.uint32))
    assert got.loss == expected.loss
    assert got.underflow == expected.underflow
    assert len(numbers.stored) == 3 * (len(sizes) - 1)
    return compared


@pytest.mark.parametrize("arithmetic", ["fp12", pytest.param("exact", marks=pytest.mark.full)])
def test_a_step_of_a_network(
    arithmetic: Arithmetic, modules: dict[str, Module], tally: Tally
) -> None:
    module = modules["mxsf_sta" if arithmetic == "fp12" else "mxsf_sta_exact"]
    hardware = Hardware(available("verilator"), module, modules["transposer"])
    compared = check_step(hardware, (64, 32, 10), 20)
    tally("verilator", f"training step, {module.name}", compared)


def test_a_step_of_a_small_network(
    modules: dict[str, Module], tmp_path: Path, tally: Tally
) -> None:
    """Middle pixels of few images; no size is a multiple of a tile's."""
    module = small_array(tmp_path, "exact")
    hardware = Hardware(available("icarus"), module, modules["transposer"], stall=0.1)
    compared = check_step(hardware, (10, 9, 3), 3, slice(26, 36))
    tally("icarus", f"training step, {module.name}", compared)


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
    hardware = Hardware("verilator", modules["mxsf_sta"], modules["transposer"])
    numbers = ArrayNumbers(hardware)
    step(start((64, 32, 10)), slice(None), 20, numbers)
    tensors = [(20, 64), (64, 32), (20, 32), (32, 10), (20, 10), (20, 32)]
    assert calls == tensors
    assert [one.shape for one in numbers.stored] == tensors
    assert shapes == [(20, 32), (32, 10), (20, 64)]


def test_a_step_without_the_transposer_is_found(
    modules: dict[str, Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    hardware = Hardware("verilator", modules["mxsf_sta"], modules["transposer"])
    without_simulation(monkeypatch, turned=True)
    check_step(hardware, (64, 32, 8), 16)
    without_simulation(monkeypatch, turned=False)
    with pytest.raises(AssertionError, match=r"gradient 0: \d+ of 64 differ"):
        check_step(hardware, (64, 32, 8), 16)
