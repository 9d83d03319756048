"""The whole machine: memory after a program equals the interpreter's, byte for byte."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mxsafe.machine.assembler import Assembler, Instruction, fault_of, split
from mxsafe.machine.configuration import (
    BF16_MACHINE,
    BOARD_MACHINE,
    FPGA_MACHINE,
    SMALL_MACHINE,
    WINDOW_MACHINE,
    MachineConfiguration,
    resized,
)
from mxsafe.machine.description import DESCRIPTOR_BYTES, ERRORS
from mxsafe.machine.layout import narrowed
from mxsafe.rtl.machine.accelerator import Accelerator
from verif.rtl import functional
from verif.rtl.machine.accelerator_checks import (
    FAILED,
    WINDOW_COUNTING,
    Program,
    check_empty,
    check_program,
    check_resets,
    encoder_program,
    perceptron_program,
    require_done,
    require_memory,
)
from verif.rtl.machine.accelerator_job import Run, run_programs
from verif.rtl.machine.descriptor_places import touched
from verif.rtl.machine.network_programs import (
    decoder_program,
    graph_program,
    large_product_program,
    tiles_program,
    vector_program,
    vision_program,
)
from verif.rtl.machine.power_up import powered_up
from verif.rtl.machine.program_faults import (
    Fault,
    address_faults,
    bits_outside,
    deadlocks,
    malformed,
    memory_faults,
    misplaced,
)
from verif.rtl.machine.random_programs import covering_programs, random_program
from verif.support.manifest import Module
from verif.support.tests import Volume
from verif.support.units import generated

_LIMIT = 200_000


@dataclass(frozen=True)
class Probe:
    """A program that adds a product to numbers in memory, over and over: it forgets no mistake.

    Attributes
    ----------
    memory : ndarray of uint8
        What it works on.
    """

    program: bytes
    memory: NDArray[np.uint8]

    @classmethod
    def at(cls, configuration: MachineConfiguration, address: int) -> "Probe":
        """The probe whose memory begins at an address."""
        c, rng = configuration, np.random.default_rng(7)
        rows, size = c.rows, c.word_bytes
        beats = c.block_beats
        codes = rng.integers(0, 256, (2, c.beat_words * beats * size)).astype(np.uint8)
        if not c.scaled:
            some = rng.standard_normal((2, rows * c.lanes)).astype(np.float32)
            codes = narrowed(some.view(np.uint32)).astype("<u2").view(np.uint8)
        content = {"a_codes": codes[0], "w_codes": codes[1]}
        if c.scaled:
            content |= dict.fromkeys(("a_scales", "w_scales"), np.full(size, 127, np.uint8))
        content["vector"] = rng.standard_normal(rows * rows).astype("<f4").view(np.uint8)
        starts = address + np.cumsum([0, *(len(part) for part in content.values())])
        make = Assembler(c)
        moves = {
            name: {"buffer": name, "address": int(start), "count_0": len(part) // size}
            for (name, part), start in zip(content.items(), starts, strict=False)
        }
        *first, last, _ = content
        sums = {"arithmetic": "add", "y": rows, "d": 2 * rows, "beats": rows, "to_vector": 1}
        program = [
            *(make.load(**moves[name]) for name in first),
            make.load(**moves[last], signal="gemm"),
            make.load(**moves["vector"], signal="vector"),
            make.gemm(beats=beats, block=beats, result=rows, wait="load", signal="vector"),
            make.vector(**sums, wait="load,gemm", signal="store"),
            make.store(**moves["vector"], wait="vector", **{"from": 4 * rows}),
        ]
        return cls(make.assemble(program), np.concatenate(list(content.values())))


@dataclass
class _Image:
    """Memory that grows."""

    memory: NDArray[np.uint8]
    multiple: int

    def put(self, data: bytes) -> int:
        """Address of bytes behind all others."""
        start = -(-len(self.memory) // self.multiple) * self.multiple
        added = np.frombuffer(data, np.uint8)
        between = np.zeros(start - len(self.memory), np.uint8)
        self.memory = np.concatenate([self.memory, between, added])
        return start


def check_faults(
    simulator: str,
    module: Module,
    configuration: MachineConfiguration,
    program: Program,
    faults: Sequence[Fault],
    *,
    seed: int = 1,
) -> None:
    """Each error must be told with its descriptor, and a right program must run after each.

    Those that begin as the right program does come first, and then that program as a whole. What
    the others write must be words that they name: memory is compared but for these.

    Returns
    -------
    int
        Errors that were found.
    """
    size = configuration.word_bytes
    image = _Image(program.memory, size)
    place = image.put(b"")
    probe = Probe.at(configuration, place)
    assert image.put(probe.memory.tobytes()) == place
    right = Run(program=image.put(probe.program), length=len(probe.program) // DESCRIPTOR_BYTES)
    own = [fault for fault in faults if fault.errors is not None or fault.error == "deadlock"]
    foreign = [fault for fault in faults if fault not in own]
    runs = []
    for fault in own:
        runs += [_wrong(fault, program, image), right]
    runs += [program.run, right]
    for fault in foreign:
        runs += [_wrong(fault, program, image), right]
    ended = run_programs(
        simulator,
        module,
        image.memory,
        runs,
        latency=(5, 40),
        pause=0.1,
        seed=seed,
    )
    assert len(ended.runs) == len(runs) == 2 * len(faults) + 2
    expected = image.memory.copy()
    machine = powered_up(configuration, seed)
    assert machine.run(program.data, expected, base=program.base).error == "none"
    ordered = [*own, None, *foreign]
    for each, ran, after in zip(ordered, ended.runs[::2], ended.runs[1::2], strict=True):
        _require_told(each, ran)
        if each is not None:
            start = each.number * DESCRIPTOR_BYTES
            functional.fault(
                each.error, (each.program or program.data)[start : start + DESCRIPTOR_BYTES]
            )
        outcome = machine.run(probe.program, expected)
        assert outcome.error == "none", outcome.reason
        require_done(after)
        counted = after["words_read"], after["words_written"]
        assert counted == (outcome.words_read, outcome.words_written), each
    named = _named_by(foreign, program.base, configuration)
    assert 4 * len(named) < len(expected), "too little is compared"
    kept = np.ones(len(expected), np.bool_)
    kept[named] = False
    require_memory(ended.memory[kept], expected[kept])


def _require_told(fault: Fault | None, ran: dict[str, int]) -> None:
    """A run must have ended with the error, or without one, and be idle after a reset."""
    if fault is None:
        require_done(ran)
        return
    told = ran["status"], ran["error"], ran["error_descriptor"]
    wanted = FAILED, ERRORS[fault.error], fault.number
    assert told == wanted, f"{fault.name}: status, error, number are {told}, not {wanted}"
    idle = ran["status_after_reset"], ran["pending_after_reset"]
    assert idle == (0, 0), f"{fault.name}: not idle after a reset"


def _wrong(fault: Fault, program: Program, image: _Image) -> Run:
    """The run of a wrong program, or of the right one where memory answers with errors."""
    start, count, errors = program.start, len(program.instructions), fault.errors
    if fault.program is not None:
        start, count = image.put(fault.program), len(fault.program) // DESCRIPTOR_BYTES
    if errors is not None:
        offset = program.start if fault.error == "fetch" else program.base
        errors = range(errors.start + offset, errors.stop + offset)
    return Run(program=start, length=count, base=program.base, limit=_LIMIT, errors=errors)


def _named_by(
    faults: Sequence[Fault], base: int, configuration: MachineConfiguration
) -> NDArray[np.int64]:
    """Bytes that wrong programs may write."""
    words: set[int] = set()
    for fault in faults:
        for data in split(fault.program or b""):
            if fault_of(data, configuration) is None:
                places = touched(Instruction.decoded(data), configuration).writes
                words |= set(places.get("memory", np.zeros(0, np.int64)).tolist())
    size = configuration.word_bytes
    first = base + np.array(sorted(words), np.int64) * size
    return (first[:, None] + np.arange(size)).reshape(-1)


SMALL = SMALL_MACHINE
BF16_SMALL = resized(SMALL, arithmetic=BF16_MACHINE.arithmetic)
PUBLISHED = {
    Accelerator(machine=machine).module_name: machine
    for machine in (
        SMALL,
        FPGA_MACHINE,
        MachineConfiguration(),
        WINDOW_MACHINE,
        BF16_MACHINE,
    )
}
"""Published machines by the names of their modules."""
TRAINING = replace(
    SMALL,
    rows=16,
    data_width=256,
    functions=("relu", "relu_derivative", "silu", "gelu_derivative", "exp"),
)
FOUR_BITS = {"format_a": "mxfp4_e2m1", "format_w": "mxfp4_e2m1"}
DECODING = replace(SMALL, functions=("silu",), reductions=("softmax", "rms_norm"))
VISION = MachineConfiguration(
    functions=("gelu",), reductions=("softmax", "layer_norm"), conversions=("blocks",)
)
BOARD_TRANSFORMER = replace(
    BOARD_MACHINE,
    functions=("relu", "gelu"),
    reductions=("softmax", "layer_norm"),
    affine=True,
)
"""That of `docs/board.md` which runs blocks of transformers."""
WINDOW = replace(SMALL, arithmetic="window")
OTHERS = [
    WINDOW_COUNTING,
    TRAINING,
    replace(
        SMALL,
        arithmetic="fp12",
        format_a="mxfp8_e4m3",
        format_w="mxfp6_e2m3",
        data_width=32,
        queue_depth=2,
        unit_rows=4,
        out_beats=48,
        functions=("tanh",),
        reductions=("rms_norm",),
        affine=False,
    ),
    replace(SMALL, rows=4, unit_rows=2, conversions=("blocks",)),
]
"""Machines that have in common as little as can be."""
BASE = 37
"""Where memory of random programs begins, in words: in no way a round number."""


@pytest.fixture
def small(modules: dict[str, Module]) -> Module:
    return modules["mxsf_accelerator_small"]


@pytest.fixture
def numbers() -> Module:
    return generated(Accelerator(machine=BF16_SMALL))


def _vision(*sizes: int) -> Callable[[MachineConfiguration], Program]:
    return partial(vision_program, sizes)


_LITTLE = 3, 16, 1, 8, 1
PROGRAMS: dict[str, tuple[Any, ...]] = {
    # Two blocks, with memory that is slow and pauses, and with fast memory.
    "encoder": ("verilator", SMALL, partial(encoder_program, blocks=2), 150, 0.4),
    "encoder with fast memory": (
        "verilator",
        SMALL,
        partial(encoder_program, blocks=2, tokens=40),
        5,
        0.0,
    ),
    # Registers that are not reset begin unknown on Icarus. In the default run
    # `docs/integration.md` has a product there.
    "encoder on Icarus": ("icarus", SMALL, encoder_program, 20, 0.2),
    "transformer on Icarus": ("icarus", SMALL, _vision(*_LITTLE), 2, 0.0),
    "graph": ("verilator", SMALL, graph_program, 20, 0.2),
    # Normalisations first.
    "transformer": ("verilator", SMALL, _vision(11, 32, 2, 40, 1), 20, 0.2),
    # With fewer lanes than a beat has numbers, and other latencies, which the model predicts.
    "transformer for FPGAs": ("icarus", FPGA_MACHINE, _vision(*_LITTLE), 2, 0.0),
    # The vector buffer alone sets the pace, of words that come and go, and of first parts.
    "vectors for FPGAs": ("icarus", FPGA_MACHINE, vector_program, 2, 0.0),
    # A prompt of two strips: RMS normalisation, a gate, causal softmax, rotations.
    "decoder": ("verilator", DECODING, partial(decoder_program, (13, 32, 2, 1, 40, 1)), 20, 0.2),
    "block of DeiT-tiny": (
        "verilator",
        VISION,
        _vision(197, 192, 3, 768, 1),
        100,
        0.0,
    ),
    # Tiles, and codes of 4 bits, as they are packed in memory.
    "tiles of 4 bits": ("verilator", replace(TRAINING, **FOUR_BITS), tiles_program, 20, 0.0),
    "tiles on a narrow bus": (
        "verilator",
        replace(TRAINING, data_width=32),
        tiles_program,
        20,
        0.0,
    ),
    "tiles for FPGAs": ("verilator", replace(FPGA_MACHINE, **FOUR_BITS), tiles_program, 2, 0.0),
    "training step": ("verilator", TRAINING, perceptron_program, 20, 0.2),
    # Reads of gains and biases take longer than a beat of results.
    "transformer on a board": ("verilator", BOARD_TRANSFORMER, _vision(11, 32, 2, 40, 1), 2, 0.0),
    # The first tile of each product waits until its anchors are found, as the model predicts.
    "transformer with windows": ("verilator", WINDOW, _vision(37, 32, 2, 40, 1), 20, 0.2),
    # Numbers of bfloat16, in strips of 8 rows and, with tiles that are transposed, of 16.
    "encoder without scales": (
        "verilator",
        BF16_SMALL,
        partial(encoder_program, tokens=24),
        20,
        0.0,
    ),
    "encoder without scales on Icarus": (
        "icarus",
        BF16_SMALL,
        partial(encoder_program, tokens=5),
        2,
        0.2,
    ),
    "training step without scales": (
        "verilator",
        resized(TRAINING, arithmetic=BF16_MACHINE.arithmetic),
        perceptron_program,
        20,
        0.2,
    ),
}
"""Simulator, machine, program, and the latency and pauses of its memory."""
_DEFAULT = ("encoder", "graph", "encoder without scales")
_VARIANTS = (
    "transformer on Icarus",
    "transformer for FPGAs",
    "vectors for FPGAs",
    "tiles for FPGAs",
    "encoder without scales on Icarus",
    "training step without scales",
)


@pytest.mark.parametrize(
    "name",
    [
        name
        if name in _DEFAULT
        else pytest.param(
            name, marks=pytest.mark.variant if name in _VARIANTS else pytest.mark.full
        )
        for name in PROGRAMS
    ],
)
def test_programs(name: str, modules: dict[str, Module]) -> None:
    simulator, machine, program, latency, pause = PROGRAMS[name]
    unit = Accelerator(machine=machine)
    is_published = unit.module_name in PUBLISHED
    module = modules[unit.module_name] if is_published else generated(unit)
    check_program(
        simulator,
        module,
        machine,
        program(machine),
        latency=latency,
        pause=pause,
        seed=3 if name == "encoder" else 1,
    )


@pytest.mark.full
def test_random_programs_for_fpgas(modules: dict[str, Module]) -> None:
    module = modules["mxsf_accelerator_fpga"]
    for seed in (1, 2):
        check_all_modes(module, FPGA_MACHINE, [seed], 400)


@pytest.mark.full
@pytest.mark.parametrize("name", ["mxsf_accelerator_small", "mxsf_accelerator_fpga"])
def test_a_long_program(name: str, modules: dict[str, Module]) -> None:
    """Of more than 2,048 descriptors."""
    check_all_modes(modules[name], PUBLISHED[name], [3], 2_100)


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "seeds"),
    [
        ("mxsf_accelerator", (1, 2, 3)),
        ("mxsf_accelerator_window", (1, 2, 3)),
        ("bf16_accelerator", (1, 2, 11)),
    ],
)
def test_random_programs_of_the_paper(
    name: str, seeds: tuple[int, ...], modules: dict[str, Module]
) -> None:
    """The machine with the array of 16x16."""
    check_all_modes(modules[name], PUBLISHED[name], seeds, 150)


@pytest.mark.variant
@pytest.mark.parametrize(
    "machine", [BOARD_MACHINE, BOARD_TRANSFORMER], ids=["products", "transformers"]
)
def test_random_programs_of_a_board(machine: MachineConfiguration, volume: Volume) -> None:
    """Four rows, without what needs tiles of 8x8."""
    module = generated(Accelerator(machine=machine))
    for seed in range(1, volume(2, 3)):
        check_all_modes(module, machine, [seed], 300)


@pytest.mark.full
def test_large_product() -> None:
    """The array hardly ever waits for 32 bytes a cycle and 100 cycles of latency."""
    module, program = (
        generated(Accelerator(machine=VISION)),
        large_product_program(VISION),
    )
    result = check_program("verilator", module, VISION, program, latency=100, pause=0.0)
    assert result["array_busy"] > 0.9 * result["cycles"], result


def based_program(machine: MachineConfiguration, seed: int, count: int) -> Program:
    """A random program whose memory begins at no round number."""
    return random_program(machine, seed, count, base=BASE * machine.word_bytes)


def check_random(
    simulator: str, module: Module, machine: MachineConfiguration, seed: int, program: Program
) -> None:
    """A random program beside a memory that is as lively as the seed says."""
    lively = ((2, 0.0), ((0, 90), 0.3), (60, 0.05), ((5, 20), 0.7))
    latency, pause = lively[seed % len(lively)]
    check_program(simulator, module, machine, program, latency=latency, pause=pause, seed=seed)


def check_all_modes(
    module: Module, machine: MachineConfiguration, seeds: Sequence[int], count: int
) -> None:
    """Random programs that together do all that descriptors can do."""
    programs = covering_programs(machine, seeds, count, base=BASE * machine.word_bytes)
    for seed, program in zip(seeds, programs, strict=True):
        check_random("verilator", module, machine, seed, program)


def test_random_programs(small: Module) -> None:
    """All that descriptors can do, in memory that is fast and in one that pauses."""
    check_all_modes(small, SMALL, (0, 1), 150)


def test_random_programs_without_scales(numbers: Module, volume: Volume) -> None:
    """Numbers of bfloat16 in beats of four words, which conversion rounds."""
    check_all_modes(numbers, BF16_SMALL, range(volume(2, 6)), 150)


@pytest.mark.variant
def test_programs_without_scales_on_icarus(numbers: Module) -> None:
    check_random("icarus", numbers, BF16_SMALL, 12, based_program(BF16_SMALL, 12, 40))


@pytest.mark.variant
@pytest.mark.parametrize(("rows", "seed"), [(16, 12), (4, 15)])
def test_random_programs_of_other_sizes_without_scales(rows: int, seed: int) -> None:
    machine = replace(BF16_SMALL, rows=rows, unit_rows=2)
    module = generated(Accelerator(machine=machine))
    check_all_modes(module, machine, [seed], 300)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(2, 10))
def test_long_random_programs(small: Module, seed: int) -> None:
    check_all_modes(small, SMALL, [seed], 600)


@pytest.mark.parametrize(
    "machine",
    [OTHERS[0], *(pytest.param(machine, marks=pytest.mark.full) for machine in OTHERS[1:])],
    ids=["window", "training", "fp12", "4 rows"],
)
def test_random_programs_of_other_machines(machine: MachineConfiguration, volume: Volume) -> None:
    module = generated(Accelerator(machine=machine))
    for seed in range(10, volume(11, 14)):
        check_all_modes(module, machine, [seed], 300)


@pytest.mark.full
def test_random_programs_on_icarus(small: Module) -> None:
    """Registers that are not reset begin unknown."""
    for seed in (12, 14):
        check_random("icarus", small, SMALL, seed, based_program(SMALL, seed, 40))


def test_an_empty_program(small: Module) -> None:
    check_empty("verilator", small, random_program(SMALL, 1, 4))


def test_resets(small: Module, volume: Volume) -> None:
    """At the beginning, and at any time in a program in which everything happens."""
    rng = np.random.default_rng(4)
    moments = (1, 3, 40, *(int(moment) for moment in rng.integers(60, 6000, volume(5, 9, 9))))
    program = based_program(SMALL, 5, 100)
    check_resets("verilator", small, SMALL, program, moments)


@pytest.mark.full
def test_resets_on_icarus(small: Module) -> None:
    """A short program; registers without a reset begin unknown there."""
    program = based_program(SMALL, 5, 40)
    # The fourth to sixth wait for a burst of writes; the ninth is a longer reset by the pin.
    check_resets("icarus", small, SMALL, program, (1, 40, 300, 1100, 700, 1900, 500, 80, 1500))


@pytest.mark.full
@pytest.mark.parametrize("seed", [6, 7])
def test_many_resets(small: Module, seed: int) -> None:
    rng = np.random.default_rng(seed)
    program = based_program(SMALL, seed, 100)
    moments = [int(moment) for moment in rng.integers(1, 6000, 60)]
    check_resets("verilator", small, SMALL, program, moments, seed=seed)


@pytest.mark.full
def test_resets_for_fpgas(modules: dict[str, Module]) -> None:
    """At any time in a program; as many as mutants are put to at once."""
    rng = np.random.default_rng(8)
    program = based_program(FPGA_MACHINE, 8, 60)
    moments = [int(moment) for moment in rng.integers(1, 12_000, 24)]
    check_resets("verilator", modules["mxsf_accelerator_fpga"], FPGA_MACHINE, program, moments)


def faults_of(program: Program, machine: MachineConfiguration, count: int) -> list[Fault]:
    """Errors of every kind."""
    return [
        *malformed(program, machine, seed=1),
        *address_faults(program, machine, seed=2),
        *memory_faults(program, machine, seed=3, count=count),
        *deadlocks(program, machine, seed=4, count=count),
        *misplaced(program, seed=5),
    ]


def some_of(faults: list[Fault], every: int, machine: MachineConfiguration) -> list[Fault]:
    """One of so many of each kind, at least one, the last one among them."""
    by_error: dict[str, list[Fault]] = {}
    for fault in reversed(faults):
        by_error.setdefault(fault.error, []).append(fault)
    # An alignment is that of a start, not of a descriptor.
    never = {"none", "alignment"} | (set() if machine.sweeps else {"sweep"})
    assert by_error.keys() == set(ERRORS.members) - never
    return [fault for same in by_error.values() for fault in same[::every]]


def check_some_errors(module: Module, machine: MachineConfiguration, seed: int, every: int) -> None:
    """One of so many errors of each kind, in a random program that does all there is."""
    (program,) = covering_programs(machine, [seed], 100, base=BASE * machine.word_bytes)
    chosen = some_of(faults_of(program, machine, 8), every, machine)
    check_faults("verilator", module, machine, program, chosen)


def test_errors(small: Module, volume: Volume) -> None:
    check_some_errors(small, SMALL, 11, volume(20, 10, 10))


@pytest.mark.variant
def test_errors_without_scales(numbers: Module) -> None:
    """A descriptor that names scales has an error, too."""
    check_some_errors(numbers, BF16_SMALL, 11, 10)


@pytest.mark.variant
def test_errors_of_a_board() -> None:
    """Where what tells of an error waits in more registers."""
    module = generated(Accelerator(machine=BOARD_MACHINE))
    check_some_errors(module, BOARD_MACHINE, 11, 10)


@pytest.mark.full
@pytest.mark.parametrize("name", [name for name in PUBLISHED if not name.endswith("small")])
def test_errors_of_published_machines(name: str, modules: dict[str, Module]) -> None:
    check_some_errors(modules[name], PUBLISHED[name], 13, 10)


@pytest.mark.full
@pytest.mark.parametrize("name", PUBLISHED)
def test_each_bit_of_a_place(name: str, modules: dict[str, Module]) -> None:
    """A bit that takes a descriptor outside is not lost on its way through the machine."""
    machine = PUBLISHED[name]
    program = based_program(machine, 13, 100)
    faults = list(bits_outside(program, machine, 5))
    for part in range(4):  # each is short enough to be replayed on mutants
        check_faults("verilator", modules[name], machine, program, faults[part::4])


@pytest.mark.full
def test_all_errors(small: Module) -> None:
    program = based_program(SMALL, 12, 100)
    check_faults("verilator", small, SMALL, program, faults_of(program, SMALL, 30), seed=12)


@pytest.mark.full
def test_errors_on_icarus(small: Module) -> None:
    program = based_program(SMALL, 11, 60)
    chosen = some_of(faults_of(program, SMALL, 4), 40, SMALL)
    check_faults("icarus", small, SMALL, program, chosen)
