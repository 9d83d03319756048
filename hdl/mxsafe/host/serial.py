"""A machine on a board, at the other end of a serial line."""

import os
import time
from typing import Protocol

import numpy as np

from mxsafe.host.host import Memory, reset_machine
from mxsafe.machine.description import FLAGS, REGISTERS
from mxsafe.machine.frames import (
    ANSWER_HEADER_BYTES,
    ANSWER_MARK,
    CHECKSUM_BYTES,
    FRAMES_VERSION,
    INTERRUPT_BIT,
    MOST_WORDS,
    REQUEST_HEADER_BYTES,
    STATUSES,
    WORD_BYTES,
    checksum,
    request,
)

BAUD = 1_000_000
"""Bits a second, as boards have it."""
_TIMEOUT = 0.5
"""Seconds without a byte after which a port gives up reading, beside what a request takes."""
_BITS_OF_BYTE = 10
"""Bits on the line, with those of the start and the stop."""
_SILENCE = 0.15
"""Seconds after which a board has given up a frame; its own patience is 0.1."""
_ATTEMPTS = 4
_MOST_DRAINED = 16
"""Frames that are dropped at most: what never ends is no board."""
_PROGRAM_STEP = 64
"""Bytes that a program's place is a multiple of."""
_LEAST_MEMORY = 64
_FRAME_BYTES = MOST_WORDS * WORD_BYTES
_REQUEST_BYTES = 1 + REQUEST_HEADER_BYTES + _FRAME_BYTES + CHECKSUM_BYTES
"""Bytes of the longest request."""
_ADDRESSES = {register.name: register.address for register in REGISTERS}
_START = FLAGS["control"]["start"]


class SerialError(RuntimeError):
    """A board does not answer, refuses a request, or its line is gone."""


class Port(Protocol):
    """A serial line, as pyserial's ports are, or any other object that reads and writes bytes."""

    def read(self, size: int) -> bytes:
        """So many bytes or fewer; none if none comes in a while."""

    def write(self, data: bytes) -> object:
        """Send bytes."""

    def close(self) -> None:
        """Leave the line to others."""


def open_port(name: str, baud: int = BAUD) -> Port:
    """Open a serial port by pyserial, for this program alone.

    Parameters
    ----------
    name : str
        Such as ``/dev/ttyUSB0``.
    baud : int
        Bits a second, as the board was made for.

    Raises
    ------
    ValueError
        If `name` is empty.
    SerialError
        If pyserial is missing, or the port cannot be opened.
    """
    if not name:
        raise ValueError("port must be the name of a serial port, not ''")
    try:
        import serial
    except ImportError:
        raise SerialError("a serial port needs pyserial: pip install '.[serial]'") from None
    # What is written may still wait to be sent when an answer is waited for.
    seconds = _TIMEOUT + _BITS_OF_BYTE * _REQUEST_BYTES / baud
    try:
        port: Port = serial.Serial(
            name, baud, timeout=seconds, write_timeout=seconds, exclusive=True
        )
    except (OSError, ValueError, OverflowError) as error:
        number = getattr(error, "errno", None)
        why = os.strerror(number) if number else error
        raise SerialError(f"port {name} cannot be opened: {why}") from None
    return port


class Serial:
    """A backend on a board whose bridge understands `mxsafe.machine.frames`; its machine is reset.

    Memory is kept here. What has changed of it is sent to the board when a program starts, and all
    of it is fetched when the program has ended; in between it is as it was. Programs are put at the
    end of the board's memory. Beyond the end of `memory` the board has more of it, whose bytes
    may be anything: only beyond the board's own end it answers with errors.

    Parameters
    ----------
    port : Port
        The line; see `open_port`.
    silence : float
        Seconds after which the board has given up a frame.

    Raises
    ------
    SerialError
        If there is no board, or it has other frames.

    Attributes
    ----------
    reason : str
        Always empty: registers say what there is to say.
    memory_bytes : int
        Bytes of the board's memory.
    """

    def __init__(self, port: Port, *, silence: float = _SILENCE) -> None:
        self._port, self._silence = port, silence
        self._number = time.monotonic_ns() & 0xFF
        self._interrupt = self._runs = False
        self._sent: Memory = np.zeros(0, np.uint8)
        self.memory: Memory = np.zeros(_LEAST_MEMORY, np.uint8)
        self.reason = ""
        version, self.memory_bytes = (self._board(place) for place in (0, 1))
        if version != FRAMES_VERSION:
            raise SerialError(f"version of the board must be {FRAMES_VERSION}, not {version}")
        # It may still run what another host has left.
        try:
            reset_machine(self)
        except RuntimeError as error:
            raise SerialError(str(error)) from None

    def close(self) -> None:
        """Close the port."""
        self._port.close()

    def read_register(self, address: int) -> int:
        """Value of a register."""
        value = int.from_bytes(self._ask("read_registers", address, 1), "little")
        if address == _ADDRESSES["status"] and not value & FLAGS["status"]["running"]:
            self._fetch()
        return value

    def write_register(self, address: int, value: int) -> None:
        """Give a register a value."""
        if address == _ADDRESSES["control"] and value & _START:
            self._send(0, self.memory, self._sent)
            self._sent = np.zeros(0, np.uint8)  # from now on the machine may write there
            self._runs = True  # even if no answer comes
        self._ask("write_registers", address, 1, value.to_bytes(WORD_BYTES, "little"))

    def place(self, program: bytes) -> int:
        """Put a program at the end of the board's memory; its address.

        Raises
        ------
        ValueError
            If memory does not leave room for it.
        """
        data = np.frombuffer(program + bytes(-len(program) % WORD_BYTES), np.uint8)
        address = (self.memory_bytes - len(data)) // _PROGRAM_STEP * _PROGRAM_STEP
        if address < len(self.memory):
            raise ValueError(
                f"memory must be at most {max(address, 0)} bytes, which a program of "
                f"{len(program)} leaves of the board's {self.memory_bytes}, not {len(self.memory)}"
            )
        self._send(address, data, np.zeros(0, np.uint8))
        return address

    def work(self, seconds: float) -> bool:
        """Wait for the interrupt, for about so long at most; whether it is raised."""
        end = time.monotonic() + seconds
        while True:
            self._board(0)  # any answer shows the interrupt
            if self._interrupt:
                self._fetch()
                return True
            if time.monotonic() >= end:
                return False

    def _board(self, place: int) -> int:
        """A word of what the board says of itself."""
        words = self._ask("read_board", 0, place + 1)
        return int.from_bytes(words[WORD_BYTES * place :], "little")

    def _send(self, start: int, data: Memory, known: Memory) -> None:
        """Write what differs from what is there, in frames that are as long as they can be."""
        for at in range(0, len(data), _FRAME_BYTES):
            part = data[at : at + _FRAME_BYTES]
            if not np.array_equal(part, known[at : at + _FRAME_BYTES]):
                words = len(part) // WORD_BYTES
                self._ask("write_memory", start + at, words, part.tobytes())

    def _fetch(self) -> None:
        """Read all of memory, if a program may have written to it."""
        if not self._runs:
            return
        for at in range(0, len(self.memory), _FRAME_BYTES):
            words = len(self.memory[at : at + _FRAME_BYTES]) // WORD_BYTES
            part = self._ask("read_memory", at, words)
            self.memory[at : at + _FRAME_BYTES] = np.frombuffer(part, np.uint8)
        self._sent = self.memory.copy()
        self._runs = False

    def _ask(self, command: str, address: int, words: int, data: bytes = b"") -> bytes:
        """Send a request, repeat it if need be, and return the answer.

        Raises
        ------
        SerialError
            If there is no right answer, or the board refuses.
        """
        self._number = (self._number + 1) & 0xFF
        frame = request(command, self._number, address, words, data)
        length = 0 if data else WORD_BYTES * words
        problem = ""
        for _ in range(_ATTEMPTS):
            try:
                self._port.write(frame)
                status, found, problem = self._answer(length)
                if problem:
                    self._be_silent()
                    continue
            except OSError as error:
                raise SerialError(f"the line to the board is gone: {error}") from None
            self._interrupt = bool(status >> INTERRUPT_BIT)
            code = status & ~(1 << INTERRUPT_BIT)
            if code:
                name = STATUSES.name_of(code)
                said = f"{name}: {STATUSES.meanings[name]}" if name else f"status {code}"
                raise SerialError(f"the board refuses {command} at {address:#x}: {said}")
            return found
        raise SerialError(
            f"the board gave no right answer to {_ATTEMPTS} requests: {problem}. Check that its "
            "bitstream is loaded and that --baud is its own"
        )

    def _answer(self, length: int) -> tuple[int, bytes, str]:
        """Status and data of an answer, and what is wrong with it."""
        header = self._read(1 + ANSWER_HEADER_BYTES)
        if len(header) < 1 + ANSWER_HEADER_BYTES:
            return 0, b"", f"{len(header)} bytes came, then none" if header else "nothing came"
        if header[0] != ANSWER_MARK:
            return 0, b"", f"it begins with {header[0]:#x}, not {ANSWER_MARK:#x}"
        # Refusals come without data.
        refused = header[1] & ~(1 << INTERRUPT_BIT)
        wanted = (0 if refused else length) + CHECKSUM_BYTES
        rest = self._read(wanted)
        if len(rest) < wanted:
            return 0, b"", f"it ends after {len(rest)} of {wanted} bytes"
        found, sum_found = rest[:-CHECKSUM_BYTES], rest[-CHECKSUM_BYTES:]
        if checksum(header[1:] + found) != sum_found:
            return 0, b"", "its checksum is wrong"
        if refused == STATUSES["checksum"]:
            return 0, b"", "a request came with a wrong checksum"
        if header[2] != self._number:
            return 0, b"", f"it is to request {header[2]}, not {self._number}"
        return header[1], found, ""

    def _read(self, size: int) -> bytes:
        """So many bytes, or fewer if no more come in a while: on a slow line in several parts."""
        data = b""
        while len(data) < size and (more := self._port.read(size - len(data))):
            data += more
        return data

    def _be_silent(self) -> None:
        """Let the board give up what it has, and drop what it sends."""
        time.sleep(self._silence)
        for _ in range(_MOST_DRAINED):
            if not self._port.read(_FRAME_BYTES):
                return
