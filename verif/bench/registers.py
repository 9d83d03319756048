"""The bench of the registers: AXI4-Lite with stalls, and a machine behind it that is played here.

A model of the registers stands beside the design: every read is compared at once.
"""

import random
from collections.abc import Sequence
from typing import Any

import cocotb

from verif.bench.clocked import Stepper
from verif.bench.job import job, write_log
from verif.bench.memory import Sink, Source

_OKAY = 0
_BYTES = 4
_STALL = 0.3
_QUIET = 20
_MOST = 200
"""Cycles in which a channel has to move on."""


class _Sender(Source):
    """A channel that gives: how many payloads were offered and taken."""

    def __init__(self, dut: Any, name: str, pins: Sequence[str], rng: random.Random) -> None:
        named = [f"s_axi_{pin}" for pin in pins]
        super().__init__(dut, f"s_axi_{name}", rng.getrandbits(32), _STALL, named, handshake="")
        self.begun = self.taken = self._waits = 0

    def show(self, *, may: bool = True) -> None:
        was_offered = self.offered
        super().show(may=may)
        self.begun += self.offered and not was_offered

    def settle(self) -> tuple[int, ...] | None:
        """The payload that is taken."""
        taken = super().settle()
        self._waits = self._waits + 1 if self.offered else 0
        assert self._waits < _MOST, f"{self.name} is not taken in {_MOST} cycles"
        self.taken += taken is not None
        return taken


class _Answers(Sink):
    """A channel that answers: it may not answer what nobody asked."""

    def __init__(self, dut: Any, name: str, pins: Sequence[str], rng: random.Random) -> None:
        named = [f"s_axi_{pin}" for pin in pins]
        super().__init__(dut, f"s_axi_{name}", rng.getrandbits(32), _STALL, named, handshake="")
        self.seen = self.taken = 0

    def answer(self, asked: int) -> list[int] | None:
        """Return the answer taken, if any; `asked` counts the requests of the cycles before."""
        waited = self.stable.waits
        now = self.settle()
        offered = self.stable.offered
        where = f"answer {self.taken} of {self.name}"
        assert not offered or self.taken < asked, f"{where} came, and nobody asked"
        self.seen += offered and not waited
        self.taken += now is not None
        return None if now is None else list(now.values())


class Bus:
    """A master of AXI4-Lite: five channels with pauses of their own."""

    def __init__(self, dut: Any, step: Stepper, seed: int) -> None:
        self._step = step
        rng = self._random = random.Random(seed)
        self.aw = _Sender(dut, "aw", ("awaddr", "awprot"), rng)
        self.w = _Sender(dut, "w", ("wdata", "wstrb"), rng)
        self.ar = _Sender(dut, "ar", ("araddr", "arprot"), rng)
        self.b = _Answers(dut, "b", ("bresp",), rng)
        self.r = _Answers(dut, "r", ("rdata", "rresp"), rng)
        self.senders, self.answers = (self.aw, self.w, self.ar), (self.b, self.r)

    def show(self, *, may: bool = True) -> None:
        """Drive all channels; they rest where they may do nothing."""
        for channel in (*self.senders, *self.answers):
            channel.show(may=may)

    async def _answer(self, answers: _Answers, *asking: _Sender) -> list[int]:
        """Go on until the one access is answered, which some channels ask for."""
        for _ in range(_MOST):
            self.show()
            await self._step.settle()
            found = answers.answer(min(sender.taken for sender in asking))
            for sender in self.senders:
                sender.settle()
            await self._step.edge()
            if found is not None:
                self.show(may=False)
                assert found[-1] == _OKAY
                return found
        raise AssertionError("no answer")

    def ask(self, sender: _Sender, address: int) -> None:
        """Have an address somewhere in a register to offer, and any protection."""
        place = address + self._random.randrange(_BYTES)
        sender.rows.append((place, self._random.getrandbits(3)))

    async def read(self, address: int) -> int:
        """A register."""
        self.ask(self.ar, address)
        return (await self._answer(self.r, self.ar))[0]

    async def write(self, address: int, value: int, strobes: int = 0xF) -> None:
        """Write a register."""
        self.ask(self.aw, address)
        self.w.rows.append((value, strobes))
        await self._answer(self.b, self.aw, self.w)


class LiteTraffic:
    """A master that reads and writes at once.

    Parameters
    ----------
    held : dict
        By address which bits a register keeps.
    known : dict
        By address what other registers are, whatever is written to them.
    values : dict
        By address what the registers of `held` hold.
    """

    def __init__(
        self,
        dut: Any,
        step: Stepper,
        seed: int,
        held: dict[int, int],
        known: dict[int, int],
        values: dict[int, int],
    ) -> None:
        self._step, self._held, self._known = step, held, known
        self._random = random.Random(seed)
        self.bus = Bus(dut, step, seed + 1)
        self._history = [dict(values)]
        """Content of the registers after each number of writes."""
        self._reads: list[int] = []
        self._earliest: list[int] = []
        """Of each read that was taken, writes that were answered before."""
        self._before = 0, 0
        self.compared = self.together = 0

    def _draw(self, count: int) -> None:
        rng = self._random
        places = [*self._held, *self._known]
        for _ in range(count):
            address, data = rng.choice(places), rng.getrandbits(32)
            strobes = rng.choice([0xF, rng.getrandbits(4)])
            now = dict(self._history[-1])
            if address in self._held:
                mask = sum(0xFF << 8 * byte for byte in range(4) if strobes >> byte & 1)
                now[address] = (now[address] & ~mask | data & mask) & self._held[address]
            self._history.append(now)
            self.bus.ask(self.bus.aw, address)
            self.bus.w.rows.append((data, strobes))
            # A register that has just been written, or will be, more often than others.
            place = address if rng.random() < 0.5 else rng.choice(places)
            self._reads.append(place)
            self.bus.ask(self.bus.ar, place)

    async def run(self, count: int) -> dict[int, int]:
        """So many reads and writes; returns what registers hold then."""
        self._draw(count)
        bus = self.bus
        idle = quiet = 0
        while idle < _QUIET:
            bus.show()
            await self._step.settle()
            self._look()
            moves = any(sender.rows for sender in bus.senders)
            moves = moves or any(channel.taken < count for channel in bus.answers)
            idle = 0 if moves else idle + 1
            quiet = 0 if self._moved() else quiet + 1
            assert quiet < _MOST, f"nothing has moved for {_MOST} cycles: {self._state()}"
            await self._step.edge()
        bus.show(may=False)
        for channel in bus.answers:
            assert channel.taken == count, f"{channel.taken} answers of {channel.name} for {count}"
        assert self.together > count // 8, f"only {self.together} answers were there together"
        return self._history[-1]

    def _moved(self) -> bool:
        """Whether an answer was taken since this was asked, or all have been."""
        now = self.bus.b.taken, self.bus.r.taken
        moved, self._before = now != self._before, now
        return moved or not any(sender.rows for sender in self.bus.senders)

    def _state(self) -> str:
        channels = (*self.bus.senders, *self.bus.answers)
        return ", ".join(f"{channel.taken} of {channel.name} taken" for channel in channels)

    def _look(self) -> None:
        """One cycle."""
        bus = self.bus
        writes = min(bus.aw.taken, bus.w.taken)
        answered = bus.b.seen
        done = bus.b.answer(writes)
        assert done in (None, [_OKAY]), f"bresp is {done}"
        found = bus.r.answer(bus.ar.taken)
        self.together += bus.b.stable.offered and bus.r.stable.offered
        offered = min(bus.aw.begun, bus.w.begun)
        if found is not None:
            number = bus.r.taken - 1
            place = self._reads[number]
            assert found[1] == _OKAY, f"rresp of read {number} is {found[1]}"
            may_be = {
                self._known.get(place, self._history[at].get(place, 0))
                for at in range(self._earliest[number], offered + 1)
            }
            assert found[0] in may_be, (
                f"read {number}, of address {place:#x}, beside writes: {found[0]:#x}, expected "
                f"{' or '.join(f'{value:#x}' for value in sorted(may_be))}"
            )
            self.compared += 1
        bus.aw.settle()
        bus.w.settle()
        if bus.ar.settle() is not None:
            self._earliest.append(answered)


_PROGRAM = {
    "program_base": ("program_low", "program_high"),
    "program_length": ("program_length",),
    "base": ("base_low", "base_high"),
}
"""Ports that say what a program is, and the registers of their halves."""


class Bench:
    """The registers, their names, and the machine behind them."""

    def __init__(self, dut: cocotb.handle.HierarchyObject, options: dict[str, Any]) -> None:
        self._dut = dut
        self._addresses: dict[str, int] = options["addresses"]
        self._constants: dict[str, int] = options["constants"]
        self._held: dict[str, int] = options["held"]
        self._counters: list[str] = options["counters"]
        self._reset_stages: int = options["reset_stages"]
        self._random = random.Random(options["seed"])
        self.step = Stepper(dut)
        self.bus = Bus(dut, self.step, options["seed"] + 1)
        self.compared = 0

    async def begin(self) -> None:
        """Reset, with a machine that does nothing."""
        self.bus.show(may=False)
        for name in ("quiet", "is_done", "stopped", "error", "error_number", *self._counters[1:]):
            getattr(self._dut, name).value = 0
        await self.step.reset()

    async def expect(self, name: str, value: int) -> None:
        """A register has this value."""
        got = await self.bus.read(self._addresses[name])
        assert got == value, f"{name} is {got:#x}, not {value:#x}"
        self.compared += 1

    async def write(self, name: str, value: int, strobes: int = 0xF) -> None:
        """Write a register."""
        await self.bus.write(self._addresses[name], value, strobes)

    async def counter(self, name: str) -> int:
        """A counter, from both halves."""
        low = await self.bus.read(self._addresses[f"{name}_low"])
        return low | await self.bus.read(self._addresses[f"{name}_high"]) << 32

    async def memory_like(self) -> None:
        """Registers keep what is written to them, byte by byte, and others keep their values."""
        rng = self._random
        kept = dict.fromkeys(self._held, 0)
        for value in (0xFFFFFFFF, 0):
            for name, mask in self._held.items():
                await self.write(name, value)
                kept[name] = value & mask
                await self.expect(name, kept[name])
        for _ in range(200):
            if rng.random() < 0.5:
                name = rng.choice([*self._held, *self._constants, "status", "error"])
                value, strobes = rng.getrandbits(32), rng.getrandbits(_BYTES)
                await self.write(name, value, strobes)
                if name in kept:
                    for byte in range(_BYTES):
                        if strobes >> byte & 1:
                            mask = 0xFF << 8 * byte
                            kept[name] = (kept[name] & ~mask | value & mask) & self._held[name]
            else:
                name = rng.choice([*self._held, *self._constants, "control"])
                known = kept | self._constants | {"control": 0}
                await self.expect(name, known[name])
        last = max(self._addresses.values())
        for address in range(0, 1 << last.bit_length(), _BYTES):
            if address not in self._addresses.values():
                await self.bus.write(address, rng.getrandbits(32))
                assert await self.bus.read(address) == 0, f"{address:#x} is not 0"
        for name, value in kept.items():
            await self.expect(name, value)

    async def reads_beside_writes(self) -> None:
        """Accesses in flight together, of registers that are held and of others."""
        mapped = {address: name for name, address in self._addresses.items()}
        last = max(self._addresses.values())
        free = [a for a in range(0, 1 << last.bit_length(), _BYTES) if a not in mapped]
        known = {self._addresses[name]: value for name, value in self._constants.items()}
        known |= {self._addresses["status"]: 0, self._addresses["error"]: 0}
        known |= dict.fromkeys(free[:2], 0)
        held = {self._addresses[name]: mask for name, mask in self._held.items()}
        values = {}
        for name in self._held:
            values[self._addresses[name]] = await self.bus.read(self._addresses[name])
        traffic = LiteTraffic(
            self._dut, self.step, self._random.getrandbits(32), held, known, values
        )
        values = await traffic.run(150)
        self.compared += traffic.compared
        self.bus = traffic.bus
        for address, value in values.items():
            await self.expect(mapped[address], value)

    async def _while_idle(self, clocks: int, **values: float) -> dict[str, int]:
        """Let cycles pass in which ports are set with these probabilities; how often they were."""
        counts = dict.fromkeys(values, 0)
        starts = 0
        for _ in range(clocks):
            for name, probability in values.items():
                bit = int(self._random.random() < probability)
                getattr(self._dut, name).value = bit
                counts[name] += bit
            await self.step.settle()
            starts += int(self._dut.start.value)
            await self.step.edge()
        for name in values:
            getattr(self._dut, name).value = 0
        assert starts == 0, "a program was started"
        return counts

    async def _start(self) -> None:
        """Write a program and the start, see it once, and the program whatever is written then."""
        word = self._constants["widths"] & 0xFFFF
        program = {}
        for port, names in _PROGRAM.items():
            program[port] = 0
            for place, name in enumerate(names):
                least = word if name.endswith("_low") else 1
                value = self._random.getrandbits(32) // least * least
                await self.write(name, value)
                program[port] |= value << 32 * place
        seen: list[int] = []
        self.step.watch(self._dut.start, seen)
        await self.write("control", 1)
        self.step.watch(None, [])
        assert len(seen) == 1, f"start was set for {len(seen)} cycles"
        self._begun = seen[0] + 1
        for names in _PROGRAM.values():
            for name in names:
                await self.write(name, self._random.getrandbits(32))
        for port, value in program.items():
            assert int(getattr(self._dut, port).value) == value, f"{port} is not {value:#x}"
            self.compared += 1

    async def program_that_ends(self) -> None:
        """Counters count while it runs; its end is a status and an interrupt."""
        dut = self._dut
        await self.write("interrupt_enable", 0b01)
        await self._start()
        begun = self._begun
        await self.expect("status", 0b001)
        counts = await self._while_idle(300, **dict.fromkeys(self._counters[1:], 0.3))
        assert dut.irq.value == 0
        dut.is_done.value = 1
        ended = self.step.clocks + 1
        await self._while_idle(1)
        await self._while_idle(20, **dict.fromkeys(self._counters[1:], 0.5))
        assert dut.irq.value == 1
        await self.expect("status", 0b010)
        await self.expect("interrupt", 0b01)
        for name, count in counts.items():
            got = await self.counter(name)
            assert got == count, f"{name} is {got}, not {count}"
        got = await self.counter("cycles")
        assert got == ended - begun, f"cycles are {got}, not {ended - begun}"
        self.compared += 1 + len(counts)
        await self.write("interrupt", 0b10)
        assert dut.irq.value == 1
        await self.write("interrupt", 0b01)
        await self.expect("interrupt", 0)
        assert dut.irq.value == 0
        dut.is_done.value = 0

    async def program_that_fails(self, code: int, number: int) -> None:
        """Code and descriptor are shown; only a reset lets another one begin."""
        dut = self._dut
        await self.write("interrupt_enable", 0b10)
        await self._start()
        await self._while_idle(5)
        dut.stopped.value, dut.error.value, dut.error_number.value = 1, code, number
        await self._while_idle(2)
        assert dut.irq.value == 1
        await self.expect("status", 0b100)
        await self.expect("error", code)
        await self.expect("error_descriptor", number)
        await self.expect("interrupt", 0b10)
        await self.write("control", 1)
        await self.expect("status", 0b100)
        await self._reset(wait=7)
        await self.expect("error", 0)
        await self.expect("error_descriptor", 0)

    async def _reset(self, wait: int) -> None:
        """Soft reset, with memory that is quiet a while later."""
        dut = self._dut
        await self.write("control", 0b10)
        assert dut.stop.value == 1
        await self.expect("status", 0b001 | 0b100 * int(dut.stopped.value))
        await self._while_idle(wait)
        assert dut.clear.value == 0, "cleared before memory is quiet"
        dut.quiet.value = 1
        await self.step.settle()
        stages = self._reset_stages
        if stages:
            assert dut.clear.value == 0, "cleared too early"
            assert dut.stop.value == 1
            await self.step.edge()
            await self.step.settle()
        for clock in range(1 + stages):
            assert dut.clear.value == 1, f"not cleared in cycle {clock} though memory is quiet"
            if clock < stages:
                await self.step.edge()
                await self.step.settle()
        await self.step.edge()
        dut.stopped.value, dut.error.value = 0, 0
        for _ in range(stages):
            await self.step.settle()
            assert dut.clear.value == 0, "cleared for too long"
            assert dut.stop.value == 1, "the reset has not gone everywhere"
            await self.step.edge()
        for _ in range(3):
            await self.step.settle()
            assert dut.clear.value == 0, "cleared twice"
            assert dut.stop.value == 0
            await self.step.edge()
        dut.quiet.value = 0
        await self.expect("status", 0)
        await self.expect("interrupt", 0)

    async def reset_of_a_program(self) -> None:
        """A program that runs is ended, and the next one may begin."""
        await self._start()
        await self._while_idle(4)
        await self._reset(wait=0)
        await self.program_that_ends()


@cocotb.test()
async def registers(dut: cocotb.handle.HierarchyObject) -> None:
    """Run all of it."""
    bench = Bench(dut, job())
    await bench.begin()
    await bench.memory_like()
    await bench.reads_beside_writes()
    await bench.program_that_ends()
    await bench.program_that_fails(3, 0x12345678)
    await bench.program_that_fails(12, 0xEDCBA987)
    await bench.program_that_ends()
    await bench.reset_of_a_program()
    write_log({"compared": bench.compared})
