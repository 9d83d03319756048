"""A board in Python: the frames of a bridge in front of the interpreter, and a line that errs."""

import zlib
from collections.abc import Collection

import numpy as np

from mxsafe.host.interpreter import Interpreted
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.description import DESCRIPTOR_BYTES, FLAGS, REGISTERS

_ADDRESSES = {register.name: register.address for register in REGISTERS}


class FakeBoard:
    """A port with a board behind it.

    Parameters
    ----------
    memory_bytes : int
        Bytes of the board's memory.
    version : int
        Version of its frames.
    lost, spoilt, misheard : collection of int
        Numbers of requests, from 0, that do not reach it, whose answers are spoilt on the way, and
        whose bytes are.
    most_read : int
        Bytes that a read gives at most, as a slow line does.
    """

    def __init__(
        self,
        configuration: MachineConfiguration,
        memory_bytes: int = 8192,
        *,
        version: int = 1,
        lost: Collection[int] = (),
        spoilt: Collection[int] = (),
        misheard: Collection[int] = (),
        most_read: int = 1 << 16,
    ) -> None:
        self._machine = Interpreted(configuration)
        self.memory = np.zeros(memory_bytes, np.uint8)
        self._machine.memory = self.memory
        self._version = version
        self._lost, self._spoilt, self._misheard = lost, spoilt, misheard
        self._most_read = most_read
        self._waiting = b""
        self.is_closed = False
        self._last: tuple[int, bytes] | None = None
        self.requests: list[bytes] = []
        self.starts = 0

    def write(self, data: bytes) -> None:
        """A request."""
        number = len(self.requests)
        self.requests.append(data)
        if number in self._lost:
            return
        if number in self._misheard:
            data = data[:-1] + bytes([data[-1] ^ 0x10])
        answer = self._answer(data)
        if number in self._spoilt:
            answer = answer[:-2] + bytes([answer[-2] ^ 1]) + answer[-1:]
        self._waiting += answer

    def read(self, size: int) -> bytes:
        """Bytes of answers."""
        size = min(size, self._most_read)
        found, self._waiting = self._waiting[:size], self._waiting[size:]
        return found

    def close(self) -> None:
        """Note that it was closed."""
        self.is_closed = True

    def _answer(self, frame: bytes) -> bytes:
        body, check = frame[1:-4], frame[-4:]
        command, number, words = body[0], body[1], body[2] + 1
        address, data = int.from_bytes(body[3:7], "little"), body[7:]
        if zlib.crc32(body).to_bytes(4, "little") != check:
            return self._frame(1, number, b"")
        if self._last is not None and self._last[0] == number and command & 1:
            return self._last[1]
        status, found = self._do(command, address, words, data)
        answer = self._frame(status, number, found)
        self._last = number, answer
        return answer

    def _do(self, command: int, address: int, words: int, data: bytes) -> tuple[int, bytes]:
        if command in (2, 3) and address + 4 * words > len(self.memory):
            return 3, b""
        if command == 0:
            values = [self._machine.read_register(address + 4 * at) for at in range(words)]
            return 0, b"".join(value.to_bytes(4, "little") for value in values)
        if command == 1:
            self._write_register(address, int.from_bytes(data, "little"))
        elif command == 2:
            return 0, self.memory[address : address + 4 * words].tobytes()
        elif command == 3:
            self.memory[address : address + 4 * words] = np.frombuffer(data, np.uint8)
        else:
            own = [self._version, len(self.memory), 0, 0]
            return 0, b"".join(value.to_bytes(4, "little") for value in own[:words])
        return 0, b""

    def _write_register(self, address: int, value: int) -> None:
        if address == _ADDRESSES["control"] and value & FLAGS["control"]["start"]:
            self.starts += 1
            low, high, length = (
                self._machine.read_register(_ADDRESSES[name])
                for name in ("program_low", "program_high", "program_length")
            )
            start = high << 32 | low
            program = self.memory[start : start + DESCRIPTOR_BYTES * length]
            self._machine.place(program.tobytes())
        self._machine.write_register(address, value)

    def _frame(self, status: int, number: int, data: bytes) -> bytes:
        body = bytes([status | self._machine.work(0.0) << 7, number]) + data
        return b"\x5a" + body + zlib.crc32(body).to_bytes(4, "little")
