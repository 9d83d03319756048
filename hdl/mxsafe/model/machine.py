"""The machine as an interpreter: the bytes of a program over an image of memory.

What a program does to memory does not depend on timing, if its descriptors order their accesses by
tokens. So the interpreter runs one descriptor after the other, in an order of its own.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mxsafe.machine.assembler import Instruction, fault_of, split
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.description import ERRORS, QUEUES, TOKEN_BITS
from mxsafe.model.machine_buffers import Buffers, MachineStop
from mxsafe.model.machine_gemm import gemm
from mxsafe.model.machine_transfer import load, store
from mxsafe.model.machine_vector import vector
from mxsafe.validation import Wide, checked, require_integer, shown

__all__ = ["Machine", "Outcome"]

_MOST_TOKENS = (1 << TOKEN_BITS) - 1
_MOST_ADDRESS = (1 << 64) - 1
_MOST_LENGTH = (1 << 32) - 1


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a program ended.

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
    """

    error: str = "none"
    descriptor: int = 0
    reason: str = ""
    words_read: int = 0
    words_written: int = 0

    @property
    def code(self) -> int:
        """Number of the error, as the machine's register shows it."""
        return ERRORS[self.error]


@dataclass
class _Queue:
    """Descriptors that wait, the first of them perhaps done but for tokens that it has to give."""

    waiting: deque[tuple[int, Instruction]] = field(default_factory=deque)
    to_signal: int = 0
    ran: bool = False


@checked
class Machine:
    """A machine without clocks.

    Its buffers keep what they hold from program to program, and the array its last tile, until a
    reset.

    Parameters
    ----------
    configuration : MachineConfiguration, optional
        By default the usual one.
    """

    def __init__(self, configuration: MachineConfiguration | None = None) -> None:
        self.configuration = configuration or MachineConfiguration()
        self.buffers = Buffers(self.configuration)
        self.reset()

    def reset(self) -> None:
        """A soft reset: a product that continues the array's tile begins at 0."""
        rows = self.configuration.rows
        self._tile = np.zeros((rows, rows), np.float32)

    @checked
    def run(
        self,
        program: bytes,
        memory: NDArray[np.uint8],
        *,
        base: Wide = 0,
        length: Wide | None = None,
        order: Sequence[str] | None = None,
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

        Raises
        ------
        TypeError, ValueError
            If an argument is not as above.
        """
        descriptors = split(program)
        count = len(descriptors) if length is None else length
        words = self._words(memory, base, count)
        if order is not None and sorted(order) != sorted(QUEUES):
            raise ValueError(
                f"order must have each of {', '.join(QUEUES)} once, not {shown(order)}"
            )
        precedence = None if order is None else [QUEUES.index(name) for name in order]
        if fault := self.misaligned("base", base):
            return fault
        outcome = _Run(self, descriptors[:count], count, words, precedence).outcome()
        if outcome.code:
            self.reset()
        return outcome

    def misaligned(self, name: str, address: int) -> Outcome | None:
        """How a program ends at once because an address is no multiple of a word; None if it is."""
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
            vector(instruction, self.buffers, self.configuration)
        return 0, 0


def _require_writable(memory: NDArray[np.uint8]) -> None:
    if not memory.flags.writeable:
        raise ValueError("memory must be writable, not read-only")


class _Run:
    """One run of a program: queues, tokens and counters."""

    def __init__(
        self,
        machine: Machine,
        program: list[bytes],
        length: int,
        memory: NDArray[np.uint8],
        precedence: Sequence[int] | None,
    ) -> None:
        self._machine, self._program, self._memory = machine, program, memory
        self._length = length
        self._precedence = precedence
        self._queues = [_Queue() for _ in QUEUES]
        self._tokens = np.zeros((len(QUEUES), len(QUEUES)), np.int64)  # from, to
        self._fetched = self._read = self._written = self._number = 0

    def outcome(self) -> Outcome:
        """Run to the end or to an error."""
        try:
            while self._turn():
                pass
            left = [number for queue in self._queues for number, _ in queue.waiting]
            if left:
                self._number = min(left)
                raise MachineStop("deadlock", "it waits for a token that nothing can give")
        except MachineStop as stop:
            return self._ended(stop.error, self._number, str(stop))
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
        return Outcome(
            error=error,
            descriptor=descriptor,
            reason=reason,
            words_read=self._read,
            words_written=self._written,
        )

    def _fetch(self) -> bool:
        """Hand descriptors to their queues until one is full; whether there were any."""
        before = self._fetched
        while self._fetched < self._length:
            self._number = self._fetched
            if self._fetched == len(self._program):
                raise MachineStop("fetch", f"memory has {self._fetched} descriptors of the program")
            data = self._program[self._fetched]
            fault = fault_of(data, self._machine.configuration)
            if fault is not None:
                raise MachineStop(fault.error, fault.reason)
            instruction = Instruction.decoded(data)
            queue = self._queues[instruction.descriptor.queue]
            if len(queue.waiting) >= self._machine.configuration.queue_depth:
                break
            queue.waiting.append((self._fetched, instruction))
            self._fetched += 1
        return self._fetched > before

    def _advance(self, at: int) -> bool:
        """Run the first descriptor of a queue, or give tokens that it has to give, if possible."""
        queue = self._queues[at]
        if not queue.waiting:
            return False
        self._number, instruction = queue.waiting[0]
        changed = False
        if not queue.ran:
            sources = [i for i in range(len(QUEUES)) if instruction["wait"] >> i & 1]
            if any(self._tokens[i, at] == 0 for i in sources):
                return False
            self._tokens[sources, at] -= 1
            read, written = self._machine._execute(instruction, self._memory)
            self._read += read
            self._written += written
            queue.ran, queue.to_signal, changed = True, instruction["signal"], True
        for to in range(len(QUEUES)):
            if queue.to_signal >> to & 1 and self._tokens[at, to] < _MOST_TOKENS:
                self._tokens[at, to] += 1
                queue.to_signal &= ~(1 << to)
                changed = True
        if not queue.to_signal:
            queue.waiting.popleft()
            queue.ran = False
        return changed
