"""Starts, resets and errors by registers, alike on the interpreter and on simulated Verilog."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from mxsafe.host.host import Backend, Host
from mxsafe.host.interpreter import Interpreted
from mxsafe.host.simulated import MemoryTiming, Simulated
from mxsafe.machine.assembler import Assembler, Instruction
from mxsafe.machine.description import COUNTERS, ERRORS, FLAGS
from mxsafe.machine.program import Program
from verif.host.host_programs import SMALL, Product, product
from verif.support.simulators import SCRATCH
from verif.support.tests import available, typical

WORD = SMALL.word_bytes
START, RESET = (FLAGS["control"][name] for name in ("start", "reset"))
DONE, FAILED, RUNNING = (FLAGS["status"][name] for name in ("done", "error", "running"))
TOP = 1 << 64
_PATIENCE = 60
"""Waits for the interrupt after which a program is taken to hang."""


def interpreted() -> Backend:
    return Interpreted(SMALL)


def asic() -> Backend:
    available("verilator")
    return Simulated(SMALL, timing=MemoryTiming(), folder=SCRATCH, optimisation="-O0")


def fpga() -> Backend:
    available("verilator")
    machine = replace(SMALL, target="fpga")
    return Simulated(machine, timing=MemoryTiming(), folder=SCRATCH, optimisation="-O0")


@pytest.fixture(
    params=[interpreted, asic, pytest.param(fpga, marks=pytest.mark.variant)],
    ids=lambda made: made.__name__,
)
def host(request: pytest.FixtureRequest) -> Host:
    """A machine on each backend, with memory that is slow, ready to tell of ends."""
    make: Callable[[], Backend] = request.param
    made = Host(make())
    made.write("interrupt_enable", sum(FLAGS["interrupt"].values()))
    return made


def has_clocks(host: Host) -> bool:
    return not isinstance(host.backend, Interpreted)


def name_program(host: Host, program: Program, *, base: int = 0, offset: int = 0) -> None:
    """Write all registers of a program but the start."""
    address = host.backend.place(program.data) + offset
    for name, value in (("program", address), ("base", base)):
        host.write(f"{name}_low", value & 0xFFFF_FFFF)
        host.write(f"{name}_high", value >> 32)
    host.write("program_length", program.length)


def start(host: Host, wanted: Product, **places: int) -> None:
    """Start a program in memory as it is before it."""
    host.memory = wanted.memory.copy()
    name_program(host, wanted.program, **places)
    host.write("control", START)


def wait(host: Host) -> int:
    """Wait for the interrupt as a driver does; the status then."""
    for _ in range(_PATIENCE):
        if host.backend.work(0.01):
            return host.read("status")
    raise AssertionError("the interrupt never came")


def require_done(host: Host, wanted: Product) -> None:
    """Its program must end as it should."""
    assert wait(host) == DONE
    assert np.array_equal(host.memory, wanted.expected)


def clear(host: Host) -> None:
    """Clear what has happened."""
    host.write("interrupt", sum(FLAGS["interrupt"].values()))
    assert host.read("interrupt") == 0


def require_right(host: Host) -> None:
    """A right program must run after this."""
    wanted = product(seed=9)
    start(host, wanted)
    require_done(host, wanted)
    clear(host)


def test_registers_of_the_next_program_are_written_while_one_runs(host: Host) -> None:
    wanted, ahead = product(), 5 * WORD
    host.memory = np.concatenate([np.full(ahead, 7, np.uint8), wanted.memory])
    name_program(host, wanted.program, base=ahead)
    host.write("control", START)
    for name in ("program_low", "program_high", "program_length", "base_low", "base_high"):
        host.write(name, 1 << 12)
    assert not has_clocks(host) or host.read("status") == RUNNING
    assert wait(host) == DONE
    assert np.array_equal(host.memory[ahead:], wanted.expected)
    assert (host.memory[:ahead] == 7).all()


def test_a_program_that_waits_for_a_reset_keeps_its_registers(host: Host) -> None:
    wanted = product()
    start(host, wanted)
    host.write("control", RESET)
    host.memory = wanted.memory.copy()
    host.write("control", START)
    for name in ("program_low", "program_high", "program_length", "base_low", "base_high"):
        host.write(name, 1 << 12)
    if has_clocks(host):
        host.write("control", START)  # nothing: one waits, or runs
    require_done(host, wanted)


@pytest.mark.parametrize("name", ["program", "base"])
@pytest.mark.parametrize("offset", typical([1, 2, WORD + WORD // 2, 4]))
def test_an_address_within_a_word(host: Host, name: str, offset: int) -> None:
    wanted = product()
    require_right(host)  # its counters are to be forgotten
    start(host, wanted, **{"base" if name == "base" else "offset": offset})
    assert wait(host) == FAILED
    assert host.read("error") == ERRORS["alignment"]
    assert host.read("error_descriptor") == 0
    assert host.read("interrupt") == FLAGS["interrupt"]["error"]
    assert [host.counter(counter) for counter in COUNTERS] == [0] * len(COUNTERS)
    assert np.array_equal(host.memory, wanted.memory)
    clear(host)
    name_program(host, wanted.program)
    host.write("control", START)  # nothing after an error
    assert host.read("status") == FAILED
    host.reset()
    assert (host.read("error"), host.read("status")) == (0, 0)
    require_right(host)


def _run(host: Host, instructions: Sequence[Instruction], base: int) -> tuple[str, int]:
    """Name of the error and the descriptor; a reset follows."""
    name_program(host, Program.assembled(instructions, SMALL), base=base)
    host.write("control", START)
    wait(host)
    error = ERRORS.name_of(host.read("error"))
    assert error is not None
    found = error, host.read("error_descriptor")
    clear(host)
    host.reset()
    return found


@pytest.mark.parametrize(("kind", "error"), [("load", "read"), ("store", "write")])
@pytest.mark.parametrize("base", typical([TOP - WORD, TOP - (1 << 20) * WORD]))
def test_addresses_past_the_top(host: Host, kind: str, error: str, base: int) -> None:
    """They do not come round to 0, where there is memory."""
    asm = Assembler(SMALL)
    make = {"load": asm.load, "store": asm.store}[kind]
    host.memory = np.arange(8 * WORD, dtype=np.uint8)
    before = host.memory.copy()
    for values in (
        {"address": TOP - base},
        {"address": TOP - base + 3 * WORD, "count_0": 2},
        {"address": TOP - base, "count_1": 2, "stride_1": 1},
    ):
        wrong = make(buffer="vector", **values)
        assert _run(host, [wrong], base) == (error, 0)
        nothing = asm.vector(to_vector=1)
        assert _run(host, [nothing, nothing, wrong], base) == (error, 2)
    assert np.array_equal(host.memory, before)
    require_right(host)


def test_a_start_in_a_reset(host: Host) -> None:
    wanted = product()
    for commands in (
        [RESET, START],
        [RESET | START],
        [RESET, RESET | START],
        [RESET] * 3 + [START],
    ):
        start(host, wanted)
        assert not has_clocks(host) or host.read("status") == RUNNING
        if not has_clocks(host):
            host.memory = wanted.memory.copy()
        for command in commands:
            host.write("control", command)
        assert not has_clocks(host) or host.read("status") == RUNNING
        require_done(host, wanted)
        clear(host)


def test_a_start_in_a_reset_after_an_error(host: Host) -> None:
    wanted = product()
    for commands in ([RESET, START], [RESET | START]):
        start(host, wanted, base=1)
        assert wait(host) == FAILED
        clear(host)
        name_program(host, wanted.program)
        for command in commands:
            host.write("control", command)
        require_done(host, wanted)
        clear(host)


def test_a_reset_ends_a_start_that_waits(host: Host) -> None:
    if not has_clocks(host):
        pytest.skip("a start never waits there")
    wanted = product()
    host.memory = wanted.memory.copy()
    name_program(host, wanted.program)
    for command in (START, RESET, START, RESET):
        host.write("control", command)
    for _ in range(3):
        assert not host.backend.work(0.0)
    assert host.read("status") == 0
    require_right(host)


def test_what_a_reset_keeps(host: Host) -> None:
    wanted = product()
    require_right(host)
    held = ("interrupt_enable", "program_low", "program_high", "program_length", "base_low")
    before = {name: host.read(name) for name in held}
    counted = {name: host.counter(name) for name in COUNTERS}
    assert counted["words_read"] == wanted.words_read
    host.write("control", START)
    wait(host)
    assert host.read("interrupt") == FLAGS["interrupt"]["done"]
    host.reset()
    assert {name: host.read(name) for name in held} == before
    assert {name: host.counter(name) for name in COUNTERS} == counted
    assert host.read("interrupt") == host.read("status") == 0


def _tile(values: dict[str, int]) -> Program:
    """The product of `product`, with other flags of its only GEMM."""
    made = []
    for one in product().instructions:
        given = {name: value for name, value in one.values.items() if name != "opcode"}
        made.append(Instruction(one.kind, given | values) if one.kind == "gemm" else one)
    return Program.assembled(made, SMALL)


def _tiles(host: Host, *, reset: bool) -> NDArray[np.uint8]:
    """Memory after a product that is kept in the array, and one that continues it."""
    host.memory = product().memory.copy()
    assert host.run(_tile({"clear": 1})).error == "none"
    if reset:
        host.reset()
    assert host.run(_tile({"clear": 0})).error == "none"
    return host.memory.copy()


def test_a_tile_is_continued_until_a_reset(host: Host) -> None:
    wanted = product()
    assert np.array_equal(_tiles(host, reset=True), wanted.expected)
    continued = _tiles(host, reset=False)
    assert not np.array_equal(continued, wanted.expected)
    assert np.array_equal(continued, _tiles(Host(interpreted()), reset=False))
    # A program that fails is followed by a reset.
    assert host.run(_tile({"clear": 1, "result": (1 << 14) - 1})).error == "address"
    host.memory = wanted.memory.copy()
    assert host.run(_tile({"clear": 0})).error == "none"
    assert np.array_equal(host.memory, wanted.expected)


@pytest.mark.parametrize("missing", [1, 3])
def test_a_program_that_is_longer_than_memory_has_it(host: Host, missing: int) -> None:
    """Only what is there runs, and the first that is not has the error."""
    wanted = product()
    host.memory = wanted.memory.copy()
    name_program(host, wanted.program)
    host.write("program_length", wanted.program.length + missing)
    host.write("control", START)
    assert wait(host) == FAILED
    assert host.read("error") == ERRORS["fetch"]
    assert host.read("error_descriptor") == wanted.program.length


def test_bits_that_registers_do_not_have(host: Host) -> None:
    host.write("interrupt_enable", 0xFFFF_FFFF)
    assert host.read("interrupt_enable") == sum(FLAGS["interrupt"].values())
    assert host.backend.read_register(0x03) == host.read("identity")
