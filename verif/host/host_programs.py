"""A small machine, and a program for it that uses all of its queues."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import mxsafe as mx
from mxsafe.host.host import Ended, Host
from mxsafe.machine.assembler import Assembler, Instruction
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.layout import Float32Layout, OperandLayout
from mxsafe.machine.program import Program

SMALL = MachineConfiguration(
    rows=4,
    unit_rows=2,
    data_width=64,
    a_beats=32,
    w_beats=32,
    out_beats=16,
    vector_banks=2,
    bank_beats=32,
    queue_depth=4,
    reduction_beats=16,
    functions=("relu",),
    reductions=(),
    conversions=(),
)


@dataclass(frozen=True)
class Product:
    """A program for relu(A W), with memory before it and its result.

    Attributes
    ----------
    expected : ndarray of uint8
        Memory after it.
    beats : int
        That the array takes.
    """

    instructions: tuple[Instruction, ...]
    memory: NDArray[np.uint8]
    expected: NDArray[np.uint8]
    beats: int
    words_read: int
    words_written: int
    machine: MachineConfiguration

    @property
    def program(self) -> Program:
        """Its bytes."""
        return Program.assembled(self.instructions, self.machine)

    def runs_on(self, host: Host) -> Ended:
        """How it ends on a host, whose memory must then be as expected."""
        host.memory = self.memory.copy()
        ended = host.run(self.program)
        assert ended.error == "none", ended.reason
        assert np.array_equal(host.memory, self.expected)
        return ended


def product(seed: int = 1, depth: int = 64, *, machine: MachineConfiguration = SMALL) -> Product:
    """The product of two random strips of as many rows as the machine has."""
    size, rng = machine.rows, np.random.default_rng(seed)
    a = mx.quantize(rng.standard_normal((size, depth)).astype(np.float32))
    w = mx.quantize(rng.standard_normal((depth, size)).astype(np.float32), axis=0)
    operand = OperandLayout(configuration=machine, rows=size, columns=depth)
    result = Float32Layout(configuration=machine, rows=size, columns=size)
    exact = mx.matmul(a, w, arithmetic="exact")
    parts = [*operand.packed(a), *operand.packed(w.T), np.zeros(result.strip_bytes, np.uint8)]
    places = np.cumsum([0, *map(len, parts)]).tolist()
    words = [len(part) // machine.word_bytes for part in parts]
    names = ("a_codes", "a_scales", "w_codes", "w_scales")
    asm = Assembler(machine)
    loads = [
        asm.load(buffer=name, address=place, count_0=count, signal=("gemm",) * (name == names[-1]))
        for name, place, count in zip(names, places[:4], words[:4], strict=True)
    ]
    instructions = (
        *loads,
        asm.gemm(
            wait="load",
            signal="vector",
            beats=operand.beats,
            block=operand.block_beats,
            last_rows=size,
        ),
        asm.vector(wait="gemm", signal="store", beats=size, function="relu", to_vector=1, d=size),
        asm.store(
            wait="vector",
            buffer="vector",
            address=places[4],
            count_0=words[4],
            **{"from": 2 * size},
        ),
    )
    parts[4] = result.packed(np.maximum(exact, 0))
    memory = np.concatenate(parts)
    expected = memory.copy()
    memory[places[4] :] = 0
    traffic = sum(words[:4]), words[4]
    return Product(instructions, memory, expected, operand.beats, *traffic, machine)
