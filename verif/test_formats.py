"""The catalogue against the numbers of the specification, and what a specification refuses."""

import ast
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mxsafe
from mxsafe.formats import (
    BLOCK_FORMATS,
    E8M0,
    FP12_E4M7,
    MX_FORMATS,
    NVFP4,
    SCALAR_FORMATS,
    FloatFields,
    FloatFormat,
    IntFormat,
    MXFormat,
    ScaleFormat,
    mx_format,
    named,
    scalar_format,
)
from verif.support import exact
from verif.support.tests import raises

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


SCALARS = {  # name: (bits, exponent bits, mantissa bits, bias, Inf and NaN)
    "fp64": (64, 11, 52, 1023, "ieee"),
    "fp32": (32, 8, 23, 127, "ieee"),
    "tf32": (19, 8, 10, 127, "ieee"),
    "bf16": (16, 8, 7, 127, "ieee"),
    "fp16": (16, 5, 10, 15, "ieee"),
    "float8_e4m3fn": (8, 4, 3, 7, "nan"),
    "float8_e5m2": (8, 5, 2, 15, "ieee"),
    "float6_e3m2fn": (6, 3, 2, 3, "none"),
    "float6_e2m3fn": (6, 2, 3, 1, "none"),
    "float4_e2m1fn": (4, 2, 1, 1, "none"),
}
FINFO = {
    "fp64": np.finfo(np.float64),
    "fp32": np.finfo(np.float32),
    "fp16": np.finfo(np.float16),
    "bf16": ml_dtypes.finfo(ml_dtypes.bfloat16),
    "float8_e4m3fn": ml_dtypes.finfo(ml_dtypes.float8_e4m3fn),
    "float8_e5m2": ml_dtypes.finfo(ml_dtypes.float8_e5m2),
    "float6_e3m2fn": ml_dtypes.finfo(ml_dtypes.float6_e3m2fn),
    "float6_e2m3fn": ml_dtypes.finfo(ml_dtypes.float6_e2m3fn),
    "float4_e2m1fn": ml_dtypes.finfo(ml_dtypes.float4_e2m1fn),
}


def test_scalar_catalogue_is_complete() -> None:
    assert list(SCALAR_FORMATS) == [*SCALARS, "float8_e8m0fnu"]
    assert SCALAR_FORMATS["float8_e8m0fnu"] is E8M0
    for name, numbers in SCALARS.items():
        fmt = SCALAR_FORMATS[name]
        assert isinstance(fmt, FloatFormat)
        fields = fmt.fields
        assert numbers == (
            fmt.width,
            fields.exponent_bits,
            fields.mantissa_bits,
            fields.bias,
            fmt.specials,
        )


@pytest.mark.parametrize("name", FINFO)
def test_limits_equal_those_of_numpy_and_ml_dtypes(name: str) -> None:
    fmt, finfo = SCALAR_FORMATS[name], FINFO[name]
    assert isinstance(fmt, FloatFormat)
    assert fmt.max_value == float(finfo.max)
    assert fmt.min_normal == float(finfo.smallest_normal)
    assert fmt.min_value == float(finfo.smallest_subnormal)
    assert fmt.precision == finfo.nmant + 1


def test_limits_of_tf32_and_e8m0() -> None:
    tf32 = SCALAR_FORMATS["tf32"]
    assert isinstance(tf32, FloatFormat)
    assert tf32.max_value == 2.0**127 * (2 - 2.0**-10)
    assert (tf32.min_normal, tf32.min_value, tf32.precision) == (2.0**-126, 2.0**-136, 11)
    assert (E8M0.max_value, E8M0.min_value, E8M0.precision) == (2.0**127, 2.0**-127, 1)


def test_mxsf_is_normal_down_to_its_second_mode() -> None:
    element = MX_FORMATS["mxsf"].element
    assert isinstance(element, FloatFormat)
    assert (element.min_normal, element.min_value) == (2.0**-9, 2.0**-11)


@pytest.mark.parametrize(
    ("name", "inf", "nan", "quiet_nan"),
    [
        ("fp64", [0x7FF << 52], range((0x7FF << 52) + 1, 1 << 63), 0xFFF << 51),
        ("fp16", [0x7C00], range(0x7C01, 0x8000), 0x7E00),
        ("float8_e5m2", [0x7C], range(0x7D, 0x80), 0x7E),
        ("float8_e4m3fn", [], range(0x7F, 0x80), 0x7F),
        ("float4_e2m1fn", [], range(8, 8), None),
    ],
)
def test_special_codes(name: str, inf: list[int], nan: range, quiet_nan: int | None) -> None:
    fmt = SCALAR_FORMATS[name]
    assert isinstance(fmt, FloatFormat)
    assert list(fmt.inf_magnitudes) == inf
    assert fmt.nan_magnitudes == nan
    assert fmt.quiet_nan == quiet_nan
    assert fmt.max_magnitude == (inf[0] if inf else nan.start) - 1
    assert fmt.finite_only == (quiet_nan is None)


def test_no_room_for_nan_beside_inf() -> None:
    fmt = FloatFormat(
        name="x", fields=FloatFields(exponent_bits=3, mantissa_bits=0, bias=3), specials="ieee"
    )
    assert list(fmt.inf_magnitudes) == [7]
    assert fmt.quiet_nan is None
    assert not fmt.finite_only


def test_mx_elements_are_the_scalar_formats() -> None:
    for name in ("e4m3", "e5m2"):
        scalar = "float8_e4m3fn" if name == "e4m3" else "float8_e5m2"
        assert MX_FORMATS[f"mxfp8_{name}"].element is SCALAR_FORMATS[scalar]
    for name in ("mxfp6_e3m2", "mxfp6_e2m3", "mxfp4_e2m1"):
        scalar = name.replace("mxfp", "float") + "fn"
        assert MX_FORMATS[name].element is SCALAR_FORMATS[scalar]


def test_fp12() -> None:
    assert FP12_E4M7.width == 12
    assert FP12_E4M7.emax == 3
    assert FP12_E4M7.quantum_exponent == -18


def test_lookup() -> None:
    assert mx_format("mxsf") is MX_FORMATS["mxsf"]
    assert mx_format(MX_FORMATS["mxint8"]) is MX_FORMATS["mxint8"]
    with pytest.raises(
        ValueError, match=r"^format must be one of mxsf, .*, mxint8, nvfp4, not 'fp9'$"
    ):
        mx_format("fp9")
    with pytest.raises(TypeError, match=r"^format must be a name or an MXFormat, not int$"):
        mx_format(8)
    assert scalar_format("float8_e8m0fnu") is E8M0
    assert scalar_format(FP12_E4M7) is FP12_E4M7
    with pytest.raises(ValueError, match=r"^format must be one of fp64, .*fnu, not 'mxsf'$"):
        scalar_format("mxsf")
    with pytest.raises(
        TypeError, match=r"^format must be a name, a FloatFormat or a ScaleFormat, not MXFormat$"
    ):
        scalar_format(MX_FORMATS["mxsf"])


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        *[("MXSF", "mxsf"), ("mxfp8-e4m3", "mxfp8_e4m3"), ("MXFP8-E5M2", "mxfp8_e5m2")],
        *[
            ("e4m3", "mxfp8_e4m3"),
            ("e2m1", "mxfp4_e2m1"),
            ("int8", "mxint8"),
            ("mxfp4", "mxfp4_e2m1"),
        ],
    ],
)
def test_other_names(name: str, meant: str) -> None:
    assert mx_format(name) is MX_FORMATS[meant]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("fp8", "; did you mean 'mxfp8_e2m5', 'mxfp8_e4m3' or 'mxfp8_e5m2'?"),
        ("fp4", "; did you mean 'mxfp4_e2m1' or 'nvfp4'?"),
        ("mxfs", "; did you mean 'mxsf'?"),
        *[(name, "") for name in ("", "8", "e4m", "mx", ".*", "_", "fn")],
    ],
)
def test_names_of_none_or_several(name: str, hint: str) -> None:
    with pytest.raises(ValueError, match=r"^format must be one of ") as error:
        mx_format(name)
    assert str(error.value).endswith(f"nvfp4, not {name!r}{hint}")


def test_other_names_of_scalar_formats() -> None:
    assert scalar_format("E5M2") is SCALAR_FORMATS["float8_e5m2"]
    assert scalar_format("e4m3") is SCALAR_FORMATS["float8_e4m3fn"]
    assert scalar_format("e8m0") is E8M0
    both = {**SCALAR_FORMATS, **BLOCK_FORMATS}
    with pytest.raises(ValueError, match=r"mean 'float8_e4m3fn' or 'mxfp8_e4m3'\?$"):
        named("e4m3", both)


def test_specifications_are_frozen() -> None:
    with pytest.raises(AttributeError):
        MX_FORMATS["mxsf"].block = 32  # type: ignore[misc]
    with pytest.raises(TypeError):
        MX_FORMATS["mine"] = MX_FORMATS["mxsf"]  # type: ignore[index]
    with pytest.raises(TypeError):
        SCALAR_FORMATS["mine"] = E8M0  # type: ignore[index]


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
            lambda: FloatFormat(name="x", fields=E2M5, specials="fn"),
            "FloatFormat x: specials must be one of none, nan, ieee, not 'fn'",
        ),
        (
            lambda: FloatFormat(
                name="x",
                fields=FloatFields(exponent_bits=1, mantissa_bits=2, bias=0),
                specials="ieee",
            ),
            "FloatFormat x: exponent_bits must be at least 2 with specials 'ieee', not 1",
        ),
        (
            lambda: FloatFormat(
                name="x", fields=FloatFields(exponent_bits=11, mantissa_bits=52, bias=1024)
            ),
            "FloatFormat x: values must be multiples of 2^-1074 below 2^1024, which float64 holds, "
            "not of 2^-1075 below 2^1024",
        ),
        (
            lambda: FloatFormat(
                name="x", fields=FloatFields(exponent_bits=11, mantissa_bits=52, bias=1023)
            ),
            "FloatFormat x: values must be multiples of 2^-1074 below 2^1024, which float64 holds, "
            "not of 2^-1074 below 2^1025",
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
        (
            lambda: MXFormat(name="x", element=MX_FORMATS["mxsf"].element, tile=(8, 8, 8)),
            "MXFormat x: tile must have two lengths, not (8, 8, 8)",
        ),
        (
            lambda: MXFormat(name="x", element=MX_FORMATS["mxsf"].element, tile=8),
            "MXFormat x: tile must have two lengths, not 8",
        ),
        (
            lambda: MXFormat(name="x", element=MX_FORMATS["mxsf"].element, tile=(8, True)),
            "MXFormat x: tile must be an integer from 1 to 65536, not True",
        ),
    ],
)
def test_refused_specifications(make, message: str) -> None:
    with raises(ValueError, message):
        make()


MAKERS = {
    "FloatFormat": lambda name: FloatFormat(name=name, fields=E2M5),
    "IntFormat": lambda name: IntFormat(name=name, width=8, fraction_bits=6),
    "ScaleFormat": lambda name: ScaleFormat(name=name, width=8, bias=127, nan_code=255),
    "MXFormat": lambda name: MXFormat(name=name, element=MX_FORMATS["mxsf"].element),
}


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize(
    "name", ["../../evil", "//c", "x;y", "1abc", "", "my format", "a\n", "é", "x" * 65, 3, None]
)
def test_names_are_identifiers(kind: str, name: object) -> None:
    """They become names of modules and of files."""
    with raises(
        ValueError,
        f"{kind}: name must be an identifier (1 to 64 ASCII letters, digits and underscores, the "
        f"first no digit), not {name!r}",
    ):
        MAKERS[kind](name)
    assert MAKERS[kind]("x" * 64).name == "x" * 64


def test_numbers_of_numpy_are_numbers() -> None:
    fields = FloatFields(exponent_bits=np.int64(2), mantissa_bits=np.uint8(5), bias=np.array(3)[()])
    assert fields == E2M5
    made = (
        fields,
        IntFormat(name="x", width=np.int64(8), fraction_bits=np.int8(6)),
        ScaleFormat(name="x", width=np.int8(8), bias=np.int16(127), nan_code=np.uint8(255)),
    )
    for spec in made:
        numbers = [value for name, value in vars(spec).items() if name != "name"]
        assert all(type(number) is int for number in numbers), spec
    element = MX_FORMATS["mxsf"].element
    fmt = MXFormat(name="x", element=element, block=np.int64(64), tile=[np.int64(8), 4])
    assert (type(fmt.block), fmt.block) == (int, 64)
    assert fmt.tile == (8, 4)
    assert all(type(length) is int for length in fmt.tile)
    assert hash(fmt) == hash(MXFormat(name="x", element=element, block=64, tile=(8, 4)))


def test_the_scale_is_a_property_of_the_format() -> None:
    coarse = ScaleFormat(name="e5m0", width=5, bias=15, nan_code=31)
    element = MX_FORMATS["mxsf"].element
    fmt = MXFormat(name="x", element=element, scale=coarse)
    assert fmt.scale is coarse
    assert fmt != MXFormat(name="x", element=element)
    assert MXFormat(name="x", element=element).scale is E8M0
    with raises(
        TypeError, "MXFormat x: scale must be a ScaleFormat or a FloatFormat, not NoneType"
    ):
        MXFormat(name="x", element=element, scale=None)


def test_nvfp4() -> None:
    assert BLOCK_FORMATS == {**MX_FORMATS, "nvfp4": NVFP4}
    assert list(BLOCK_FORMATS) == [*MX_FORMATS, "nvfp4"]
    assert mx_format("nvfp4") is NVFP4
    assert NVFP4.element is SCALAR_FORMATS["float4_e2m1fn"]
    assert NVFP4.scale is SCALAR_FORMATS["float8_e4m3fn"]
    assert (NVFP4.block, NVFP4.tile, NVFP4.tensor_scale) == (16, (16, 16), True)
    assert (NVFP4.nan_scale, MX_FORMATS["mxsf"].nan_scale) == (0x7F, 0xFF)
    assert not any(fmt.tensor_scale for fmt in MX_FORMATS.values())


def _scale(exponent_bits: int, mantissa_bits: int, bias: int, **options: Any) -> FloatFormat:
    fields = FloatFields(exponent_bits=exponent_bits, mantissa_bits=mantissa_bits, bias=bias)
    return FloatFormat(name="s", fields=fields, **({"specials": "nan"} | options))


_SUB = FloatFields(exponent_bits=2, mantissa_bits=1, bias=12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"scale": _scale(4, 4, 7)},
            "MXFormat x: scale width must be an integer from 2 to 8, not 9",
        ),
        (
            {"scale": _scale(4, 3, 7, specials="ieee")},
            "MXFormat x: scale must have specials 'nan' and no second mode, unlike s",
        ),
        (
            {"scale": _scale(4, 3, 7, sub=_SUB)},
            "MXFormat x: scale must have specials 'nan' and no second mode, unlike s",
        ),
        (
            {"scale": _scale(4, 3, -1008)},
            "MXFormat x: elements times scales must be multiples of 2^-1074 below 2^1024, which "
            "float64 holds, not of 2^1005 below 2^1027",
        ),
        (
            {"scale": _scale(4, 3, 930), "tensor_scale": True},
            "MXFormat x: elements times scales must be multiples of 2^-1074 below 2^1024, which "
            "float64 holds, not of 2^-1082 below 2^-783",
        ),
        (
            {"scale": _scale(4, 3, -900), "tensor_scale": True},
            "MXFormat x: elements times scales must be multiples of 2^-1074 below 2^1024, which "
            "float64 holds, not of 2^748 below 2^1047",
        ),
        (
            {"tensor_scale": True},
            "MXFormat x: tensor_scale must be False with float8_e8m0fnu, whose scales are powers "
            "of two, not True",
        ),
        ({"tensor_scale": 1}, "MXFormat x: tensor_scale must be True or False, not 1"),
    ],
)
def test_refused_scales(options: dict[str, Any], message: str) -> None:
    with raises((TypeError, ValueError), message):
        MXFormat(name="x", element=SCALAR_FORMATS["float4_e2m1fn"], **options)


@pytest.mark.parametrize(
    ("module", "forbidden"),
    [
        ("mxsafe.formats", {"amaranth"}),
        ("mxsafe.analysis.inspection", {"amaranth", "mxsafe.rtl"}),
        ("mxsafe.codec", {"amaranth", "mxsafe.rtl"}),
        ("mxsafe.model", {"amaranth", "mxsafe.rtl"}),
        ("mxsafe.cli", {"amaranth", "mxsafe.rtl"}),
        ("mxsafe.verilog.generate", {"ml_dtypes", "gfloat", "cocotb"}),
    ],
)
def test_data_flows_one_way(module: str, forbidden: set[str]) -> None:
    program = f"import sys, {module}; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not forbidden & set(loaded)


def test_hardware_never_imports_codec_or_model() -> None:
    sources = sorted((Path(mxsafe.__file__).parent / "rtl").rglob("*.py"))
    assert sources
    for source in sources:
        for statement in ast.walk(ast.parse(source.read_text())):
            names = []
            if isinstance(statement, ast.Import):
                names = [alias.name for alias in statement.names]
            elif isinstance(statement, ast.ImportFrom):
                names = [f"{statement.module}.{alias.name}" for alias in statement.names]
            for name in names:
                wrong = name.startswith(("mxsafe.codec", "mxsafe.model"))
                assert not wrong, f"{source.name} imports {name}"
