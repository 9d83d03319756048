"""Images of memory and programs of a few descriptors, for tests of the machine."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mxsafe.codec import QuantizedTensor
from mxsafe.machine.assembler import Assembler, Instruction
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.layout import Float32Layout, OperandLayout


@dataclass
class Image:
    """Memory that grows by arrays, each from a whole word on."""

    configuration: MachineConfiguration
    parts: list[NDArray[np.uint8]] = field(default_factory=list)
    size: int = 0

    def put(self, data: NDArray[np.uint8]) -> int:
        """Address of bytes that are added."""
        address = self.size
        rest = -len(data) % self.configuration.word_bytes
        self.parts.append(np.concatenate([data, np.zeros(rest, np.uint8)]))
        self.size += len(data) + rest
        return address

    def room(self, count: int) -> int:
        """Address of room for so many bytes, filled with what no result is."""
        return self.put(np.full(count, 0xA5, np.uint8))

    @property
    def memory(self) -> NDArray[np.uint8]:
        """A copy of all of it."""
        return np.concatenate([*self.parts, np.zeros(0, np.uint8)])


def loaded_operand(
    image: Image, side: str, layout: OperandLayout, q: QuantizedTensor
) -> list[Instruction]:
    """Put an operand into memory; loads of all its strips to the beginning of a buffer."""
    assembler = Assembler(image.configuration)
    size = image.configuration.word_bytes
    words = {"codes": 2 * layout.beats, "scales": -(-layout.entries // 2)}
    return [
        assembler.load(
            buffer=f"{side}_{part}",
            packing=layout.packings[part],
            address=image.put(data),
            count_0=words[part],
            count_1=layout.strips,
            stride_1=len(data) // layout.strips // size,
            step_1=words[part],
        )
        for part, data in zip(words, layout.packed(q), strict=True)
    ]


def product_program(
    image: Image, a: QuantizedTensor, w: QuantizedTensor
) -> tuple[bytes, int, Float32Layout]:
    """A program of ``A W``, where the result comes to stand and how."""
    configuration = image.configuration
    assembler = Assembler(configuration)
    rows = configuration.rows
    left, right = (
        OperandLayout(
            configuration=configuration,
            rows=q.shape[0],
            columns=q.shape[1],
            block=q.block,
            format=q.format,
        )
        for q in (a, w.T)
    )
    result = Float32Layout(configuration=configuration, rows=a.shape[0], columns=w.shape[1])
    loads = loaded_operand(image, "a", left, a) + loaded_operand(image, "w", right, w.T)
    size = result.strips * result.strip_bytes
    address = image.room(size)
    last = loads.pop()
    program = [
        *loads,
        Instruction(last.kind, {**_own(last), "signal": 0b10}),
        assembler.gemm(
            wait="load",
            signal="store",
            a_stride=left.beats,
            a_scale_stride=2 * (-(-left.entries // 2)),
            w_stride=right.beats,
            w_scale_stride=2 * (-(-right.entries // 2)),
            strips_a=left.strips,
            strips_w=right.strips,
            beats=left.beats,
            block=left.block_beats,
            last_rows=a.shape[0] - (left.strips - 1) * rows,
            result_stride_a=rows,
            result_stride_w=a.shape[0],
        ),
        assembler.store(
            buffer="vector",
            address=address,
            count_0=size // configuration.word_bytes,
            wait="gemm",
        ),
    ]
    return assembler.assemble(program), address, result


def _own(instruction: Instruction) -> dict[str, int]:
    return {name: value for name, value in instruction.values.items() if name != "opcode"}
