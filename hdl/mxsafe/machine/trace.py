"""Timelines of programs as Chrome and Perfetto read them: JSON of the Trace Event Format.

A cycle stands as a microsecond. Each program is a process with a track for each queue: what its
descriptors do by the timing model, and what the queue waits for in between. Where a machine has
counted its cycles, tracks of its counters stand beside them.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mxsafe.atomic import write_atomically
from mxsafe.machine.compiler.timing import Prediction, Times, predict
from mxsafe.machine.description import QUEUES
from mxsafe.machine.program import Program
from mxsafe.validation import checked

Event = dict[str, Any]
_SHARES = {
    "array busy, counted, %": {"busy": "array_busy"},
    "GEMM waits, counted, %": {name: f"wait_{name}" for name in ("load", "vector", "store")},
    "memory, counted, %": {"read": "words_read", "written": "words_written"},
}
"""Tracks of counters: shares of cycles, by what they are of."""


@checked
@dataclass(frozen=True)
class Traced:
    """A program of which a timeline is made.

    Attributes
    ----------
    program : Program
    labels : sequence of str
        What each descriptor is for; by default nothing is said.
    counted : sequence of Mapping of str to int
        The machine's counters by name, one time after another while the program ran.
    times : Times, optional
        Those of its machine; by default those of the machine with default sizes.

    Raises
    ------
    ValueError
        If there are labels, but not as many as descriptors.
    """

    program: Program
    labels: Sequence[str] = ()
    counted: Sequence[Mapping[str, int]] = ()
    times: Times | None = None

    def __post_init__(self) -> None:
        if self.labels and len(self.labels) != self.program.length:
            raise ValueError(
                f"labels must be those of {self.program.length} descriptors, not {len(self.labels)}"
            )


@checked
def timeline(programs: Sequence[Traced]) -> dict[str, Any]:
    """Programs, one behind the other, as an object of the Trace Event Format.

    Raises
    ------
    ValueError
        If a program has a descriptor that its machine does not take.
    CompileError
        If its machine would wait for ever.
    """
    events: list[Event] = []
    start = 0
    for number, traced in enumerate(programs, 1):
        predicted = predict(traced.program, traced.times)
        name = f"program {number} of {len(programs)}"
        events.append(_name("process", name, number))
        for queue, title in enumerate(QUEUES):
            events.append(_name("thread", title.upper(), number, queue))
            order = {"sort_index": queue}
            events.append(_event("M", "thread_sort_index", number, tid=queue, args=order))
        events += _of_queues(traced, predicted, number, start)
        events += _of_counters(traced, number, start)
        counted = traced.counted[-1]["cycles"] if traced.counted else 0
        start += max(predicted.cycles, counted)
    return {"traceEvents": events, "otherData": {"unit": "a cycle stands as 1 us"}}


@checked
def write_timeline(path: str | Path, programs: Sequence[Traced]) -> None:
    """Write the timeline of programs as a file of JSON, as `timeline` makes it."""
    data = json.dumps(timeline(programs)).encode()
    write_atomically(Path(path), data)


def _event(phase: str, name: str, process: int, **more: Any) -> Event:
    return {"ph": phase, "name": name, "pid": process, **more}


def _name(what: str, name: str, process: int, thread: int = 0) -> Event:
    return _event("M", f"{what}_name", process, tid=thread, args={"name": name})


def _of_queues(traced: Traced, predicted: Prediction, process: int, start: int) -> Iterator[Event]:
    """Events of each queue: its work and its waits."""
    instructions = traced.program.instructions()
    free = dict.fromkeys(QUEUES, 0)
    for run in predicted.runs:
        common: Event = {"tid": QUEUES.index(run.queue)}
        since, free[run.queue] = free[run.queue], run.stop
        if run.start > since:
            yield _event(
                "X",
                f"waits for {run.waits_for}",
                process,
                cat="wait",
                ts=start + since,
                dur=run.start - since,
                **common,
            )
        label = traced.labels[run.number] if traced.labels else ""
        details = {"number": run.number, "end": start + run.end, "waited for": run.waits_for}
        yield _event(
            "X",
            label or run.queue,
            process,
            cat=run.queue,
            ts=start + run.start,
            dur=run.stop - run.start,
            args={**details, "descriptor": str(instructions[run.number])},
            **common,
        )


def _of_counters(traced: Traced, process: int, start: int) -> Iterator[Event]:
    """Shares of the cycles from one reading to the next."""
    machine = traced.program.configuration
    word = max(8 * machine.word_bytes // machine.data_width, 1)  # cycles of one on the bus
    before: Mapping[str, int] = {}
    for now in traced.counted:
        since = before.get("cycles", 0)
        if (cycles := now["cycles"] - since) <= 0:
            continue
        for name, parts in _SHARES.items():
            shares = {}
            for part, counter in parts.items():
                spent = (now[counter] - before.get(counter, 0)) * (
                    word if counter.startswith("words") else 1
                )
                shares[part] = round(100 * spent / cycles, 1)
            yield _event("C", name, process, ts=start + since, args=shares)
        before = now
