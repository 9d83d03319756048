"""The driver of a machine, whatever the machine runs on."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.description import (
    ACCESS_REGISTERS,
    ACCESSES,
    COUNTERS,
    ERRORS,
    FLAGS,
    IDENTITY,
    REGISTERS,
    VERSION,
    Word,
    configuration_of,
)
from mxsafe.machine.program import Program
from mxsafe.validation import Wide, checked, require_one_of, shown

Memory = NDArray[np.uint8]
PROGRAM_ADDRESS = 1 << 62
"""Where backends without an address space of their own have programs: beyond all memory."""

_REGISTERS = {register.name: register for register in REGISTERS + ACCESS_REGISTERS}
_FREE = ("unit_rows", "array_lanes", "vector_parts", "target", "counts")
"""Fields of machines that no program depends on."""
_RESET_SECONDS = 10.0
"""Seconds after which a machine that is not at rest after a reset is given up."""


@runtime_checkable
class Backend(Protocol):
    """Backend of a machine: its registers, and a memory that it shares with the host.

    Attributes
    ----------
    memory : ndarray of uint8
        The memory, in place; it may be replaced. Beyond its end, memory answers with errors.
    """

    memory: Memory

    def read_register(self, address: int) -> int:
        """Value of a register."""

    def write_register(self, address: int, value: int) -> None:
        """Give a register a value of 32 bits."""

    def place(self, program: bytes) -> int:
        """Put a program where the machine can fetch it, apart from `memory`; its address."""

    def work(self, seconds: float) -> bool:
        """Wait for the interrupt, for about so long at most; whether it is raised."""

    @property
    def reason(self) -> str:
        """Cause of the last error that the backend knows beside the registers; empty if none."""


def _address(name: str) -> int:
    """Address of a register."""
    return _REGISTERS[require_one_of("name", name, _REGISTERS)].address


@checked
def reset_machine(backend: Backend) -> None:
    """Let a machine end all work and forget it: a soft reset.

    Raises
    ------
    RuntimeError
        If it still works after some seconds.
    """
    backend.write_register(_REGISTERS["control"].address, FLAGS["control"]["reset"])
    end = time.monotonic() + _RESET_SECONDS
    while status := backend.read_register(_REGISTERS["status"].address):
        if time.monotonic() >= end:
            raise RuntimeError(
                f"register status must be 0 within {_RESET_SECONDS:g} seconds of a reset, "
                f"not {status:#x}"
            )
        backend.work(0.0)


@dataclass(frozen=True, kw_only=True)
class Ended:
    """Result of a program: whether it ended, and by which error.

    Attributes
    ----------
    error : str
        Name in `mxsafe.machine.description.ERRORS`; ``none`` if it came to its end.
    descriptor : int
        Number of the descriptor with the error, from 0.
    reason : str
        The error in words.
    counters : Mapping of str to int
        The machine's counters by the names in `mxsafe.machine.description.COUNTERS`, and in
        `ACCESSES` of a machine that has them. A backend without cycle counts has words, and
        accesses, alone.
    """

    error: str
    descriptor: int
    reason: str
    counters: Mapping[str, int]

    @property
    def code(self) -> int:
        """Number of the error, as the machine's register shows it."""
        return ERRORS[self.error]


@checked
class Host:
    """Runs programs as a driver does, by registers and memory alone.

    Parameters
    ----------
    backend : Backend
        Where the machine is.

    Raises
    ------
    ValueError
        If its registers are not those of a machine of this version.
    """

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        for name, wanted in (("identity", IDENTITY), ("version", VERSION)):
            found = self.read(name)
            if found != wanted:
                raise ValueError(f"register {name} must be {wanted:#x}, not {found:#x}")
        self.configuration: MachineConfiguration = configuration_of(
            {register.name: self.read(register.name) for register in REGISTERS}
        )
        """Sizes of the machine, as its registers show them."""

    @property
    def memory(self) -> Memory:
        """The memory that the machine sees, in place: tensors are written to it and read from it.

        It can be replaced by another vector of uint8 in whole words.
        """
        return self.backend.memory

    @memory.setter
    def memory(self, memory: Memory) -> None:
        size = self.configuration.word_bytes
        if not isinstance(memory, np.ndarray):
            raise TypeError(f"memory must be a contiguous vector of uint8, not {shown(memory)}")
        if memory.dtype != np.uint8 or memory.ndim != 1 or not memory.flags.c_contiguous:
            raise ValueError(
                f"memory must be a contiguous vector of uint8, not {memory.dtype} of shape "
                f"{memory.shape}"
            )
        if not memory.flags.writeable or not len(memory) or len(memory) % size:
            kind = "" if memory.flags.writeable else " that are read-only"
            raise ValueError(
                f"memory must be a positive multiple of {size} bytes that can be written, "
                f"not {len(memory)}{kind}"
            )
        self.backend.memory = memory

    def read(self, name: str) -> int:
        """Value of a register.

        Raises
        ------
        ValueError
            If there is no such register.
        """
        return self.backend.read_register(_address(name))

    @checked
    def write(self, name: str, value: Word) -> None:
        """Give a register a value.

        Raises
        ------
        TypeError, ValueError
            If there is no such register, or the value has more than 32 bits.
        """
        self.backend.write_register(_address(name), value)

    @property
    def counters(self) -> tuple[str, ...]:
        """Names of the counters that the machine has."""
        return (*COUNTERS, *(ACCESSES if self.configuration.counts else ()))

    @checked
    def counter(self, name: str) -> int:
        """Value of a counter, which may count meanwhile.

        Raises
        ------
        ValueError
            If there is no such counter.
        """
        require_one_of("name", name, self.counters)
        while True:
            high, low = self.read(f"{name}_high"), self.read(f"{name}_low")
            if self.read(f"{name}_high") == high:
                return high << 32 | low

    def reset(self) -> None:
        """Let the machine end all work and forget it: a soft reset.

        Raises
        ------
        RuntimeError
            If it still works after some seconds.
        """
        reset_machine(self.backend)

    @checked
    def require(self, configuration: MachineConfiguration) -> None:
        """Refuse what is for another machine.

        Raises
        ------
        ValueError
            If sizes differ; the message names the first that does.
        """
        for field in fields(MachineConfiguration):
            own, other = (getattr(c, field.name) for c in (self.configuration, configuration))
            if own != other and field.name not in _FREE:
                raise ValueError(
                    f"the program's machine must have {field.name} {_shown(own)}, "
                    f"not {_shown(other)}"
                )

    @checked
    def run(
        self,
        program: Program,
        *,
        base: Wide = 0,
        limit: Wide | None = None,
        progress: Callable[[int], object] = lambda cycles: None,
        patience: float = 0.5,
    ) -> Ended:
        """Run a program; after an error the machine is reset, so that it takes another.

        Parameters
        ----------
        program : Program
        base : int
            Where in memory the addresses of descriptors count from: a multiple of a word.
        limit : int, optional
            Cycles after which it is given up.
        progress : callable
            Called now and then with the cycles that have passed.
        patience : float
            Seconds from one such call to the next; with 0 a simulated machine calls it every 1,000
            cycles.

        Raises
        ------
        ValueError
            If the program is for another machine, or `base` is not as above. Nothing runs then.
        TimeoutError
            If it has not ended within the limit.
        """
        self.require(program.configuration)
        size = self.configuration.word_bytes
        if base % size or not 0 <= base <= len(self.memory):
            raise ValueError(
                f"base must be a multiple of {size} within the {len(self.memory)} bytes of memory, "
                f"not {base}"
            )
        if self.read("status") & FLAGS["status"]["error"]:
            self.reset()  # a start after an error does nothing
        self._write_wide("program", self.backend.place(program.data))
        self._write_wide("base", base)
        self.write("program_length", program.length)
        ends = sum(FLAGS["interrupt"].values())
        self.write("interrupt", ends)
        self.write("interrupt_enable", ends)
        self.write("control", FLAGS["control"]["start"])
        while not self.backend.work(patience):
            cycles = self.counter("cycles")
            progress(cycles)
            if limit is not None and cycles > limit:
                self.reset()
                raise TimeoutError(f"the program has not ended after {limit} cycles")
        return self._ended()

    def _ended(self) -> Ended:
        error = ERRORS.name_of(self.read("error"))
        if error is None:
            raise RuntimeError(f"the machine shows the unknown error {self.read('error')}")
        descriptor = self.read("error_descriptor")
        counters = MappingProxyType({name: self.counter(name) for name in self.counters})
        reason = ""
        if error != "none":
            reason = self.backend.reason or ERRORS.meanings[error]
            self.reset()
        return Ended(error=error, descriptor=descriptor, reason=reason, counters=counters)

    def _write_wide(self, name: str, value: int) -> None:
        self.write(f"{name}_low", value & 0xFFFFFFFF)
        self.write(f"{name}_high", value >> 32)


def _shown(value: object) -> object:
    if isinstance(value, tuple):
        return "+".join(value) or "none"
    return getattr(value, "name", value)
