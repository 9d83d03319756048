"""Parts of benches for units at memory: AXI4 memories, streams.

A memory answers with latency and pauses of its own on each channel, and checks the master
against the rules of AXI4 in every cycle: payloads stay while they are not taken, bursts have whole
beats, go up, do not cross 4 KiB, and `wlast` ends them. Everything is driven before the clocks rise
and read just before they do.
"""

import random
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import cocotb

from verif.bench.pacing import ReadyAfterValid, pauses
from verif.bench.pins import Input, number

Handle = cocotb.handle.HierarchyObject
_BURST = 16
"""Cycles in which a channel pauses equally often; few, so that it does in short jobs too."""
_PAGE = 4096
OKAY, SLVERR, DECERR = 0, 2, 3


class Stable:
    """A payload that must not change while it is offered and not taken.

    Parameters
    ----------
    name : str
        What the names of its pins begin with.
    payload : sequence of str
        Those that are neither valid nor ready.
    handshake : str
        What stands between the name and *valid* or *ready*.
    """

    def __init__(
        self,
        dut: Handle,
        name: str,
        payload: Sequence[str],
        *,
        handshake: str,
        seed: int,
        stall: float,
    ) -> None:
        self.name = name
        self._ready_after_valid = ReadyAfterValid(seed, stall)
        self._valid, self._ready = (
            getattr(dut, f"{name}{handshake}{pin}") for pin in ("valid", "ready")
        )
        self._payload = {pin: getattr(dut, pin) for pin in payload if hasattr(dut, pin)}
        self._waiting: dict[str, int] | None = None
        self.offered = False

    def forget(self) -> None:
        """Nothing waits any more, as after a reset."""
        self._waiting = None
        self._ready_after_valid.forget()

    @property
    def waits(self) -> bool:
        """Whether something was offered in the cycle before and not taken."""
        return self._waiting is not None

    @property
    def may_take(self) -> bool:
        """Whether it may be taken in this cycle: its sink may wait for valid."""
        return self._ready_after_valid.may_take

    def settle(self) -> dict[str, int] | None:
        """The payload, if it is taken in this cycle."""
        self.offered = bool(number(self._valid))
        taken = bool(number(self._ready))
        self._ready_after_valid.see(valid=self.offered, ready=taken)
        if not self.offered:
            assert self._waiting is None, f"{self.name} was withdrawn"
            return None
        now = {name: number(pin) for name, pin in self._payload.items()}
        assert self._waiting in (None, now), f"{self.name} changed from {self._waiting} to {now}"
        self._waiting = None if taken else now
        return now if taken else None


class Sink:
    """Takes a stream of a unit, with pauses; now and then it sees what is offered first."""

    def __init__(
        self,
        dut: Handle,
        name: str,
        seed: int,
        stall: float,
        pins: Sequence[str],
        *,
        handshake: str = "_",
    ) -> None:
        self.name = name
        self._ready = getattr(dut, f"{name}{handshake}ready")
        self._gaps = pauses(seed, stall, _BURST)
        self.stable = Stable(dut, name, pins, handshake=handshake, seed=seed, stall=stall)

    def show(self, *, may: bool = True) -> None:
        """Say whether what is offered is taken."""
        self._ready.value = int(may and not next(self._gaps) and self.stable.may_take)

    def settle(self) -> dict[str, int] | None:
        """Return the values taken."""
        return self.stable.settle()


class Source:
    """Offers rows of values on a stream into a unit, with pauses and noise in between.

    Parameters
    ----------
    still : bool
        Its pins stay as they are while nothing is offered: large units are faster then.
    """

    def __init__(
        self,
        dut: Handle,
        name: str,
        seed: int,
        stall: float,
        pins: Sequence[str],
        *,
        handshake: str = "_",
        still: bool = False,
    ) -> None:
        self.name, self._still = name, still
        self._valid = Input(getattr(dut, f"{name}{handshake}valid"))
        self._ready = getattr(dut, f"{name}{handshake}ready")
        self._pins = [Input(getattr(dut, pin)) for pin in pins]
        self._widths = [len(getattr(dut, pin)) for pin in pins]
        self._noise = random.Random(seed)
        self._gaps = pauses(seed, stall, _BURST)
        self.rows: deque[tuple[int, ...]] = deque()
        self.offered = False

    def show(self, *, may: bool = True) -> None:
        """Offer the next row, if it may be offered; what is offered stays."""
        if not self.offered:
            self.offered = bool(self.rows and may) and not next(self._gaps)
            if self.offered or not self._still:
                noise = tuple(self._noise.getrandbits(width) for width in self._widths)
                values = self.rows[0] if self.offered else noise
                for pin, value in zip(self._pins, values, strict=True):
                    pin.write(value)
        self._valid.write(self.offered)

    def settle(self) -> tuple[int, ...] | None:
        """The row that was taken."""
        if not self.offered or not number(self._ready):
            return None
        self.offered = False
        return self.rows.popleft()

    def offer_no_more(self) -> None:
        """Keep what is offered, and offer nothing after it."""
        self.rows = deque([self.rows[0]] if self.offered else [])

    def drop(self) -> None:
        """Offer nothing any more."""
        self.rows.clear()
        self.offered = False


class Channel(Sink):
    """The address channel of a memory: rules, and bursts that have been asked for."""

    def __init__(self, dut: Handle, prefix: str, options: dict[str, Any], seed: int) -> None:
        self._prefix, self._options = prefix, options
        name = f"m_axi_{prefix}"
        pins = [f"{name}{pin}" for pin in ("addr", "len", "size", "burst", "cache", "prot")]
        super().__init__(dut, name, seed, options["stall_address"], pins, handshake="")
        self.longest = 0

    def burst(self) -> tuple[int, int] | None:
        """Address and beats of a burst that was asked for."""
        taken = self.settle()
        if taken is None:
            return None
        found = {name.removeprefix(f"m_axi_{self._prefix}"): v for name, v in taken.items()}
        size = self._options["data_bits"] // 8
        address, beats = found["addr"], found["len"] + 1
        assert found["burst"] == 1, f"{self._prefix}burst is {found['burst']}"
        assert 1 << found["size"] == size, f"{self._prefix}size is {found['size']}"
        assert address % size == 0, f"address {address:#x} is not that of a beat"
        assert beats <= self._options["burst"], f"a burst has {beats} beats"
        last = address + beats * size - 1
        assert address // _PAGE == last // _PAGE, f"burst {address:#x} to {last:#x} crosses 4 KiB"
        self.longest = max(self.longest, beats)
        return address, beats


class Memory:
    """Bytes from an address on, some of which answer with errors."""

    def __init__(self, start: int, content: Iterable[int], errors: Iterable[int]) -> None:
        self.start = start
        self.content = bytearray(content)
        self._errors = frozenset(errors)

    def place(self, address: int, size: int) -> int:
        """Where an address stands in the content."""
        place = address - self.start
        assert 0 <= place <= len(self.content) - size, f"{address:#x} is outside of memory"
        return place

    def read(self, address: int, size: int) -> int:
        """A number of little-endian bytes."""
        place = self.place(address, size)
        return int.from_bytes(self.content[place : place + size], "little")

    def answer(self, address: int, beats: int, size: int) -> int:
        """The response to some beats."""
        wrong = any(address + at * size in self._errors for at in range(beats))
        return random.Random(address).choice((SLVERR, DECERR)) if wrong else OKAY


class ReadPort:
    """The read channels of a memory."""

    def __init__(self, dut: Handle, memory: Memory, options: dict[str, Any], seed: int) -> None:
        self._memory, self._options = memory, options
        self._size = options["data_bits"] // 8
        self.channel = Channel(dut, "ar", options, seed)
        pins = ["m_axi_rdata", "m_axi_rresp", "m_axi_rlast"]
        self._beats = Source(dut, "m_axi_r", seed + 1, options["stall_data"], pins, handshake="")
        self._random = random.Random(seed)
        self._due: deque[int] = deque()

    @property
    def busy(self) -> bool:
        """Whether beats are still to be given."""
        return bool(self._due)

    def show(self, clock: int) -> None:
        """Offer the next beat, when its time has come."""
        self.channel.show()
        self._beats.show(may=bool(self._due) and clock >= self._due[0])

    def settle(self, clock: int) -> None:
        """Note what was asked for and taken."""
        if self._beats.settle() is not None:
            self._due.popleft()
        asked = self.channel.burst()
        if asked is None:
            return
        address, beats = asked
        self._due.extend([clock + self._random.randint(*self._options["latency"])] * beats)
        for at in range(address, address + beats * self._size, self._size):
            is_last = at + self._size == address + beats * self._size
            answer = self._memory.answer(at, 1, self._size)
            self._beats.rows.append((self._memory.read(at, self._size), answer, int(is_last)))


class WritePort:
    """The write channels of a memory."""

    def __init__(self, dut: Handle, memory: Memory, options: dict[str, Any], seed: int) -> None:
        self._memory, self._options = memory, options
        self._size = options["data_bits"] // 8
        self.channel = Channel(dut, "aw", options, seed)
        pins = ["m_axi_wdata", "m_axi_wstrb", "m_axi_wlast"]
        self._beats = Sink(dut, "m_axi_w", seed + 1, options["stall_data"], pins, handshake="")
        stall = options["stall_data"]
        self._answers = Source(dut, "m_axi_b", seed + 2, stall, ["m_axi_bresp"], handshake="")
        self._random = random.Random(seed)
        self._bursts: deque[tuple[int, int]] = deque()
        self._waiting: deque[dict[str, int]] = deque()
        self._due: deque[tuple[int, int]] = deque()
        """When an answer comes, and to how many beats."""
        self._at = 0
        self._taken = 0
        self._asked = 0
        self.answered = 0

    @property
    def busy(self) -> bool:
        """Whether something is still to be written or answered."""
        return bool(self._bursts or self._waiting or self._due)

    def show(self, clock: int) -> None:
        """Say whether a beat is taken, and offer a response when its time has come."""
        self.channel.show()
        self._beats.show()
        self._answers.show(may=bool(self._due) and clock >= self._due[0][0])

    def settle(self, clock: int) -> None:
        """Note what was asked for, written and answered."""
        if self._answers.settle() is not None:
            self.answered += self._due.popleft()[1]
        asked = self.channel.burst()
        if asked is not None:
            self._bursts.append(asked)
            self._asked += asked[1]
        taken = self._beats.settle()
        if taken is not None:
            self._waiting.append(taken)
            self._taken += 1
            assert self._taken <= self._asked or self.channel.stable.offered, (
                "a beat of a burst was sent before its address was offered"
            )
        while self._bursts and self._waiting:
            self._write(clock)

    def _write(self, clock: int) -> None:
        """Bring address and beat together."""
        address, beats = self._bursts[0]
        beat = self._waiting.popleft()
        place = self._memory.place(address + self._at * self._size, self._size)
        data = beat["m_axi_wdata"].to_bytes(self._size, "little")
        for byte in range(self._size):
            if beat["m_axi_wstrb"] >> byte & 1:
                self._memory.content[place + byte] = data[byte]
        self._at += 1
        ends = self._at == beats
        assert beat["m_axi_wlast"] == ends, f"wlast is wrong in beat {self._at} of {beats}"
        if ends:
            self._due.append((clock + self._random.randint(*self._options["latency"]), beats))
            self._answers.rows.append((self._memory.answer(address, beats, self._size),))
            self._bursts.popleft()
            self._at = 0
