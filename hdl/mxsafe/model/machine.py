"""The machine as an interpreter: the bytes of a program over an image of memory.

What a program does to memory does not depend on timing, if its descriptors order their accesses by
tokens. So the interpreter runs one descriptor after the other, in an order of its own.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from mxsafe.machine.assembler import Fault, Instruction, decoded
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.description import ACCESSES, ERRORS, QUEUES
from mxsafe.machine.tokens import TokenQueues
from mxsafe.model.machine_buffers import Buffers, MachineStop
from mxsafe.model.machine_gemm import gemm
from mxsafe.model.machine_transfer import load, store
from mxsafe.model.machine_vector import Swept, vector
from mxsafe.validation import Count, Wide, checked, require_integer, shown

STEPS = 1 << 28
"""Words that a program moves and beats that it computes, at most, if nothing else is said."""
_MOST_ADDRESS = (1 << 64) - 1
_MOST_LENGTH = (1 << 32) - 1


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Result of a program: its error and counters.

    Attributes
    ----------
    error : str
        Name in `mxsafe.machine.description.ERRORS`; ``none`` if it came to its end.
    descriptor : int
        Number of the descriptor with the error, from 0.
    reason : str
        What happened, in words.
    words_read, words_written : int
        What LOAD has read and STORE has written, as the machine's counters say.
    accesses : Mapping of str to int
        Accesses and work by names of `mxsafe.machine.description.ACCESSES`, as a machine counts
        them that has such counters; after an error up to it.
    """

    error: str = "none"
    descriptor: int = 0
    reason: str = ""
    words_read: int = 0
    words_written: int = 0
    accesses: Mapping[str, int] = field(
        default_factory=lambda: MappingProxyType(dict.fromkeys(ACCESSES, 0))
    )

    @property
    def code(self) -> int:
        """Number of the error, as the machine's register shows it."""
        return ERRORS[self.error]


@checked
class Machine:
    """A machine without cycle counts.

    Its buffers keep what they hold from program to program, the array its last tile and the vector
    unit what it knows of a row in sweeps, until a reset.

    Parameters
    ----------
    configuration : MachineConfiguration, optional
        By default `MachineConfiguration()`.
    """

    def __init__(self, configuration: MachineConfiguration | None = None) -> None:
        self.configuration = configuration or MachineConfiguration()
        self.buffers = Buffers(self.configuration)
        self.reset()

    def reset(self) -> None:
        """A soft reset: a product that continues the array's tile begins at 0, no row goes on."""
        rows = self.configuration.rows
        self._tile = np.zeros((rows, rows), np.float32)
        self._swept = Swept(self.configuration)

    @checked
    def run(
        self,
        program: bytes,
        memory: NDArray[np.uint8],
        *,
        base: Wide = 0,
        length: Wide | None = None,
        order: Sequence[str] | None = None,
        limit: Count = STEPS,
    ) -> Outcome:
        """Run a program; after an error the machine is reset.

        Parameters
        ----------
        program : bytes
            Descriptors, one after the other.
        memory : ndarray of uint8
            What is written is written there. It must be contiguous; beyond it, memory answers with
            errors.
        base : int
            Where in it the addresses of descriptors count from. If it is no multiple of a word, the
            program ends with the error ``alignment``; if it is beyond the memory, so is all that
            descriptors name.
        length : int, optional
            Descriptors, by default as many as the program has. If they are more, it ends with the
            error ``fetch``: memory has no others.
        order : sequence of str, optional
            Queues by precedence: what can run in the first one does, before anything in the next.
            By default they take turns. If memory depends on the order, tokens are missing in the
            program.
        limit : int
            Words that are moved and beats that are computed, at most, all together. A descriptor
            of 32 bytes can ask for 10^12 of them, and a word or beat takes the interpreter from
            50 ns to 2 us.

        Raises
        ------
        TypeError, ValueError
            If an argument is not as above, or the program asks for more than the limit.
        """
        found = decoded(program, self.configuration)
        count = len(found) if length is None else length
        words = self._words(memory, base, count)
        if count > len(found):
            reason = f"length must be at most the {len(found)} descriptors in memory, not {count}"
            found.append(Fault("fetch", reason))
        del found[count:]
        if order is not None and sorted(order) != sorted(QUEUES):
            raise ValueError(
                f"order must have each of {', '.join(QUEUES)} once, not {shown(order)}"
            )
        precedence = None if order is None else [QUEUES.index(name) for name in order]
        if fault := self.misaligned("base", base):
            return fault
        steps = _steps(found)
        if steps > limit:
            raise ValueError(
                f"limit must be at least {steps}, the words and beats that the program moves and "
                f"computes, not {limit}"
            )
        outcome = _Run(self, found, words, precedence).outcome()
        if outcome.code:
            self.reset()
        return outcome

    @checked
    def misaligned(self, name: str, address: Wide) -> Outcome | None:
        """Result of a program whose address is no multiple of a word; None if it is one."""
        size = self.configuration.word_bytes
        if address % size == 0:
            return None
        reason = f"{name} must be a multiple of {size}, the bytes of a word, not {address:#x}"
        return Outcome(error="alignment", reason=reason)

    def _words(self, memory: NDArray[np.uint8], base: int, length: int) -> NDArray[np.uint8]:
        """Memory from the base on, in words."""
        size = self.configuration.word_bytes
        if memory.ndim != 1 or not memory.flags.c_contiguous:
            raise ValueError(
                f"memory must be a contiguous vector of uint8, not one of shape {memory.shape} "
                f"and strides {memory.strides}"
            )
        _require_writable(memory)
        for name, value, most in (("base", base, _MOST_ADDRESS), ("length", length, _MOST_LENGTH)):
            require_integer(name, value, 0, most)
        count = max(len(memory) - base, 0) // size
        return memory[base : base + count * size].reshape(count, size)

    @checked
    def execute(self, instruction: Instruction, memory: NDArray[np.uint8]) -> tuple[int, int]:
        """Do what one descriptor says; words of memory that it read and wrote.

        Parameters
        ----------
        instruction : Instruction
            One without a fault.
        memory : ndarray of uint8, shape (words, word bytes)

        Raises
        ------
        TypeError, ValueError
            If an argument is not as above.
        MachineStop
            If an address is past an end.
        """
        if fault := instruction.fault(self.configuration):
            raise ValueError(f"instruction must have no fault, not {fault.reason}")
        size = self.configuration.word_bytes
        if memory.ndim != 2 or memory.shape[1] != size:
            raise ValueError(f"memory must be words of {size} bytes, not of shape {memory.shape}")
        _require_writable(memory)
        return self._execute(instruction, memory)

    def _execute(self, instruction: Instruction, memory: NDArray[np.uint8]) -> tuple[int, int]:
        if instruction.kind == "load":
            return load(instruction, memory, self.buffers, self.configuration), 0
        if instruction.kind == "store":
            return 0, store(instruction, memory, self.buffers, self.configuration)
        if instruction.kind == "gemm":
            self._tile = gemm(instruction, self.buffers, self.configuration, self._tile)
        else:
            vector(instruction, self.buffers, self.configuration, self._swept)
        return 0, 0


def _steps(program: Sequence[Instruction | Fault]) -> int:
    """Words that a program moves and beats that it computes, up to the first fault."""
    moved = tuple(f"count_{loop}" for loop in range(4))
    counts = {
        "load": moved,
        "gemm": ("strips_a", "strips_w", "beats"),
        "vector": ("rows", "beats"),
        "store": moved,
    }
    steps = 0
    for one in program:
        if isinstance(one, Fault):
            break
        steps += math.prod(one[name] for name in counts[one.kind])
    return steps


def _require_writable(memory: NDArray[np.uint8]) -> None:
    if not memory.flags.writeable:
        raise ValueError("memory must be writable, not read-only")


class _Run:
    """One run of a program: what is fetched, and counters."""

    def __init__(
        self,
        machine: Machine,
        program: Sequence[Instruction | Fault],
        memory: NDArray[np.uint8],
        precedence: Sequence[int] | None,
    ) -> None:
        self._machine, self._program, self._memory = machine, program, memory
        self._precedence = precedence
        self._queues = TokenQueues(machine.configuration.queue_depth)
        self._fetched = self._read = self._written = self._number = 0
        machine.buffers.accesses.clear()

    def outcome(self) -> Outcome:
        """Run to the end or to an error."""
        try:
            while self._turn():
                pass
        except MachineStop as stop:
            return self._ended(stop.error, self._number, str(stop))
        if deadlock := self._queues.deadlock():
            return self._ended("deadlock", deadlock.descriptor, deadlock.reason)
        return self._ended("none", 0, "")

    def _turn(self) -> bool:
        """Let fetch and every queue do what they can; whether there was anything."""
        changed = self._fetch()
        if self._precedence is not None:
            return any(self._advance(at) for at in self._precedence) or changed
        for at in range(len(QUEUES)):
            changed |= self._advance(at)
        return changed

    def _ended(self, error: str, descriptor: int, reason: str) -> Outcome:
        counted = {**self._machine.buffers.accesses, "descriptors": self._fetched}
        return Outcome(
            error=error,
            descriptor=descriptor,
            reason=reason,
            words_read=self._read,
            words_written=self._written,
            accesses=MappingProxyType({name: counted.get(name, 0) for name in ACCESSES}),
        )

    def _fetch(self) -> bool:
        """Hand descriptors to their queues until one is full; whether there were any."""
        before = self._fetched
        while self._fetched < len(self._program):
            one = self._program[self._fetched]
            if isinstance(one, Fault):
                self._number = self._fetched
                raise MachineStop(one.error, one.reason)
            if not self._queues.add(self._fetched, one.header):
                break
            self._fetched += 1
        return self._fetched > before

    def _advance(self, at: int) -> bool:
        """Run the next descriptor of a queue, or give tokens that it has to give, if possible."""
        started = self._queues.start(at)
        if started is not None:
            self._number, instruction = started, self._program[started]
            assert isinstance(instruction, Instruction)
            read, written = self._machine._execute(instruction, self._memory)
            self._read += read
            self._written += written
        return self._queues.retire(at) or started is not None
