"""Test vectors for anyone's hardware: ``$readmemh`` files and a JSON description.

A set of vectors is a table. A row is one input of a combinational or pipelined unit and the output
that belongs to it; rows do not depend on each other. A column is a port, or the part of the output
that several ports carry. Each column is a file ``<column>.hex`` with one word a line in a fixed
number of digits, so that ``reg [width-1:0] rows [0:count-1]`` and ``$readmemh`` read it. The file
``vectors.json`` says the rest. Corner classes come first, random rows last.
"""

import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

import mxsafe
from mxsafe.atomic import write_together
from mxsafe.codec import elements, quantize
from mxsafe.formats import (
    E8M0,
    FloatFormat,
    IntFormat,
    MXFormat,
    has_special_codes,
    mx_format,
    mx_formats,
)
from mxsafe.model.accumulate import canonical
from mxsafe.model.decoder import decoder_outputs
from mxsafe.model.gemm import Arithmetic
from mxsafe.model.safe_mac import mac_nan, safe_mac, safe_mac_exact
from mxsafe.products import OperandFormats, require_scale
from mxsafe.validation import (
    PowerOfTwo,
    Seed,
    about,
    checked,
    limited,
    require_count,
    require_one_of,
    require_positive_integer,
    settled,
    within,
)
from mxsafe.vectors.corner_classes import (
    BFLOAT16,
    FLOAT32,
    block_classes,
    code_classes,
    operand_classes,
)

DESCRIPTION = "vectors.json"
INPUTS = ("float32", "bfloat16")
_DEFAULT_COUNT = 1024


def _require_word(name: str, value: object) -> int:
    """Refuse what is no integer."""
    return value if type(value) is int else settled(name, int, value)


Word = Annotated[int, _require_word]
"""Annotation of one value of a column, of as many bits as that has."""
Codes = Annotated[int, limited(require_count, 1 << 20)]
"""Annotation of how many codes of a format there are."""
Rows = Annotated[int, limited(require_positive_integer, 1 << 20)]
"""Annotation of how many vectors there are: they are made in memory."""
_MAX_ELEMENTS = 1 << 24
"""Elements of all rows together: they are made in memory."""
_MAX_BITS = 1 << 16  # of a Verilog vector that every simulator takes (IEEE 1364-2005, 4.3.1)


@dataclass(frozen=True, kw_only=True)
class Field:
    """A named part of a word.

    Parameters
    ----------
    name : str
        Number of a lane or element, or name of a field.
    offset : int
        Lowest bit.
    width : int
        Bits.
    """

    name: str
    offset: int
    width: int


@checked
@dataclass(frozen=True, kw_only=True)
class Column:
    """One port over all rows.

    Parameters
    ----------
    name : str
        Name of the port, and of the file.
    direction : {"input", "output"}
        Which way the port goes.
    width : int
        Bits of a word.
    signed : bool
        Whether words are in two's complement.
    meaning : str
        What a word stands for, with its unit.
    fields : tuple of Field
        Parts of a packed word, lowest bit first; none of a plain number.
    values : tuple of int
        One number a row, negative only in a signed column.

    Raises
    ------
    ValueError
        If a number does not fit the width.
    """

    name: str
    direction: Literal["input", "output"]
    width: Annotated[int, within(1, _MAX_BITS)]
    signed: bool = False
    meaning: str
    fields: tuple[Field, ...] = ()
    values: tuple[Word, ...]

    def __post_init__(self) -> None:
        low = -(1 << (self.width - 1)) if self.signed else 0
        high = low + (1 << self.width) - 1
        if self.values and (min(self.values) < low or max(self.values) > high):
            raise ValueError(
                f"values of {self.name} must lie in {low}..{high}, "
                f"not {min(self.values)}..{max(self.values)}"
            )

    @property
    def file(self) -> str:
        """Name of the file."""
        return f"{self.name}.hex"

    def text(self) -> str:
        """Contents of the file: a word a line, two's complement in `width` bits, zeros above."""
        digits, mask = -(-self.width // 4), (1 << self.width) - 1
        return "".join(f"{value & mask:0{digits}x}\n" for value in self.values)


@dataclass(frozen=True, kw_only=True)
class RowRange:
    """Rows of one class.

    Parameters
    ----------
    name : str
        Name of the class.
    first : int
        First row, counted from 0.
    count : int
        Number of rows.
    """

    name: str
    first: int
    count: int


@dataclass(frozen=True, kw_only=True)
class VectorSet:
    """Vectors for one unit.

    Parameters
    ----------
    unit : str
        One of `UNITS`.
    format : MXFormat
        Format of the elements; of two operands that of `a`.
    format_w : MXFormat, optional
        Of two operands the format of `w`.
    parameters : Mapping
        What else the outputs depend on.
    seed : int
        Seed of what is random.
    columns : tuple of Column
        Inputs, then outputs, all of the same length.
    classes : tuple of RowRange
        Every row, in order.
    """

    unit: str
    format: MXFormat
    format_w: MXFormat | None = None
    parameters: Mapping[str, Any]
    seed: int
    columns: tuple[Column, ...]
    classes: tuple[RowRange, ...]

    @property
    def count(self) -> int:
        """Number of rows."""
        return len(self.columns[0].values)

    def description(self) -> dict[str, Any]:
        """Content of ``vectors.json``."""
        return {
            "generator": {"mxsafe": mxsafe.__version__, "numpy": np.__version__},
            "unit": self.unit,
            "format": _format_entry(self.format),
            **({"format_w": _format_entry(self.format_w)} if self.format_w else {}),
            "parameters": dict(self.parameters),
            "seed": self.seed,
            "count": self.count,
            "columns": [
                {
                    "name": column.name,
                    "file": column.file,
                    "direction": column.direction,
                    "width": column.width,
                    "signed": column.signed,
                    "fields": [asdict(field) for field in column.fields],
                    "meaning": column.meaning,
                }
                for column in self.columns
            ],
            "classes": [asdict(rows) for rows in self.classes],
        }


def _format_entry(fmt: MXFormat) -> dict[str, Any]:
    element = asdict(fmt.element)
    kind = "int"
    if isinstance(fmt.element, FloatFormat):
        kind = "float"
        element["inf_magnitudes"] = list(fmt.element.inf_magnitudes)
        element["nan_magnitudes"] = list(fmt.element.nan_magnitudes)
    return {
        "name": fmt.name,
        "element": {"kind": kind, **element, "width": fmt.element.width},
        "scale": asdict(fmt.scale),
    }


def _row_ranges(names: Sequence[str], count: int) -> tuple[RowRange, ...]:
    """Half of the rows for all classes but the last, in equal shares of at least one row."""
    share = max(count // (2 * (len(names) - 1)), 1)
    ranges, first = [], 0
    for name in names:
        rows = count - first if name == names[-1] else min(share, count - first)
        if rows:
            ranges.append(RowRange(name=name, first=first, count=rows))
        first += rows
    return tuple(ranges)


def _numbers(values: NDArray[Any]) -> tuple[int, ...]:
    return tuple(int(value) for value in values.tolist())


def _packed(lanes: NDArray[Any], width: int) -> tuple[int, ...]:
    """Words from lanes of `width` bits, shape (rows, lanes); lane 0 is lowest."""

    def words() -> Iterator[int]:
        for first in range(0, len(lanes), 256):
            part = lanes[first : first + 256].astype(np.int64)
            bits = (part[:, :, None] >> np.arange(width) & 1).astype(np.uint8)
            rows = np.packbits(bits.reshape(len(part), -1), axis=1, bitorder="little")
            yield from (int.from_bytes(row.tobytes(), "little") for row in rows)

    return tuple(words())


def _lanes(count: int, width: int) -> tuple[Field, ...]:
    return tuple(Field(name=str(i), offset=width * i, width=width) for i in range(count))


@checked
def decoder(
    format: str | MXFormat = "mxsf",
    *,
    count: Codes | None = None,
    seed: Seed = 0,
) -> VectorSet:
    """Vectors for an element decoder (paper, Fig. 5e; model: `mxsafe.model.decoder_outputs`).

    Parameters
    ----------
    format : str or MXFormat
        Name in the catalogue, or a specification.
    count : int, optional
        Rows, at most the number of codes; by default all of them. No code comes twice.
    seed : int
        Seed of the order of the codes that are in no corner class.

    Returns
    -------
    VectorSet
        Columns `code` and `value`, the float32 that the code stands for relative to the block's
        scale, NaN as ``0x7fc00000``; and what the hardware's decoder puts out: `sign`, `exponent`
        and `significand`, and `nan` if there are codes for NaN or Inf; of integers `number`.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not as above.
    """
    fmt = mx_format(format)
    element = fmt.element
    all_codes = 1 << element.width
    count = all_codes if count is None else count
    if not 1 <= count <= all_codes:
        raise ValueError(f"count must lie in 1..{all_codes}, the codes of {fmt.name}, not {count}")
    rng = np.random.default_rng(seed)
    classes = code_classes(fmt)
    corners = [code for members in classes.values() for code in members]
    others = np.setdiff1d(np.arange(all_codes), corners)
    classes["random"] = rng.permutation(others).tolist()
    codes, ranges = np.zeros(0, np.uint8), []
    for name, members in classes.items():
        part = np.array(members, np.uint8)[: count - len(codes)]
        if len(part):
            ranges.append(RowRange(name=name, first=len(codes), count=len(part)))
        codes = np.concatenate([codes, part])

    columns = [
        Column(
            name="code",
            direction="input",
            width=element.width,
            meaning=f"element code of {fmt.name}",
            values=_numbers(codes),
        )
    ]
    outputs, parameters = _decoder_outputs(codes, fmt)
    columns += outputs
    values = canonical(elements.decode(codes, fmt))
    columns.append(
        Column(
            name="value",
            direction="output",
            width=32,
            meaning="binary32 value relative to the scale of the block; NaN is 7fc00000",
            values=_numbers(values.view(np.uint32)),
        )
    )
    return VectorSet(
        unit="decoder",
        format=fmt,
        parameters=parameters,
        seed=seed,
        columns=tuple(columns),
        classes=tuple(ranges),
    )


def _decoder_outputs(
    codes: NDArray[np.uint8], fmt: MXFormat
) -> tuple[list[Column], dict[str, Any]]:
    """Columns of what the hardware's decoder puts out, and what they depend on."""
    element = fmt.element
    if isinstance(element, IntFormat):
        unit = element.quantum_exponent
        widths = {"number": element.width}
        meanings = {"number": f"value in units of 2^{unit}"}
        parameters = {"quantum_exponent": unit}
    else:
        exponent_bits = (element.emax - element.quantum_exponent + 1).bit_length()
        bias = (1 << exponent_bits) - 1 - element.emax
        widths = {
            "sign": 1,
            "exponent": exponent_bits,
            "significand": element.mantissa_bits + 1,
            "nan": 1,
        }
        zero = "0 for zero, NaN and Inf" if has_special_codes(fmt) else "0 for zero"
        meanings = {
            "sign": "1 for negative numbers and -0",
            "exponent": f"exponent of the normalised value plus {bias}; {zero}",
            "significand": f"significand of the normalised value in units of 2^-"
            f"{element.mantissa_bits}, the leading one in the highest bit; {zero}",
            "nan": "1 for NaN and Inf",
        }
        parameters = {"exponent_bias": bias}
    columns = [
        Column(
            name=name,
            direction="output",
            width=widths[name],
            signed=name == "number",
            meaning=meanings[name],
            values=_numbers(values),
        )
        for name, values in decoder_outputs(codes, fmt).items()
    ]
    return columns, parameters


@checked
def mac(
    format: str | MXFormat = "mxsf",
    *,
    format_w: str | MXFormat | None = None,
    count: Rows = _DEFAULT_COUNT,
    seed: Seed = 0,
    arithmetic: Arithmetic = "fp12",
    lanes: PowerOfTwo = 4,
) -> VectorSet:
    """Vectors for a MAC (models: `mxsafe.model.safe_mac`, `mxsafe.model.safe_mac_exact`).

    Parameters
    ----------
    format : str or MXFormat
        Format of `a`; floating-point elements for ``fp12``.
    format_w : str or MXFormat, optional
        Format of `w`, by default that of `a`.
    count : int
        Rows. The corner classes of operands share half of them, the rest is random.
    seed : int
        Seed of the operands.
    arithmetic : {"fp12", "exact"}
        The paper's FP12 adder tree, or exact.
    lanes : int
        Products in a row, a power of two.

    Returns
    -------
    VectorSet
        Columns `a` and `w`, lane ``i`` in bits ``[width*i +: width]``; `partial_sum`, an FP12
        code, or `dot`, a signed multiple of ``2^quantum_exponent``; and `nan` if the format has
        codes for NaN or Inf.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not as above, or the sums are wider than any hardware's.
    """
    pair = mx_formats(format, format_w)
    formats = OperandFormats(*pair)
    if arithmetic == "fp12":
        formats.fp12_format(lanes)
    if lanes * max(fmt.width for fmt in pair) > _MAX_BITS:
        raise ValueError(f"lanes must keep the codes of a row within {_MAX_BITS} bits, not {lanes}")
    _require_rows(count, lanes)
    rng = np.random.default_rng(seed)
    draw = operand_classes(*pair)
    draw["random"] = draw.pop("uniform")
    ranges = _row_ranges(list(draw), count)
    pairs = [draw[rows.name](rng, rows.count, lanes) for rows in ranges]
    a, w = (np.concatenate([pair[side] for pair in pairs]) for side in (0, 1))

    operands = [
        Column(
            name=name,
            direction="input",
            width=lanes * fmt.width,
            meaning=f"element codes of {fmt.name}, one a lane",
            fields=_lanes(lanes, fmt.width),
            values=_packed(codes, fmt.width),
        )
        for name, codes, fmt in zip(("a", "w"), (a, w), pair, strict=True)
    ]
    result, parameters = (_fp12 if arithmetic == "fp12" else _exact)(a, w, *pair)
    results = [result]
    if formats.has_special_codes:
        nan = Column(
            name="nan",
            direction="output",
            width=1,
            meaning="an operand is NaN or Inf, which the other output counts as zero",
            values=_numbers(mac_nan(a, w, pair[0], format_w=pair[1])),
        )
        results.append(nan)
    return VectorSet(
        unit="mac",
        format=pair[0],
        format_w=pair[1],
        parameters={"arithmetic": arithmetic, "lanes": lanes, **parameters},
        seed=seed,
        columns=(*operands, *results),
        classes=ranges,
    )


def _fp12(
    a: NDArray[np.uint8], w: NDArray[np.uint8], format_a: MXFormat, format_w: MXFormat
) -> tuple[Column, dict[str, Any]]:
    sum_format = OperandFormats(format_a, format_w).fp12_format(a.shape[1])
    fields = sum_format.fields
    column = Column(
        name="partial_sum",
        direction="output",
        width=sum_format.width,
        meaning="sum of the products of all lanes, each product and each sum of neighbours rounded "
        "to nearest even",
        fields=(
            Field(name="mantissa", offset=0, width=fields.mantissa_bits),
            Field(name="exponent", offset=fields.mantissa_bits, width=fields.exponent_bits),
            Field(name="sign", offset=fields.width, width=1),
        ),
        values=_numbers(safe_mac(a, w, format_a, format_w=format_w)),
    )
    return column, {"sum_format": {"name": sum_format.name, **asdict(fields)}}


def _exact(
    a: NDArray[np.uint8], w: NDArray[np.uint8], format_a: MXFormat, format_w: MXFormat
) -> tuple[Column, dict[str, Any]]:
    formats = OperandFormats(format_a, format_w)
    unit = formats.quantum_exponent
    with about(products="lanes"):
        width = formats.sum_bits(a.shape[1]) + 1
    column = Column(
        name="dot",
        direction="output",
        width=width,
        signed=True,
        meaning=f"exact sum of the products of all lanes in units of 2^{unit}",
        values=_numbers(safe_mac_exact(a, w, format_a, format_w=format_w)),
    )
    return column, {"quantum_exponent": unit}


@checked
def converter(
    format: str | MXFormat = "mxsf",
    *,
    count: Rows = _DEFAULT_COUNT,
    seed: Seed = 0,
    block: int | None = None,
    input: Literal["float32", "bfloat16"] = "float32",
) -> VectorSet:
    """Vectors for a converter from floats to an MX format (model: `mxsafe.quantize`).

    Parameters
    ----------
    format : str or MXFormat
        Name in the catalogue, or a specification.
    count : int
        Rows, one block each. The corner classes share half of them, the rest is random.
    seed : int
        Seed of the blocks.
    block : int, optional
        Elements of a block; by default that of the format.
    input : {"float32", "bfloat16"}
        What is converted.

    Returns
    -------
    VectorSet
        Columns `x`, element ``i`` in bits ``[width*i +: width]``; `codes`, likewise; and `scale`,
        an E8M0 byte. Rounding is ``rne``, the scale mode ``floor``.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not as above.
    """
    fmt = mx_format(format)
    require_scale("format", fmt)
    source = {"float32": FLOAT32, "bfloat16": BFLOAT16}[input]
    length = require_positive_integer("block", fmt.block if block is None else block)
    if length * source.width > _MAX_BITS:
        raise ValueError(
            f"block must keep the elements of a row within {_MAX_BITS} bits, not {length}"
        )
    _require_rows(count, length)
    rng = np.random.default_rng(seed)
    draw = block_classes(fmt, source)
    ranges = _row_ranges(list(draw), count)
    words = np.concatenate([draw[rows.name](rng, rows.count, length) for rows in ranges])
    q = quantize(source.values(words), fmt, block=length, rounding="rne", scale_mode="floor")

    width = fmt.element.width
    return VectorSet(
        unit="converter",
        format=fmt,
        parameters={
            "input": input,
            "block": length,
            "rounding": "rne",
            "scale_mode": "floor",
        },
        seed=seed,
        columns=(
            Column(
                name="x",
                direction="input",
                width=source.width * length,
                meaning=f"elements of a block in {input}; subnormals count",
                fields=_lanes(length, source.width),
                values=_packed(words, source.width),
            ),
            Column(
                name="codes",
                direction="output",
                width=width * length,
                meaning=f"element codes of {fmt.name}; all 0 in a block with a NaN or an Inf",
                fields=_lanes(length, width),
                values=_packed(q.codes, width),
            ),
            Column(
                name="scale",
                direction="output",
                width=fmt.scale.width,
                meaning=f"shared scale 2^(scale - {E8M0.bias}); {E8M0.nan_code} in a "
                "block with a NaN or an Inf, 0 in a block of zeros",
                values=_numbers(q.scales[:, 0]),
            ),
        ),
        classes=ranges,
    )


UNITS: Mapping[str, Callable[..., VectorSet]] = MappingProxyType(
    {"decoder": decoder, "mac": mac, "converter": converter}
)
"""Functions that build vectors, by the name of the unit."""


@checked
def build(unit: str, format: str | MXFormat = "mxsf", **options: object) -> VectorSet:
    """Vectors for a unit by name.

    Parameters
    ----------
    unit : str
        One of `UNITS`.
    format : str or MXFormat
        Name in the catalogue, or a specification.
    **options : object
        Other parameters of `decoder`, `mac` or `converter`; None stands for the default value.

    Raises
    ------
    TypeError, ValueError
        If there is no such unit, it has no such parameter, or it does not work with its value.
    """
    require_one_of("unit", unit, tuple(UNITS))
    accepted = inspect.signature(UNITS[unit]).parameters
    given = {name: value for name, value in options.items() if value is not None}
    for name, value in given.items():
        if name not in accepted:
            shown = getattr(value, "name", value)
            raise ValueError(f"{name} is not a parameter of {unit}, but {shown} was given")
    return UNITS[unit](format, **given)


@checked
def write(vectors: VectorSet, folder: Path) -> None:
    """Write a file for each column and ``vectors.json``: all of them, or none.

    Files of columns that an earlier set in `folder` had and this one lacks are removed; others
    are never touched. The same vectors give the same bytes.

    Parameters
    ----------
    vectors : VectorSet
        What to write.
    folder : Path
        Folder to write to; it is created.

    Raises
    ------
    OSError
        If a file cannot be written.
    """
    files = {column.file: column.text().encode() for column in vectors.columns}
    files[DESCRIPTION] = (json.dumps(vectors.description(), indent=2) + "\n").encode()
    stale = [name for name in _earlier_files(folder) if name not in files]
    write_together(folder, files, remove=stale)


def _require_rows(count: int, elements: int) -> None:
    """Refuse more rows of so many elements than can be made in memory."""
    if count * elements > _MAX_ELEMENTS:
        raise ValueError(
            f"count must be at most {_MAX_ELEMENTS // elements} in rows of {elements} elements, "
            f"not {count}"
        )


def _earlier_files(folder: Path) -> list[str]:
    """Files of columns that a description in a folder names; none if it cannot be read."""
    try:
        columns = json.loads((folder / DESCRIPTION).read_text())["columns"]
        names = [column["name"] for column in columns]
    except (OSError, RecursionError, ValueError, KeyError, TypeError):
        return []
    return [f"{name}.hex" for name in names if isinstance(name, str) and name.isidentifier()]
