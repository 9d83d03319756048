"""Programs on the simulated machine, and on the interpreter of the same bytes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxsafe.machine.assembler import Assembler, Instruction
from mxsafe.machine.compiled import compile_graph
from mxsafe.machine.compiler.emitter import Emitter
from mxsafe.machine.compiler.legal import legal
from mxsafe.machine.compiler.lowering import lowered
from mxsafe.machine.compiler.timing import Prediction, predict
from mxsafe.machine.configuration import SMALL_MACHINE, MachineConfiguration
from mxsafe.machine.description import (
    ACCESSES,
    COUNTERS,
    DESCRIPTOR_BYTES,
    QUEUES,
    constant_registers,
)
from mxsafe.machine.graph import Graph
from mxsafe.machine.stages import staged
from mxsafe.rtl.machine.control.registers import RegistersConfiguration
from mxsafe.rtl.machine.times import times_of
from verif.machine.compiler.training_graphs import perceptron_step
from verif.machine.compiler.transformer_graphs import bert
from verif.rtl import functional
from verif.rtl.machine.accelerator_job import Run, run_programs
from verif.rtl.machine.power_up import powered_up
from verif.support.manifest import Module

WINDOW_COUNTING = replace(SMALL_MACHINE, arithmetic="window", format_w="mxfp4_e2m1", counts=True)
"""Counters of accesses; two codes are a byte of memory. Two tests build this machine together."""
_MANY = 8
"""Products of a random program that may wait for tokens of a queue in vain; of more, one waits."""
_POWER_UP = 7
"""Seed of what the interpreter's buffers hold at first."""
_DONE, FAILED = 2, 4
"""Status after a program."""


@dataclass(frozen=True)
class Program:
    """A program, and memory before it runs.

    Attributes
    ----------
    memory : ndarray of uint8
        Tensors, and behind them the program.
    start : int
        Where the program begins.
    base : int
        What its addresses are relative to.
    emitter : Emitter or None
        What has made it, if a compiler has.
    limit : int
        Cycles after which it must have ended.
    """

    instructions: tuple[Instruction, ...]
    memory: NDArray[np.uint8]
    start: int
    base: int = 0
    emitter: Emitter | None = None
    limit: int = 1_000_000

    @classmethod
    def of(cls, emitter: Emitter, memory: NDArray[np.uint8]) -> "Program":
        """Return the program that an emitter has made."""
        instructions = tuple(emitter.program())
        data = Assembler(emitter.configuration).assemble(instructions)
        start = -(-len(memory) // DESCRIPTOR_BYTES) * DESCRIPTOR_BYTES
        whole = np.zeros(start + len(data), np.uint8)
        whole[: len(memory)] = memory
        whole[start:] = np.frombuffer(data, np.uint8)
        return cls(instructions, whole, start, emitter=emitter)

    @classmethod
    def of_graph(
        cls,
        graph: Graph,
        configuration: MachineConfiguration,
        block: int | tuple[int, int] | None = None,
    ) -> "Program":
        """Return the program of a graph, with random inputs."""
        compiled, rng = compile_graph(graph, configuration, block=block), np.random.default_rng(5)
        (part,) = compiled.parts
        fed = (compiled.host.values[place] for place in part.feeds)
        inputs = [rng.standard_normal(value.shape).astype(np.float32) for value in fed]
        made, own = staged(legal(graph, configuration)), configuration.operand_block(block)
        (program,), (kept,) = made.programs, made.kept
        emitter = lowered(program, configuration, own, kept).emitter
        return cls.of(emitter, part.memory(inputs))

    @property
    def run(self) -> Run:
        """It runs once."""
        count = len(self.instructions)
        return Run(program=self.start, length=count, base=self.base, limit=self.limit)

    @property
    def data(self) -> bytes:
        """Its bytes."""
        stop = self.start + DESCRIPTOR_BYTES * len(self.instructions)
        return self.memory[self.start : stop].tobytes()

    def expected(self, configuration: MachineConfiguration) -> tuple[NDArray[np.uint8], Any]:
        """Memory after it, and how it ends, by the interpreter, whose buffers begin at random."""
        memory = self.memory.copy()
        outcome = powered_up(configuration, _POWER_UP).run(self.data, memory, base=self.base)
        return memory, outcome


@cache
def encoder_program(
    configuration: MachineConfiguration, blocks: int = 1, tokens: int = 11
) -> Program:
    """A small encoder with random weights."""
    return Program.of_graph(bert(tokens, 32, 2, 40, blocks), configuration)


@cache
def perceptron_program(configuration: MachineConfiguration) -> Program:
    """A training step of a small perceptron with random weights."""
    block = (8, 8) if configuration.scaled else None
    return Program.of_graph(perceptron_step(24, (24, 40, 16)), configuration, block)


def check_program(
    simulator: str,
    module: Module,
    configuration: MachineConfiguration,
    program: Program,
    *,
    latency: int | tuple[int, int],
    pause: float,
    seed: int = 1,
) -> dict[str, int]:
    """Memory after a program must be the interpreter's, byte for byte; return the counters.

    They must be what the compiler has predicted: words and beats exactly, and, if memory never
    pauses, cycles within a tenth.
    """
    expected, outcome = program.expected(configuration)
    assert outcome.error == "none", outcome.reason
    assert not np.array_equal(expected, program.memory)
    ended = run_programs(
        simulator,
        module,
        program.memory,
        [program.run],
        latency=latency,
        pause=pause,
        seed=seed,
        counters=(*COUNTERS, *ACCESSES) if configuration.counts else tuple(COUNTERS),
    )
    (result,) = ended.runs
    if configuration.counts:
        counted = {name: result.pop(name) for name in ACCESSES}
        different = {n: (counted[n], outcome.accesses[n]) for n in ACCESSES}
        different = {n: both for n, both in different.items() if both[0] != both[1]}
        assert not different, f"counted, interpreted: {different}"
    _require_constants(ended.registers, configuration)
    require_done(result)
    functional.descriptors(program.instructions, configuration)
    require_memory(ended.memory, expected)
    assert result["words_read"] == outcome.words_read
    assert result["words_written"] == outcome.words_written
    assert result["array_busy"] == _array_beats(program.instructions)
    assert result["array_busy"] < result["cycles"]
    _require_waits(result, program)
    if program.emitter is not None:
        longest = max(latency) if isinstance(latency, tuple) else latency
        predicted = predict(program.emitter, times_of(configuration, longest))
        _require_prediction(result, predicted, pause)
    return result


def _require_constants(registers: dict[str, int], configuration: MachineConfiguration) -> None:
    """Registers must say before a program what the machine is, and the others nothing."""
    constants = constant_registers(configuration)
    assert constants.keys() < registers.keys()
    assert registers == dict.fromkeys(registers, 0) | constants


def _require_waits(result: dict[str, int], program: Program) -> None:
    """Waits for tokens count if products wait for that queue.

    Where nobody has ordered descriptors so that products need not wait, some of many have to.
    """
    products = [one for one in program.instructions if one.kind == "gemm"]
    for bit, queue in enumerate(QUEUES):
        waiting = sum(one["wait"] >> bit & 1 for one in products)
        if queue != "gemm":
            least = program.emitter is None and waiting > _MANY
            clocks = result[f"wait_{queue}"]
            assert least <= clocks <= (waiting > 0) * result["cycles"], queue


def _require_prediction(result: dict[str, int], predicted: Prediction, pause: float) -> None:
    """Check the compiler's prediction against the machine's counters, cycles within a tenth."""
    assert result["array_busy"] == predicted.array_busy  # 0 in programs of vectors alone
    for name in ("words_read", "words_written"):
        assert result[name] == getattr(predicted, name) > 0, name
    # Pauses make it slower, never faster.
    ratio = predicted.cycles / result["cycles"]
    assert (0.9 if pause == 0 else 0) < ratio < 1.1, (predicted.cycles, result["cycles"])


def check_empty(simulator: str, module: Module, program: Program) -> None:
    """A program without descriptors ends at once, and changes nothing; twice."""
    runs = [replace(program.run, length=0)] * 2
    ended = run_programs(simulator, module, program.memory, runs)
    for result in ended.runs:
        require_done(result)
        assert result["words_read"] == result["words_written"] == 0
    require_memory(ended.memory, program.memory)


def check_resets(
    simulator: str,
    module: Module,
    configuration: MachineConfiguration,
    program: Program,
    moments: Sequence[int],
    *,
    seed: int = 1,
) -> None:
    """A program that is reset after so many cycles, once for each, must run whole afterwards.

    Resets are in turn soft ones, soft ones that are written once more while they last, and resets
    by the pin, half of them as short as they may be. Three of six wait until a burst of writes is
    outstanding. Of four programs two are started once more while they run.
    """
    expected, outcome = program.expected(configuration)
    assert outcome.error == "none", outcome.reason
    shortest = max(1, RegistersConfiguration(machine=configuration).reset_stages)
    runs = [
        replace(
            program.run,
            reset_after=clocks,
            reset_again=clocks % 23 if number % 3 == 1 else None,
            in_burst=bool(number // 3 % 2),
            pin_clocks=shortest + 2 * (number // 6 % 2) if number % 3 == 2 else None,
            start_again=bool(number // 2 % 2),
        )
        for number, clocks in enumerate(moments)
    ]
    ended = run_programs(
        simulator,
        module,
        program.memory,
        [*runs, replace(program.run, start_again=True)],
        latency=(5, 60),
        pause=0.2,
        seed=seed,
    )
    assert len(ended.runs) == len(moments) + 1
    for run, result in zip(runs, ended.runs, strict=False):
        clocks = run.reset_after
        assert result["irq"] == 0, f"the program had ended before {clocks} cycles"
        assert result["in_burst"] or not run.in_burst, f"no burst of writes after {clocks} cycles"
        idle = result["status_after_reset"], result["pending_after_reset"]
        assert idle == (0, 0), f"not idle after a reset at {clocks}"
        if run.pin_clocks is not None:
            told = {name: result[f"{name}_after_reset"] for name in ended.registers}
            assert told == ended.registers, f"registers are {told} after a reset at {clocks}"
    require_done(ended.runs[-1])
    require_memory(ended.memory, expected)


def _array_beats(instructions: Sequence[Instruction]) -> int:
    """Beats that the array takes."""
    return sum(
        one["strips_a"] * one["strips_w"] * one["beats"]
        for one in instructions
        if one.kind == "gemm"
    )


def require_done(result: dict[str, int]) -> None:
    """A program must have ended without an error, and its last answer must have come."""
    assert result["status"] == _DONE, result
    assert (result["irq"], result["interrupt"], result["error"]) == (1, 1, 0), result
    assert result["pending"] == 0, "something was in flight when the program had ended"


def require_memory(found: NDArray[np.uint8], expected: NDArray[np.uint8]) -> None:
    """Every byte must be as it should be."""
    assert len(expected) == len(found) > 0
    wrong = np.flatnonzero(found != expected)
    if len(wrong):
        at = int(wrong[0])
        raise AssertionError(
            f"{len(wrong)} bytes of memory differ, the first at {at:#x}: "
            f"got {int(found[at]):#04x}, expected {int(expected[at]):#04x}"
        )
