"""Programs on the simulated machine, and on the interpreter of the same bytes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mxsafe as mx
from mxsafe.machine.assembler import Assembler, Instruction
from mxsafe.machine.compiler.emitter import Emitter
from mxsafe.machine.compiler.networks import Encoder, EncoderShape
from mxsafe.machine.compiler.training import PerceptronShape, PerceptronStep
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.description import DESCRIPTOR_BYTES, ERRORS
from mxsafe.model.machine import Machine
from verif.support.accelerator_job import Run, run_programs
from verif.support.encoder_reference import encoder_memory, random_encoder
from verif.support.manifest import Module

__all__ = [
    "ENCODER",
    "PERCEPTRON",
    "Program",
    "check_errors",
    "check_program",
    "check_resets",
    "encoder_program",
    "perceptron_program",
]

ENCODER = EncoderShape(tokens=11, features=32, heads=2, hidden=40, blocks=1)
PERCEPTRON = PerceptronShape(batch=24, features=(24, 40, 16), rate=0.5)
_DONE, _FAILED = 2, 4
_FAR = 1 << 62
"""An address beyond all memory."""


@dataclass(frozen=True)
class Program:
    """A program, and memory before it runs.

    Attributes
    ----------
    instructions : tuple of Instruction
    memory : ndarray of uint8
        Tensors, and behind them the program.
    start : int
        Where the program begins.
    """

    instructions: tuple[Instruction, ...]
    memory: NDArray[np.uint8]
    start: int

    @classmethod
    def of(cls, emitter: Emitter, memory: NDArray[np.uint8]) -> "Program":
        """What an emitter has made."""
        instructions = tuple(emitter.program())
        data = Assembler(emitter.configuration).assemble(instructions)
        start = -(-len(memory) // DESCRIPTOR_BYTES) * DESCRIPTOR_BYTES
        whole = np.zeros(start + len(data), np.uint8)
        whole[: len(memory)] = memory
        whole[start:] = np.frombuffer(data, np.uint8)
        return cls(instructions, whole, start)

    @property
    def run(self) -> Run:
        """It runs once."""
        return Run(program=self.start, length=len(self.instructions))

    def expected(self, configuration: MachineConfiguration) -> tuple[NDArray[np.uint8], Any]:
        """Memory after it, and how it ends, by the interpreter."""
        memory = self.memory.copy()
        data = memory[self.start :].tobytes()
        outcome = Machine(configuration).run(data, memory)
        return memory, outcome


@cache
def encoder_program(configuration: MachineConfiguration, blocks: int = 1) -> Program:
    """A small encoder with random weights."""
    encoder = Encoder(replace(ENCODER, blocks=blocks), configuration)
    return Program.of(encoder.emitter, encoder_memory(encoder, random_encoder(encoder, seed=1)))


@cache
def perceptron_program(configuration: MachineConfiguration) -> Program:
    """A training step of a small perceptron with random weights."""
    step = PerceptronStep(PERCEPTRON, configuration)
    rng = np.random.default_rng(2)
    memory = np.zeros(step.emitter.memory.used, np.uint8)
    x = rng.standard_normal((PERCEPTRON.batch, PERCEPTRON.features[0])).astype(np.float32)
    step.inputs[0].write(memory, mx.quantize(x, block=(8, 8)))
    labels = rng.integers(PERCEPTRON.features[-1], size=PERCEPTRON.batch)
    wanted = np.eye(PERCEPTRON.features[-1], dtype=np.float32)[:, labels]
    step.targets.write(memory, -wanted / np.float32(PERCEPTRON.batch))
    for operand, master in zip(step.weights, step.masters, strict=True):
        shape = master.layout.rows, master.layout.columns
        w = (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)
        master.write(memory, w)
        operand.write(memory, mx.quantize(np.ascontiguousarray(w.T), block=(8, 8)))
    return Program.of(step.emitter, memory)


def check_program(
    simulator: str,
    module: Module,
    configuration: MachineConfiguration,
    program: Program,
    *,
    latency: int,
    pause: float,
    seed: int = 1,
    sources: Sequence[Path] | None = None,
) -> dict[str, int]:
    """Memory after a program must be the interpreter's, byte for byte; return the counters."""
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
        sources=sources,
    )
    (result,) = ended.runs
    _require_done(result)
    _require_memory(ended.memory, expected)
    assert result["words_read"] == outcome.words_read
    assert result["words_written"] == outcome.words_written
    assert result["array_busy"] == _array_beats(program.instructions)
    assert result["array_busy"] < result["cycles"]
    return result


def check_resets(
    simulator: str,
    module: Module,
    configuration: MachineConfiguration,
    program: Program,
    moments: Sequence[int],
    *,
    sources: Sequence[Path] | None = None,
) -> None:
    """A program that is reset after so many clocks, once for each, must run whole afterwards."""
    expected, _ = program.expected(configuration)
    runs = [
        Run(program=program.start, length=len(program.instructions), reset_after=clocks)
        for clocks in moments
    ]
    ended = run_programs(
        simulator,
        module,
        program.memory,
        [*runs, program.run],
        latency=30,
        pause=0.2,
        sources=sources,
    )
    assert len(ended.runs) == len(moments) + 1
    for clocks, result in zip(moments, ended.runs, strict=False):
        assert result["irq"] == 0, f"the program had ended before {clocks} clocks"
        assert result["status_after_reset"] == 0, f"not idle after a reset at {clocks}"
    _require_done(ended.runs[-1])
    _require_memory(ended.memory, expected)


def check_errors(
    simulator: str,
    module: Module,
    configuration: MachineConfiguration,
    program: Program,
    *,
    sources: Sequence[Path] | None = None,
) -> int:
    """Every kind of error must be told with its descriptor, and a program run afterwards.

    Returns
    -------
    int
        Errors that were made.
    """
    cases = _wrong_programs(program)
    memory, starts = program.memory, []
    for instructions in cases.values():
        starts.append(len(memory))
        memory = np.concatenate([memory, np.frombuffer(b"".join(instructions), np.uint8)])
    runs = [
        Run(program=start, length=len(instructions), limit=200_000)
        for start, instructions in zip(starts, cases.values(), strict=True)
    ]
    wanted = list(cases)
    # Answers of memory: to the first load, to the last store, and to the program itself.
    first = program.instructions[0]["address"]
    last = max(i for i, one in enumerate(program.instructions) if one.kind == "store")
    written = program.instructions[last]["address"]
    size = configuration.word_bytes
    for error, number, address in (("read", 0, first), ("write", last, written)):
        wanted.append((error, number))
        runs.append(
            Run(
                program=program.start,
                length=len(program.instructions),
                errors=range(address, address + size),
            )
        )
    wanted.append(("fetch", 0))
    runs.append(Run(program=program.start, length=1, errors=range(program.start, _FAR)))
    expected, _ = program.expected(configuration)
    ended = run_programs(
        simulator, module, memory, [*runs, program.run], latency=10, pause=0.1, sources=sources
    )
    assert len(ended.runs) == len(wanted) + 1
    for (error, number), result in zip(wanted, ended.runs, strict=False):
        found = result["status"], result["error"], result["error_descriptor"]
        assert found == (_FAILED, ERRORS[error], number), f"{error}: {found}"
        assert result["status_after_reset"] == 0, error
    _require_done(ended.runs[-1])
    _require_memory(ended.memory[: len(expected)], expected)
    return len(wanted)


def _wrong_programs(program: Program) -> dict[tuple[str, int], list[bytes]]:
    """By error and number of the descriptor a program that has it."""
    encoded = [one.encoded() for one in program.instructions]
    loads = [i for i, one in enumerate(program.instructions) if one.kind == "load"]
    waits = next(i for i, one in enumerate(program.instructions) if one["wait"])

    def changed(number: int, **values: int) -> list[bytes]:
        one = program.instructions[number]
        given = {n: v for n, v in one.values.items() if n != "opcode"}
        return [*encoded[:number], Instruction(one.kind, given | values).encoded()]

    unknown = bytes([encoded[3][0] | 0xF]) + encoded[3][1:]
    return {
        ("opcode", 3): [*encoded[:3], unknown],
        ("malformed", loads[2]): changed(loads[2], count_0=0),
        ("address", 0): changed(0, to=(1 << 17) - 1),
        # Of a program without its first descriptors nobody gives the tokens.
        ("deadlock", 0): [encoded[waits]],
    }


def _array_beats(instructions: Sequence[Instruction]) -> int:
    """Beats that the array takes."""
    return sum(
        one["strips_a"] * one["strips_w"] * one["beats"]
        for one in instructions
        if one.kind == "gemm"
    )


def _require_done(result: dict[str, int]) -> None:
    assert result["status"] == _DONE, result
    assert (result["irq"], result["interrupt"], result["error"]) == (1, 1, 0), result


def _require_memory(found: NDArray[np.uint8], expected: NDArray[np.uint8]) -> None:
    assert len(expected) == len(found) > 0
    wrong = np.flatnonzero(found != expected)
    assert not len(wrong), f"{len(wrong)} bytes of memory differ, the first at {wrong[0]}"
