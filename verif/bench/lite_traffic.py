"""Reads and writes of AXI4-Lite in flight together, with pauses of their own on each channel.

A slave may show `ready` before `valid` or after it, and take the address of a write before or after
its data. What it answers is compared with all that a register may hold: a write is done at some
time from when both of its parts are offered until its answer is there.
"""

import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from verif.bench.clocked import Stepper
from verif.bench.pacing import ReadyAfterValid, pauses

_OKAY = 0
_BURST = 16
_STALL = 0.3
_QUIET = 20
_MOST = 200
"""Cycles in which a channel has to move on."""


class _Sender:
    """A channel that gives: payloads wait until they are taken, with noise in between."""

    def __init__(self, dut: Any, name: str, pins: Sequence[str], rng: random.Random) -> None:
        self.name, self._random = name, rng
        self._valid = getattr(dut, f"s_axi_{name}valid")
        self._ready = getattr(dut, f"s_axi_{name}ready")
        self._pins = [getattr(dut, f"s_axi_{pin}") for pin in pins]
        self._gaps = pauses(rng.getrandbits(32), _STALL, _BURST)
        self.left: deque[tuple[int, ...]] = deque()
        self.offered = self.begun = self.taken = 0
        self._waits = 0

    def show(self) -> None:
        if not self.offered:
            self.offered = int(bool(self.left) and not next(self._gaps))
            self.begun += self.offered
            noise = tuple(self._random.getrandbits(len(pin)) for pin in self._pins)
            values = self.left[0] if self.offered else noise
            for pin, value in zip(self._pins, values, strict=True):
                pin.value = value
        self._valid.value = self.offered

    def settle(self) -> bool:
        """Whether what is offered is taken."""
        takes = bool(self.offered) and self._ready.value == 1
        self._waits = 0 if takes or not self.offered else self._waits + 1
        assert self._waits < _MOST, f"{self.name} is not taken in {_MOST} cycles"
        if takes:
            self.left.popleft()
            self.taken += 1
            self.offered = 0
        return takes


class _Answers:
    """A channel that answers: it may not change while it waits, nor answer what nobody asked."""

    def __init__(self, dut: Any, name: str, pins: Sequence[str], rng: random.Random) -> None:
        self.name = name
        self._valid = getattr(dut, f"s_axi_{name}valid")
        self._ready = getattr(dut, f"s_axi_{name}ready")
        self._pins = [getattr(dut, f"s_axi_{pin}") for pin in pins]
        self._gaps = pauses(rng.getrandbits(32), _STALL, _BURST)
        self._ready_after_valid = ReadyAfterValid(rng.getrandbits(32), _STALL)
        self._waiting: list[int] | None = None
        self.valid = False
        self.seen = self.taken = 0

    def show(self) -> None:
        self._takes = not next(self._gaps) and self._ready_after_valid.may_take
        self._ready.value = int(self._takes)

    def settle(self, asked: int) -> list[int] | None:
        """Return the answer taken, if any; `asked` counts the requests of the cycles before."""
        valid = self.valid = self._valid.value == 1
        self._ready_after_valid.see(valid=valid, ready=self._takes)
        where = f"answer {self.taken} of {self.name}"
        assert valid or self._waiting is None, f"{where} was withdrawn, beside other channels"
        if not valid:
            return None
        assert self.taken < asked, f"{where} came, and nobody asked"
        now = [int(pin.value) for pin in self._pins]
        assert self._waiting in (None, now), f"{where} changed from {self._waiting} to {now}"
        self.seen += self._waiting is None
        self._waiting = None if self._takes else now
        self.taken += self._takes
        return now if self._takes else None


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
        rng = self._random = random.Random(seed)
        self._aw = _Sender(dut, "aw", ("awaddr", "awprot"), rng)
        self._w = _Sender(dut, "w", ("wdata", "wstrb"), rng)
        self._ar = _Sender(dut, "ar", ("araddr", "arprot"), rng)
        self._b = _Answers(dut, "b", ("bresp",), rng)
        self._r = _Answers(dut, "r", ("rdata", "rresp"), rng)
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
            self._aw.left.append((address + rng.randrange(4), rng.getrandbits(3)))
            self._w.left.append((data, strobes))
            # A register that has just been written, or will be, more often than others.
            place = address if rng.random() < 0.5 else rng.choice(places)
            self._reads.append(place)
            self._ar.left.append((place + rng.randrange(4), rng.getrandbits(3)))

    async def run(self, count: int, beside: Callable[[], None] = lambda: None) -> dict[int, int]:
        """So many reads and writes; returns what registers hold then.

        Parameters
        ----------
        beside : callable
            Called in every cycle, before the outputs settle.
        """
        self._draw(count)
        senders, answers = (self._aw, self._w, self._ar), (self._b, self._r)
        idle = quiet = 0
        while idle < _QUIET:
            for channel in (*senders, *answers):
                channel.show()
            beside()
            await self._step.settle()
            self._look()
            moves = any(sender.left for sender in senders)
            moves = moves or self._b.taken < count or self._r.taken < count
            idle = 0 if moves else idle + 1
            quiet = 0 if self._moved() else quiet + 1
            assert quiet < _MOST, f"nothing has moved for {_MOST} cycles: {self._state()}"
            await self._step.edge()
        for channel in answers:
            assert channel.taken == count, f"{channel.taken} answers of {channel.name} for {count}"
        assert self.together > count // 8, f"only {self.together} answers were there together"
        return self._history[-1]

    def _moved(self) -> bool:
        """Whether an answer was taken since this was asked, or all have been."""
        now = self._b.taken, self._r.taken
        moved, self._before = now != self._before, now
        return moved or not (self._aw.left or self._w.left or self._ar.left)

    def _state(self) -> str:
        channels = (self._aw, self._w, self._ar, self._b, self._r)
        return ", ".join(f"{channel.taken} of {channel.name} taken" for channel in channels)

    def _look(self) -> None:
        """One cycle."""
        writes = min(self._aw.taken, self._w.taken)
        reads = self._ar.taken
        answered = self._b.seen
        done = self._b.settle(writes)
        assert done in (None, [_OKAY]), f"bresp is {done}"
        found = self._r.settle(reads)
        self.together += self._b.valid and self._r.valid
        offered = min(self._aw.begun, self._w.begun)
        if found is not None:
            number = self._r.taken - 1
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
        for sender in (self._aw, self._w):
            sender.settle()
        if self._ar.settle():
            self._earliest.append(answered)
