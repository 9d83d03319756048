"""The catalogue against the numbers of the specification, and what a specification refuses."""

import subprocess
import sys

import pytest

from mxsafe.formats import (
    E8M0,
    FP12_E4M7,
    MX_FORMATS,
    FloatFields,
    FloatFormat,
    IntFormat,
    MXFormat,
    mx_format,
)
from verif import exact

EMAX = {
    "mxsf": 0,
    "mxfp8_e2m5": 0,
    "mxfp8_e4m3": 8,
    "mxfp8_e5m2": 15,
    "mxfp6_e3m2": 4,
    "mxfp6_e2m3": 2,
    "mxfp4_e2m1": 2,
    "mxint8": 0,
}
WIDTH = dict.fromkeys(EMAX, 8) | {"mxfp6_e3m2": 6, "mxfp6_e2m3": 6, "mxfp4_e2m1": 4}


def test_catalogue_is_complete() -> None:
    assert {name: fmt.emax for name, fmt in MX_FORMATS.items()} == EMAX
    assert {name: fmt.element.width for name, fmt in MX_FORMATS.items()} == WIDTH
    assert all(fmt.scale is E8M0 for fmt in MX_FORMATS.values())
    assert MX_FORMATS["mxsf"].block == 64
    assert MX_FORMATS["mxfp8_e4m3"].block == 32


@pytest.mark.parametrize("name", MX_FORMATS)
def test_derived_numbers(name: str) -> None:
    element, table = MX_FORMATS[name].element, exact.mx_table(name)
    assert element.max_magnitude == len(table) - 1
    assert element.emax == exact.floor_log2(table[-1])
    assert element.quantum_exponent == exact.floor_log2(table[1])


def test_fp12() -> None:
    assert FP12_E4M7.width == 12
    assert FP12_E4M7.emax == 3
    assert FP12_E4M7.quantum_exponent == -18


def test_lookup() -> None:
    assert mx_format("mxsf") is MX_FORMATS["mxsf"]
    assert mx_format(MX_FORMATS["mxint8"]) is MX_FORMATS["mxint8"]
    with pytest.raises(ValueError, match=r"^format must be one of mxsf, .*, mxint8, not 'fp9'$"):
        mx_format("fp9")
    with pytest.raises(TypeError, match=r"^format must be a name or an MXFormat, not int$"):
        mx_format(8)


def test_specifications_are_frozen() -> None:
    with pytest.raises(AttributeError):
        MX_FORMATS["mxsf"].block = 32  # type: ignore[misc]
    with pytest.raises(TypeError):
        MX_FORMATS["mine"] = MX_FORMATS["mxsf"]  # type: ignore[index]


E2M5 = FloatFields(exponent_bits=2, mantissa_bits=5, bias=3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: FloatFields(exponent_bits=0, mantissa_bits=5, bias=3),
            "FloatFields: exponent_bits must be an integer from 1 to 11, not 0",
        ),
        (
            lambda: FloatFormat(
                name="x",
                fields=E2M5,
                sub=FloatFields(exponent_bits=2, mantissa_bits=2, bias=10),
            ),
            "FloatFormat x: sub must fill the 5 mantissa bits of fields, not 4",
        ),
        (
            lambda: FloatFormat(
                name="x",
                fields=E2M5,
                sub=FloatFields(exponent_bits=3, mantissa_bits=2, bias=9),
            ),
            "FloatFormat x: sub must stay below the exponent -2 of the smallest normal number, "
            "not reach -2",
        ),
        (
            lambda: FloatFormat(name="x", fields=E2M5, nan_magnitudes=frozenset({0x7E})),
            "FloatFormat x: inf_magnitudes and nan_magnitudes must be the topmost codes below 128, "
            "not [126]",
        ),
        (
            lambda: IntFormat(name="x", width=8, fraction_bits=8),
            "IntFormat x: fraction_bits must be an integer from 0 to 7, not 8",
        ),
        (
            lambda: MXFormat(name="x", element=MX_FORMATS["mxsf"].element, block=0),
            "MXFormat x: block must be an integer from 1 to 65536, not 0",
        ),
        (
            lambda: MXFormat(name="x", element=FP12_E4M7),
            "MXFormat x: element width must be an integer from 2 to 8, not 12",
        ),
    ],
)
def test_refused_specifications(make, message: str) -> None:
    with pytest.raises(ValueError) as error:
        make()
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("module", "forbidden"),
    [
        ("mxsafe.formats", {"amaranth"}),
        ("mxsafe.codec", {"amaranth", "mxsafe.rtl"}),
        ("mxsafe.model", {"amaranth", "mxsafe.rtl"}),
        ("mxsafe.cli", {"amaranth", "mxsafe.rtl"}),
        ("mxsafe.flow.generate", {"ml_dtypes", "gfloat", "cocotb"}),
    ],
)
def test_data_flows_one_way(module: str, forbidden: set[str]) -> None:
    program = f"import sys, {module}; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not forbidden & set(loaded)


def test_hardware_never_imports_codec_or_model() -> None:
    from pathlib import Path

    import mxsafe

    sources = sorted((Path(mxsafe.__file__).parent / "rtl").glob("*.py"))
    assert sources
    for source in sources:
        text = source.read_text()
        assert "mxsafe.codec" not in text, source.name
        assert "mxsafe.model" not in text, source.name
