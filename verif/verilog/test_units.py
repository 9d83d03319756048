"""The catalogue of units says of each what its builder takes."""

import pytest

from mxsafe.formats import MX_FORMATS
from mxsafe.verilog import presets
from mxsafe.verilog.units import CATALOGUE

SMALL = {"pu_rows": 1, "pu_columns": 1, "rows": 1, "columns": 2}


def test_every_unit_has_a_builder_and_every_builder_a_unit() -> None:
    assert list(presets.PRESETS) == list(CATALOGUE)
    assert [entry.name for entry in CATALOGUE.values()] == list(CATALOGUE)


@pytest.mark.parametrize("name", CATALOGUE)
def test_units_with_a_format_differ_from_format_to_format(name: str) -> None:
    built = {
        presets.build(name, MX_FORMATS[format]).module_name for format in ("mxsf", "mxfp4_e2m1")
    }
    assert len(built) == (2 if CATALOGUE[name].has_format else 1)


@pytest.mark.parametrize("name", CATALOGUE)
def test_units_with_a_size_take_the_lengths_of_an_array(name: str) -> None:
    if CATALOGUE[name].has_size:
        options = SMALL | ({"columns": 8} if name == "layer_8x8" else {})
        presets.build(name, MX_FORMATS["mxsf"], **options)
        return
    with pytest.raises(ValueError) as error:
        presets.build(name, MX_FORMATS["mxsf"], **SMALL)
    assert str(error.value) == f"pu_rows is not a parameter of {name}, but 1 was given"


def test_arithmetics() -> None:
    by_arithmetic: dict[str | None, list[str]] = {}
    for entry in CATALOGUE.values():
        by_arithmetic.setdefault(entry.arithmetic, []).append(entry.name)
    assert by_arithmetic == {
        "fp12": ["fp_adder", "safe_mac", "accumulator", "pu", "sta", "layer", "layer_8x8"],
        "exact": ["safe_mac_exact", "pu_exact", "sta_exact", "layer_exact"],
        "bf16": ["bf16_mac", "pu_bf16", "sta_bf16"],
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
            "row_dot",
            "row_replay",
            "softmax",
            "softmax_beats",
            "softmax_backward",
            "softmax_backward_beats",
            "layer_norm",
            "layer_norm_beats",
            "rms_norm",
            "layer_norm_backward",
            "rms_norm_backward",
            "operand_packer",
        ],
    }


def test_gains_and_biases_of_a_normalisation_are_usual_and_its_mean_is_fixed() -> None:
    mxsf = MX_FORMATS["mxsf"]
    assert presets.build("layer_norm", mxsf).module_name == "normalise_gain_bias"
    plain = presets.build("layer_norm", mxsf, gain=False, bias=False)
    assert plain.module_name == "normalise"
    assert presets.build("rms_norm", mxsf).module_name == "normalise_no_centre_gain"
    with pytest.raises(ValueError) as error:
        presets.build("rms_norm", mxsf, centre=True)
    assert str(error.value) == "centre is False in rms_norm, but True was given"
