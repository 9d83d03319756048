"""The operand packer: blocks of any length, stalls, resets, and the rate."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import mxsafe as mx
from mxsafe.formats import BF16, MX_FORMATS
from mxsafe.rtl.stream.operand_packer import OperandPacker
from verif.support.manifest import Module
from verif.support.stream_job import Streamed, check_stream
from verif.support.tests import refused, some
from verif.support.units import generated

ConverterBeats = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]
"""Codes (beats, columns), scales (beats, groups), whether a beat ends a block, and a packet."""


def packer(fmt: str = "mxsf", **parameters: int) -> Module:
    """A packer, generated into `folder`."""
    unit = OperandPacker(format=mx.MX_FORMATS[fmt], **parameters)
    return generated(unit)


def random_blocks(module: Module, seed: int, blocks: int, longest: int) -> ConverterBeats:
    """Blocks of any length, the first ones of each in turn; some end a packet."""
    p = module.parameters
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, longest + 1, blocks)
    lengths[:longest] = np.arange(1, longest + 1)[:blocks]
    block_last = np.zeros(lengths.sum(), np.bool_)
    block_last[np.cumsum(lengths) - 1] = True
    last = block_last & (rng.random(len(block_last)) < 0.3)
    last[-1] = True
    width = mx.MX_FORMATS[module.format].element.width
    codes = rng.integers(1, 1 << width, (len(last), p["width"]))
    scales = np.repeat(rng.integers(0, 256, (blocks, p["groups"])), lengths, axis=0)
    return codes, scales, block_last, last


def _gathered(
    module: Module, beats: ConverterBeats, marked: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], ...]:
    """Fields of operand beats, and their flags: of those that end a block, whether it is marked."""
    p = module.parameters
    codes, scales, block_last, last = beats
    rows, flags = [], []
    start = 0
    for end in (np.flatnonzero(block_last) + 1).tolist():
        block = np.pad(codes[start:end], ((0, (start - end) % p["lanes"]), (0, 0)))
        operand = block.reshape(-1, p["lanes"], p["width"]).swapaxes(1, 2)
        spread = np.repeat(scales[start], p["width"] // p["groups"])
        for index, one in enumerate(operand):
            rows.append(np.concatenate([one.ravel(), spread]))
            ends = index == len(operand) - 1
            flags.append((ends and marked[end - 1], ends and last[end - 1]))
        start = end
    return np.array(rows), *np.array(flags).T.astype(np.int64)


def check_packing(
    simulator: str, module: Module, beats: ConverterBeats, **options: Any
) -> Streamed:
    """Operand beats come out as they have to."""
    codes, scales, block_last, last = beats
    # The end of a packet ends its block, marked or not.
    marked = block_last & ~(last & (np.arange(len(last)) % 2 == 0))
    rows, ends_block, ends_packet = _gathered(module, beats, marked)
    return check_stream(
        simulator,
        module,
        {
            "s_axis_tdata": np.concatenate([codes, scales], axis=1),
            "s_axis_tlast": last,
            "s_axis_tuser": marked,
        },
        {"m_axis_tdata": rows, "m_axis_tuser": ends_block, "m_axis_tlast": ends_packet},
        **options,
    )


committed = pytest.mark.parametrize("name", ["mxsf_operand_packer", "mxsf_operand_packer_groups2"])


@committed
@pytest.mark.parametrize("stalls", some([(0.3, 0.1), (0.0, 0.0), (0.1, 0.3)], every=3))
def test_blocks(
    simulator: str, name: str, stalls: tuple[float, float], modules: dict[str, Module]
) -> None:
    module = modules[name]
    stall_in, stall_out = stalls
    blocks = {"icarus": 40, "verilator": 200}[simulator]
    check_packing(
        simulator,
        module,
        random_blocks(module, 1, blocks, 13),
        stall_in=stall_in,
        stall_out=stall_out,
        resets_after=range(1, 20) if stall_in > stall_out else (),
    )


def test_rate(modules: dict[str, Module]) -> None:
    """Beats of whole blocks go in every cycle; a missing lane costs a cycle."""
    module = modules["mxsf_operand_packer_groups2"]
    codes, scales, _, _ = random_blocks(module, 2, 8, 1)
    beats = np.repeat(codes, 8, axis=0), np.repeat(scales, 8, axis=0)
    index = np.arange(64)
    streamed = check_packing("icarus", module, (*beats, index % 8 == 7, index == 63))
    assert (np.diff(streamed.taken) == 1).all()
    assert (streamed.left == streamed.taken[3::4]).all()
    assert streamed.left[0] - streamed.taken[0] == module.latency
    lengths = np.array([5, 4, 2, 8])
    ends = np.isin(np.arange(19), np.cumsum(lengths) - 1)
    scales = np.repeat(scales[:4], lengths, axis=0)
    streamed = check_packing(
        "icarus", module, (np.repeat(codes[:1], 19, axis=0), scales, ends, ends)
    )
    last = streamed.taken[np.cumsum(lengths) - 1]
    assert np.diff(last, prepend=streamed.taken[0] - 1).tolist() == [8, 4, 4, 8]


@pytest.mark.parametrize(
    ("fmt", "parameters"),
    [
        ("mxsf", {"width": 2, "lanes": 2}),
        ("mxsf", {"width": 1, "lanes": 8}),
        ("mxfp6_e3m2", {"width": 4, "groups": 1}),
        ("mxfp4_e2m1", {"width": 2, "lanes": 4}),
    ],
)
def test_other_sizes(fmt: str, parameters: dict[str, int]) -> None:
    module = packer(fmt, **parameters)
    blocks = random_blocks(module, 3, 40, 9)
    check_packing("icarus", module, blocks, stall_in=0.2, stall_out=0.2)


def check_numbers(simulator: str, module: Module, rows: int, **options: Any) -> Streamed:
    """Numbers without scales: rows of any length, each filled up to whole operand beats with 0."""
    p = module.parameters
    rng = np.random.default_rng(4)
    lengths = rng.integers(1, 10, rows)
    lengths[:9] = np.arange(1, 10)[:rows]
    last = np.isin(np.arange(lengths.sum()), np.cumsum(lengths) - 1)
    codes = rng.integers(1, 1 << BF16.width, (len(last), p["width"]))
    beats, ends = [], []
    for row in np.split(codes, np.cumsum(lengths)[:-1]):
        whole = np.pad(row, ((0, -len(row) % p["lanes"]), (0, 0)))
        beats += list(whole.reshape(-1, p["lanes"], p["width"]).swapaxes(1, 2))
        ends += [False] * (len(whole) // p["lanes"] - 1) + [True]
    return check_stream(
        simulator,
        module,
        {"s_axis_tdata": codes, "s_axis_tlast": last},
        {
            "m_axis_tdata": np.array(beats).reshape(len(beats), -1),
            "m_axis_tlast": np.array(ends),
        },
        **options,
    )


@pytest.mark.parametrize("stalls", some([(0.3, 0.1), (0.0, 0.0)]))
def test_numbers_without_scales(simulator: str, stalls: tuple[float, float]) -> None:
    module = generated(OperandPacker(format=BF16))
    assert not [name for name in module.ports if name.endswith("tuser")]
    rows = {"icarus": 40, "verilator": 200}[simulator]
    stall_in, stall_out = stalls
    check_numbers(
        simulator,
        module,
        rows,
        stall_in=stall_in,
        stall_out=stall_out,
        resets_after=range(1, 20) if stall_in else (),
    )


test_configurations_that_cannot_work = refused(
    OperandPacker,
    [
        ({"width": 0}, "width must be a positive integer, not 0"),
        ({"lanes": 3}, "lanes must be a power of two, not 3"),
        ({"groups": 3}, "groups must divide width 16, not 3"),
        (
            {"format": BF16, "groups": 2},
            "groups must be None with bf16, which has no scales, not 2",
        ),
        (
            {"format": MX_FORMATS["mxfp6_e2m3"], "width": 2},
            "width must make s_axis_tdata whole bytes, not 28 bits",
        ),
    ],
    format=MX_FORMATS["mxsf"],
)
