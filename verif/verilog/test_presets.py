"""The presets say of each unit what it takes."""

from typing import Any

import pytest

from mxsafe.cli.hardware import UNIT_OPTIONS
from mxsafe.formats import MX_FORMATS
from mxsafe.machine.configuration import (
    BF16_MACHINE,
    FPGA_MACHINE,
    SMALL_MACHINE,
    MachineConfiguration,
)
from mxsafe.verilog import presets
from mxsafe.verilog.presets import PRESETS
from verif.support.tests import raises

SMALL = {"pu_rows": 1, "pu_columns": 1, "rows": 1, "columns": 2}
ARITHMETICS: dict[str | None, list[str]] = {
    "fp12": ["fp_adder", "safe_mac", "accumulator", "pu", "sta", "layer", "layer_8x8"],
    "exact": [
        "safe_mac_exact",
        "pu_exact",
        "sta_exact",
        "layer_exact",
        "accelerator",
        "accelerator_small",
        "accelerator_fpga",
    ],
    "window": ["pu_window", "sta_window", "accelerator_window"],
    "bf16": ["bf16_mac", "pu_bf16", "sta_bf16", "accelerator_bf16"],
    None: [
        "decoder",
        "float32_adder",
        "float32_multiplier",
        "converter",
        "converter_8x8",
        "transposer",
        "activation",
        "vector_activation",
        "vector_function",
        "vector_arithmetic",
        "row_replay",
        "softmax",
        "softmax_beats",
        "layer_norm",
        "layer_norm_beats",
        "rms_norm",
        "operand_packer",
    ],
}
"""Names of presets by the arithmetic of their units."""


@pytest.mark.parametrize("name", PRESETS)
def test_units_with_a_format_differ_from_format_to_format(name: str) -> None:
    built = {
        presets.build(name, MX_FORMATS[format]).module_name for format in ("mxsf", "mxfp4_e2m1")
    }
    assert len(built) == (2 if PRESETS[name].has_format else 1)


@pytest.mark.parametrize("name", PRESETS)
def test_units_with_a_size_take_the_lengths_of_an_array(name: str) -> None:
    if PRESETS[name].has_size:
        options = SMALL | ({"columns": 8} if name == "layer_8x8" else {})
        presets.build(name, MX_FORMATS["mxsf"], **options)
        return
    with raises(ValueError, f"pu_rows is not a parameter of {name}, but 1 was given"):
        presets.build(name, MX_FORMATS["mxsf"], **SMALL)


def test_options_of_the_command_stand_with_the_units_that_have_them() -> None:
    having: dict[str, set[str]] = {}
    for preset in PRESETS.values():
        if preset.is_machine:  # whose sizes are options of their own
            continue
        known = preset.options.keys() - {"size"}
        known |= {"size"} if preset.has_size else set()
        known |= {"format_w"} if preset.has_operands else set()
        for option in known:
            having.setdefault(option, set()).add(preset.kind)
    for kinds, options in UNIT_OPTIONS.items():
        for option in options:
            if kinds:
                assert kinds[0] in having[option] <= set(kinds), option
            else:
                assert len(having[option]) > 2, option


def test_arithmetics() -> None:
    by_arithmetic: dict[str | None, list[str]] = {}
    for name, preset in PRESETS.items():
        arithmetic = preset.arithmetic.name if preset.arithmetic else None
        by_arithmetic.setdefault(arithmetic, []).append(name)
    assert by_arithmetic == ARITHMETICS


def test_units_of_a_format() -> None:
    # Those of bfloat16 are of no MX format, but its machines are there to be compared with.
    every = [n for n in PRESETS if n not in ARITHMETICS["bf16"] or PRESETS[n].is_machine]
    assert presets.units_of(MX_FORMATS["mxsf"]) == every
    without_fp12 = [name for name in every if name not in ARITHMETICS["fp12"]]
    assert presets.units_of(MX_FORMATS["mxint8"]) == without_fp12


def test_gains_and_biases_of_a_normalisation_are_default_and_its_mean_is_fixed() -> None:
    mxsf = MX_FORMATS["mxsf"]
    assert presets.build("layer_norm", mxsf).module_name == "normalise_gain_bias"
    plain = presets.build("layer_norm", mxsf, gain=False, bias=False)
    assert plain.module_name == "normalise"
    assert presets.build("rms_norm", mxsf).module_name == "normalise_no_centre_gain"
    with raises(ValueError, "centre is False in rms_norm, but True was given"):
        presets.build("rms_norm", mxsf, centre=True)


def test_sizes_of_a_machine_are_its_options() -> None:
    mxsf, fp4 = MX_FORMATS["mxsf"], MX_FORMATS["mxfp4_e2m1"]
    for preset, machine, name in (
        ("accelerator", MachineConfiguration(), "mxsf_accelerator"),
        ("accelerator_small", SMALL_MACHINE, "mxsf_accelerator_small"),
        ("accelerator_fpga", FPGA_MACHINE, "mxsf_accelerator_fpga"),
        ("accelerator_bf16", BF16_MACHINE, "bf16_accelerator"),
    ):
        built = presets.build(preset, mxsf)
        assert (built.config.machine, built.module_name) == (machine, name)
    bf16 = presets.build("accelerator", fp4, arithmetic="bf16")
    assert bf16.config.machine == BF16_MACHINE
    small = presets.build("accelerator_small", mxsf, arithmetic="bf16")
    assert small.module_name == "bf16_accelerator_small"
    again = presets.build("accelerator_bf16", fp4, arithmetic="exact")
    assert again.module_name == "mxfp4_e2m1_accelerator"
    other = presets.build(
        "accelerator_small",
        mxsf,
        format_w=fp4,
        data_width=32,
        functions="relu+gelu",
        reductions="none",
        affine=None,
    )
    machine = other.config.machine
    assert (machine.format_a, machine.format_w) == (mxsf, fp4)
    assert (machine.rows, machine.data_width) == (SMALL_MACHINE.rows, 32)
    assert machine.functions == ("relu", "gelu")
    assert not machine.reductions
    # The functions are bits: they are in the order of `FUNCTIONS`.
    expected = "mxsf_mxfp4_e2m1_accelerator_small_data_width32_no_sweeps_functions5_reductions0"
    expected += "_no_affine"
    assert other.module_name == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows": 5}, "rows must be one of 4, 8, 16, not 5"),
        ({"data_width": 512}, "data_width must be at most 256, the bits of a word, not 512"),
        ({"pipeline": 2}, "pipeline is not a parameter of accelerator, but 2 was given"),
        ({"format_a": "mxsf"}, "format_a is not a parameter of accelerator, but mxsf was given"),
        ({"functions": "relu+sine"}, "functions must be some of relu, "),
    ],
)
def test_machines_that_cannot_be_built(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match="^" + message):
        presets.build("accelerator", MX_FORMATS["mxsf"], **options)
