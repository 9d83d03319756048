"""The vector engine against the interpreter of the machine: descriptors of all kinds."""

from dataclasses import replace

import numpy as np
import pytest

from mxsafe.machine.configuration import (
    FPGA_MACHINE,
    FUNCTIONS,
    SMALL_MACHINE,
    MachineConfiguration,
)
from mxsafe.machine.description import REDUCTION
from mxsafe.tables import Grade
from verif.rtl.machine.vector.vector_engine_checks import (
    Task,
    check_engine,
    few_tasks,
    long_tasks,
    outside_tasks,
    paced_tasks,
    random_tasks,
    reduced_tasks,
    small_machine,
    sum_tasks,
    sweep_tasks,
    vector_engine,
)
from verif.support.manifest import Module
from verif.support.simulators import lint
from verif.support.tests import Volume, typical

DEFAULT = small_machine()
WITHOUT_REDUCTIONS = small_machine(functions=("relu",), reductions=())
NORMS_ALONE = small_machine(
    functions=("relu",), reductions=("layer_norm", "rms_norm"), conversions=(), affine=False
)
IN_PARTS = {
    parts: small_machine(
        functions=("relu", "gelu", "silu", "tanh"), vector_parts=parts, target="fpga"
    )
    for parts in (2, 4, 8)
}
"""By the cycles that a beat takes."""
MACHINES = {
    "default": DEFAULT,
    "without reductions": WITHOUT_REDUCTIONS,
    "norms alone": NORMS_ALONE,
    **{f"{parts} parts": machine for parts, machine in IN_PARTS.items()},
}


def test_random_descriptors(volume: Volume) -> None:
    """All steps in all combinations, with stalls on all ports and resets at any moment.

    In the default run without reductions, which whole machines have there.
    """
    # The seed is one with which few tasks have all steps.
    machine, seed = ((WITHOUT_REDUCTIONS, 37), (DEFAULT, 1))[volume(0, 1, 1)]
    module = vector_engine(machine)
    count = volume(4, 10, 3)
    tasks = random_tasks(machine, seed, count)
    interrupts = {number: (1 + 3 * number, 20 + 7 * number) for number in range(0, count, 2)}
    stalls = {"stall_read": 0.2, "stall_write": 0.2}
    check_engine("icarus", module, machine, tasks, interrupts=interrupts, **stalls)


@pytest.mark.full
@pytest.mark.parametrize("stall", [0.0, 0.15])
def test_sixteen_columns(stall: float) -> None:
    machine = small_machine(16)
    module = vector_engine(machine)
    count = 80
    tasks = random_tasks(machine, 2, count)
    interrupts = {number: (5 + number,) for number in range(0, count, 4)}
    check_engine(
        "verilator",
        module,
        machine,
        tasks,
        stall_read=stall,
        stall_write=stall,
        interrupts=interrupts,
    )


@pytest.mark.variant
def test_the_published_one(modules: dict[str, Module], volume: Volume) -> None:
    """Short rows through all lanes of the paper's machine, with stalls on all ports."""
    machine, module = MachineConfiguration(), modules["mxsf_vector_engine"]
    stalls = {"stall_read": 0.1, "stall_write": 0.1}
    tiles, softmax = few_tasks(machine)
    function = {"arithmetic": 1, "y": 64, "y_stride": 11, "function": len(FUNCTIONS)}
    tasks = [Task({**tiles.values, **function}, tiles.vector), softmax][: volume(1, 2)]
    check_engine("icarus", module, machine, tasks, **stalls)


@pytest.mark.full
@pytest.mark.parametrize(
    "machine",
    [SMALL_MACHINE, FPGA_MACHINE, MachineConfiguration()],
    ids=["small", "fpga", "paper"],
)
def test_published_ones(machine: MachineConfiguration) -> None:
    """Random descriptors, rows of each reduction, addresses outside; stalls everywhere, resets."""
    count = 30
    tasks = [*random_tasks(machine, 7, count), *reduced_tasks(machine), *outside_tasks(machine, 3)]
    interrupts = {number: (1 + 3 * number, 20 + 7 * number) for number in range(0, count, 5)}
    # Some bursts of 16 cycles have no write at all, so that results of any pace pile up.
    stalls = {"stall_read": 0.2, "stall_write": 0.5}
    module = vector_engine(machine)
    check_engine("verilator", module, machine, tasks, interrupts=interrupts, **stalls)


def test_a_beat_a_clock(volume: Volume) -> None:
    """Two rows more take two cycles a beat more, and the first one what the units need."""
    machine = WITHOUT_REDUCTIONS
    module = vector_engine(machine)
    pairs = paced_tasks(machine)[:: volume(2, 1, 1)]
    tasks = [task for pair in pairs for task in pair]
    _, clocks = check_engine("icarus", module, machine, tasks)
    few, more = clocks[0::2], clocks[1::2]
    assert (more - few == 2 * tasks[0].values["beats"]).all(), f"{few} and {more} cycles"
    # The last result is written in the cycle before the descriptor is done.
    assert few[0] == module.latency + tasks[0].values["beats"] + 1


@pytest.mark.variant
def test_norms_without_gain_and_bias() -> None:
    """Of a machine whose norms never have them; results are other numbers then."""
    machine = NORMS_ALONE
    module = vector_engine(machine)
    tasks = [task for task in random_tasks(machine, 5, 40) if task.values["rows"] <= 2][:5]
    check_engine("icarus", module, machine, tasks, stall_write=0.2)


@pytest.mark.parametrize("grade", ["compact", pytest.param("fine", marks=pytest.mark.variant)])
def test_sums(grade: Grade, simulator: str, volume: Volume) -> None:
    """Of rows that cancel, overflow, are subnormal, constant or not finite, one value or many."""
    machine = replace(NORMS_ALONE, rows=4, reductions=("rms_norm", "sum"), grade=grade)
    module = vector_engine(machine)
    tasks = sum_tasks(machine, (7, 32, 2, 1)[: volume(2, 4)])
    check_engine(simulator, module, machine, tasks)


SWEPT = small_machine(4, functions=("relu",), conversions=("blocks",))


def test_norms_behind_softmax() -> None:
    """What softmax keeps of rows stands where means do, and leaves no trace in the next ones."""
    machine = replace(SWEPT, reductions=("softmax", "layer_norm"), sweeps=False)
    usual = {"lanes": machine.rows, "d": 256, "d_stride": 20, "to_vector": 1}
    usual |= {"x_stride": 20, "beats": 20, "rows": 6, "parameter": 0x3F800000}
    # Of numbers that are nearly the same a mean is wanted in its lowest bits.
    noise = np.random.default_rng(4).standard_normal((machine.vector_beats, machine.rows))
    words = (1 + noise / 4096).astype(np.float32).view(np.uint32)
    softmax, norm = (
        Task({**usual, "reduction": REDUCTION[name]}, words) for name in machine.reductions
    )
    check_engine("icarus", vector_engine(machine), machine, [norm, softmax, norm, softmax, norm])


@pytest.mark.parametrize("grade", ["compact", pytest.param("fine", marks=pytest.mark.variant)])
def test_sweeps(grade: Grade, simulator: str, volume: Volume) -> None:
    """Rows in pieces among whole ones, with stalls, and with resets in the middle of a sweep."""
    machine = replace(SWEPT, grade=grade)
    module = vector_engine(machine)
    tasks = sweep_tasks(machine, 5)
    # In the default run Icarus, which takes ten times as long, has rows that are given up first.
    tasks = tasks[: len(tasks) // (volume(3, 1, 1) if simulator == "icarus" else 1)]
    interrupts = {at: (1 + 3 * (at % 11), 20 + at % 7) for at in range(5, len(tasks), 29)}
    stalls = {"stall_read": 0.2, "stall_write": 0.2}
    check_engine(simulator, module, machine, tasks, interrupts=interrupts, **stalls)


def test_sweeps_of_norms_alone() -> None:
    """What finds the largest values is another unit where there is no softmax."""
    machine = replace(SWEPT, reductions=("layer_norm", "rms_norm", "sum"))
    tasks = sweep_tasks(machine, 5)
    check_engine("verilator", vector_engine(machine), machine, tasks, stall_read=0.2)


@pytest.mark.full
@pytest.mark.parametrize("reduction", SWEPT.reductions)
def test_the_longest_row(reduction: str) -> None:
    """As many of the largest values as there can be, and one more."""
    machine = replace(SWEPT, reductions=(reduction,), vector_banks=4, bank_beats=1024)
    module = vector_engine(machine)
    tasks = long_tasks(machine, reduction)
    check_engine("verilator", module, machine, tasks)


@pytest.mark.parametrize("parts", typical(IN_PARTS, every=3))
def test_parts_of_beats_for_fpgas(parts: int, volume: Volume) -> None:
    """Units with fewer lanes, and with the registers of an FPGA, have the same results."""
    machine = IN_PARTS[parts]
    module = vector_engine(machine)
    count = volume(2, 16, 3)
    tasks = random_tasks(machine, 6, count)
    check_engine(
        "icarus",
        module,
        machine,
        tasks,
        stall_read=0.2,
        stall_write=0.2,
        interrupts={1: (40, 23)},
    )


def test_addresses_outside(volume: Volume) -> None:
    """An error of the descriptor, nothing read or written there, and work after a reset."""
    machine = WITHOUT_REDUCTIONS
    module = vector_engine(machine)
    tasks = outside_tasks(machine, 3)[:: volume(14, 1, 7)]
    mixed = [
        task
        for pair in zip(tasks, random_tasks(machine, 4, len(tasks)), strict=True)
        for task in pair
    ]
    check_engine("icarus", module, machine, mixed)


@pytest.mark.full
@pytest.mark.parametrize("machine", MACHINES)
def test_lint(machine: str) -> None:
    assert lint(vector_engine(MACHINES[machine])) == ""
