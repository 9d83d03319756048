"""Runs of words of descriptors with fields of all sizes, against sums."""

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from verif.support.checkers import assert_equal
from verif.support.manifest import Module
from verif.support.simulators import run_lockstep
from verif.support.tests import some

COUNT_BITS, STRIDE_BITS, ADDRESS_BITS = (10, 10, 8), 20, 32
"""Of loops around the innermost one."""
MOST_RUNS = 100
"""Of a descriptor."""
FAR = [(1, 1000), (2, 1000), (3, 250)]
"""Loops that alone reach the upper bits of an address, and so many runs of them."""


def _descriptor(rng: np.random.Generator) -> dict[str, int]:
    """Fields of any size, and at most so many runs."""
    counts, left = [1, 1, 1], MOST_RUNS
    for at in rng.permutation(3).tolist():
        counts[at] = int(rng.integers(1, left + 1)) if rng.integers(0, 2) else 1
        left //= counts[at]
    return {
        "address": int(rng.integers(0, 1 << ADDRESS_BITS)),
        "count_0": int(rng.integers(1, 1 << 12)),
        **{f"count_{at}": count for at, count in enumerate(counts, start=1)},
        **{f"stride_{at}": int(rng.integers(0, 1 << STRIDE_BITS)) for at in (1, 2, 3)},
    }


def _far(rng: np.random.Generator, loop: int, runs: int) -> dict[str, int]:
    """Fields with so many runs of a loop, as far apart as they may be, or nearly."""
    counts = {f"count_{at}": runs if at == loop else 1 for at in (1, 2, 3)}
    stride = (1 << STRIDE_BITS) - int(rng.integers(1, 1000))
    return _descriptor(rng) | counts | {f"stride_{loop}": stride}


def _runs(base: int, fields: dict[str, int], word_bytes: int) -> list[tuple[int, int, int]]:
    """Address of the first word, words, and whether it is the last run."""
    counts = [range(fields[f"count_{at}"]) for at in (3, 2, 1)]
    first = base + fields["address"] // word_bytes
    places = [
        first + sum(i * fields[f"stride_{at}"] for i, at in zip(turn, (3, 2, 1), strict=True))
        for turn in product(*counts)
    ]
    return [
        (place, fields["count_0"], int(number == len(places) - 1))
        for number, place in enumerate(places)
    ]


def _base(rng: np.random.Generator, bits: int) -> int:
    """A word so far below the top that no run is past it; half of them with ones at the end.

    To these the least sum carries, from any bit to any other.
    """
    base = int(rng.integers(0, 1 << bits - 1))
    return base | int(rng.integers(0, 2)) * ((1 << int(rng.integers(bits - 1))) - 1)


_LEAVES, _RESET, _IDLE = range(3)
"""What becomes of a descriptor in its last cycle; or nothing, since there is none."""
Shown = tuple[dict[str, int], int, int, int]
"""A descriptor, its base, for how many cycles it is shown, and how it ends."""


def _pins(module: Module, shown: list[Shown]) -> dict[str, NDArray[np.int64]]:
    """Inputs in each cycle of descriptors one after the other."""
    names = [name for name, _, _ in module.ports["fields"].fields]
    fields, bases, clocks, ends = zip(*shown, strict=True)
    number = np.repeat(np.arange(len(shown)), clocks)
    end = np.array(ends)[number]
    last = np.diff(number, append=len(shown)) > 0
    rst = last & (end == _RESET)
    return {
        "fields": np.array([[each[name] for name in names] for each in fields])[number],
        "base": np.array(bases)[number],
        "leaves": last & (end == _LEAVES),
        "valid": ~rst & (end != _IDLE),
        "rst": rst,
    }


NAMES = (
    "memory_address_generator",
    "memory_address_generator_word_bytes16_no_tells_last_paced",
    "memory_address_generator_word_bytes16",
    "memory_address_generator_no_tells_last",
    "memory_address_generator_word_bytes16_no_tells_last",
    "memory_address_generator_word_bytes16_paced",
)


@pytest.mark.parametrize("name", some(NAMES, every=4, with_variants=True))
def test_random_descriptors(name: str, modules: dict[str, Module]) -> None:
    """A few that a reset ends, then many with time for all of their runs; the next may be late."""
    module = modules[name]
    ports, bits = module.ports, module.ports["base"].width
    rng = np.random.default_rng(1)
    shown = [(_descriptor(rng), 0, int(rng.integers(2, 12)), _RESET) for _ in range(12)]
    begins = sum(clocks for _, _, clocks, _ in shown)
    expected: list[tuple[int, ...]] = []
    for fields in [_descriptor(rng) for _ in range(150)] + [_far(rng, *far) for far in FAR]:
        base = _base(rng, bits)
        runs = _runs(base, fields, module.parameters["word_bytes"])
        expected += runs
        shown.append((fields, base, 3 * len(runs) + 30, _LEAVES))
        shown += [(fields, base, 1, _IDLE)] * int(rng.integers(0, 2))
    pins = _pins(module, shown)
    ready = rng.random(len(pins["rst"])) < 0.7
    log = run_lockstep("verilator", module, pins | {"run_ready": ready}, unsettled=1)
    after_reset = np.flatnonzero(pins["rst"]) + 1
    assert log["run_valid"][after_reset - 1, 0].any(), "no run was offered in a reset"
    assert not log["run_valid"][after_reset, 0].any(), "a run outlasts a reset"
    assert not log["asked"][after_reset, 0].any(), "an end outlasts a reset"
    taken = (log["run_valid"][:, 0] & ready & (np.arange(len(ready)) >= begins)).astype(np.bool_)
    got = ports["run_payload"].split(log["run_payload"][taken])
    assert_equal("runs", got, np.array(expected)[:, : got.shape[1]])
    leaves = pins["leaves"]
    assert log["asked"][leaves, 0].all(), "a descriptor left before its runs"
    assert not log["asked"][1:, 0][leaves[:-1]].any(), "the next descriptor was taken for this one"
    assert not log["past"][begins:].any(), "a run is past the top"


@pytest.mark.parametrize("name", some(NAMES, every=6))
def test_runs_past_the_top(name: str, modules: dict[str, Module]) -> None:
    """Runs before the first one with a word past the top come, and no more until a reset."""
    module = modules[name]
    ports, bits = module.ports, module.ports["base"].width
    rng = np.random.default_rng(5)
    shown: list[Shown] = []
    expected: list[tuple[int, ...]] = []
    past = []
    for number in range(60):
        fields = _descriptor(rng)
        runs = _runs(0, fields, module.parameters["word_bytes"])
        # The furthest word is the last one that there is, or one further; or it is that of any run.
        place, words, _ = max(runs) if number % 3 < 2 else runs[int(rng.integers(len(runs)))]
        by = int(rng.integers(-words, words)) if number % 3 == 2 else number % 3
        base = min((1 << bits) - place - words + by, (1 << bits) - 1)
        based = [(base + first, *rest) for first, *rest in runs]
        wrong = [at for at, (first, words, _) in enumerate(based) if first + words > 1 << bits]
        expected += based[: wrong[0] if wrong else len(based)]
        past.append(bool(wrong))
        shown.append((fields, base, 3 * len(runs) + 30, _RESET))
    assert 10 < sum(past) < 50
    pins = _pins(module, shown)
    ends = np.flatnonzero(pins["rst"]) - 1
    pins["rst"][0], pins["valid"][0] = True, False
    log = run_lockstep("verilator", module, pins | {"run_ready": 1}, unsettled=1)
    taken = log["run_valid"][:, 0].astype(np.bool_)
    got = ports["run_payload"].split(log["run_payload"][taken])
    assert_equal("runs", got, np.array(expected)[:, : got.shape[1]])
    assert log["past"][ends, 0].tolist() == past
    assert log["asked"][ends, 0].tolist() == [not each for each in past]
