"""The backend on a board: on one in Python whose line errs, and on the simulated top of a board."""

import ctypes
import hashlib
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from mxsafe.host import host as host_module
from mxsafe.host import verilator
from mxsafe.host.host import Host
from mxsafe.host.serial import Serial, SerialError, open_port
from mxsafe.host.verilator import build_library
from mxsafe.machine.description import DESCRIPTOR_BYTES, ERRORS, IDENTITY, REGISTERS
from mxsafe.machine.frames import MOST_WORDS
from mxsafe.machine.program import Program
from mxsafe.rtl.board.ulx3s import Ulx3s, Ulx3sConfiguration
from verif.host.copying_machine import COPIED_BEATS, copying_machines
from verif.host.fake_board import FakeBoard
from verif.host.host_programs import SMALL, product
from verif.support.simulators import SCRATCH
from verif.support.tests import Tally, available, raises
from verif.support.units import generated

_HERE = Path(__file__).parent
_MAIN, _PLL = _HERE / "serial_line.cpp", _HERE / "ehxplll.v"


class SimulatedBoard:
    """A port to the Verilog of a board, compiled by Verilator.

    Attributes
    ----------
    divisor, patience : int
        Cycles of a bit, and cycles after which the board gives up a frame.
    """

    def __init__(self, configuration: Ulx3sConfiguration) -> None:
        module = generated(Ulx3s(configuration))
        sources = [*module.sources, _PLL]
        self.divisor, self.patience = (module.parameters[n] for n in ("divisor", "patience"))
        made_of = (*sources, _MAIN, Path(verilator.__file__))
        digest = hashlib.sha256(b"\0".join(path.read_bytes() for path in made_of))
        library = build_library(
            SCRATCH / f"board-{digest.hexdigest()[:16]}",
            module.name,
            sources,
            _MAIN,
            defines={"DIVISOR": self.divisor},
            optimisation="-O0",
        )
        self._functions = ctypes.CDLL(str(library))
        self._functions.board_new.restype = ctypes.c_void_p
        self._functions.board_receive.restype = ctypes.c_uint64
        self._board = ctypes.c_void_p(self._functions.board_new())
        self.press(down=False)

    def __del__(self) -> None:
        if hasattr(self, "_board"):
            self._functions.board_delete(self._board)

    def write(self, data: bytes) -> None:
        """Send bytes to the board."""
        self._functions.board_send(self._board, bytes(data), ctypes.c_uint64(len(data)))

    def read(self, size: int) -> bytes:
        """Bytes of the board: what has not come after a while does not come."""
        # Registers take some cycles a word, and bits of a byte the divisor each.
        patience = 2 * self.patience + 20 * MOST_WORDS + 20 * self.divisor
        buffer = ctypes.create_string_buffer(size)
        count = self._functions.board_receive(
            self._board, buffer, ctypes.c_uint64(size), ctypes.c_uint64(patience)
        )
        return buffer.raw[:count]

    def close(self) -> None:
        """Nothing: the board stays."""

    def press(self, *, down: bool) -> None:
        """Press the button for the reset, or release it."""
        self._functions.board_press(self._board, ctypes.c_bool(down))

    @property
    def lights(self) -> int:
        """The lights, a bit each."""
        return self._functions.board_lights(self._board)

    @property
    def wifi_gpio0(self) -> int:
        """The pin of this name."""
        return self._functions.board_gpio0(self._board)


_ADDRESSES = {register.name: register.address for register in REGISTERS}
BOARD = Ulx3sConfiguration(
    machine=SMALL, memory_bytes=8192, clock_mhz=10, baud=2_500_000, patience_ms=1
)
"""Four cycles a bit."""
CHECK = "Check that its bitstream is loaded and that --baud is its own"


def host_of(board: FakeBoard | SimulatedBoard) -> Host:
    return Host(Serial(board, silence=0.0))


def test_a_product() -> None:
    board, wanted = FakeBoard(SMALL), product()
    ended = wanted.runs_on(host_of(board))
    assert board.starts == 1
    assert ended.counters["words_read"] == wanted.words_read


@pytest.mark.parametrize("kind", ["lost", "spoilt", "misheard"])
def test_a_line_that_errs(kind: str) -> None:
    """Every request goes wrong once: no write is done twice, and a program is started once."""
    clean, wanted = FakeBoard(SMALL), product()
    wrong = range(0, 1000, 2)
    for board in (clean, FakeBoard(SMALL, **{kind: wrong})):
        wanted.runs_on(host_of(board))
        assert board.starts == 1
    assert len(board.requests) == 2 * len(clean.requests)


def test_a_slow_line() -> None:
    """A read gives few bytes of an answer: only one that gives none ends it."""
    product().runs_on(host_of(FakeBoard(SMALL, most_read=3)))


def test_a_start_without_an_answer() -> None:
    """It may have been done: memory is fetched."""
    wanted, spoilt = product(), set[int]()
    board = FakeBoard(SMALL, spoilt=spoilt)
    host = host_of(board)
    host.memory = wanted.memory.copy()
    host._write_wide("program", host.backend.place(wanted.program.data))
    host.write("program_length", wanted.program.length)
    host.backend._send(0, host.memory, np.zeros(0, np.uint8))
    host.backend._sent = host.memory.copy()
    spoilt.update(range(len(board.requests), len(board.requests) + 4))
    with pytest.raises(SerialError, match="its checksum is wrong"):
        host.write("control", 1)
    assert board.starts == 1
    assert host.read("status") == 2
    assert np.array_equal(host.memory, wanted.expected)


def test_a_machine_that_does_not_come_to_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reset is waited for, but not for ever."""
    monkeypatch.setattr(host_module, "_RESET_SECONDS", 0.05)
    message = "register status must be 0 within 0.05 seconds of a reset, not 0x1"
    monkeypatch.setattr(Serial, "read_register", lambda self, address: 1)
    with raises(SerialError, message):
        Serial(FakeBoard(SMALL), silence=0.0)
    monkeypatch.undo()
    monkeypatch.setattr(host_module, "_RESET_SECONDS", 0.05)
    host = host_of(FakeBoard(SMALL))
    monkeypatch.setattr(Serial, "read_register", lambda self, address: 1)
    with raises(RuntimeError, message):
        host.reset()


def test_close() -> None:
    board = FakeBoard(SMALL)
    Serial(board, silence=0.0).close()
    assert board.is_closed


def test_only_what_has_changed_is_sent() -> None:
    board, wanted = FakeBoard(SMALL, 1 << 15), product()
    host = host_of(board)
    host.memory = np.concatenate([wanted.memory, np.zeros(1 << 14, np.uint8)])
    sent = []
    for change in (False, False, True):
        before = len(board.requests)
        host.memory[-1] ^= change
        host.run(wanted.program)
        writes = [frame for frame in board.requests[before:] if frame[1] == 3]
        places = [int.from_bytes(frame[4:8], "little") for frame in writes]
        sent.append(sum(place < len(host.memory) for place in places))  # the program lies beyond
        assert board.memory[len(host.memory) - 1] == change
    assert sent == [-(-len(host.memory) // 1024), 0, 1]


def test_errors_come_through() -> None:
    board, wanted = FakeBoard(SMALL), product()
    host = host_of(board)
    host.memory = wanted.memory.copy()
    data = bytearray(wanted.program.data)
    data[3 * DESCRIPTOR_BYTES] |= 0xF
    ended = host.run(Program(bytes(data), SMALL))
    assert (ended.error, ended.descriptor, ended.reason) == ("opcode", 3, "unknown opcode")
    assert host.read("status") == 0
    wanted.runs_on(host)


def test_a_board_that_is_not_there() -> None:
    with raises(
        SerialError, f"the board gave no right answer to 4 requests: nothing came. {CHECK}"
    ):
        Serial(FakeBoard(SMALL, lost=range(100)), silence=0.0)


def test_a_line_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    board = FakeBoard(SMALL)
    backend = Serial(board, silence=0.0)

    def gone(data: bytes) -> None:
        raise OSError("device disconnected")

    monkeypatch.setattr(board, "write", gone)
    with raises(SerialError, "the line to the board is gone: device disconnected"):
        backend.read_register(0)


def test_a_board_with_other_frames() -> None:
    with raises(SerialError, "version of the board must be 1, not 2"):
        Serial(FakeBoard(SMALL, version=2))


def test_what_never_ends_is_no_board(monkeypatch: pytest.MonkeyPatch) -> None:
    board = FakeBoard(SMALL)
    monkeypatch.setattr(board, "read", lambda size: bytes(size))
    with raises(
        SerialError,
        f"the board gave no right answer to 4 requests: it begins with 0x0, not 0x5a. {CHECK}",
    ):
        Serial(board, silence=0.0)


def test_a_machine_that_has_failed_is_reset() -> None:
    board, wanted = FakeBoard(SMALL), product()
    backend = Serial(board, silence=0.0)
    backend.memory = wanted.memory.copy()
    backend.write_register(_ADDRESSES["program_low"], backend.place(bytes(DESCRIPTOR_BYTES)))
    backend.write_register(_ADDRESSES["program_length"], 1)
    backend.write_register(_ADDRESSES["control"], 1)
    assert backend.read_register(_ADDRESSES["error"]) == ERRORS["opcode"]
    host = host_of(board)
    assert host.read("status") == 0
    wanted.runs_on(host)


def test_memory_that_is_too_small() -> None:
    host, wanted = host_of(FakeBoard(SMALL, 4096)), product()
    host.memory = np.zeros(4000, np.uint8)
    with pytest.raises(ValueError) as error:
        host.run(wanted.program)
    size = len(wanted.program.data)
    most = (4096 - size) // 64 * 64
    assert str(error.value) == (
        f"memory must be at most {most} bytes, which a program of {size} leaves of the board's "
        "4096, not 4000"
    )


def test_what_the_board_refuses() -> None:
    backend = Serial(FakeBoard(SMALL, 64), silence=0.0)
    backend.memory = np.zeros(128, np.uint8)
    with raises(
        SerialError,
        "the board refuses write_memory at 0x0: address: the address is not a multiple of 4, or "
        "words are beyond the end; nothing was done",
    ):
        backend._send(0, backend.memory, np.zeros(0, np.uint8))


def test_pyserial_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "serial", None)
    with raises(SerialError, "a serial port needs pyserial: pip install '.[serial]'"):
        open_port("/dev/none")


def test_how_a_port_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """For this program alone; a slow line has the time of the longest request."""
    opened: list[tuple[str, int, dict[str, float]]] = []

    def port(name: str, baud: int, **options: float) -> None:
        opened.append((name, baud, options))

    monkeypatch.setitem(sys.modules, "serial", SimpleNamespace(Serial=port))
    for baud, least in ((1_000_000, 0.5), (1200, 8.6)):
        open_port("/dev/x", baud)
        name, given, options = opened.pop()
        assert (name, given, options.pop("exclusive")) == ("/dev/x", baud, True)
        assert set(options) == {"timeout", "write_timeout"}
        assert all(least < seconds < least + 1 for seconds in options.values())


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (OSError(2, "could not open port"), "No such file or directory"),
        (OSError("it is gone"), "it is gone"),
        (ValueError("Invalid baud rate: 7"), "Invalid baud rate: 7"),
    ],
)
def test_ports_that_cannot_be_opened(
    problem: Exception, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def port(name: str, baud: int, **options: float) -> None:
        raise problem

    monkeypatch.setitem(sys.modules, "serial", SimpleNamespace(Serial=port))
    with raises(SerialError, f"port /dev/x cannot be opened: {message}"):
        open_port("/dev/x")
    with raises(ValueError, "port must be the name of a serial port, not ''"):
        open_port("")


@pytest.fixture(scope="module")
def board() -> SimulatedBoard:
    """All of a board but its machine, which copies."""
    available("verilator")
    # Units are generated once for a configuration: no other test has this one.
    machine = replace(SMALL, queue_depth=7)
    with copying_machines():
        return SimulatedBoard(replace(BOARD, machine=machine))


def test_the_simulated_top_of_a_board(board: SimulatedBoard, tally: Tally) -> None:
    """Registers, memory, the machine's bus, interrupt, lights and button, all by the line."""
    host, rng = host_of(board), np.random.default_rng(1)
    program = Program(rng.bytes(3 * DESCRIPTOR_BYTES), replace(SMALL, queue_depth=7))
    host.memory = rng.integers(0, 256, 4080).astype(np.uint8)
    base = 64 * SMALL.word_bytes
    wanted = host.memory.copy()
    copied = COPIED_BEATS * SMALL.data_width // 8
    wanted[base : base + copied] = np.frombuffer(program.data[:copied], np.uint8)
    assert (board.lights & 0b11111, board.wifi_gpio0) == (0, 1)
    ended = host.run(program, base=base)
    assert ended.error == "none"
    assert ended.counters["cycles"] > 2 * COPIED_BEATS
    assert np.array_equal(host.memory, wanted)
    tally("verilator", "bytes of a board's memory", len(wanted))
    assert host.backend.memory_bytes == BOARD.memory_bytes
    assert board.lights & 0b11111 == 0b01010  # done, interrupt; no trouble
    board.press(down=True)
    assert board.lights == 0
    board.press(down=False)
    assert host_of(board).read("status") == 0


def test_garbage_on_the_line_of_the_simulated_top(board: SimulatedBoard) -> None:
    """Broken frames are given up: the next request is understood, if need be repeated."""
    host, rng = host_of(board), np.random.default_rng(1)
    for _ in range(3):
        board.write(rng.integers(0, 256, 30).astype(np.uint8).tobytes())
        board.write(b"\xa5\x03\x07\xff")
        assert host.read("identity") == IDENTITY
    assert board.lights >> 4 & 1  # trouble


@pytest.mark.full
def test_the_simulated_board(tally: Tally) -> None:
    """A product, an error, the product again: memory is the interpreter's, byte for byte."""
    available("verilator")
    wanted = product()
    on_board, interpreted = host_of(SimulatedBoard(BOARD)), host_of(FakeBoard(SMALL))
    data = bytearray(wanted.program.data)
    data[3 * DESCRIPTOR_BYTES] |= 0xF
    wrong = Program(bytes(data), SMALL)
    for program in (wanted.program, wrong, wanted.program):
        ends = []
        for host in (on_board, interpreted):
            host.memory = wanted.memory.copy()
            ends.append(host.run(program))
        assert ends[0].error == ends[1].error
        assert np.array_equal(on_board.memory, interpreted.memory)
        tally("verilator", "bytes of a board's memory", len(on_board.memory))
    assert np.array_equal(on_board.memory, wanted.expected)
    counted = ends[0].counters
    assert (counted["words_read"], counted["array_busy"]) == (wanted.words_read, wanted.beats)
