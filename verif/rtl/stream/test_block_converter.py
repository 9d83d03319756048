"""The converter whose blocks wait in a memory, in both of its shapes, against the model."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mxsafe.formats import MX_FORMATS
from mxsafe.model.converter import convert_beats
from mxsafe.rtl.stream.block_converter import SHAPES, BlockConverter
from mxsafe.vectors.corner_classes import FLOAT32, block_classes
from verif.support.manifest import Module
from verif.support.simulators import SIMULATORS, lint
from verif.support.stream_job import Streamed, check_stream
from verif.support.tests import refused, some, typical
from verif.support.units import generated, published


def block_converter(format: str = "mxsf", **options: Any) -> Module:
    """A converter, generated into `folder`."""
    return generated(BlockConverter(format=MX_FORMATS[format], **{"width": 8} | options))


def _span(module: Module, shape: str) -> tuple[int, int]:
    """Beats and lanes of a block."""
    p = module.parameters
    return (p["block"], 1) if shape == "blocks" else (p["tile"], p["tile"])


def mixed_beats(
    module: Module, shape: str, seed: int, count: int, *, ragged: bool
) -> tuple[NDArray[np.uint32], NDArray[np.bool_]]:
    """Beats of blocks of every class, in packets of any length or of a few blocks."""
    rng = np.random.default_rng(seed)
    beats, span = _span(module, shape)
    width = module.parameters["width"]
    groups = width // span
    classes = block_classes(module.format, FLOAT32)
    each = -(-count * groups // (beats * len(classes)))
    words = np.concatenate([draw(rng, each, beats * span) for draw in classes.values()])
    words = rng.permutation(words)
    words = words[: len(words) // groups * groups].reshape(-1, groups, beats, span)
    words = words.swapaxes(1, 2).reshape(-1, width)[:count]
    if ragged:
        often = np.repeat(np.resize([0.5, 0.1, 1.0, 0.0], -(-len(words) // 16)), 16)
        last = rng.random(len(words)) < often[: len(words)]
    else:
        # The last block is short.
        packet = 3 * beats + beats // 4
        last = np.arange(len(words)) % packet == packet - 1
    last[-1] = True
    return words.astype(np.uint32), last


def check_blocks(
    simulator: str,
    module: Module,
    shape: str,
    beats: tuple[NDArray[np.uint32], NDArray[np.bool_]],
    *,
    steady: bool = False,
    **options: Any,
) -> Streamed:
    """Beats come out as the model has them; if they are steady one a cycle."""
    words, last = beats
    length, span = _span(module, shape)
    expected = convert_beats(words.view(np.float32), last, module.format, block=(length, span))
    scales = np.repeat(expected.scales, span, axis=1)
    streamed = check_stream(
        simulator,
        module,
        {"s_axis_tdata": words, "s_axis_tlast": last},
        {
            "m_axis_tdata": np.concatenate([expected.codes, scales], axis=1).astype(int),
            "m_axis_tlast": expected.last,
            "m_axis_tuser": expected.block_last,
        },
        steady={"tiles": int(shape == "tiles")} if "tiles" in module.ports else {},
        **options,
    )
    if steady:
        assert (np.diff(streamed.taken) == 1).all(), "a beat had to wait"
        ends = np.flatnonzero(expected.block_last)
        waits = streamed.left[np.r_[0, ends[:-1] + 1]] - streamed.taken[ends]
        assert waits[0] == module.latency, f"the first block took {waits[0]} cycles"
    return streamed


COUNTS = {"icarus": 400, "verilator": 4_000}
"""Beats of a job."""
EVERY = {"icarus": 22, "verilator": 11}
"""Cycles between the moments of resets."""


@pytest.mark.parametrize("shape", SHAPES)
def test_whole_blocks(shape: str, simulator: str) -> None:
    """A beat a cycle, block after block."""
    module = block_converter()
    beats = mixed_beats(module, shape, 1, COUNTS[simulator], ragged=False)
    check_blocks(simulator, module, shape, beats, steady=True)


@pytest.mark.parametrize("paced", [False, True])
def test_tiles_for_fpgas(paced: bool) -> None:
    """The largest exponent is found by comparisons there."""
    module = block_converter(target="fpga", paced=paced)
    assert lint(module) == ""
    beats = mixed_beats(module, "tiles", 2, COUNTS["icarus"], ragged=True)
    check_blocks("icarus", module, "tiles", beats, stall_in=0.2)


@pytest.mark.parametrize("shape", SHAPES)
def test_packets_of_any_length(shape: str, simulator: str) -> None:
    """Short blocks, pauses on either side, resets at any moment."""
    module = block_converter()
    for seed, (stall_in, stall_out) in enumerate(((0.0, 0.0), (0.3, 0.1))):
        beats = mixed_beats(module, shape, seed, COUNTS[simulator] // 4, ragged=True)
        check_blocks(
            simulator,
            module,
            shape,
            beats,
            stall_in=stall_in,
            stall_out=stall_out,
            resets_after=range(1, 90, EVERY[simulator]) if stall_in else (),
        )


@pytest.mark.variant
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", typical(published(BlockConverter)))
def test_published_ones(name: str, shape: str) -> None:
    """Blocks in all lanes, short ones among them, with pauses on either side."""
    module = published(BlockConverter)[name]
    beats = mixed_beats(module, shape, 6, 160, ragged=True)
    check_blocks("icarus", module, shape, beats, stall_in=0.1, stall_out=0.2)


@pytest.mark.full
@pytest.mark.parametrize("shape", SHAPES)
def test_many_blocks(shape: str) -> None:
    module = block_converter()
    beats = mixed_beats(module, shape, 2, 50_000, ragged=True)
    check_blocks("verilator", module, shape, beats, stall_out=0.1)


@pytest.mark.parametrize("simulator", some(SIMULATORS))
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("format", some(["mxfp6_e2m3", "mxint8"]))
def test_one_shape_of_other_formats(format: str, shape: str, simulator: str) -> None:
    """A unit with one shape has no input for it; blocks may be shorter than tiles."""
    module = block_converter(format, width=4, shapes=(shape,), block=6, tile=2)
    assert "tiles" not in module.ports
    beats = mixed_beats(module, shape, 5, COUNTS[simulator] // 4, ragged=True)
    check_blocks(simulator, module, shape, beats, stall_in=0.1, stall_out=0.1)


def test_lint() -> None:
    assert lint(block_converter()) == ""


test_unsuitable_configurations = refused(
    BlockConverter,
    [
        ({"shapes": ()}, "shapes must be one or both of blocks, tiles, not none"),
        ({"shapes": ("rows",)}, "shapes must be one or both of blocks, tiles, not rows"),
        ({"width": 12}, "tile must divide width 12, not 8"),
        ({"block": 1}, "block must be an integer from 2 to 256, not 1"),
        ({"tile": 257}, "tile must be an integer from 2 to 256, not 257"),
        ({"paced": True}, "paced must be False with target asic, not True"),
    ],
    format=MX_FORMATS["mxsf"],
)
