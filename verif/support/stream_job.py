"""Running beats through a simulated unit between AXI4-Streams."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verif.support.checkers import assert_equal
from verif.support.manifest import Module, Words
from verif.support.simulators import run_bench

Job = dict[str, NDArray[Any]]
"""By port name what each pin of the streams in or out carries, `tlast` among them, for each beat.

It is what `Port.packed` takes: words, numbers, or the values of all fields."""
_IDLE = 16
"""Cycles without a beat, beyond the latency twice, after which nothing comes."""


@dataclass(frozen=True)
class Streamed:
    """Output of a unit.

    Attributes
    ----------
    words : dict
        By port name a row of little-endian bytes for each beat.
    taken, left : ndarray of int
        Cycles in which beats went in and came out.
    taken_apart : dict
        By name the cycles in which beats of streams apart went in.
    """

    words: dict[str, Words]
    taken: NDArray[np.int64]
    left: NDArray[np.int64]
    taken_apart: dict[str, NDArray[np.int64]]


def check_stream(
    simulator: str, module: Module, job: Job, expected: Job, **options: Any
) -> Streamed:
    """Beats come out of a unit as expected; options are those of `run_stream`."""
    __tracebackhide__ = True
    assert expected, f"{module.name}: nothing is expected"
    streamed = run_stream(simulator, module, job, **options)
    for pin, right in expected.items():
        exact = right.view(np.uint32) if right.dtype == np.float32 else right
        got = module.ports[pin].unpacked(streamed.words[pin], right)
        assert exact.dtype.kind in "biu", f"{pin}: {exact.dtype} is no type of bits"
        index = np.arange(len(right))
        assert_equal(f"{module.name}.{pin}", got, exact.astype(got.dtype), beat=index)
    return streamed


def run_stream(
    simulator: str,
    module: Module,
    job: Job,
    *,
    apart: Sequence[str] = (),
    clocks: int | None = None,
    probe: tuple[int, int] | None = None,
    stall_in: float = 0.0,
    stall_out: float = 0.0,
    seed: int = 1,
    resets_after: Sequence[int] = (),
    steady: Mapping[str, int] | None = None,
    beside: Sequence[str] = (),
    still: bool = False,
    silent: bool = False,
) -> Streamed:
    """Send beats through a unit until nothing comes out any more.

    Parameters
    ----------
    job : Job
        Streams with equally many beats, which the unit takes together, and those `apart`.
    apart : sequence of str
        Streams in that the unit takes when it wants to, such as ``s_axis_bias``. All their beats
        must be taken in the end.
    clocks : int, optional
        Cycles that the unit may need for the job, without stalls; by default one a beat.
    probe : tuple of int, optional
        First beats of the job that are whole packets, and in how many they come out; by default up
        to the first end of a packet after the first beat, and as many as go in.
    stall_in, stall_out : float
        How often each source and the sink pause, each by itself, below one half.
    resets_after : sequence of int
        Before the job, start it and reset after so many cycles, once for each number; resets of
        one cycle and of four take turns. After each but the last, first beats of the job (`probe`)
        follow, every other two times at once and else after a while in which nothing may come out;
        what they give must be what they give in the job.
    steady : mapping, optional
        Values of pins that belong to no stream.
    beside : sequence of str
        Other streams out, each packet of which belongs to one of the main stream, such as
        ``m_axis_statistics``.
    still : bool
        Pins stay as they are while nothing is offered, instead of noise: so large units are faster.
    silent : bool
        Nothing is offered during reset, to units inside others that would take it.
    """
    streams = {name: name.rsplit("_", 1)[0] for name in job}
    beats = {name: len(words) for name, words in job.items() if streams[name] not in apart}
    assert len(set(beats.values())) == 1, f"{module.name} needs as many beats of all of {beats}"
    assert min(beats.values()) > 0, f"{module.name} needs beats"
    if probe is None:
        ends = np.flatnonzero(job["s_axis_tlast"]) + 1
        longer = int(np.argmax(ends > 1))
        probe = int(ends[longer]), longer + 1
    expected = max(beats.values()) if clocks is None else clocks
    # Streams pause up to twice as often as they are told to; a beat may wait for a block.
    rate = (1 - 2 * stall_in) ** len(set(streams.values())) * (1 - 2 * stall_out)
    options = {
        "beats": {name: module.ports[name].packed(values) for name, values in job.items()},
        "apart": list(apart),
        "beside": list(beside),
        "steady": dict(steady or {}),
        "still": still,
        "silent": silent,
        "stall_in": stall_in,
        "stall_out": stall_out,
        "seed": seed,
        "resets_after": list(resets_after),
        "probe_beats": probe[0],
        "probe_packets": probe[1],
        "clocks_after": 2 * module.latency + _IDLE,
        "limit": math.ceil(4 * (expected + module.latency) / rate) + 1000,
    }
    logged = run_bench(simulator, module, "stream", options)
    taken, left = np.array(logged["taken"], np.int64), np.array(logged["left"], np.int64)
    times = {name: np.array(clocks, np.int64) for name, clocks in logged["apart"].items()}
    return Streamed(logged["words"], taken, left, times)
