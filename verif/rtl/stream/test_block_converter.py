"""The converter whose blocks wait in a memory, in both of its shapes, against the model."""

from pathlib import Path

import pytest

from mxsafe.formats import MX_FORMATS
from mxsafe.rtl.stream.block_converter import BlockConverter
from verif.rtl.stream.block_converter_checks import (
    SHAPES,
    block_converter,
    check_blocks,
    mixed_beats,
)
from verif.support.published import published
from verif.support.simulators import SIMULATORS, lint
from verif.support.tests import Tally, available, some, typical

COUNTS = {"icarus": 400, "verilator": 4_000}
"""Beats of a job."""
EVERY = {"icarus": 22, "verilator": 11}
"""Cycles between the moments of resets."""


@pytest.mark.parametrize("shape", SHAPES)
def test_whole_blocks(shape: str, simulator: str, tmp_path: Path, tally: Tally) -> None:
    """A beat a cycle, block after block."""
    module = block_converter(tmp_path)
    beats = mixed_beats(module, shape, 1, COUNTS[simulator], ragged=False)
    streamed = check_blocks(simulator, module, shape, beats, steady=True)
    tally(simulator, "block converter values", streamed.left.size * module.parameters["width"])


@pytest.mark.parametrize("paced", [False, True])
def test_tiles_for_fpgas(paced: bool, tmp_path: Path, tally: Tally) -> None:
    """The largest exponent is found by comparisons there."""
    module = block_converter(tmp_path, target="fpga", paced=paced)
    assert lint(module) == ""
    beats = mixed_beats(module, "tiles", 2, COUNTS["icarus"], ragged=True)
    streamed = check_blocks(available("icarus"), module, "tiles", beats, stall_in=0.2)
    tally("icarus", "block converter values", streamed.left.size * module.parameters["width"])


@pytest.mark.parametrize("shape", SHAPES)
def test_packets_of_any_length(shape: str, simulator: str, tmp_path: Path, tally: Tally) -> None:
    """Short blocks, pauses on either side, resets at any moment."""
    module = block_converter(tmp_path)
    for seed, (stall_in, stall_out) in enumerate(((0.0, 0.0), (0.3, 0.1))):
        beats = mixed_beats(module, shape, seed, COUNTS[simulator] // 4, ragged=True)
        streamed = check_blocks(
            simulator,
            module,
            shape,
            beats,
            stall_in=stall_in,
            stall_out=stall_out,
            resets_after=range(1, 90, EVERY[simulator]) if stall_in else (),
        )
        tally(simulator, "block converter values", streamed.left.size * module.parameters["width"])


@pytest.mark.variant
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", typical(published(BlockConverter)))
def test_published_ones(name: str, shape: str, tally: Tally) -> None:
    """Blocks in all lanes, short ones among them, with pauses on either side."""
    simulator, module = available("icarus"), published(BlockConverter)[name]
    beats = mixed_beats(module, shape, 6, 160, ragged=True)
    streamed = check_blocks(simulator, module, shape, beats, stall_in=0.1, stall_out=0.2)
    tally(simulator, "block converter values", streamed.left.size * module.parameters["width"])


@pytest.mark.full
@pytest.mark.parametrize("shape", SHAPES)
def test_many_blocks(shape: str, tmp_path: Path, tally: Tally) -> None:
    module = block_converter(tmp_path)
    beats = mixed_beats(module, shape, 2, 50_000, ragged=True)
    streamed = check_blocks(available("verilator"), module, shape, beats, stall_out=0.1)
    tally("verilator", "block converter values", streamed.left.size * module.parameters["width"])


@pytest.mark.parametrize("simulator", some(SIMULATORS))
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("format", some(["mxfp6_e2m3", "mxint8"]))
def test_one_shape_of_other_formats(
    format: str, shape: str, simulator: str, tmp_path: Path, tally: Tally
) -> None:
    """A unit with one shape has no input for it; blocks may be shorter than tiles."""
    available(simulator)
    module = block_converter(tmp_path, format, width=4, shapes=(shape,), block=6, tile=2)
    assert "tiles" not in module.ports
    beats = mixed_beats(module, shape, 5, COUNTS[simulator] // 4, ragged=True)
    streamed = check_blocks(simulator, module, shape, beats, stall_in=0.1, stall_out=0.1)
    tally(simulator, "block converter values", streamed.left.size * module.parameters["width"])


def test_lint(tmp_path: Path) -> None:
    assert lint(block_converter(tmp_path)) == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shapes": ()}, "shapes must be one or both of blocks, tiles, not none"),
        ({"shapes": ("rows",)}, "shapes must be one or both of blocks, tiles, not rows"),
        ({"width": 12}, "tile must divide width 12, not 8"),
        ({"block": 1}, "block must be an integer from 2 to 256, not 1"),
        ({"tile": 257}, "tile must be an integer from 2 to 256, not 257"),
        ({"paced": True}, "paced must be False with target asic, not True"),
    ],
)
def test_unsuitable_configurations(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        BlockConverter(format=MX_FORMATS["mxsf"], **options)
