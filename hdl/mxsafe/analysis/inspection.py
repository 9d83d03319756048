"""Numbers and formats as text: what the commands ``decode``, ``inspect`` and ``formats`` print."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType

import numpy as np

from mxsafe.codec import elements, scalar
from mxsafe.formats import (
    BLOCK_FORMATS,
    SCALAR_FORMATS,
    FloatFields,
    FloatFormat,
    IntFormat,
    MXFormat,
    ScaleFormat,
)
from mxsafe.validation import checked, require_one_of

_MANTISSA_COLUMNS = 26  # fp64 takes two lines, for every line is to have at most 100 columns

BEST_FOR: Mapping[str, str] = MappingProxyType(
    {
        "fp64": "scientific computing, simulation",
        "fp32": "master weights, accumulators",
        "tf32": "training throughput on tensor cores",
        "bf16": "training large models",
        "fp16": "fine-tuning, inference, small models",
        "float8_e4m3fn": "forward pass, inference quantisation",
        "float8_e5m2": "gradients during FP8 training",
        "float6_e3m2fn": "inference quantisation, more range",
        "float6_e2m3fn": "inference quantisation, more digits",
        "float4_e2m1fn": "inference quantisation",
        "float8_e8m0fnu": "shared scales of MX blocks",
        "mxsf": "inference and training",
        "mxfp8_e2m5": "direct-cast inference",
        "mxfp8_e4m3": "training",
        "mxfp8_e5m2": "gradients",
        "mxfp6_e3m2": "inference, more range",
        "mxfp6_e2m3": "inference, more digits",
        "mxfp4_e2m1": "inference quantisation",
        "mxint8": "direct-cast inference",
        "nvfp4": "inference, training",
    }
)
"""Best use of each format, by name: as used in practice, MX formats after MX-SAFE."""


def _table(rows: Sequence[Sequence[str]], *, right: Collection[int] = ()) -> list[str]:
    """Rows of cells as aligned lines; the columns in `right` are flush right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _number(value: float) -> str:
    """Shortest decimal that names a float64, without the ``.0`` of integers."""
    return repr(float(value)).removesuffix(".0")


def _label(fields: FloatFields) -> str:
    return f"E{fields.exponent_bits}M{fields.mantissa_bits}"


def _magnitude(fmt: FloatFormat, code: int) -> int:
    return code & ((1 << fmt.fields.width) - 1)


def _in_sub(fmt: FloatFormat, code: int) -> bool:
    """Whether a code is read in the second mode of its format."""
    return fmt.sub is not None and _magnitude(fmt, code) >> fmt.fields.mantissa_bits == 0


def _bits(fmt: FloatFormat | IntFormat | ScaleFormat, code: int) -> list[str]:
    """Fields of a code in binary, as its mode splits them: sign, exponents, mantissa."""
    text = f"{code:0{fmt.width}b}"
    if not isinstance(fmt, FloatFormat):
        return [text]
    lengths = [1, fmt.fields.exponent_bits]
    if fmt.sub is not None and _in_sub(fmt, code):
        lengths.append(fmt.sub.exponent_bits)
    parts = []
    for length in lengths:
        parts.append(text[:length])
        text = text[length:]
    return [*parts, text]


def _mode(fmt: FloatFormat | IntFormat, code: int) -> str:
    """The rule by which an element code is read."""
    if isinstance(fmt, IntFormat):
        return "two's complement"
    magnitude = _magnitude(fmt, code)
    if magnitude in fmt.nan_magnitudes:
        return "NaN"
    if magnitude in fmt.inf_magnitudes:
        return "Inf"
    name = _label(fmt.fields)
    if fmt.sub is not None and _in_sub(fmt, code):
        name = f"sub-FP {_label(fmt.sub)}"
        is_normal = magnitude >> fmt.sub.mantissa_bits
    else:
        is_normal = magnitude >> fmt.fields.mantissa_bits
    if magnitude == 0:
        return f"{name} zero"
    return name if is_normal else f"{name} subnormal"


@checked
def decode_table(codes: Sequence[int], fmt: MXFormat) -> list[str]:
    """Fields, mode and value of element codes, relative to the block scale.

    Parameters
    ----------
    codes : sequence of int
        Codes of `fmt`.
    fmt : MXFormat

    Returns
    -------
    list of str
        Lines of a table.

    Raises
    ------
    ValueError
        If a code has more bits than an element.
    """
    values = elements.decode(np.array(codes), fmt)
    rows = [("code", "fields", "mode", "value")]
    for code, value in zip(codes, values, strict=True):
        fields = " ".join(_bits(fmt.element, code))
        rows.append((f"{code:#04x}", fields, _mode(fmt.element, code), f"{value:.12g}"))
    return _table(rows)


def _encode(value: float, fmt: FloatFormat | ScaleFormat | MXFormat) -> int | None:
    """Code of a number, rounded to nearest; None for a NaN that has none."""
    if isinstance(fmt, MXFormat):
        return None if math.isnan(value) else int(elements.encode(np.float64(value), fmt))
    if math.isnan(value) and isinstance(fmt, FloatFormat) and fmt.quiet_nan is None:
        return None
    return int(scalar.encode(np.float64(value), fmt))


def _decode(code: int, fmt: FloatFormat | ScaleFormat | MXFormat) -> float:
    if isinstance(fmt, MXFormat):
        return float(elements.decode(code, fmt))
    return float(scalar.decode(code, fmt))


def _error(number: float, value: float, largest: float) -> tuple[str, str]:
    """Absolute and relative error of a rounded number; the same word twice for a special case."""
    if number == value:
        return "exact", "exact"
    if math.isnan(number) or math.isnan(value):
        word = "overflow" if abs(number) > largest else "-"
        return word, word
    if math.isinf(value):
        return "overflow", "overflow"
    if math.isinf(number):
        return "saturated", "saturated"
    error = Fraction(value) - Fraction(number)
    relative = f"{float(error / Fraction(number)):+.2g}" if number else "+inf"
    return f"{float(error):+.3g}", relative


def _product(number: float) -> str:
    """A finite float64 but zero as sign, significand and power of two."""
    significand, exponent = math.frexp(abs(number))
    sign = "-1" if number < 0 else "+1"
    return f"({sign}) x {_number(2 * significand)} x 2^{exponent - 1}"


@checked
def number_table(number: float, formats: Iterable[str] = SCALAR_FORMATS) -> list[str]:
    """One number in scalar formats: fields, the value it rounds to and the relative error.

    Parameters
    ----------
    number : float
        Any float64, Inf and NaN included.
    formats : iterable of str
        Names in `SCALAR_FORMATS`.

    Returns
    -------
    list of str
        The number, an empty line and the lines of a table, none longer than 100 columns.
    """
    number = float(number)
    finite = math.isfinite(number) and number != 0
    title = f"{_number(number)} = {_product(number)}" if finite else _number(number)
    rows = [("format", "sign", "exponent", "mantissa", "value", "rel. error")]
    for name in formats:
        require_one_of("formats", name, tuple(SCALAR_FORMATS))
        fmt = SCALAR_FORMATS[name]
        code = _encode(number, fmt)
        if code is None:
            rows.append((name, "-", "-", "-", "no NaN", "-"))
            continue
        value = _decode(code, fmt)
        bits = _bits(fmt, code)
        sign, exponent, mantissa = bits if len(bits) == 3 else ["", *bits, ""]
        lines = [
            mantissa[start : start + _MANTISSA_COLUMNS]
            for start in range(0, max(len(mantissa), 1), _MANTISSA_COLUMNS)
        ]
        _, error = _error(number, value, fmt.max_value)
        rows.append((name, sign, exponent, lines[0], _number(value), error))
        rows.extend(("", "", "", line, "", "") for line in lines[1:])
    return [title, "", *_table(rows)]


def _float_steps(fmt: FloatFormat, code: int, value: float) -> list[tuple[str, str]]:
    """How the fields of a float code make up its value."""
    magnitude = _magnitude(fmt, code)
    negative = code >> fmt.fields.width
    sign = f"(-1)^{negative} = {'-1' if negative else '+1'}"
    if magnitude > fmt.max_magnitude:
        if fmt.specials == "nan":
            rule = "all ones and so is the mantissa: NaN"
        elif math.isinf(value):
            rule = "all ones and the mantissa zero: Inf"
        else:
            rule = "all ones and the mantissa not zero: NaN"
        return [("sign", sign), ("exponent", rule), ("value", _number(value))]
    fields, mode = fmt.fields, ""
    if fmt.sub is not None and _in_sub(fmt, code):
        fields, mode = fmt.sub, f"{'0' * fmt.fields.exponent_bits}, so sub-FP {_label(fmt.sub)}: "
    exponent = magnitude >> fields.mantissa_bits
    mantissa = magnitude & ((1 << fields.mantissa_bits) - 1)
    hidden, effective = min(exponent, 1), max(exponent, 1)
    significand = hidden + mantissa / 2**fields.mantissa_bits
    field = f"{mode}{exponent:0{fields.exponent_bits}b} = {exponent}"
    field = field if hidden else f"{field} (subnormal)"
    power = f"2^{effective - fields.bias}"
    product = f"({'-1' if negative else '+1'}) x {_number(significand)} x {power}"
    return [
        ("sign", sign),
        ("exponent", f"{field}, 2^({effective} - {fields.bias}) = {power}"),
        ("mantissa", f"{hidden} + {mantissa} / 2^{fields.mantissa_bits} = {_number(significand)}"),
        ("value", f"{product} = {_number(value)}"),
    ]


def _steps(
    fmt: FloatFormat | IntFormat | ScaleFormat, code: int, value: float
) -> list[tuple[str, str]]:
    if isinstance(fmt, FloatFormat):
        return _float_steps(fmt, code, value)
    if isinstance(fmt, IntFormat):
        signed = code - (code >> (fmt.width - 1) << fmt.width)
        return [("value", f"{signed} / 2^{fmt.fraction_bits} = {_number(value)}")]
    if code == fmt.nan_code:
        return [("exponent", "all ones: NaN"), ("value", _number(value))]
    power = f"2^({code} - {fmt.bias}) = 2^{code - fmt.bias}"
    return [
        ("exponent", f"{code:0{fmt.width}b} = {code}"),
        ("value", f"{power} = {_number(value)}"),
    ]


@checked
def derivation(number: float, fmt: FloatFormat | ScaleFormat | MXFormat) -> list[str]:
    """One number in one format: its fields, how they make up the value, and the errors.

    Parameters
    ----------
    number : float
        Any float64, Inf and NaN included.
    fmt : FloatFormat, ScaleFormat or MXFormat
        A scalar format; or a format of blocks, whose elements are taken relative to scales of 1.

    Returns
    -------
    list of str
        Lines of at most 100 columns.
    """
    number = float(number)
    element = fmt.element if isinstance(fmt, MXFormat) else fmt
    scale = ""
    if isinstance(fmt, MXFormat):
        also = " and a tensor scale of 1" if fmt.tensor_scale else ""
        scale = f", relative to a block scale of 1{also}"
    title = f"{_number(number)} in {fmt.name}{scale}"
    code = _encode(number, fmt)
    if code is None:
        place = ": NaN lives in the scale of a block" if isinstance(fmt, MXFormat) else ""
        return [title, "", f"  no code{place}"]
    value = _decode(code, fmt)
    absolute, relative = _error(number, value, element.max_value)
    error = absolute if absolute == relative else f"{absolute}, relative {relative}"
    steps = [*_steps(element, code, value), ("error", error)]
    return [
        title,
        "",
        f"  {' | '.join(_bits(element, code))}",
        "",
        *(f"  {name:<8}  {text}" for name, text in steps),
    ]


def _specials(fmt: FloatFormat | ScaleFormat) -> str:
    if isinstance(fmt, ScaleFormat):
        return "NaN"
    return {"none": "-", "nan": "NaN", "ieee": "Inf NaN"}[fmt.specials]


def _scalar_table() -> list[str]:
    """Fields of every scalar format, and what it is best for, as lines of a table."""
    rows: list[tuple[str, ...]] = [
        ("format", "bits", "sign", "exponent", "mantissa", "bias", "special", "best for")
    ]
    for name, fmt in SCALAR_FORMATS.items():
        if isinstance(fmt, FloatFormat):
            fields = (1, fmt.fields.exponent_bits, fmt.fields.mantissa_bits, fmt.fields.bias)
        else:
            fields = (0, fmt.width, 0, fmt.bias)
        rows.append((name, str(fmt.width), *map(str, fields), _specials(fmt), BEST_FOR[name]))
    return _table(rows, right=range(1, 6))


def _range_table() -> list[str]:
    """Range and precision of every scalar format, as lines of a table.

    A precision of p bits is that of ``p * log10(2)`` decimal digits.
    """
    rows = [("format", "largest", "smallest normal", "smallest subnormal", "decimal digits")]
    for name, fmt in SCALAR_FORMATS.items():
        normal, subnormal = f"{fmt.min_value:.5g}", "-"
        if isinstance(fmt, FloatFormat):
            normal, subnormal = f"{fmt.min_normal:.5g}", f"{fmt.min_value:.5g}"
        digits = f"{fmt.precision * math.log10(2):.1f}"
        rows.append((name, f"{fmt.max_value:.5g}", normal, subnormal, digits))
    return _table(rows, right=range(1, 5))


def _mx_table() -> list[str]:
    """Every format of blocks, its largest and smallest element relative to the scale, as a table.

    The dynamic range is counted in binades, from the smallest positive element to the largest. The
    bits in total are those of an element and its part of the scale of a 1-D block.
    """
    measures = ("bits", "in total", "block", "largest", "smallest", "binades")
    rows = [("format", "element", *measures, "best for")]
    for name, fmt in BLOCK_FORMATS.items():
        element = fmt.element
        label = element.name.upper()
        if isinstance(element, FloatFormat):
            label = "+".join(_label(fields) for fields in (element.fields, element.sub) if fields)
        rows.append(
            (
                name,
                label,
                str(element.width),
                f"{element.width + fmt.scale.width / fmt.block:g}",
                f"{fmt.block}, {fmt.tile[0]}x{fmt.tile[1]}",
                f"{element.max_value:g}",
                f"2^{element.quantum_exponent}",
                str(element.emax - element.quantum_exponent + 1),
                BEST_FOR.get(name, ""),
            )
        )
    return _table(rows, right=(2, 3, 5, 6, 7))


def format_tables() -> list[str]:
    """The catalogues: fields and use, range and precision, and the formats of blocks.

    Returns
    -------
    list of str
        Lines of three tables with their titles, none longer than 100 columns.
    """
    return [
        "Scalar formats",
        "",
        *_scalar_table(),
        "",
        "Their range and precision",
        "",
        *_range_table(),
        "",
        "MX formats and NVFP4, relative to the scale of a block",
        "",
        *_mx_table(),
    ]
