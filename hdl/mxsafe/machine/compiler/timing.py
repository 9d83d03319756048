"""How long a program takes and what it moves, from its descriptors alone."""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mxsafe.machine.compiler.emitter import Emitter, Step
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.description import DESCRIPTORS, QUEUES

__all__ = ["Prediction", "Times", "predict"]


@dataclass(frozen=True, kw_only=True)
class Times:
    """Clocks that a machine takes beside those of its work.

    Attributes
    ----------
    memory : int
        From a request to the first word of memory.
    load, store, gemm, vector : int
        From the last beat of a descriptor's work to its end.
    """

    memory: int = 100
    load: int = 8
    store: int = 8
    gemm: int = 80
    vector: int = 60


@dataclass(frozen=True)
class Prediction:
    """What is known of a program before it runs.

    Attributes
    ----------
    cycles : int
    array_busy : int
        Clocks in which the array takes a beat.
    busy : dict of str to int
        Clocks in which each queue works.
    words_read, words_written : int
        Words that LOAD and STORE move: exact.
    """

    cycles: int
    array_busy: int
    busy: dict[str, int]
    words_read: int
    words_written: int


def predict(program: Emitter, times: Times | None = None) -> Prediction:
    """Clocks and words of a program.

    Parameters
    ----------
    program : Emitter
    times : Times, optional

    Returns
    -------
    Prediction
    """
    times = Times() if times is None else times
    configuration, ordering = program.configuration, program.ordering
    tokens: dict[tuple[int, int], deque[int]] = {}
    waiting: list[deque[int]] = [
        deque([0] * configuration.queue_depth, configuration.queue_depth) for _ in QUEUES
    ]
    free = [0] * len(QUEUES)
    busy = dict.fromkeys(QUEUES, 0)
    fetched = end = array = 0
    words = dict.fromkeys(("load", "store"), 0)
    for number, step in enumerate(program.steps):
        queue = ordering.queues[number]
        fetched = max(fetched + 1, waiting[queue][0])
        given = [
            tokens[other, queue].popleft()
            for other in range(len(QUEUES))
            if ordering.waits[number] >> other & 1
        ]
        start = max([fetched, free[queue], *given])
        work, after = _work(step, configuration, times)
        end_of_step = start + work + after
        # The next product begins while the last rows of this one leave.
        free[queue] = start + work if step.kind == "gemm" else end_of_step
        busy[step.kind] += work
        waiting[queue].append(end_of_step)
        for other in range(len(QUEUES)):
            if ordering.signals[number] >> other & 1:
                tokens.setdefault((queue, other), deque()).append(end_of_step)
        end = max(end, end_of_step)
        if step.kind in words:
            words[step.kind] += _words(step)
        if step.kind == "gemm":
            array += _product(step.fields, ("strips_a", "strips_w", "beats"))
    return Prediction(end, array, busy, words["load"], words["store"])


def _work(step: Step, configuration: MachineConfiguration, times: Times) -> tuple[int, int]:
    """Clocks of a descriptor's work, and from there to its end."""
    fields = step.fields
    if step.kind in ("load", "store"):
        runs = _product(fields, ("count_1", "count_2", "count_3"))
        return max(_words(step), 2 * runs), times.memory + getattr(times, step.kind)
    if step.kind == "gemm":
        tiles = _product(fields, ("strips_a", "strips_w"))
        return tiles * max(fields["beats"], configuration.rows), times.gemm
    beats, rows = fields["beats"], fields["rows"]
    names = DESCRIPTORS["vector"].field("reduction").enumeration
    assert names is not None
    passes = {"none": 1, "softmax": 2, "layer_norm": 3, "rms_norm": 2}
    reduction = names.name_of(fields["reduction"])
    assert reduction is not None
    first = beats if fields["reduction"] else 0  # the first row enters the memory
    return passes[reduction] * beats * rows + first, times.vector


def _words(step: Step) -> int:
    return _product(step.fields, ("count_0", "count_1", "count_2", "count_3"))


def _product(fields: Mapping[str, int], names: Sequence[str]) -> int:
    return math.prod(fields[name] for name in names)
