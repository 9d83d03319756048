"""Registers of an interpreted machine."""

import numpy as np
import pytest

from mxsafe.host.host import Host
from mxsafe.host.interpreter import Interpreted
from mxsafe.machine.description import DESCRIPTOR_BYTES, REGISTERS, constant_registers
from verif.host.host_programs import SMALL, product

ADDRESSES = {register.name: register.address for register in REGISTERS}


def place(backend: Interpreted, program: bytes) -> None:
    """Place a program, and name it in the registers."""
    address = backend.place(program)
    for name, value in (
        ("program_low", address & 0xFFFF_FFFF),
        ("program_high", address >> 32),
        ("program_length", len(program) // DESCRIPTOR_BYTES),
    ):
        backend.write_register(ADDRESSES[name], value)


def test_registers() -> None:
    backend = Interpreted(SMALL)
    for name, value in constant_registers(SMALL).items():
        backend.write_register(ADDRESSES[name], 0)
        assert backend.read_register(ADDRESSES[name]) == value, name
    backend.write_register(ADDRESSES["base_high"], 5)
    with pytest.raises(ValueError, match=r"^value must be an integer from 0 to 4294967295, not 42"):
        backend.write_register(ADDRESSES["base_high"], 1 << 32 | 7)
    assert backend.read_register(ADDRESSES["base_high"]) == 5
    backend.write_register(ADDRESSES["words_read_low"], 5)
    assert backend.read_register(ADDRESSES["words_read_low"]) == 0
    backend.write_register(0x7C, 5)
    assert backend.read_register(0x7C) == 0


def test_the_interrupt_is_enabled_and_cleared() -> None:
    backend, wanted = Interpreted(SMALL), product()
    backend.memory = wanted.memory
    place(backend, wanted.program.data)
    backend.write_register(ADDRESSES["control"], 1)
    assert np.array_equal(backend.memory, wanted.expected)
    assert backend.read_register(ADDRESSES["status"]) == 2
    assert backend.read_register(ADDRESSES["interrupt"]) == 1
    assert not backend.work(0.0)
    backend.write_register(ADDRESSES["interrupt_enable"], 1)
    assert backend.work(0.0)
    backend.write_register(ADDRESSES["interrupt"], 1)
    assert not backend.work(0.0)


def test_after_an_error_nothing_runs_without_a_reset() -> None:
    backend, wanted = Interpreted(SMALL), product()
    backend.memory = wanted.memory
    place(backend, b"\xff" * 32)
    backend.write_register(ADDRESSES["control"], 1)
    assert backend.read_register(ADDRESSES["status"]) == 4
    assert backend.reason.startswith("opcode must be one of ")
    place(backend, wanted.program.data)
    backend.write_register(ADDRESSES["control"], 1)
    assert not np.array_equal(backend.memory, wanted.expected)
    backend.write_register(ADDRESSES["control"], 2)
    assert backend.read_register(ADDRESSES["error"]) == 0
    backend.write_register(ADDRESSES["control"], 1)
    assert np.array_equal(backend.memory, wanted.expected)


def test_a_program_in_memory() -> None:
    """A driver may have its program anywhere in memory, apart from what it writes."""
    backend, wanted = Interpreted(SMALL), product()
    program = np.frombuffer(wanted.program.data, np.uint8)
    backend.memory = np.concatenate([wanted.memory, program])
    for name, value in (
        ("program_low", len(wanted.memory)),
        ("program_length", wanted.program.length),
        ("control", 1),
    ):
        backend.write_register(ADDRESSES[name], value)
    assert backend.read_register(ADDRESSES["status"]) == 2
    assert np.array_equal(backend.memory[: len(wanted.memory)], wanted.expected)


def test_a_program_that_is_refused_leaves_no_success() -> None:
    """Of an earlier one: registers say that nothing runs and nothing has ended."""
    wanted = product()
    refused = Interpreted(SMALL, limit=0)
    refused.memory = wanted.memory.copy()
    refused.place(b"")
    refused.write_register(ADDRESSES["control"], 1)
    assert refused.read_register(ADDRESSES["status"]) == 2
    with pytest.raises(ValueError, match="limit must be at least 94"):
        Host(refused).run(wanted.program)
    for name in ("status", "error", "words_read_low", "words_written_low"):
        assert refused.read_register(ADDRESSES[name]) == 0, name
