"""A machine that is interpreted: a start runs the whole program at once."""

import numpy as np

from mxsafe.host.host import PROGRAM_ADDRESS, Memory
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.description import (
    DESCRIPTOR_BYTES,
    FLAGS,
    REGISTERS,
    Word,
    constant_registers,
    registers_of,
)
from mxsafe.model.machine import STEPS, Machine, Outcome
from mxsafe.validation import Count, checked

_HELD = {
    register.name: sum(FLAGS[register.name].values()) or 0xFFFF_FFFF
    for register in REGISTERS
    if register.access == "read_write" and register.name != "interrupt"
}
"""Registers that keep what is written to them, and which of its bits."""
_BYTES = 4
"""Of a register: the two lowest bits of an address do not count."""
_CONTROL, _STATUS, _INTERRUPT = (FLAGS[name] for name in ("control", "status", "interrupt"))


@checked
class Interpreted:
    """A backend without cycle counts, by `mxsafe.model.machine.Machine`.

    Parameters
    ----------
    configuration : MachineConfiguration, optional
        By default `MachineConfiguration()`.
    limit : int
        Words that a program moves and beats that it computes, at most.

    Attributes
    ----------
    memory : ndarray of uint8
    reason : str
        The last error in words.
    """

    def __init__(
        self, configuration: MachineConfiguration | None = None, *, limit: Count = STEPS
    ) -> None:
        self._machine = Machine(configuration)
        self._limit = limit
        self._constants = constant_registers(self._machine.configuration)
        registers = registers_of(self._machine.configuration)
        self._names = {register.address: register.name for register in registers}
        self._registers: dict[str, int] = dict.fromkeys((*_HELD, "interrupt", "status"), 0)
        self._program = b""
        self.memory: Memory = np.zeros(self._machine.configuration.word_bytes, np.uint8)
        self.reason = ""

    @checked
    def read_register(self, address: int) -> int:
        """Value of a register; one that there is not is 0.

        Raises
        ------
        ValueError
            If the address is no integer.
        """
        name = self._names.get(address - address % _BYTES, "")
        return self._constants.get(name, self._registers.get(name, 0))

    @checked
    def write_register(self, address: int, value: Word) -> None:
        """Give a register a value, if it takes one.

        Raises
        ------
        ValueError
            If the value has more than 32 bits.
        """
        name = self._names.get(address - address % _BYTES, "")
        if name in _HELD:
            self._registers[name] = value & _HELD[name]
        elif name == "interrupt":
            self._registers[name] &= ~value
        elif name == "control":
            if value & _CONTROL["reset"]:
                self._machine.reset()
                self._show(Outcome(), status=0)
                self._registers["interrupt"] = 0
            if value & _CONTROL["start"]:
                self._start()

    @checked
    def place(self, program: bytes) -> int:
        """Keep a program; its address.

        Raises
        ------
        TypeError
            If it is not bytes.
        """
        self._program = program
        return PROGRAM_ADDRESS

    @checked
    def work(self, seconds: float) -> bool:
        """Whether the interrupt is raised: a program has ended when its start has.

        Raises
        ------
        TypeError
            If the time is no number.
        """
        return bool(self._registers["interrupt"] & self._registers["interrupt_enable"])

    def _start(self) -> None:
        if self._registers["status"] == _STATUS["error"]:
            return  # what has failed needs a reset
        self._show(Outcome(), status=0)
        self._count(Outcome())
        outcome = self._outcome()
        ended = "error" if outcome.code else "done"
        self._show(outcome, status=_STATUS[ended])
        self._registers["interrupt"] |= _INTERRUPT[ended]
        self._count(outcome)

    def _count(self, outcome: Outcome) -> None:
        words = {name: getattr(outcome, name) for name in ("words_read", "words_written")}
        for name, count in (words | dict(outcome.accesses)).items():
            self._registers |= {f"{name}_low": count & 0xFFFFFFFF, f"{name}_high": count >> 32}

    def _outcome(self) -> Outcome:
        """Run the program that the registers name; how it ends."""
        address, base = (
            self._registers[f"{name}_high"] << 32 | self._registers[f"{name}_low"]
            for name in ("program", "base")
        )
        if fault := self._machine.misaligned("program", address):
            return fault
        length = self._registers["program_length"]
        program = self._at(address, length * DESCRIPTOR_BYTES)
        program = program[: len(program) - len(program) % DESCRIPTOR_BYTES]
        return self._machine.run(program, self.memory, base=base, length=length, limit=self._limit)

    def _at(self, address: int, size: int) -> bytes:
        """So many bytes of the program that was placed or of memory, or those that there are."""
        if address >= PROGRAM_ADDRESS:
            offset = address - PROGRAM_ADDRESS
            return self._program[offset : offset + size]
        return self.memory[address : address + size].tobytes()

    def _show(self, outcome: Outcome, *, status: int) -> None:
        self.reason = outcome.reason
        self._registers |= {
            "status": status,
            "error": outcome.code,
            "error_descriptor": outcome.descriptor,
        }
