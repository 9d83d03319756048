"""The queue of tags: random pushes and pops, against a list."""

from pathlib import Path

import numpy as np
import pytest

from mxsafe.rtl.accelerator.tag_queue import TagQueue
from verif.support.checkers import assert_equal
from verif.support.generated import generated
from verif.support.simulators import run_lockstep
from verif.support.tests import Tally


@pytest.mark.parametrize(("tag_bits", "depth"), [(1, 2), (3, 8)])
def test_random_tags(
    simulator: str, tag_bits: int, depth: int, tmp_path: Path, tally: Tally
) -> None:
    module = generated(TagQueue(tag_bits=tag_bits, depth=depth), tmp_path)
    rng = np.random.default_rng(depth)
    held: list[int] = []
    inputs, expected = [], []
    for clock in range(1000):
        rate = 0.8 if clock // 40 % 2 else 0.3  # it fills up, and runs empty
        pop = int(bool(held) and rng.random() > rate)
        push = int(len(held) < depth and rng.random() < rate)
        tag = int(rng.integers(0, 1 << tag_bits))
        inputs.append((push, tag, pop))
        expected.append((held[0] if held else -1, not held, len(held) == depth))
        held = held[pop:] + [tag] * push
    columns = zip(("push", "tag", "pop"), np.array(inputs).T, strict=True)
    stimulus = {name: module.ports[name].words(values) for name, values in columns}
    stimulus["rst"] = module.ports["rst"].words(np.zeros(len(inputs), np.int64))
    log = run_lockstep(simulator, module, stimulus, unsettled=len(inputs))
    right = np.array(expected, np.int64)
    got = np.stack(
        [module.ports[name].numbers(log[name]) for name in ("oldest", "empty", "full")], axis=1
    )
    got[right[:, 0] < 0, 0] = -1
    assert right[:, 1].any()
    assert right[:, 2].any()
    tally(simulator, "tag_queue", assert_equal("queue", got, right, clock=np.arange(len(right))))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"tag_bits": 0}, "tag_bits must be a positive integer, not 0"),
        ({"depth": 6}, "depth must be a power of two, not 6"),
        ({"depth": 1}, "depth must be 2 or more, not 1"),
    ],
)
def test_configurations_that_cannot_work(parameters: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError) as error:
        TagQueue(**parameters)
    assert str(error.value) == message
