"""What an operand packer is held to: beats of a converter, gathered in NumPy."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import mxsafe as mx
from mxsafe.rtl.stream.operand_packer import OperandPacker
from verif.support.checkers import assert_equal
from verif.support.generated import generated
from verif.support.manifest import Module
from verif.support.stream_job import Streamed, run_stream

__all__ = ["ConverterBeats", "check_packing", "packer", "random_blocks"]

ConverterBeats = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]
"""Codes (beats, columns), scales (beats, groups), whether a beat ends a block, and a packet."""


def packer(folder: Path, fmt: str = "mxsf", **parameters: int) -> Module:
    """A packer, generated into `folder`."""
    unit = OperandPacker(format=mx.MX_FORMATS[fmt], **parameters)
    return generated(unit, folder)


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


def _gathered(module: Module, beats: ConverterBeats) -> tuple[NDArray[np.int64], ...]:
    """Fields of operand beats, and their flags."""
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
            flags.append((ends, ends and last[end - 1]))
        start = end
    return np.array(rows), *np.array(flags).T.astype(np.int64)


def check_packing(
    simulator: str,
    module: Module,
    beats: ConverterBeats,
    *,
    stall_in: float = 0.0,
    stall_out: float = 0.0,
    resets_after: Sequence[int] = (),
) -> Streamed:
    """Operand beats come out as they have to."""
    codes, scales, block_last, last = beats
    ports = module.ports
    streamed = run_stream(
        simulator,
        module,
        {
            "s_axis_tdata": ports["s_axis_tdata"].join(np.concatenate([codes, scales], axis=1)),
            "s_axis_tlast": ports["s_axis_tlast"].words(last),
            "s_axis_tuser": ports["s_axis_tuser"].words(block_last),
        },
        stall_in=stall_in,
        stall_out=stall_out,
        resets_after=resets_after,
    )
    rows, ends_block, ends_packet = _gathered(module, beats)
    index = np.arange(len(rows))
    got = ports["m_axis_tdata"].split(streamed.words["m_axis_tdata"])
    assert_equal(f"{module.name} beats", got, rows, beat=index)
    for port, flags in (("m_axis_tuser", ends_block), ("m_axis_tlast", ends_packet)):
        assert_equal(port, streamed.words[port][:, 0].astype(np.int64), flags, beat=index)
    return streamed
