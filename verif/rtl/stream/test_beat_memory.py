"""Memories of beats, all sizes that are published: what is read stood there last."""

import numpy as np
import pytest

from mxsafe.rtl.stream.beat_memory import BeatMemory
from verif.support.checkers import assert_equal
from verif.support.farm import published_farm, run_farm
from verif.support.manifest import Module, Words
from verif.support.simulators import SIMULATORS
from verif.support.tests import raises
from verif.support.units import random_words

_PLACES, _CLOCKS = 24, 500
"""Addresses that are used of each memory, and cycles after each of them was written."""


def _accesses(module: Module, seed: int) -> tuple[dict[str, Words], np.ndarray]:
    """Inputs of all cycles, and the cycle in which what is read after each was written."""
    rng = np.random.default_rng(seed)
    depth, ports = module.parameters["depth"], module.ports
    count = min(_PLACES, depth)
    others = 1 + rng.choice(depth - 2, count - 2, replace=False) if depth > 2 else []
    places = np.array([0, depth - 1, *others])
    clocks = _PLACES + _CLOCKS
    writes = rng.random(clocks) < 0.5
    reads = rng.random(clocks) < 0.7
    to, at = (places[rng.integers(0, count, clocks)] for _ in range(2))
    writes[:_PLACES], reads[:_PLACES] = True, False
    to[:_PLACES] = places[np.arange(_PLACES) % count]
    reads[_PLACES] = True
    # What a read gives of the address that is written in the same cycle is not defined.
    writes &= ~(reads & (to == at))
    written: dict[int, int] = {}
    shown, expected = 0, []
    for clock in range(clocks):
        expected.append(shown)
        if reads[clock]:
            shown = written[int(at[clock])]
        if writes[clock]:
            written[int(to[clock])] = clock
    inputs = {"write_en": writes, "write_address": to, "read_en": reads, "read_address": at}
    words = {name: ports[name].words(values.astype(np.int64)) for name, values in inputs.items()}
    words["write_data"] = random_words(rng, module.parameters["beat_bits"], clocks)
    return words, np.array(expected)


@pytest.mark.both_simulators
@pytest.mark.parametrize("simulator", SIMULATORS)
def test_what_is_read_stood_there_last(simulator: str) -> None:
    farm = published_farm("beat_memories", BeatMemory)
    given = {key: _accesses(module, at) for at, (key, module) in enumerate(farm.modules.items())}
    clocks, first = _PLACES + _CLOCKS, _PLACES + 1
    logs = run_farm(
        simulator,
        farm,
        {
            f"{key}.{name}": word
            for key, (words, _) in given.items()
            for name, word in words.items()
        },
        np.ones(clocks, np.int64),
        (np.arange(clocks) % 7 == 3).astype(np.int64),  # it has no reset
        unsettled=first,
    )
    for key, (words, written) in given.items():
        expected = words["write_data"][written]
        compared = assert_equal(key, logs[key]["read_data"][first:], expected[first:])
        assert compared >= _CLOCKS - 1


def test_memories_that_cannot_work() -> None:
    with raises(ValueError, "depth must be 2 or more, not 1"):
        BeatMemory(depth=1)
