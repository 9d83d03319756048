"""Sizes of the machine: what is refused, and what follows from them."""

from typing import Any

import pytest

from mxsafe.formats import MX_FORMATS
from mxsafe.machine.configuration import (
    FUNCTIONS,
    SMALL_MACHINE,
    MachineConfiguration,
    resized,
)
from mxsafe.rtl.vector import activation


def test_functions_are_those_of_the_hardware() -> None:
    assert activation.FUNCTIONS == FUNCTIONS


def test_the_default_sizes() -> None:
    default = MachineConfiguration()
    assert (default.word_bytes, default.beat_bytes, default.entry_bytes) == (32, 64, 16)
    assert (default.tile_beats, default.block_beats) == (2, 16)
    assert (default.a_entries, default.w_entries, default.out_entries) == (1024, 2048, 256)
    assert (default.vector_beats, default.vector_lanes) == (4096, 16)
    assert default.conversion_format == MX_FORMATS["mxsf"]


def test_formats_and_parts_are_settled() -> None:
    made = MachineConfiguration(
        format_a="mxint8", format_w="mxfp4_e2m1", functions=("gelu", "relu"), reductions=()
    )
    assert made.formats.a == MX_FORMATS["mxint8"]
    assert made.conversion_format == MX_FORMATS["mxfp4_e2m1"]
    assert made.functions == ("relu", "gelu")
    assert not made.affine
    assert MachineConfiguration(reductions=("rms_norm",)).affine


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rows": 12}, "rows must be one of 4, 8, 16, not 12"),
        (
            {"rows": 4, "conversions": ("tiles",)},
            "conversions must be without tiles with 4 rows, not tiles",
        ),
        ({"rows": 8, "unit_rows": 16}, "unit_rows must be one of 1, 2, 4, 8, not 16"),
        ({"lanes": 8}, "lanes must be one of 4, not 8"),
        ({"array_lanes": 3}, "array_lanes must be one of 1, 2, 4, not 3"),
        ({"vector_parts": 16}, "vector_parts must be one of 1, 2, 4, 8, not 16"),
        ({"target": "chip"}, "target must be one of asic, fpga, not 'chip'"),
        (
            {"target": "fpga", "arithmetic": "fp12"},
            "arithmetic must be exact with target fpga, not 'fp12'",
        ),
        ({"arithmetic": "bf16"}, "arithmetic must be one of fp12, exact, window, not 'bf16'"),
        ({"format_a": "nvfp4"}, "format_a must have scales of "),
        ({"arithmetic": "fp12", "format_w": "mxint8"}, "format_w must"),
        ({"data_width": 48}, "data_width must be one of 32, 64, 128, 256, 512, 1024, not 48"),
        ({"a_beats": 6}, "a_beats must be a multiple of 4, not 6"),
        ({"w_beats": 0}, "w_beats must be an integer from 4 to 65536, not 0"),
        ({"vector_banks": 3}, "vector_banks must be a power of two, not 3"),
        (
            {"bank_beats": 8192},
            "vector_banks * bank_beats must be at most 16384, not 32768",
        ),
        ({"reduction_beats": 8192}, "reduction_beats must be an integer from 1 to 4096"),
        ({"queue_depth": 0}, "queue_depth must be an integer from 1 to 63, not 0"),
        ({"functions": ("gelu", "gelu")}, "functions must be some of relu, "),
        ({"reductions": ("mean",)}, "reductions must be some of softmax, layer_norm, rms_norm"),
        ({"affine": 1}, "affine must be True or False, not 1"),
        ({"conversions": "tiles"}, "conversions must be some of blocks, tiles, each once, not"),
    ],
)
def test_errors(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match="^" + message.replace("*", r"\*")):
        MachineConfiguration(**given)


def test_other_sizes() -> None:
    """Lists of names may be one string."""
    made = resized(SMALL_MACHINE, a_beats=64, functions="relu+gelu", reductions="none")
    assert (made.a_beats, made.functions, made.reductions) == (64, ("relu", "gelu"), ())
    assert (made.rows, made.w_beats) == (SMALL_MACHINE.rows, SMALL_MACHINE.w_beats)


@pytest.mark.parametrize("value", [1, "relu"])
def test_sizes_that_there_are_not(value: object) -> None:
    with pytest.raises(ValueError, match=r"^field must be one of rows, .*, not 'speed'$"):
        resized(SMALL_MACHINE, speed=value)
