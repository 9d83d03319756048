"""The STORE engine: random descriptors from every buffer, stops, errors, speed."""

from functools import partial
from itertools import cycle
from typing import Any

import pytest

from mxsafe.machine.assembler import Instruction
from mxsafe.machine.description import STORE_BUFFERS
from mxsafe.rtl.machine.dma.store_engine import StoreEngine
from verif.rtl.machine.dma.memory_port_checks import LIVELY, Traffic
from verif.rtl.machine.dma.transfer_checks import (
    at_the_ends,
    check_stores,
    descriptor,
    long_loops,
    machine_of,
    names_of,
    random_stores,
    single_steps,
    store_engine,
)
from verif.support.tests import Volume, some
from verif.support.units import published


def _words(instructions: list[Instruction]) -> int:
    return sum(i["count_0"] * i["count_1"] * i["count_2"] * i["count_3"] for i in instructions)


_FOUR = {"format_w": "mxfp4_e2m1"}
_MACHINES = ({"rows": 16, **_FOUR}, {"rows": 8, **_FOUR}, {"rows": 4, **_FOUR}, {"rows": 8})
"""Options of machines, with codes that are packed and without."""
_WITHOUT_SCALES = tuple({"rows": rows, "arithmetic": "bf16"} for rows in (16, 8, 4))
"""The same of machines whose codes are of two bytes and have no scales."""


@pytest.mark.one_simulator("icarus")
@pytest.mark.parametrize("options", some(_MACHINES), ids=map(str, range(4)))
@pytest.mark.parametrize("traffic", some([LIVELY, Traffic()]), ids=["lively", "calm"])
def test_random_descriptors(
    simulator: str, options: dict[str, Any], traffic: Traffic, volume: Volume
) -> None:
    module = store_engine(**options)
    count = {"icarus": volume(20, 30), "verilator": volume(60, 120)}[simulator]
    instructions = random_stores(options["rows"], module, count)
    check_stores(simulator, module, instructions, traffic)


@pytest.mark.parametrize("options", some(_WITHOUT_SCALES), ids=["16", "8", "4"])
def test_codes_of_two_bytes(simulator: str, options: dict[str, Any]) -> None:
    """No scales, and beats of four words."""
    module = store_engine(**options)
    assert not [name for name in module.ports if "scales" in name]
    count = {"icarus": 20, "verilator": 60}[simulator]
    check_stores(simulator, module, random_stores(options["rows"], module, count), LIVELY)


def test_stops(volume: Volume) -> None:
    """It runs again after a reset, whenever it was stopped."""
    module = store_engine(**_FOUR)
    traffic = Traffic(**{**LIVELY.options, "stops": (*range(1, 60, volume(9, 4, 4)), 111, 250)})
    instructions = random_stores(3, module, 20)
    check_stores("icarus", module, instructions, traffic, under_way=1)


_descriptor = partial(descriptor, "store")


@pytest.mark.parametrize(
    "wrong",
    some(
        [
            _descriptor("out_codes", 195, count_0=6),
            _descriptor("out_scales", 25),
            _descriptor("vector", 255, count_1=2, step_1=1),
            _descriptor("vector", 127, count_0=2, narrow=1),
            _descriptor("vector", (1 << 17) - 1, count_1=2, step_1=1),
        ],
        every=2,
    ),
    ids=range(5),
)
def test_addresses_past_the_end(wrong: Instruction) -> None:
    """The error is told when the descriptors before are written, and they are."""
    module = store_engine()
    instructions = random_stores(4, module, 5)
    check_stores("icarus", module, [*instructions, wrong], LIVELY, error="address")


@pytest.mark.variant
@pytest.mark.parametrize("name", published(StoreEngine))
def test_published_ones(name: str) -> None:
    """Up to the last word of each buffer, and beyond it."""
    module = published(StoreEngine)[name]
    ends = at_the_ends("store", module)
    instructions = [*ends, *random_stores(5, module, 12)]
    instructions += single_steps("store", module, within=True)
    traffic = Traffic(**{**LIVELY.options, "stops": (40, 70, 111, 160)})
    check_stores("verilator", module, instructions, traffic)
    # One word further than the last descriptor of each buffer; a place whose only bit is beyond it.
    wrong = [_descriptor("vector", 1 << 16, narrow=narrow) for narrow in (0, 1)]
    for buffer in names_of("store", machine_of(module)):
        last = [one for one in ends if one["buffer"] == STORE_BUFFERS[buffer]][-1]
        wrong.append(_descriptor(buffer, last["from"] + 1, count_0=last["count_0"]))
    # It is the third in flight: with late answers the others are not written when it is found.
    for one, latency in zip(wrong, cycle((1, 30))):
        traffic = Traffic(latency=(latency, latency))
        check_stores("verilator", module, [*ends[:2], one], traffic, error="address", under_way=3)


@pytest.mark.full
@pytest.mark.parametrize("name", published(StoreEngine))
def test_long_loops(name: str) -> None:
    instructions = long_loops("store")
    check_stores("verilator", published(StoreEngine)[name], instructions, Traffic())


@pytest.mark.full
@pytest.mark.parametrize("name", published(StoreEngine))
def test_far_steps(name: str) -> None:
    module = published(StoreEngine)[name]
    right = at_the_ends("store", module)[0]
    for wrong in single_steps("store", module, within=False):
        check_stores("verilator", module, [right, wrong], Traffic(), error="address")


@pytest.mark.parametrize("at", [0, 9])
def test_write_errors(at: int) -> None:
    """An error counts that comes with any answer, and with the last one of a descriptor."""
    module = store_engine()
    before = [i for i in random_stores(4, module, 12) if i["address"] > 32 * 30]
    assert len(before) > 5
    wrong = _descriptor("out_codes", 0, count_0=10)
    check_stores("icarus", module, [*before, wrong], LIVELY, error="write", wrong_words=[at])


def test_a_word_a_clock() -> None:
    """Descriptors follow one another without waiting for answers."""
    module = store_engine()
    instructions = [
        _descriptor("out_codes", 0, count_0=100),
        _descriptor("vector", 0, count_0=100, narrow=1),
        _descriptor("vector", 3, count_0=100),
        _descriptor("out_codes", 99, count_0=100),
    ]
    result = check_stores("verilator", module, instructions, Traffic(latency=(30, 30)))
    assert 400 < result["clocks"] <= 400 + 30 + module.latency + 12
