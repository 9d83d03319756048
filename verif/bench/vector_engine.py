"""The bench of the vector engine: a queue, and all buffers in Python, each with its own stalls.

A job is a list of descriptors, each with what the vector buffer holds when it begins. The operand
buffers keep what was written to them. What all buffers hold at the end of each descriptor goes to a
file; comparing is the business of the pytest process.
"""

import random
from collections import deque

import cocotb
from cocotb.triggers import Timer

from verif.bench.job import job, packed, write_log
from verif.bench.pacing import RESET_CLOCKS, ReadyAfterValid, pauses
from verif.bench.pins import Input, number

READS = ("x", "y")
_BURST = 16
"""Cycles in which a port pauses equally often."""
_STOPPED_CLOCKS = 6
Words = list[int]


class Port:
    """A port of a buffer, which lets its user wait now and then."""

    def __init__(
        self, dut: cocotb.handle.HierarchyObject, name: str, buffer: Words, seed: int, stall: float
    ) -> None:
        self._valid, self._address, self._data = (
            getattr(dut, f"{name}_{pin}") for pin in ("valid", "address", "data")
        )
        self._ready = Input(getattr(dut, f"{name}_ready"))
        self.name, self._buffer = name, buffer
        self._stalls = pauses(seed, stall, _BURST)
        self._ready_after_valid = ReadyAfterValid(seed, stall)
        self._is_ready = False
        self.count = 0

    def show(self) -> None:
        """Inputs of a clock."""
        self._is_ready = not next(self._stalls) and self._ready_after_valid.may_take
        self._ready.write(self._is_ready)

    def asks(self) -> bool:
        """Whether something is wanted of it in this cycle."""
        valid = number(self._valid) == 1
        self._ready_after_valid.see(valid=valid, ready=self._is_ready)
        return valid


class ReadPort(Port):
    """A port that reads: after `latency` cycles it is there for one, and noise in all others."""

    def __init__(
        self,
        dut: cocotb.handle.HierarchyObject,
        name: str,
        buffer: Words,
        seed: int,
        stall: float,
        latency: int,
    ) -> None:
        super().__init__(dut, name, buffer, seed, stall)
        self._hold = getattr(dut, f"{name}_hold")
        self._noise = random.Random(seed)
        self._found: deque[int | None] = deque([None] * latency)

    def show(self) -> None:
        """Inputs of a clock."""
        super().show()
        found = self._found.popleft()
        self._data.value = self._noise.getrandbits(len(self._data)) if found is None else found
        self._found.append(None)

    def settle(self) -> None:
        """Read, if that is wanted."""
        assert number(self._hold) == 0, f"{self.name} holds a bank"
        if not self.asks():
            return
        address = number(self._address)
        assert address < len(self._buffer), f"{self.name} reads beat {address}"
        if self._is_ready:
            self._found[-1] = self._buffer[address]
            self.count += 1


class WritePort(Port):
    """A port that writes entries in halves."""

    def __init__(
        self, dut: cocotb.handle.HierarchyObject, name: str, buffer: Words, seed: int, stall: float
    ) -> None:
        super().__init__(dut, name, buffer, seed, stall)
        self._halves = getattr(dut, f"{name}_halves")
        self._stalled: tuple[int, int, int] | None = None

    def settle(self) -> None:
        """Write, if that is wanted; what had to wait must not have changed."""
        if not self.asks():
            assert self._stalled is None, f"{self.name} withdrew what it offered"
            return
        address, halves = number(self._address), number(self._halves)
        assert address < len(self._buffer), f"{self.name} writes entry {address}"
        assert halves, f"{self.name} writes nothing"
        half = len(self._data) // 2
        mask = ((1 << half) - 1) * (halves & 1) | ((1 << half) - 1 << half) * (halves >> 1)
        digits = str(self._data.value)
        parts = ((0b10, digits[:half]), (0b01, digits[half:]))
        written = "".join(part if halves & bit else "0" * half for bit, part in parts)
        assert set(written) <= {"0", "1"}, f"{self.name} writes {digits}"
        value = int(written, 2)
        now = address, halves, value
        assert self._stalled in (None, now), f"{self.name} changed what it offered"
        self._stalled = None if self._is_ready else now
        if self._is_ready:
            self._buffer[address] = self._buffer[address] & ~mask | value
            self.count += 1

    def forget(self) -> None:
        """Expect nothing of what was offered, as after a reset."""
        self._stalled = None
        self._ready_after_valid.forget()


class Bench:
    """Queue, buffers and clock."""

    def __init__(self, dut: cocotb.handle.HierarchyObject, options: dict) -> None:
        self._dut, self._options = dut, options
        self._clk, self._rst = Input(dut.clk), Input(dut.rst)
        self._half = Timer(1, "ns")
        self._random = random.Random(options["seed"])
        names = [
            f"{target}_{kind}"
            for target in ("out", "a", "w")
            for kind in ("codes", "scales")
            if hasattr(dut, f"{target}_{kind}_valid")
        ]
        self.buffers: dict[str, Words] = {"vector": [0] * options["beats"]["vector"]}
        self.buffers |= {name: [0] * options["beats"][name] for name in names}
        seed = options["seed"]
        stall, latency = options["stall_read"], options["read_latency"]
        self._reads = [
            ReadPort(dut, name, self.buffers["vector"], seed + at, stall, latency)
            for at, name in enumerate(READS)
        ]
        self._writes = [
            WritePort(dut, name, self.buffers[buffer], seed + 10 + at, options["stall_write"])
            for at, (name, buffer) in enumerate(
                {"d": "vector", **dict(zip(names, names, strict=True))}.items()
            )
        ]
        self.clocks = 0
        self._idle()

    def _idle(self) -> None:
        """Offer nothing."""
        pin = self._dut.queue_descriptor
        self._dut.queue_valid.value = 0
        self._dut.queue_stop.value = 0
        pin.value = self._random.getrandbits(len(pin))

    async def clock(self, *, resets: bool = False) -> bool:
        """One cycle; whether the engine is done in it."""
        dut = self._dut
        self._clk.write(0)
        self._rst.write(resets)
        for port in (*self._reads, *self._writes):
            port.show()
        await self._half
        done = False
        if not resets:
            for port in (*self._reads, *self._writes):
                port.settle()
            done = bool(number(dut.queue_done))
            assert number(dut.queue_ready) == done, "ready and done did not come together"
        self._clk.write(1)
        await self._half
        self.clocks += 1
        return done

    async def reset(self, clocks: int) -> None:
        """So many cycles of reset, with anything at all on offer."""
        for _ in range(clocks):
            self._dut.queue_valid.value = self._random.getrandbits(1)
            await self.clock(resets=True)
        for port in self._writes:
            port.forget()
        self._idle()

    def restore(self, kept: dict[str, Words]) -> None:
        """Give all buffers what they held."""
        for name, words in kept.items():
            self.buffers[name][:] = words

    def copy(self) -> dict[str, Words]:
        """Return the content of all buffers."""
        return {name: list(words) for name, words in self.buffers.items()}

    async def pause(self) -> None:
        """Some cycles without a descriptor, or none."""
        for _ in range(self._random.choice((0, 0, 1, 3))):
            assert not await self.clock(), "a descriptor was done that was not there"

    async def interrupted(self, descriptor: int, clocks: int) -> None:
        """Begin a descriptor, stop every other time, and reset after so many cycles."""
        kept = self.copy()
        self._offer(descriptor)
        for _ in range(clocks):
            if await self.clock():
                self._idle()
        if clocks % 2:
            self._dut.queue_stop.value = 1
            await self.clock()
            counts = [port.count for port in self._reads]
            for _ in range(_STOPPED_CLOCKS):
                await self.clock()
            assert counts == [port.count for port in self._reads], "a beat was read after the stop"
        await self.reset(RESET_CLOCKS[clocks // 2 % len(RESET_CLOCKS)])
        self.restore(kept)

    def _offer(self, descriptor: int) -> None:
        self._dut.queue_valid.value = 1
        self._dut.queue_descriptor.value = descriptor

    def _moves(self) -> int:
        """Beats that were read or written."""
        return sum(port.count for port in (*self._reads, *self._writes))

    async def run(self, descriptor: int, limit: int) -> int:
        """Run a descriptor; the code of its error, 0 if it is done."""
        self._offer(descriptor)
        start = moved = self.clocks
        moves = self._moves()
        while not await self.clock():
            if error := number(self._dut.queue_error):
                return error
            if moves != self._moves():
                moves, moved = self._moves(), self.clocks
            waits = self.clocks - moved < self._options["patience"]
            assert waits, f"nothing is read or written for {self.clocks - moved} cycles"
            assert self.clocks - start < limit, f"a descriptor was not done after {limit} cycles"
        assert number(self._dut.queue_error) == 0, "an error came with done"
        self._idle()
        return 0


@cocotb.test()
async def vector_engine(dut: cocotb.handle.HierarchyObject) -> None:
    """Run the descriptors of the job and log what the buffers held."""
    options = job()
    vectors, beats = options["vectors"], options["beats"]["vector"]
    descriptors = options["descriptors"]
    assert len(vectors) == beats * len(descriptors), f"{len(vectors)} beats of vectors"
    bench = Bench(dut, options)
    await bench.reset(RESET_CLOCKS[0])
    logged: dict[str, Words] = {name: [] for name in bench.buffers}
    clocks, errors = [], []
    for place, command in enumerate(descriptors):
        bench.restore({"vector": vectors[place * beats : (place + 1) * beats]})
        for after in options["interrupts"].get(str(place), []):
            await bench.interrupted(command, after)
        await bench.pause()
        kept, start = bench.copy(), bench.clocks
        errors.append(await bench.run(command, options["limit"]))
        clocks.append(bench.clocks - start)
        if errors[-1]:
            # What was written before is not defined; the engine goes on after a reset.
            await bench.reset(RESET_CLOCKS[place % len(RESET_CLOCKS)])
            bench.restore(kept)
        for name, held in bench.buffers.items():
            logged[name] += held
    states = {name: packed(8 * options["bytes"][name], words) for name, words in logged.items()}
    write_log(states | {"clocks": clocks, "errors": errors})
