"""Addresses of nested loops: random loops, with sums that exceed an address, against sums.

Small loops come to all their ends; those of the machine are long, one after the other.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mxsafe.rtl.machine.dma.address_generator import AddressGenerator
from mxsafe.rtl.machine.dma.buffer_address_generator import BufferAddressGenerator
from verif.support.checkers import assert_equal
from verif.support.manifest import Module
from verif.support.simulators import run_lockstep
from verif.support.tests import Volume, refused, typical
from verif.support.units import generated, published

_SMALL: dict[str, Any] = {
    "count_bits": (3, 2, 2),
    "step_bits": (2, 4, 3),
    "start_bits": 5,
    "address_bits": 6,
    "paced": False,
}
_MOST_TURNS = 1500
"""Of all loops together."""
_TOLD = ("address", "last", "last_turn")


def _loops(
    rng: np.random.Generator, p: Mapping[str, Any], alone: int
) -> tuple[dict[str, NDArray[np.int64]], NDArray[np.int64]]:
    """Inputs of each cycle, and what is told, -1 where that may be anything.

    The loop of the number `alone`, if there is one, goes as far as it can by itself.
    """
    most = np.array([(1 << bits) - 1 for bits in (*p["count_bits"], *p["step_bits"])])
    most_counts, most_steps = most.reshape(2, -1)
    counts = rng.integers(1, most_counts + 1)
    while counts.prod() > _MOST_TURNS:
        counts[counts.argmax()] //= 2
    # Some loops stay where addresses are small enough, as all do that the machine accepts.
    steps = rng.integers(0, most_steps + 1) >> rng.integers(0, p["step_bits"])
    start = int(rng.integers(0, 1 << p["start_bits"])) >> int(rng.integers(0, 4))
    if alone < len(counts):
        counts = np.where(np.arange(len(counts)) == alone, most_counts, 1)
        steps[alone], start = most_steps[alone], (1 << p["start_bits"]) - 1
    turns = np.indices(counts[::-1]).reshape(len(counts), -1)[::-1]
    total, top = start + steps @ turns, 1 << p["address_bits"] - 1
    # Once past what an address can be, it stays there.
    address = total % top + top * (total >= top)
    last_turn = (turns[1:] == counts[1:, None] - 1).all(axis=0)
    last = last_turn & (turns[0] == counts[0] - 1)
    clocks = rng.integers(1, 3, len(total)) + p["paced"]
    ends = np.cumsum(clocks)
    told = np.repeat(np.stack([address, last, last_turn], axis=1), clocks, axis=0)
    if p["paced"]:
        told[ends - clocks] = -1
    told = np.concatenate([np.full((1, 3), -1), told])
    begins = np.arange(len(told)) == 0
    advance = np.isin(np.arange(len(told)), ends)
    advance[-1] = rng.integers(0, 2)
    pins = {"begins": begins, "start": start * begins, "advance": advance}
    for name, values in (("count", counts), ("step", steps)):
        pins |= {f"{name}_{i}": np.full(len(told), value) for i, value in enumerate(values)}
    return {name: values.astype(np.int64) for name, values in pins.items()}, told


def _check(simulator: str, module: Module, times: int) -> None:
    """Compare addresses and ends of loops."""
    p, rng = _SMALL | module.parameters, np.random.default_rng(1)
    pins, told = zip(*(_loops(rng, p, number) for number in range(times)), strict=True)
    stimulus = {name: np.concatenate([each[name] for each in pins]) for name in pins[0]}
    if "rst" in module.ports:
        stimulus["rst"] = 0 * stimulus["begins"]
    log = run_lockstep(simulator, module, stimulus, unsettled=1)
    expected = np.concatenate(told)
    got = np.stack([module.ports[name].numbers(log[name]) for name in _TOLD], axis=1)
    known = expected[:, 0] >= 0
    assert_equal("address", got[known], expected[known], row=np.flatnonzero(known))
    # A loop that goes as far as it can exceeds an address, where sizes let it.
    steps = zip(p["count_bits"], p["step_bits"], strict=True)
    reach = (1 << p["start_bits"]) - 1 + max(((1 << c) - 1) * ((1 << s) - 1) for c, s in steps)
    past = expected[:, 0] >> p["address_bits"] - 1 == 1
    assert past.any() == bool(reach >> p["address_bits"] - 1), "no sum exceeds an address"


@pytest.mark.parametrize("paced", [False, True])
def test_random_loops(simulator: str, paced: bool) -> None:
    _check(simulator, generated(AddressGenerator(**_SMALL | {"paced": paced})), 200)


@pytest.mark.parametrize("name", typical(published(AddressGenerator), every=6))
def test_loops_of_the_machine(name: str, volume: Volume) -> None:
    _check("verilator", published(AddressGenerator)[name], volume(14, 24, 24))


test_configurations_that_cannot_work = refused(
    AddressGenerator,
    [
        ({"count_bits": (3, 0)}, "count_bits must be a positive integer, not 0"),
        (
            {"step_bits": (3, 2)},
            "step_bits must be 4 numbers, one for each of count_bits, not 2",
        ),
        ({"address_bits": 16}, "address_bits must be 17 or more, not 16"),
    ],
)
test_joined_words_that_cannot_work = refused(
    BufferAddressGenerator,
    [
        ({"together": 3}, "together must be a power of two, not 3"),
        ({"together": 2, "paced": True}, "together must be 1 if it is paced, not 2"),
    ],
)
