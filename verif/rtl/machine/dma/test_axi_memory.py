"""The memory beside a machine: each rule of the bus can be broken, what is in flight is told."""

from itertools import pairwise
from typing import Any

import pytest

from verif.rtl.machine.accelerator_job import MEMORY, RULES
from verif.support.manifest import Module
from verif.support.simulators import run_bench

Clocks = list[dict[str, int | str]]
BYTES = 32
CHANNELS = ("arready", "rvalid", "awready", "wready", "bvalid")
RUN: dict[str, int | str] = {"rst": 0}
BUSY: dict[str, int | str] = {"rst": 0, "pause": 255}
WAIT: Clocks = [{}] * 12
PAUSE: Clocks = [{}] * 30


def read(**pins: int | str) -> Clocks:
    """A request of a read that is taken at once."""
    return [{"araddr": 4096 - BYTES, **pins, "arvalid": 1}, {"arvalid": 0}]


def write(*lasts: int, **pins: int | str) -> Clocks:
    """A request of a write that is taken at once, and its beats."""
    beats: Clocks = [{"wvalid": 1, "wlast": last} for last in lasts]
    address = {"awaddr": 4096 - BYTES, **pins, "awvalid": 1}
    return [address, {"awvalid": 0}, {}, *beats, {"wvalid": 0}]


SLOW: dict[str, int | str] = {"latency": 100}
CHANGES: Clocks = [{"wdata": 1}, {"wstrb": 0}, {"wvalid": 0}]
LEGAL: dict[str, Clocks] = {
    "reads": [RUN, {}, *read(), *read(araddr=4096, arlen=3), *WAIT],
    "writes": [RUN, {}, *write(1), *write(0, 0, 1, awaddr=4096 - 3 * BYTES, awlen=2), *WAIT],
    "as many in flight as there may be": [
        {**RUN, **SLOW, "most_reads": 2, "most_read_beats": 3, "most_writes": 1},
        {},
        *read(),
        *read(araddr=0, arlen=1),
        *write(1),
        *[{}] * 150,
        *WAIT,
    ],
    "a request that waits": [BUSY, {"arvalid": 1}, {}, {}, {"pause": 0}, {}, {"arvalid": 0}, *WAIT],
}
BROKEN: dict[str, list[Clocks]] = {
    "a read request stays until it is taken": [
        [BUSY, {"arvalid": 1}, {}, {"arvalid": 0}, {}],
        [BUSY, {"arvalid": 1}, {}, {"araddr": 2048}, {}],
        [BUSY, {"arvalid": 1}, {}, {"arlen": 1}, {}],
    ],
    "a write request stays until it is taken": [
        [BUSY, {"awvalid": 1}, {}, {"awvalid": 0}, {}],
        [BUSY, {"awvalid": 1}, {}, {"awaddr": 2048}, {}],
    ],
    "a beat stays until it is taken": [
        [RUN, {}, *write(), {"pause": 255}, {}, {"wvalid": 1, "wlast": 1}, {}, change, {}]
        for change in CHANGES
    ],
    "valid and ready are known": [
        [RUN, {}, {pin: "X"}, {pin: 0}, {}]
        for pin in ("arvalid", "awvalid", "wvalid", "rready", "bready")
    ],
    "what is valid is known": [
        [RUN, {}, *read(araddr="X"), {}],
        [RUN, {}, *write(1, awlen="X"), {}],
        [RUN, {}, *write(1, wstrb="X"), {}],
    ],
    "reads are of whole beats, in bursts that go up": [
        [RUN, {}, *read(**{pin: value}), {}]
        for pin, value in (("araddr", 4), ("arsize", 2), ("arburst", 0), ("arburst", 2))
    ],
    "writes are of whole beats, in bursts that go up": [
        [RUN, {}, *write(1, **{pin: value}), {}]
        for pin, value in (("awaddr", 4), ("awsize", 2), ("awburst", 0), ("awburst", 2))
    ],
    "no read crosses 4 KiB": [[RUN, {}, *read(arlen=1), {}]],
    "no write crosses 4 KiB": [[RUN, {}, *write(0, 1, awlen=1), {}]],
    "wlast is set with the last beat of a burst": [
        [RUN, {}, *write(0), {}],
        [RUN, {}, *write(1, awaddr=0, awlen=1), {}],
    ],
    "nothing is valid in a reset": [
        [{pin: 1}, {pin: 0}] for pin in ("arvalid", "awvalid", "wvalid")
    ],
    "a beat is written whole or not at all": [
        [RUN, {}, *write(1, wstrb=strobes), {}] for strobes in (1, 0x7FFFFFFF, 1 << 31)
    ],
    "no more reads are outstanding than there may be": [
        [{**RUN, **SLOW, "most_reads": 2}, {}, *read(), *read(), *read(), {}, {}],
        [{**RUN, **SLOW, "most_read_beats": 5}, {}, *read(araddr=0, arlen=5), {}, {}],
    ],
    "no more writes are outstanding than there may be": [
        [{**RUN, **SLOW, "most_writes": 1}, {}, *write(1), *write(1), {}, {}],
    ],
}


BEAT: dict[str, int | str] = {"wvalid": 1, "wlast": 1}
ALWAYS: dict[str, int | str] = {"arvalid": 1, "awvalid": 1, **BEAT}
JOBS: dict[str, list[Clocks]] = {
    "legal": list(LEGAL.values()),
    "broken": [clocks for some in BROKEN.values() for clocks in some],
    "outstanding": [
        [RUN | SLOW, {}, *read(), {}],
        [RUN | SLOW, {}, *write(), {}],
        [RUN | SLOW, {}, *write(1), {}],
        [RUN | SLOW, BEAT, {}],
        [RUN | SLOW, {}, *write(1, awaddr=1 << 40), {}],
        [RUN | SLOW, {}, *write(1, awaddr=1 << 40), {}, {"rst": 1}, {}],
        [RUN | SLOW, {"wvalid": 1, "wlast": 0}],
    ],
    "lively": [
        [RUN | {"pause": 128}, ALWAYS, *[{}] * 600],
        [
            RUN | {"latency": 5, "spread": 20},
            {},
            *[c for _ in range(40) for c in (*read(), *PAUSE)],
        ],
    ],
}


@pytest.fixture(scope="module")
def logs() -> dict[str, list[dict[str, Any]]]:
    """Logs of the memory beside the machine in all jobs, on a bus of 32 bytes."""
    module = Module("axi_memory", MEMORY.parent, (MEMORY,), {}, 0, {})
    every = [clocks for jobs in JOBS.values() for clocks in jobs]
    found = iter(run_bench("icarus", module, "axi_memory", every))
    return {name: [next(found) for _ in jobs] for name, jobs in JOBS.items()}


def test_rules_of_the_bus(logs: dict[str, list[dict[str, Any]]]) -> None:
    """Legal traffic breaks no rule, and each rule can be broken alone."""
    assert BROKEN.keys() == set(RULES)
    wanted = [RULES.index(rule) for rule, some in BROKEN.items() for _ in some]
    for name, log in zip(LEGAL, logs["legal"], strict=True):
        assert (log["broken"], log["pending"], log["outside"]) == (0, 0, 0), name
    for rule, log, clocks in zip(wanted, logs["broken"], JOBS["broken"], strict=True):
        assert log["broken"] == 1 << rule, f"{log['broken']:b} for {RULES[rule]}: {clocks}"


def test_what_is_under_way_is_told(logs: dict[str, list[dict[str, Any]]]) -> None:
    """Requests, beats, answers that have not come; a reset forgets them, but no beats outside."""
    found = logs["outstanding"]
    assert [log["pending"] for log in found] == [1, 1, 1, 1, 1, 0, 1]
    assert [log["outside"] for log in found] == [0, 0, 0, 0, 1, 1, 0]
    assert [log["in_burst"] for log in found] == [0, 0, 0, 0, 0, 0, 1]


def test_memory_is_lively(logs: dict[str, list[dict[str, Any]]]) -> None:
    """Each channel pauses half of the time, and answers take times of their own."""
    busy, single = logs["lively"]
    for channel in CHANNELS:
        share = sum(pins[channel] == "1" for pins in busy["pins"]) / 600
        # A channel cannot be faster than the one before it.
        assert 0.15 < share < 0.65, f"{channel}: {share}"
    answers = [at for at, pins in enumerate(single["pins"]) if pins["rvalid"] == "1"]
    times = {later - earlier for earlier, later in pairwise(answers)}
    assert len(answers) == 40
    assert len(times) > 10, "answers come at their own times"
