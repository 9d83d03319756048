"""Programs by the registers of a machine: the same on the interpreter and on simulated Verilog."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from mxsafe.host.host import Backend, Host
from mxsafe.host.interpreter import Interpreted
from mxsafe.host.simulated import MemoryTiming, Simulated
from mxsafe.machine.assembler import Assembler
from mxsafe.machine.compiled import compile_graph
from mxsafe.machine.compiler.timing import predict
from mxsafe.machine.configuration import SMALL_MACHINE, MachineConfiguration
from mxsafe.machine.description import DESCRIPTOR_BYTES, FLAGS, REGISTERS, VERSION
from mxsafe.machine.program import Program
from verif.host.host_programs import SMALL, product
from verif.machine.compiler.transformer_graphs import bert
from verif.support.simulators import SCRATCH
from verif.support.tests import available, raises

DEFAULT = MachineConfiguration()
WORD = SMALL.word_bytes


def interpreted() -> Backend:
    return Interpreted(SMALL)


def simulated(timing: MemoryTiming | None = None, power_up: int = 1) -> Backend:
    available("verilator")
    return Simulated(SMALL, timing=timing, power_up=power_up, folder=SCRATCH, optimisation="-O0")


BACKENDS = [interpreted, simulated]


@pytest.fixture(params=BACKENDS, ids=lambda made: made.__name__)
def host(request: pytest.FixtureRequest) -> Host:
    """A machine on each backend."""
    make: Callable[[], Backend] = request.param
    return Host(make())


def test_a_product(host: Host) -> None:
    wanted = product()
    ended = wanted.runs_on(host)
    assert (ended.code, ended.reason) == (0, "")
    assert not np.array_equal(wanted.expected, wanted.memory)
    assert ended.counters["words_read"] == wanted.words_read
    assert ended.counters["words_written"] == wanted.words_written
    if not isinstance(host.backend, Interpreted):
        assert ended.counters["array_busy"] == wanted.beats
        assert ended.counters["cycles"] > wanted.beats + wanted.words_read


def test_an_error_that_is_left_is_reset(host: Host) -> None:
    """By somebody who writes registers: a start after it would do nothing, for ever."""
    wanted = product()
    host.write("base_low", 1)
    host.write("program_length", 1)
    host.write("control", FLAGS["control"]["start"])
    assert host.read("status") == FLAGS["status"]["error"]
    wanted.runs_on(host)


def test_memory_that_is_slow_and_pauses() -> None:
    wanted = product(seed=2)
    cycles = []
    for timing in (
        MemoryTiming(latency=0),
        MemoryTiming(latency=200),
        MemoryTiming(latency=200, pause=100, seed=3),
    ):
        cycles.append(wanted.runs_on(Host(simulated(timing))).counters["cycles"])
    assert cycles == sorted(set(cycles))


def test_the_same_program_takes_the_same_cycles(host: Host) -> None:
    first, second = (product().runs_on(host).counters for _ in range(2))
    assert first == second


def test_buffers_begin_as_a_seed_says() -> None:
    """Unwritten data differ by seed; a program that reads only what it wrote does the same."""
    unwritten = Program.assembled([Assembler(SMALL).store(buffer="vector", count_0=2)], SMALL)
    stored = []
    for seed in (1, 2, 1):
        host = Host(simulated(power_up=seed))
        host.memory = np.zeros(2 * WORD, np.uint8)
        assert host.run(unwritten).error == "none"
        stored.append(host.memory.tolist())
        product().runs_on(host)
    assert stored[0] == stored[2] != stored[1]


def test_base(host: Host) -> None:
    wanted, ahead = product(), 5 * WORD
    host.memory = np.concatenate([np.full(ahead, 7, np.uint8), wanted.memory])
    assert host.run(wanted.program, base=ahead).error == "none"
    assert np.array_equal(host.memory[ahead:], wanted.expected)
    assert (host.memory[:ahead] == 7).all()


def test_the_sizes_are_read_from_registers(host: Host) -> None:
    assert host.configuration == replace(SMALL, unit_rows=MachineConfiguration().unit_rows)


def test_errors_come_through_and_another_program_runs(host: Host) -> None:
    wanted = product()
    data = bytearray(wanted.program.data)
    number = 3
    data[number * DESCRIPTOR_BYTES] |= 0xF
    unknown = Program(bytes(data), SMALL)
    malformed = bytearray(wanted.program.data)
    malformed[DESCRIPTOR_BYTES - 1] |= 0x80  # a reserved bit
    waits = Program(wanted.program.data[4 * DESCRIPTOR_BYTES :], SMALL)
    loads = Program.assembled([Assembler(SMALL).load(buffer="vector", count_0=2, to=127)], SMALL)
    for program, error, descriptor in (
        (unknown, "opcode", number),
        (Program(bytes(malformed), SMALL), "malformed", 0),
        (loads, "address", 0),
        (waits, "deadlock", 0),
    ):
        host.memory = wanted.memory.copy()
        ended = host.run(program)
        assert (ended.error, ended.descriptor) == (error, descriptor)
        assert ended.reason
        assert host.read("status") == 0
    host.memory = wanted.memory[:-WORD].copy()
    ended = host.run(wanted.program)
    assert (ended.error, ended.descriptor) == ("write", len(wanted.instructions) - 1)
    wanted.runs_on(host)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rows": 16}, f"the program's machine must have rows {SMALL.rows}, not 16"),
        ({"arithmetic": "fp12"}, "the program's machine must have arithmetic exact, not fp12"),
        ({"format_a": "mxint8"}, "the program's machine must have format_a mxsf, not mxint8"),
        ({"queue_depth": 5}, "the program's machine must have queue_depth 4, not 5"),
        ({"functions": ()}, "the program's machine must have functions relu, not none"),
    ],
)
def test_programs_for_another_machine_are_refused(
    host: Host, changed: dict[str, object], message: str
) -> None:
    wanted = product()
    host.memory = wanted.memory.copy()
    program = Program(wanted.program.data, replace(SMALL, **changed))
    with raises(ValueError, message):
        host.run(program)
    assert np.array_equal(host.memory, wanted.memory)
    assert host.read("program_length") == 0


def test_the_size_of_sub_matrix_units_does_not_count(host: Host) -> None:
    wanted = product()
    host.memory = wanted.memory
    program = Program(wanted.program.data, replace(SMALL, unit_rows=2))
    assert host.run(program).error == "none"
    assert np.array_equal(host.memory, wanted.expected)


def _read_only(size: int) -> np.ndarray:
    memory = np.zeros(size, np.uint8)
    memory.setflags(write=False)
    return memory


@pytest.mark.parametrize(
    ("memory", "message"),
    [
        (np.zeros(33, np.uint8), f"positive multiple of {WORD} bytes that can be written, not 33"),
        (np.zeros(0, np.uint8), f"positive multiple of {WORD} bytes that can be written, not 0"),
        (
            _read_only(32),
            f"positive multiple of {WORD} bytes that can be written, not 32 that are read-only",
        ),
        (np.zeros(32, np.int8), "contiguous vector of uint8, not int8 of shape (32,)"),
        (np.zeros((2, 16), np.uint8), "contiguous vector of uint8, not uint8 of shape (2, 16)"),
        (np.zeros(64, np.uint8)[::2], "contiguous vector of uint8, not uint8 of shape (32,)"),
    ],
)
def test_memory_that_is_refused(host: Host, memory: np.ndarray, message: str) -> None:
    before = host.memory
    with raises(ValueError, f"memory must be a {message}"):
        host.memory = memory
    assert host.memory is before


@pytest.mark.parametrize("base", [WORD // 2, -WORD, 1 << 20])
def test_a_base_that_is_refused(host: Host, base: int) -> None:
    wanted = product()
    host.memory = wanted.memory.copy()
    with raises(
        ValueError,
        f"base must be a multiple of {WORD} within the {len(wanted.memory)} bytes of memory, "
        f"not {base}",
    ):
        host.run(wanted.program, base=base)
    assert np.array_equal(host.memory, wanted.memory)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda host: setattr(host, "memory", [1, 2]),
            "memory must be a contiguous vector of uint8",
        ),
        (lambda host: host.run(b"program"), "program must be a Program, not b'program'"),
        (lambda host: host.run(product().program, limit="9"), "limit must be an integer from -"),
        (lambda host: host.require(3), "configuration must be a MachineConfiguration, not 3"),
        (lambda host: host.read("speed"), "name must be one of identity, version,"),
        (lambda host: host.read(["status"]), "name must be one of identity, version,"),
        (lambda host: host.write("speed", 1), "name must be one of identity, version,"),
        (
            lambda host: host.write("control", None),
            "value must be an integer from 0 to 4294967295, not None",
        ),
        (
            lambda host: host.write("control", 1 << 32),
            "value must be an integer from 0 to 4294967295, not 4294967296",
        ),
        (lambda host: host.counter("speed"), "name must be one of cycles,"),
        (lambda host: Simulated(folder="here"), "folder must be a Path or None, not 'here'"),
        (
            lambda host: Simulated(power_up=0),
            "power_up must be an integer from 1 to 2147483647, not 0",
        ),
        (lambda host: Simulated(3), "configuration must be a MachineConfiguration or None, not 3"),
    ],
)
def test_arguments_that_are_refused(call: Callable[[Host], object], message: str) -> None:
    with pytest.raises((TypeError, ValueError)) as error:
        call(Host(interpreted()))
    assert str(error.value).startswith(message)


class Strange:
    """A backend whose registers are not those of a machine, or that never ends."""

    def __init__(self, changed: dict[str, int] | None = None) -> None:
        self._inner = Interpreted(SMALL)
        self._changed = changed or {}
        self.memory = np.zeros(64, np.uint8)
        self.reason = ""

    def read_register(self, address: int) -> int:
        name = next(register.name for register in REGISTERS if register.address == address)
        return self._changed.get(name, self._inner.read_register(address))

    def write_register(self, address: int, value: int) -> None:
        """Nothing changes."""

    def place(self, program: bytes) -> int:
        return 0

    def work(self, seconds: float) -> bool:
        return False


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"identity": 0}, "register identity must be 0x4653584d, not 0x0"),
        ({"version": 9}, f"register version must be {VERSION:#x}, not 0x9"),
    ],
)
def test_what_is_no_machine_is_refused(changed: dict[str, int], message: str) -> None:
    with raises(ValueError, message):
        Host(Strange(changed))


def test_a_limit_of_cycles() -> None:
    seen: list[int] = []
    host = Host(Strange({"cycles_low": 1000, "cycles_high": 2}))
    with raises(TimeoutError, "the program has not ended after 5000 cycles"):
        host.run(product().program, limit=5000, progress=seen.append)
    assert seen == [(2 << 32) + 1000]


def test_an_error_that_nobody_knows() -> None:
    strange = Strange({"error": 99})
    strange.work = lambda seconds: True  # type: ignore[method-assign]
    with raises(RuntimeError, "the machine shows the unknown error 99"):
        Host(strange).run(product().program)


@pytest.mark.yosys
def test_a_product_of_units_that_are_compiled_alone() -> None:
    """Sub-matrix units, with accumulators within them that Verilator compiles by themselves too."""
    available("verilator")
    machine = replace(SMALL_MACHINE, functions=("relu",), reductions=(), conversions=())
    wanted = product(machine=machine)
    wanted.runs_on(Host(Simulated(machine, folder=SCRATCH, optimisation="-O0")))
    assert not np.array_equal(wanted.expected, wanted.memory)


@pytest.mark.full
def test_a_block_of_minilm_on_the_default_machine() -> None:
    """Of random weights, in about the cycles that the compiler predicts."""
    available("verilator")
    (compiled,) = compile_graph(bert(20, 384, 12, 1536, 1), DEFAULT).parts
    x = np.random.default_rng(1).standard_normal((1, 20, 384)).astype(np.float32)
    program, memory = compiled.program, compiled.memory([x])
    ended, memories = [], []
    for backend in (Interpreted(DEFAULT), Simulated(DEFAULT, folder=SCRATCH)):
        host = Host(backend)
        host.memory = memory.copy()
        ended.append(host.run(program))
        memories.append(host.memory)
    assert [one.error for one in ended] == ["none", "none"]
    assert np.array_equal(*memories)
    assert not np.array_equal(memories[0], memory)
    predicted = predict(program)
    for name in ("words_read", "words_written"):
        assert [one.counters[name] for one in ended] == [getattr(predicted, name)] * 2
    assert ended[1].counters["array_busy"] == predicted.array_busy
    assert ended[1].counters["cycles"] < 1.5 * predicted.cycles
