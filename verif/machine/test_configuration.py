"""Sizes of the machine: what is refused, and what follows from them."""

from typing import Any

import pytest

from mxsafe.formats import BF16, FP12_E4M7, MX_FORMATS
from mxsafe.machine.configuration import (
    BF16_MACHINE,
    FUNCTIONS,
    SMALL_MACHINE,
    MachineConfiguration,
    resized,
)
from mxsafe.machine.named import machine_named
from mxsafe.rtl.vector import activation
from verif.support.tests import raises


def test_functions_are_those_of_the_hardware() -> None:
    assert activation.FUNCTIONS == FUNCTIONS


def test_the_default_sizes() -> None:
    default = MachineConfiguration()
    assert (default.word_bytes, default.beat_bytes, default.entry_bytes) == (32, 64, 16)
    assert (default.tile_beats, default.block_beats) == (2, 16)
    assert (default.a_entries, default.w_entries, default.out_entries) == (1024, 2048, 256)
    assert (default.vector_beats, default.vector_lanes) == (4096, 16)
    assert default.conversion_format == MX_FORMATS["mxsf"]


def test_a_machine_without_scales() -> None:
    """Codes are two bytes, so an operand beat is four words; what a scale would be is nothing."""
    c = BF16_MACHINE
    assert (c.format_a, c.format_w, c.scaled, c.code_bytes) == (BF16, BF16, False, 2)
    assert (c.word_bytes, c.beat_words, c.beat_bytes, c.vector_beat_bytes) == (32, 4, 128, 64)
    assert (c.block_beats, c.default_block, c.conversions) == (1, 4, ("numbers",))
    assert (c.a_entries, c.w_entries, c.out_entries, c.entries(7, 2)) == (0, 0, 0, 0)
    assert (c.word_parts, c.last_part) == ({"none": 1}, 0)
    assert c.load_packings == c.store_packings == ()
    assert c.load_buffers == ("a_codes", "w_codes", "vector")
    assert c.store_buffers == ("out_codes", "vector")
    default = MachineConfiguration()
    assert (default.scaled, default.code_bytes, default.beat_words) == (True, 1, 2)
    assert (default.beat_bytes, default.vector_beat_bytes, default.entries(7, 2)) == (64, 64, 4)


def test_what_follows_from_the_arithmetic_need_not_be_said() -> None:
    small = resized(SMALL_MACHINE, arithmetic="bf16")
    assert (small.format_a, small.format_w, small.conversions) == (BF16, BF16, ("numbers",))
    assert small.rows == SMALL_MACHINE.rows
    assert resized(small, arithmetic="exact") == SMALL_MACHINE
    assert resized(small, arithmetic="bf16", conversions="none").conversions == ()
    given = MachineConfiguration(arithmetic="bf16", format_a="bf16", format_w=BF16)
    assert given == BF16_MACHINE
    # What was chosen stays where both kinds of operands have it, and among those with scales.
    fp4 = resized(SMALL_MACHINE, format_w="mxfp4_e2m1", conversions="blocks")
    assert resized(fp4, arithmetic="window").conversion_format.name == "mxfp4_e2m1"
    assert resized(fp4, arithmetic="window").conversions == ("blocks",)
    for fmt in (None, BF16, "bf16", "BF16"):
        assert machine_named("small", fmt, "bf16") == small
    assert MachineConfiguration(rows=4).conversions == ("blocks",)


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
        (
            {"arithmetic": "fp32"},
            "arithmetic must be one of fp12, exact, window, bf16, not 'fp32'",
        ),
        ({"format_a": "bf16"}, "format_a must be a format with scales with arithmetic exact, not"),
        (
            {"arithmetic": "bf16", "format_w": "mxsf"},
            "format_w must be bf16 with arithmetic bf16, not mxsf",
        ),
        (
            {"arithmetic": "bf16", "format_a": MX_FORMATS["mxint8"]},
            "format_a must be bf16 with arithmetic bf16, not mxint8",
        ),
        (
            {"arithmetic": "bf16", "array_lanes": 2},
            "array_lanes must be 4 with arithmetic bf16, whose sums depend on what is added first,",
        ),
        (
            {"arithmetic": "bf16", "conversions": ("blocks",)},
            "conversions must be some of numbers, each once, not",
        ),
        (
            {"arithmetic": "bf16", "w_beats": 65536},
            "w_beats must be an integer from 4 to 32768, not 65536",
        ),
        ({"format_a": BF16}, "format_a must be a format with scales with arithmetic exact, not"),
        (
            {"arithmetic": "bf16", "format_a": FP12_E4M7},
            "format_a must be bf16 with arithmetic bf16, not fp12",
        ),
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


def test_a_format_of_another_kind() -> None:
    with raises(TypeError, "format must be a name or an MXFormat, not FloatFormat"):
        machine_named("small", FP12_E4M7)
    with raises(ValueError, "format must be bf16 with arithmetic bf16, not fp12"):
        machine_named("small", FP12_E4M7, "bf16")


def test_other_sizes() -> None:
    """Lists of names may be one string."""
    made = resized(SMALL_MACHINE, a_beats=64, functions="relu+gelu", reductions="none")
    assert (made.a_beats, made.functions, made.reductions) == (64, ("relu", "gelu"), ())
    assert (made.rows, made.w_beats) == (SMALL_MACHINE.rows, SMALL_MACHINE.w_beats)


@pytest.mark.parametrize("value", [1, "relu"])
def test_sizes_that_there_are_not(value: object) -> None:
    with pytest.raises(ValueError, match=r"^field must be one of rows, .*, not 'speed'$"):
        resized(SMALL_MACHINE, speed=value)
