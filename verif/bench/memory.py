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
    """Offers rows of values on a stream into a unit, with pauses and noise in between."""

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
            noise = tuple(self._noise.getrandbits(width) for width in self._widths)
            for pin, value in zip(self._pins, self.rows[0] if self.offered else noise, strict=True):
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
        self._pins = {p: getattr(dut, f"m_axi_{p}") for p in ("rdata", "rresp", "rlast", "rvalid")}
        self._ready = dut.m_axi_rready
        self._gaps = pauses(seed + 1, options["stall_data"], _BURST)
        self._random = random.Random(seed)
        self._bursts: deque[tuple[int, int, int]] = deque()
        self._offered: tuple[int, int, int] | None = None
        self._at = 0
        self.beats = 0

    @property
    def busy(self) -> bool:
        """Whether beats are still to be given."""
        return bool(self._bursts)

    def show(self, clock: int) -> None:
        """Offer the next beat, when its time has come."""
        self.channel.show()
        if self._offered is None and self._bursts and not next(self._gaps):
            address, beats, due = self._bursts[0]
            if clock >= due:
                self._offered = (address + self._at * self._size, self._at + 1 == beats, 0)
        if self._offered is None:
            values = [self._random.getrandbits(len(pin)) for pin in self._pins.values()]
        else:
            address, last, _ = self._offered
            data = self._memory.read(address, self._size)
            values = [data, self._memory.answer(address, 1, self._size), int(last), 1]
        for (name, pin), value in zip(self._pins.items(), values, strict=True):
            pin.value = int(self._offered is not None) if name == "rvalid" else value

    def settle(self, clock: int) -> None:
        """Note what was asked for and taken."""
        asked = self.channel.burst()
        if self._offered is not None and number(self._ready):
            self.beats += 1
            self._at += 1
            if self._offered[1]:
                self._bursts.popleft()
                self._at = 0
            self._offered = None
        if asked is not None:
            low, high = self._options["latency"]
            self._bursts.append((*asked, clock + self._random.randint(low, high)))


class WritePort:
    """The write channels of a memory."""

    def __init__(self, dut: Handle, memory: Memory, options: dict[str, Any], seed: int) -> None:
        self._memory, self._options = memory, options
        self._size = options["data_bits"] // 8
        self.channel = Channel(dut, "aw", options, seed)
        pins = ["m_axi_wdata", "m_axi_wstrb", "m_axi_wlast"]
        self._beats = Sink(dut, "m_axi_w", seed + 1, options["stall_data"], pins, handshake="")
        self._bready, self._bvalid, self._bresp = (
            dut.m_axi_bready,
            dut.m_axi_bvalid,
            dut.m_axi_bresp,
        )
        self._answer_gaps = pauses(seed + 2, options["stall_data"], _BURST)
        self._random = random.Random(seed)
        self._bursts: deque[tuple[int, int]] = deque()
        self._waiting: deque[dict[str, int]] = deque()
        self._answers: deque[tuple[int, int, int]] = deque()
        self._offered = False
        self._at = 0
        self._taken = 0
        self._asked = 0
        self.answered = 0
        self.written = 0

    @property
    def busy(self) -> bool:
        """Whether something is still to be written or answered."""
        return bool(self._bursts or self._waiting or self._answers)

    def show(self, clock: int) -> None:
        """Say whether a beat is taken, and offer a response when its time has come."""
        self.channel.show()
        self._beats.show()
        if not self._offered and self._answers and not next(self._answer_gaps):
            self._offered = clock >= self._answers[0][0]
        self._bvalid.value = int(self._offered)
        noise = self._random.getrandbits(2)
        self._bresp.value = self._answers[0][1] if self._offered else noise

    def settle(self, clock: int) -> None:
        """Note what was asked for, written and answered."""
        if self._offered and number(self._bready):
            self.answered += self._answers.popleft()[2]
            self._offered = False
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
                self.written += 1
        self._at += 1
        ends = self._at == beats
        assert beat["m_axi_wlast"] == ends, f"wlast is wrong in beat {self._at} of {beats}"
        if ends:
            low, high = self._options["latency"]
            due = clock + self._random.randint(low, high)
            answer = self._memory.answer(address, beats, self._size)
            self._answers.append((due, answer, beats))
            self._bursts.popleft()
            self._at = 0
