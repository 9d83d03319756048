"""The whole machine: memory after a program equals the interpreter's, byte for byte."""

from dataclasses import replace
from pathlib import Path

import pytest

from mxsafe.machine.compiler.transformer_shape import TransformerShape
from mxsafe.machine.configuration import SMALL_MACHINE, MachineConfiguration
from mxsafe.rtl.accelerator.accelerator import Accelerator
from verif.support.accelerator_checks import (
    check_errors,
    check_program,
    check_resets,
    encoder_program,
    perceptron_program,
)
from verif.support.generated import generated
from verif.support.manifest import Module
from verif.support.network_programs import product_program, transformer_program
from verif.support.tests import available

SMALL = SMALL_MACHINE
TRAINING = replace(
    SMALL,
    rows=16,
    unit_rows=2,
    data_width=128,
    functions=("relu", "relu_derivative"),
    reductions=("softmax",),
    conversions=("tiles",),
)
DECODING = replace(SMALL, functions=("silu",), reductions=("softmax", "rms_norm"))
VISION = MachineConfiguration(
    functions=("gelu",), reductions=("softmax", "layer_norm"), conversions=("blocks",)
)

SIMULATORS = [pytest.param("icarus", marks=pytest.mark.full), "verilator"]


@pytest.fixture
def small(modules: dict[str, Module]) -> Module:
    return modules["mxsf_accelerator_small"]


def test_encoder(small: Module) -> None:
    """Two blocks, with fast memory and with one that is slow and pauses."""
    available("verilator")
    program = encoder_program(SMALL, blocks=2)
    fast = check_program("verilator", small, SMALL, program, latency=5, pause=0.0)
    slow = check_program("verilator", small, SMALL, program, latency=150, pause=0.4, seed=3)
    assert fast["cycles"] < slow["cycles"]


def test_encoder_on_icarus(small: Module) -> None:
    """One block, where registers that are not reset begin unknown."""
    available("icarus")
    check_program("icarus", small, SMALL, encoder_program(SMALL), latency=20, pause=0.2)


def test_products(small: Module) -> None:
    available("verilator")
    check_program("verilator", small, SMALL, product_program(SMALL), latency=20, pause=0.2)


def test_transformer(small: Module) -> None:
    """Normalisations first, keys and values in memory."""
    available("verilator")
    shape = TransformerShape(tokens=11, features=32, heads=2, hidden=40, blocks=1)
    program = transformer_program(shape, SMALL)
    check_program("verilator", small, SMALL, program, latency=20, pause=0.2)


@pytest.mark.full
def test_decoder(tmp_path: Path) -> None:
    """A prompt of two strips: RMS normalisation, a gate, causal softmax, rotations."""
    available("verilator")
    module = generated(Accelerator(machine=DECODING), tmp_path)
    shape = TransformerShape.decoder(
        tokens=13, features=32, heads=2, key_heads=1, hidden=40, blocks=1
    )
    program = transformer_program(shape, DECODING)
    check_program("verilator", module, DECODING, program, latency=20, pause=0.2)


@pytest.mark.full
def test_block_of_deit_tiny(tmp_path: Path) -> None:
    available("verilator")
    module = generated(Accelerator(machine=VISION), tmp_path)
    shape = TransformerShape(tokens=197, features=192, heads=3, hidden=768, blocks=1)
    program = transformer_program(shape, VISION)
    check_program("verilator", module, VISION, program, latency=100, pause=0.0)


@pytest.mark.full
def test_training_step(tmp_path: Path) -> None:
    available("verilator")
    module = generated(Accelerator(machine=TRAINING), tmp_path)
    program = perceptron_program(TRAINING)
    check_program("verilator", module, TRAINING, program, latency=20, pause=0.2)


@pytest.mark.parametrize("simulator", SIMULATORS)
def test_resets(small: Module, simulator: str) -> None:
    available(simulator)
    check_resets(simulator, small, SMALL, encoder_program(SMALL), (3, 100, 1500))


@pytest.mark.parametrize("simulator", SIMULATORS)
def test_errors(small: Module, simulator: str) -> None:
    available(simulator)
    assert check_errors(simulator, small, SMALL, encoder_program(SMALL)) == 7
