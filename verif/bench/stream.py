"""The bench of units between AXI4-Streams, one or more in and out, each with stalls of its own.

Streams in whose beats belong together are taken together; streams *apart* are taken when the unit
wants them, and all their beats by the end of the job. What goes in and what comes out are files;
comparing is the business of the pytest process. A source offers a beat until it is taken and shows
noise in between, unless it is *still*; a sink takes what it likes, and now and then is not ready
before it has seen a beat, since a unit must not wait for that. Streams out *beside* the main one,
``m_axis``, are logged as that is.
"""

import random
from collections import deque
from typing import Any

import cocotb
from cocotb.triggers import Timer

from verif.bench import memory
from verif.bench.difference import changed_bits, difference
from verif.bench.job import job, packed, write_log
from verif.bench.pacing import READY_AFTER_VALID, RESET_CLOCKS, pauses
from verif.bench.pins import Input, number

OUTPUTS = ("tdata", "tlast", "tuser")
Beat = tuple[int, ...]
"""A value for each pin of a source."""
_BURST = 16
"""Cycles in which a stream pauses equally often; few, so that it does in short jobs too."""


class Source(memory.Source):
    """One stream in, whose beats may be offered from the first one again."""

    def __init__(
        self,
        dut: cocotb.handle.HierarchyObject,
        name: str,
        pins: dict[str, list[int]],
        seed: int,
        stall: float,
        *,
        still: bool,
    ) -> None:
        super().__init__(dut, name, seed, stall, [*pins], handshake="_t")
        self.beats: list[Beat] = list(zip(*pins.values(), strict=True))
        self.show()  # at first pins carry something
        self._still = still

    def start(self, beats: list[Beat]) -> None:
        """Have these to offer, and nothing on offer yet."""
        self.rows = deque(beats)
        self.offered = False

    def offer_in_reset(self, offers: bool) -> None:
        """Offer a beat in a cycle of reset, or none."""
        self._valid.write(offers)

    def check_refused(self) -> None:
        """Fail if it was taken."""
        assert self._ready.value == 0, f"a beat of {self.name} was taken during reset"


class Sink:
    """One stream out.

    Parameters
    ----------
    stall : float
        How often it pauses. One that does waits for a beat now and then: it is ready in the cycle
        in which it sees one, or in the cycle after that.
    """

    def __init__(
        self, dut: cocotb.handle.HierarchyObject, name: str, seed: int, stall: float
    ) -> None:
        self.name = name
        self._valid = getattr(dut, f"{name}_tvalid")
        self._ready = Input(getattr(dut, f"{name}_tready"))
        names = [f"{name}_{pin}" for pin in OUTPUTS]
        self._pins = {pin: getattr(dut, pin) for pin in names if hasattr(dut, pin)}
        self._last = list(self._pins).index(f"{name}_tlast")
        self._noise = random.Random(seed)
        self._stalls = pauses(seed + 1, stall, _BURST)
        self._chance = READY_AFTER_VALID if stall else 0.0
        self.forget()

    def forget(self) -> None:
        """Start the log afresh, as after a reset."""
        self.answers = False
        self._choose()
        self.stalled: list[str] | None = None
        self.left: list[int] = []
        self.results: list[list[str]] = []

    def show_any(self) -> None:
        """Be ready or not, in a cycle of reset."""
        self._ready.write(self._noise.getrandbits(1))

    def _choose(self) -> None:
        """Whether the next beat has to show itself before this is ready, and a cycle before."""
        self._waits_for_valid = self._noise.random() < self._chance
        self._late = self._waits_for_valid and self._noise.random() < 0.5

    def show(self) -> None:
        """Be ready, unless it pauses or waits for a beat."""
        self._takes = not next(self._stalls)
        self.answers = self._takes and self._waits_for_valid and self.stalled is None
        self._ready.write(self._takes and not self.answers)

    def answer(self) -> None:
        """Be ready, or stay as it is, now that a beat can be seen."""
        if self.answers:
            self._takes = self._valid.value == 1 and not self._late
            self._ready.write(self._takes)

    def settle(self, clock: int) -> None:
        """Log what is taken in this cycle."""
        there = number(self._valid) == 1
        now = [str(pin.value) for pin in self._pins.values()] if there else None
        if self.stalled is not None:
            assert now == self.stalled, self._told(clock, self.stalled, now)
        if now is not None and self._takes:
            self.results.append(now)
            self.left.append(clock)
            self._choose()
        self.stalled = now if not self._takes else None

    def _told(self, clock: int, before: list[str], now: list[str] | None) -> str:
        """Message: the pin of a waiting beat that has changed, and how."""
        beat = f"a stalled result changed in cycle {clock}: beat {len(self.results)}"
        if now is None:
            return f"{beat} of {self.name} was withdrawn"
        for name, was, value in zip(self._pins, before, now, strict=True):
            if was != value:
                return f"{beat}, {changed_bits(name, was, value)}"
        raise AssertionError(f"{beat} did not change")

    def first(self, packets: int) -> list[list[str]]:
        """Results of the first packets."""
        ends = [i for i, row in enumerate(self.results, start=1) if row[self._last] == "1"]
        return self.results[: ends[packets - 1]] if len(ends) >= packets else self.results

    def log(self) -> dict[str, Any]:
        """Words of what came out."""
        logged: dict[str, Any] = {}
        for column, (name, pin) in enumerate(self._pins.items()):
            texts = [row[column] for row in self.results]
            try:
                logged[name] = packed(len(pin), [int(text, 2) for text in texts])
            except ValueError:
                beat = next(at for at, text in enumerate(texts) if set(text) - {"0", "1"})
                raise AssertionError(f"{name} is unknown in beat {beat}: {texts[beat]}") from None
        return logged


class Bench:
    """Sources, sinks and clock, a cycle at a time."""

    def __init__(
        self, dut: cocotb.handle.HierarchyObject, job: dict[str, list[int]], options: dict
    ) -> None:
        self._clk, self._rst, self._options = Input(dut.clk), Input(dut.rst), options
        self._half, self._moment = Timer(1, "ns"), Timer(1, "ps")
        seed = options["seed"]
        self.sinks = [
            Sink(dut, name, seed + 64 * index, options["stall_out"])
            for index, name in enumerate(("m_axis", *options["beside"]))
        ]
        streams: dict[str, dict[str, list[int]]] = {}
        for pin, words in job.items():
            streams.setdefault(pin.rsplit("_", 1)[0], {})[pin] = words
        self.sources = [
            Source(dut, name, pins, seed + 2 + index, options["stall_in"], still=options["still"])
            for index, (name, pins) in enumerate(streams.items())
        ]
        self._apart = [source for source in self.sources if source.name in options["apart"]]
        self._together = [source for source in self.sources if source not in self._apart]
        for name, value in options["steady"].items():
            getattr(dut, name).value = value
        self.clocks = 0
        self.forget()

    def forget(self) -> None:
        """Start the logs afresh, with nothing to offer, as after a reset."""
        for source in self.sources:
            source.start([])
        for sink in self.sinks:
            sink.forget()
        self.taken: list[int] = []
        self.taken_apart: dict[str, list[int]] = {source.name: [] for source in self._apart}

    @property
    def results(self) -> list[list[str]]:
        """Return the results of the main stream, then of those beside it."""
        return [row for sink in self.sinks for row in sink.results]

    async def _rise(self) -> None:
        self._clk.write(True)
        await self._half
        self.clocks += 1

    async def reset(self, clocks: int) -> None:
        """So many cycles of reset, in which no beat may be taken or come out later."""
        self._rst.write(True)
        for _ in range(clocks):
            self._clk.write(False)
            for source in self.sources:
                source.offer_in_reset(not self._options["silent"])
            for sink in self.sinks:
                sink.show_any()
            await self._half
            if not self._options["silent"]:
                for source in self.sources:
                    source.check_refused()
            await self._rise()
        self._rst.write(False)
        self.forget()

    async def clock(self) -> None:
        """One cycle."""
        self._clk.write(False)
        for source in self.sources:
            source.show()
        for sink in self.sinks:
            sink.show()
        await self._half
        if any(sink.answers for sink in self.sinks):
            for sink in self.sinks:
                sink.answer()
            await self._moment
        for sink in self.sinks:
            sink.settle(self.clocks)
        taken = {source.settle() is not None for source in self._together}
        assert len(taken) == 1, "beats of the streams were not taken together"
        if taken.pop():
            self.taken.append(self.clocks)
        for source in self._apart:
            if source.settle() is not None:
                self.taken_apart[source.name].append(self.clocks)
        await self._rise()

    def start(self, beats: int | None = None) -> None:
        """Have the whole job to offer, or its first beats; of streams apart always all."""
        for source in self._together:
            source.start(source.beats[:beats])
        for source in self._apart:
            source.start(source.beats)

    async def quiet(self) -> None:
        """Go on until for a while nothing has come out, or gone in from a stream apart."""
        start, idle = self.clocks, 0
        while idle < self._options["clocks_after"]:
            before = self._moved()
            await self.clock()
            stalled = any(sink.stalled is not None for sink in self.sinks)
            idle = 0 if stalled or self._moved() > before else idle + 1
            assert self.clocks - start < self._options["limit"], "results never end"

    def _moved(self) -> int:
        came = sum(len(sink.results) for sink in self.sinks)
        return came + sum(map(len, self.taken_apart.values()))

    async def run(self) -> None:
        """Offer all there is, and go on until nothing comes out any more."""
        start = self.clocks
        while any(source.rows for source in self._together):
            await self.clock()
            taken = len(self.taken)
            assert self.clocks - start < self._options["limit"], f"beat {taken} was never taken"
        await self.quiet()

    def check_used(self) -> None:
        """Fail if beats of streams apart are left."""
        for source in self._apart:
            assert not source.rows, f"{len(source.rows)} beats of {source.name} were not taken"

    def first(self, packets: int) -> list[list[str]]:
        """Results of the first packets, of each stream out."""
        return [row for sink in self.sinks for row in sink.first(packets)]

    def log(self) -> dict[str, Any]:
        """Words of what came out, and the cycles in which beats went in and came out."""
        words = {name: each for sink in self.sinks for name, each in sink.log().items()}
        left = self.sinks[0].left
        return {"words": words, "taken": self.taken, "left": left, "apart": self.taken_apart}


async def interrupted(bench: Bench, options: dict) -> list[list[list[str]]]:
    """Start the job and reset, time and again; returns what came of its first beats after each."""
    probes: list[list[list[str]]] = []
    for reset, clocks in enumerate(options["resets_after"], start=1):
        bench.start()
        for _ in range(clocks):
            await bench.clock()
        await bench.reset(RESET_CLOCKS[reset % len(RESET_CLOCKS)])
        if reset == len(options["resets_after"]):
            break  # the whole job follows the last one
        if reset // len(RESET_CLOCKS) % 2:  # else the first beats follow at once
            for _ in range(options["clocks_after"]):
                await bench.clock()
            assert not bench.results, f"beats came out after reset {reset}"
        bench.start(options["probe_beats"])
        await bench.run()
        probes.append(bench.results)
        bench.forget()
    return probes


@cocotb.test()
async def stream(dut: cocotb.handle.HierarchyObject) -> None:
    """Run the beats of the job and log what comes out."""
    options = job()
    bench = Bench(dut, options["beats"], options)
    await bench.reset(RESET_CLOCKS[0])
    probes = await interrupted(bench, options)
    bench.start()
    await bench.run()
    assert bench.results, "nothing came out"
    bench.check_used()
    expected = bench.first(options["probe_packets"])
    for reset, came in enumerate(probes, start=1):
        lengths = f"{len(came)} beats came out for {len(expected)}"
        assert len(came) == len(expected), f"{lengths} after reset {reset}"
        assert came == expected, difference(
            came, expected, f"beats differ after reset {reset}: item "
        )
    write_log(bench.log())
