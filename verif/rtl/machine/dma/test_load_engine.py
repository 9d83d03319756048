"""The LOAD engine: random descriptors for every buffer, stops, errors, speed."""

from functools import partial
from typing import Any

import pytest

from mxsafe.machine.assembler import Instruction
from mxsafe.machine.description import LOAD_BUFFERS
from mxsafe.rtl.machine.dma.load_engine import LoadEngine
from mxsafe.rtl.machine.dma.tile_transposer import TileTransposer
from mxsafe.rtl.machine.dma.wide_transposer import WideTransposer
from verif.rtl.machine.dma.memory_port_checks import LIVELY, Traffic
from verif.rtl.machine.dma.transfer_checks import (
    at_the_ends,
    check_loads,
    descriptor,
    load_engine,
    long_loops,
    machine_of,
    names_of,
    random_loads,
    single_steps,
)
from verif.support.tests import Volume, refused, some
from verif.support.units import published

_FOUR = {"format_w": "mxfp4_e2m1"}
_MACHINES = ({"rows": 16, **_FOUR}, {"rows": 8, **_FOUR}, {"rows": 4}, {"rows": 16})
"""Options of machines, with codes that are packed and without."""
_WITHOUT_SCALES = tuple({"rows": rows, "arithmetic": "bf16"} for rows in (16, 8, 4))
"""The same of machines whose codes are of two bytes and have no scales."""


_past_the_end = partial(descriptor, "load")


@pytest.mark.one_simulator("verilator")
@pytest.mark.parametrize("options", some(_MACHINES), ids=map(str, range(4)))
@pytest.mark.parametrize("traffic", some([LIVELY, Traffic()]), ids=["lively", "calm"])
def test_random_descriptors(
    simulator: str, options: dict[str, Any], traffic: Traffic, volume: Volume
) -> None:
    module = load_engine(**options)
    count = {"icarus": volume(20, 30), "verilator": volume(40, 120, 60)}[simulator]
    check_loads(simulator, module, random_loads(options["rows"], module, count), traffic)


@pytest.mark.parametrize("options", some(_WITHOUT_SCALES), ids=["16", "8", "4"])
def test_codes_of_two_bytes(simulator: str, options: dict[str, Any]) -> None:
    """No scales, beats of four words, and tiles of wide codes that are transposed."""
    module = load_engine(**options)
    assert not [name for name in module.ports if "scales" in name]
    count = {"icarus": 20, "verilator": 60}[simulator]
    check_loads(simulator, module, random_loads(options["rows"], module, count), LIVELY)


@pytest.mark.parametrize(
    "wrong",
    [
        _past_the_end("a_codes", 247, count_0=10),
        _past_the_end("w_codes", 400),
        # The last word stands beside one that fits.
        _past_the_end("a_codes", 249, count_0=8, transpose=1, step_0=2),
        _past_the_end("a_codes", (1 << 17) - 1, count_0=8, transpose=1, step_0=0),
    ],
    ids=range(4),
)
def test_wide_codes_past_the_end(wrong: Instruction) -> None:
    module = load_engine(**_WITHOUT_SCALES[0])
    instructions = [*random_loads(4, module, 5), wrong]
    check_loads("icarus", module, instructions, LIVELY, error="address")


def test_stops(volume: Volume) -> None:
    """It runs again after a reset, whenever it was stopped."""
    module = load_engine(**_FOUR)
    traffic = Traffic(**{**LIVELY.options, "stops": (*range(1, 60, volume(9, 4, 4)), 111, 250)})
    instructions = random_loads(3, module, 20)
    check_loads("icarus", module, instructions, traffic, under_way=1)


@pytest.mark.parametrize(
    "wrong",
    some(
        [
            _past_the_end("a_codes", 120, count_0=9),
            _past_the_end("a_scales", 16),
            _past_the_end("w_codes", 200),
            _past_the_end("w_scales", 20, count_0=7, step_0=15),
            _past_the_end("vector", 255, count_1=2, step_1=1),
            _past_the_end("vector", 127, count_0=2, widen=1),
            _past_the_end("a_codes", 121, count_0=4, transpose=1, step_0=3),
            _past_the_end("a_codes", 0, count_1=900, step_1=32767, count_2=2, step_2=32767),
            _past_the_end("vector", (1 << 17) - 1, count_1=2, step_1=1),
            _past_the_end("a_codes", 125, count_0=4, packing=1),
            _past_the_end("a_scales", 5, count_0=12, packing=2, part=6),
        ],
        every=2,
    ),
    ids=range(11),
)
def test_addresses_past_the_end(wrong: Instruction) -> None:
    module = load_engine(format_w="mxfp4_e2m1")
    instructions = [*random_loads(4, module, 5), wrong]
    check_loads("icarus", module, instructions, LIVELY, error="address")


def test_sums_do_not_come_round() -> None:
    """The first word does not follow the last one that a field can name."""
    module = load_engine(a_beats=1 << 16)
    first = _past_the_end("a_codes", 5, count_0=3)
    wrong = _past_the_end("a_codes", (1 << 17) - 1, count_0=2)
    check_loads("icarus", module, [first, wrong], LIVELY, error="address")


@pytest.mark.variant
@pytest.mark.parametrize("name", published(LoadEngine))
def test_published_ones(name: str) -> None:
    """Up to the last word of each buffer, and beyond it."""
    module = published(LoadEngine)[name]
    ends = at_the_ends("load", module)
    instructions = [*ends, *random_loads(5, module, 12)]
    instructions += single_steps("load", module, within=True)
    traffic = Traffic(**{**LIVELY.options, "stops": (40, 70, 111, 160)})
    check_loads("verilator", module, instructions, traffic)
    # One word further than the last descriptor of each buffer; a place whose only bit is beyond it.
    wrong = [_past_the_end("vector", 1 << 16, widen=widen) for widen in (0, 1)]
    for buffer in names_of("load", machine_of(module)):
        last = [one for one in ends if one["buffer"] == LOAD_BUFFERS[buffer]][-1]
        wrong.append(_past_the_end(buffer, last["to"] + 1, count_0=last["count_0"]))
    for one in wrong:
        check_loads("verilator", module, [ends[0], one], Traffic(), error="address")


@pytest.mark.full
@pytest.mark.parametrize("name", published(LoadEngine))
def test_long_loops(name: str) -> None:
    instructions = long_loops("load")
    check_loads("verilator", published(LoadEngine)[name], instructions, Traffic())


@pytest.mark.full
@pytest.mark.parametrize("name", published(LoadEngine))
def test_far_steps(name: str) -> None:
    module = published(LoadEngine)[name]
    right = at_the_ends("load", module)[0]
    for wrong in single_steps("load", module, within=False):
        check_loads("verilator", module, [right, wrong], Traffic(), error="address")


def test_wide_codes_a_word_a_clock() -> None:
    """Transposed words of two bytes a code: one descriptor after the other, at the full rate."""
    module = load_engine(**_WITHOUT_SCALES[0])
    tiles = [
        _past_the_end(
            "a_codes",
            0,
            count_0=8,
            count_1=2,
            count_2=6,
            transpose=1,
            stride_1=8,
            stride_2=16,
            step_0=4,
            step_1=2,
            step_2=16,
        )
        for _ in range(3)
    ]
    result = check_loads("verilator", module, tiles, Traffic(latency=(30, 30)))
    words = 3 * 8 * 2 * 6
    # A descriptor's last group leaves before the next one's first word enters.
    assert words < result["clocks"] <= words + 3 * 8 + 30 + module.latency + 12


@pytest.mark.parametrize(("transpose", "target"), [(0, "asic"), (1, "asic"), (0, "fpga")])
def test_read_errors(transpose: int, target: str) -> None:
    module = load_engine(target=target)
    wrong = _past_the_end("a_codes", 0, count_0=4, count_1=5, stride_1=4, transpose=transpose)
    before = [i for i in random_loads(4, module, 12) if i["address"] > 32 * 30]
    assert len(before) > 5
    check_loads("icarus", module, [*before, wrong], LIVELY, error="read", wrong_words=[13])


def test_a_word_a_clock() -> None:
    """Plain, transposed and widened words; descriptors follow one another without a gap."""
    module = load_engine()
    tiles = _past_the_end(
        "w_codes", 0, count_0=4, count_1=25, stride_1=4, step_0=2, step_1=8, transpose=1
    )
    plain = _past_the_end("w_codes", 0, count_0=100)
    wide = _past_the_end("vector", 0, count_0=100, widen=1)
    instructions = [plain, tiles, wide, plain, tiles, wide]
    result = check_loads("verilator", module, instructions, Traffic(latency=(20, 20)))
    words = 600
    assert words < result["clocks"] <= words + 20 + module.latency + 10


test_tiles_that_cannot_work = refused(
    TileTransposer, [({"rows": 12}, "rows must be 8 or 16, not 12")]
)
test_wide_tiles_that_cannot_work = refused(
    WideTransposer,
    [
        ({"rows": 12}, "rows must be 8 or 16, not 12"),
        ({"code_bytes": 1}, "code_bytes must be 2 or 4, not 1"),
    ],
)
