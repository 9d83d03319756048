"""Specifications of number formats: frozen, validated data, and the catalogues.

This file says which bits mean what. It neither decodes nor encodes: `mxsafe.codec` does that in
NumPy and `mxsafe.rtl` in gates, each from these specifications and independently of the other, so
that comparing them means something. It imports neither NumPy nor Amaranth. A specification accepts
integers of NumPy's types and keeps them as Python's own.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeVar, get_args

from mxsafe.validation import (
    checked,
    one_of,
    require_identifier,
    require_integer,
    require_one_of,
    settled,
    shown,
)

_T = TypeVar("_T")
Specials = Literal["none", "nan", "ieee"]


def _owner(spec: "FloatFormat | IntFormat | ScaleFormat | MXFormat") -> str:
    """Return the subject of an error about a specification, whose name is checked first."""
    kind = type(spec).__name__
    return f"{kind} {require_identifier(f'{kind}: name', spec.name)}"


def _settle_integer(spec: object, owner: str, name: str, least: int, most: int) -> None:
    """Make a field of a specification a Python integer, or refuse it."""
    number = require_integer(f"{owner}: {name}", getattr(spec, name), least, most)
    object.__setattr__(spec, name, number)


@dataclass(frozen=True, kw_only=True)
class FloatFields:
    """Exponent and mantissa fields of a floating-point code, without its sign.

    A code with exponent field ``e != 0`` is ``2^(e - bias) * (1 + m / 2^mantissa_bits)``; with
    ``e == 0`` it is the subnormal ``2^(1 - bias) * m / 2^mantissa_bits``.

    Parameters
    ----------
    exponent_bits, mantissa_bits : int
        Field widths in bits.
    bias : int
        Exponent bias.
    """

    exponent_bits: int
    mantissa_bits: int
    bias: int

    def __post_init__(self) -> None:
        _settle_integer(self, "FloatFields", "exponent_bits", 1, 11)
        _settle_integer(self, "FloatFields", "mantissa_bits", 0, 52)
        _settle_integer(self, "FloatFields", "bias", -1024, 1024)

    @property
    def width(self) -> int:
        """Bits of both fields together."""
        return self.exponent_bits + self.mantissa_bits

    @property
    def min_exponent(self) -> int:
        """Exponent of the smallest normal number, which subnormals share."""
        return 1 - self.bias

    @property
    def quantum_exponent(self) -> int:
        """Exponent of the smallest subnormal, of which every value is a multiple."""
        return self.min_exponent - self.mantissa_bits


def _fields(exponent_bits: int, mantissa_bits: int, bias: int) -> FloatFields:
    return FloatFields(exponent_bits=exponent_bits, mantissa_bits=mantissa_bits, bias=bias)


_FLOAT64 = _fields(11, 52, 1023)


@dataclass(frozen=True, kw_only=True)
class FloatFormat:
    """A signed scalar floating-point format: one sign bit above a magnitude code.

    Parameters
    ----------
    name : str
        Identifier of at most 64 characters, also used in the names of generated modules.
    fields : FloatFields
        Meaning of the magnitude code.
    sub : FloatFields, optional
        Second mode: when the exponent field of `fields` is zero, its mantissa bits are read as
        these fields instead of as a subnormal. MXSF does this (paper, section IV-A, "sub-FP").
    specials : {"none", "nan", "ieee"}
        Which magnitude codes are not finite: none; the one of all ones, which is NaN (OCP's E4M3);
        or those whose exponent field is all ones, Inf with mantissa 0 and NaN with any other.

    Raises
    ------
    ValueError
        If the fields contradict each other; the message names the parameter.
    """

    name: str
    fields: FloatFields
    sub: FloatFields | None = None
    specials: Specials = "none"

    def __post_init__(self) -> None:
        owner = _owner(self)
        require_one_of(f"{owner}: specials", self.specials, get_args(Specials))
        settled(f"{owner}: fields", FloatFields, self.fields)
        settled(f"{owner}: sub", FloatFields | None, self.sub)
        if self.max_magnitude < 1:
            raise ValueError(f"{owner}: there must be a finite value besides 0")
        if self.sub is not None:
            if self.sub.width != self.fields.mantissa_bits:
                raise ValueError(
                    f"{owner}: sub must fill the {self.fields.mantissa_bits} mantissa bits of "
                    f"fields, not {self.sub.width}"
                )
            sub_top = (1 << self.sub.exponent_bits) - 1 - self.sub.bias
            if sub_top >= self.fields.min_exponent:
                raise ValueError(
                    f"{owner}: sub must stay below the exponent {self.fields.min_exponent} of "
                    f"the smallest normal number, not reach {sub_top}"
                )
        if self.specials == "ieee" and self.fields.exponent_bits < 2:
            raise ValueError(
                f"{owner}: exponent_bits must be at least 2 with specials 'ieee', "
                f"not {self.fields.exponent_bits}"
            )
        if self.quantum_exponent < _FLOAT64.quantum_exponent or self.emax > _FLOAT64.bias:
            raise ValueError(
                f"{owner}: values must be multiples of 2^{_FLOAT64.quantum_exponent} below "
                f"2^{_FLOAT64.bias + 1}, which float64 holds, not of 2^{self.quantum_exponent} "
                f"below 2^{self.emax + 1}"
            )

    @property
    def width(self) -> int:
        """Bits of a code, sign included."""
        return 1 + self.fields.width

    @property
    def max_magnitude(self) -> int:
        """Magnitude code of the largest finite value."""
        return (self.inf_magnitudes or self.nan_magnitudes).start - 1

    @property
    def inf_magnitudes(self) -> range:
        """Magnitude codes that stand for Inf: one or none, just above the finite ones."""
        top = 1 << self.fields.width
        if self.specials == "ieee":
            first = top - (1 << self.fields.mantissa_bits)
            return range(first, first + 1)
        return range(top, top)

    @property
    def nan_magnitudes(self) -> range:
        """Magnitude codes that stand for NaN: the topmost, or none."""
        top = 1 << self.fields.width
        if self.specials == "ieee":
            return range(self.inf_magnitudes.stop, top)
        return range(top - (self.specials == "nan"), top)

    @property
    def quiet_nan(self) -> int | None:
        """Magnitude code of the NaN that is produced; None without NaN.

        With specials ``"ieee"`` it is the quiet NaN whose payload is zero.
        """
        if not self.nan_magnitudes:
            return None
        if self.specials == "nan":
            return self.nan_magnitudes.start
        return self.inf_magnitudes.start | 1 << (self.fields.mantissa_bits - 1)

    @property
    def emax(self) -> int:
        """Exponent of the largest finite value."""
        return (self.max_magnitude >> self.fields.mantissa_bits) - self.fields.bias

    @property
    def mantissa_bits(self) -> int:
        """Mantissa bits of a normal number."""
        return self.fields.mantissa_bits

    @property
    def quantum_exponent(self) -> int:
        """Every finite value is an integer multiple of ``2^quantum_exponent``."""
        return (self.sub or self.fields).quantum_exponent

    @property
    def finite_only(self) -> bool:
        """Whether no code stands for NaN or Inf."""
        return self.specials == "none"

    @property
    def max_value(self) -> float:
        """Largest finite value."""
        mantissa = self.max_magnitude & ((1 << self.fields.mantissa_bits) - 1)
        return 2.0**self.emax * (1 + mantissa / 2.0**self.fields.mantissa_bits)

    @property
    def min_normal(self) -> float:
        """Smallest positive value with the hidden bit; that of the second mode if there is one."""
        return 2.0 ** (self.sub or self.fields).min_exponent

    @property
    def min_value(self) -> float:
        """Smallest positive value: a subnormal, if there are mantissa bits."""
        return 2.0**self.quantum_exponent

    @property
    def precision(self) -> int:
        """Significant bits of a normal number, hidden bit included."""
        return self.mantissa_bits + 1


@dataclass(frozen=True, kw_only=True)
class IntFormat:
    """A two's-complement fixed-point format: the value of a code is ``code / 2^fraction_bits``.

    Encoding is symmetric: it saturates at plus and minus the largest code, so the most negative
    code decodes but is never produced (OCP MX v1.0, section 5.3.4).

    Parameters
    ----------
    name : str
        Identifier of at most 64 characters, also used in the names of generated modules.
    width : int
        Bits of a code, sign included.
    fraction_bits : int
        Bits right of the binary point.
    """

    name: str
    width: int
    fraction_bits: int

    def __post_init__(self) -> None:
        owner = _owner(self)
        _settle_integer(self, owner, "width", 2, 16)
        _settle_integer(self, owner, "fraction_bits", 0, self.width - 1)

    @property
    def max_magnitude(self) -> int:
        """Largest code that is produced."""
        return (1 << (self.width - 1)) - 1

    @property
    def emax(self) -> int:
        """Exponent of the largest finite value."""
        return self.width - 2 - self.fraction_bits

    @property
    def mantissa_bits(self) -> int:
        """Bits below the leading one of the largest value."""
        return self.width - 2

    @property
    def quantum_exponent(self) -> int:
        """Every finite value is an integer multiple of ``2^quantum_exponent``."""
        return -self.fraction_bits

    @property
    def max_value(self) -> float:
        """Largest finite value."""
        return self.max_magnitude / 2.0**self.fraction_bits

    @property
    def min_value(self) -> float:
        """Smallest positive value."""
        return 2.0**self.quantum_exponent


@dataclass(frozen=True, kw_only=True)
class ScaleFormat:
    """An unsigned power-of-two scale: code ``b`` is ``2^(b - bias)``; there is no zero and no Inf.

    Parameters
    ----------
    name : str
        Identifier of at most 64 characters.
    width : int
        Bits of a code.
    bias : int
        Exponent bias.
    nan_code : int
        The one code that is NaN.
    """

    name: str
    width: int
    bias: int
    nan_code: int

    def __post_init__(self) -> None:
        owner = _owner(self)
        _settle_integer(self, owner, "width", 1, 8)
        _settle_integer(self, owner, "bias", 0, 1024)
        top = (1 << self.width) - 1
        _settle_integer(self, owner, "nan_code", top, top)

    @property
    def max_code(self) -> int:
        """Code of the largest scale."""
        return self.nan_code - 1

    @property
    def max_value(self) -> float:
        """Largest scale."""
        return 2.0 ** (self.max_code - self.bias)

    @property
    def min_value(self) -> float:
        """Smallest scale."""
        return 2.0**-self.bias

    @property
    def precision(self) -> int:
        """Significant bits: the hidden one."""
        return 1


E8M0 = ScaleFormat(name="float8_e8m0fnu", width=8, bias=127, nan_code=255)
"""The scale of the MX formats in the catalogue (OCP MX v1.0, section 5.4.1)."""

_LONGEST_BLOCK = 1 << 16
_WIDEST_SCALE = 8  # bits, sign included: codes of scales are bytes
_FLOAT32 = _fields(8, 23, 127)


@dataclass(frozen=True, kw_only=True)
class MXFormat:
    """A microscaling format: an element format, a scale format and the block shapes in use.

    A number is its element times the scale of its block, and times the scale of the tensor where
    the format has one.

    Parameters
    ----------
    name : str
        Name in the catalogue: an identifier, also used in the names of generated modules.
    element : FloatFormat or IntFormat
        Format of one element, relative to the shared scale.
    block : int
        Default length of a 1-D block. Every positive length is allowed.
    tile : tuple of int
        Default shape of a 2-D block. Every shape of positive lengths is allowed.
    scale : ScaleFormat or FloatFormat
        Format of the scale that the elements of a block share. A `ScaleFormat` has powers of two:
        E8M0 in all of `MX_FORMATS`. A `FloatFormat` has a mantissa; its non-negative codes are
        scales, and so is its one code of NaN (`specials` is ``"nan"``).
    tensor_scale : bool
        Whether the whole tensor has a scale too, a binary32 number. Only with a `FloatFormat`.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not as above; the message names it.
    """

    name: str
    element: FloatFormat | IntFormat
    block: int = 32
    tile: tuple[int, int] = (8, 8)
    scale: ScaleFormat | FloatFormat = E8M0
    tensor_scale: bool = False

    def __hash__(self) -> int:
        return hash(self.name)  # formats are looked up often, and hardly ever share a name

    def __post_init__(self) -> None:
        owner = _owner(self)
        if not isinstance(self.element, FloatFormat | IntFormat):
            raise TypeError(
                f"{owner}: element must be a FloatFormat or an IntFormat, "
                f"not {type(self.element).__name__}"
            )
        require_integer(f"{owner}: element width", self.element.width, 2, 8)
        if not isinstance(self.tensor_scale, bool):
            raise TypeError(
                f"{owner}: tensor_scale must be True or False, not {shown(self.tensor_scale)}"
            )
        if isinstance(self.scale, FloatFormat):
            self._require_exact_products(owner, self.scale)
        elif not isinstance(self.scale, ScaleFormat):
            raise TypeError(
                f"{owner}: scale must be a ScaleFormat or a FloatFormat, "
                f"not {type(self.scale).__name__}"
            )
        elif self.tensor_scale:
            raise ValueError(
                f"{owner}: tensor_scale must be False with {self.scale.name}, whose scales are "
                "powers of two, not True"
            )
        _settle_integer(self, owner, "block", 1, _LONGEST_BLOCK)
        if not isinstance(self.tile, tuple | list) or len(self.tile) != 2:
            raise ValueError(f"{owner}: tile must have two lengths, not {shown(self.tile)}")
        lengths = (require_integer(f"{owner}: tile", n, 1, _LONGEST_BLOCK) for n in self.tile)
        object.__setattr__(self, "tile", tuple(lengths))

    def _require_exact_products(self, owner: str, scale: FloatFormat) -> None:
        """Refuse scales with a mantissa that blocks cannot have, or float64 cannot multiply by."""
        require_integer(f"{owner}: scale width", scale.width, 2, _WIDEST_SCALE)
        if scale.specials != "nan" or scale.sub is not None:
            raise ValueError(
                f"{owner}: scale must have specials 'nan' and no second mode, unlike {scale.name}"
            )
        lowest = self.element.quantum_exponent + scale.quantum_exponent
        highest = self.element.emax + scale.emax + 2  # each factor is below 2^(emax + 1)
        if self.tensor_scale:
            lowest += _FLOAT32.quantum_exponent
            highest += _FLOAT32.bias + 1
        if lowest < _FLOAT64.quantum_exponent or highest > _FLOAT64.bias + 1:
            raise ValueError(
                f"{owner}: elements times scales must be multiples of "
                f"2^{_FLOAT64.quantum_exponent} below 2^{_FLOAT64.bias + 1}, which float64 holds, "
                f"not of 2^{lowest} below 2^{highest}"
            )

    @property
    def width(self) -> int:
        """Bits of an element code."""
        return self.element.width

    @property
    def emax(self) -> int:
        """Exponent of the largest element, subtracted when a scale is chosen."""
        return self.element.emax

    @property
    def nan_scale(self) -> int:
        """Code of the scale of a block that holds a NaN or an Inf."""
        if isinstance(self.scale, ScaleFormat):
            return self.scale.nan_code
        return self.scale.nan_magnitudes.start


_E2M5 = _fields(2, 5, 3)
_FLOAT8_E4M3FN = FloatFormat(name="float8_e4m3fn", fields=_fields(4, 3, 7), specials="nan")
_FLOAT8_E5M2 = FloatFormat(name="float8_e5m2", fields=_fields(5, 2, 15), specials="ieee")
_FLOAT6_E3M2FN = FloatFormat(name="float6_e3m2fn", fields=_fields(3, 2, 3))
_FLOAT6_E2M3FN = FloatFormat(name="float6_e2m3fn", fields=_fields(2, 3, 1))
_FLOAT4_E2M1FN = FloatFormat(name="float4_e2m1fn", fields=_fields(2, 1, 1))

FP12_E4M7 = FloatFormat(name="fp12", fields=_fields(4, 7, 12))
"""Products and sums of the SAFE-MAC's adder tree (paper, section V-B).

Bias 12 is a decision: four MXSF products are at most 15.504, below the largest value 15.9375.
"""

BF16 = FloatFormat(name="bf16", fields=_fields(8, 7, 127), specials="ieee")
"""bfloat16: binary32 without the low half of its mantissa."""

SCALAR_FORMATS: Mapping[str, FloatFormat | ScaleFormat] = MappingProxyType(
    {
        fmt.name: fmt
        for fmt in (
            FloatFormat(name="fp64", fields=_FLOAT64, specials="ieee"),
            FloatFormat(name="fp32", fields=_fields(8, 23, 127), specials="ieee"),
            FloatFormat(name="tf32", fields=_fields(8, 10, 127), specials="ieee"),
            BF16,
            FloatFormat(name="fp16", fields=_fields(5, 10, 15), specials="ieee"),
            _FLOAT8_E4M3FN,
            _FLOAT8_E5M2,
            _FLOAT6_E3M2FN,
            _FLOAT6_E2M3FN,
            _FLOAT4_E2M1FN,
            E8M0,
        )
    }
)
"""Every scalar format by name, those of eight bits and fewer by their names in ml_dtypes.

TF32 is 19 bits without the 13 that a register leaves unused below them.
"""

MX_FORMATS: Mapping[str, MXFormat] = MappingProxyType(
    {
        fmt.name: fmt
        for fmt in (
            MXFormat(
                name="mxsf",
                element=FloatFormat(name="e2m5_e3m2", fields=_E2M5, sub=_fields(3, 2, 10)),
                block=64,
            ),
            MXFormat(name="mxfp8_e2m5", element=FloatFormat(name="e2m5", fields=_E2M5), block=64),
            MXFormat(name="mxfp8_e4m3", element=_FLOAT8_E4M3FN),
            MXFormat(name="mxfp8_e5m2", element=_FLOAT8_E5M2),
            MXFormat(name="mxfp6_e3m2", element=_FLOAT6_E3M2FN),
            MXFormat(name="mxfp6_e2m3", element=_FLOAT6_E2M3FN),
            MXFormat(name="mxfp4_e2m1", element=_FLOAT4_E2M1FN),
            MXFormat(name="mxint8", element=IntFormat(name="int8", width=8, fraction_bits=6)),
        )
    }
)
"""Every MX format by name: MXSF and BOOST's E2M5 (paper), and those of OCP MX v1.0.

Their scales are E8M0. All of them have hardware.
"""

NVFP4 = MXFormat(
    name="nvfp4",
    element=_FLOAT4_E2M1FN,
    block=16,
    tile=(16, 16),
    scale=_FLOAT8_E4M3FN,
    tensor_scale=True,
)
"""NVIDIA's FP4: E2M1 elements, an E4M3 scale for every 16 of them and a binary32 scale of the
tensor. It has a codec and no hardware."""

BLOCK_FORMATS: Mapping[str, MXFormat] = MappingProxyType({**MX_FORMATS, NVFP4.name: NVFP4})
"""Every format of blocks by name: those of `MX_FORMATS`, and `NVFP4`."""


def _require_specification(fmt: object) -> None:
    if not isinstance(fmt, MXFormat):
        raise TypeError(f"format must be an MXFormat, not {type(fmt).__name__}")


@checked
def element_format(format: MXFormat) -> FloatFormat | IntFormat:
    """Element format of a specification.

    Raises
    ------
    TypeError
        If `format` is not a specification.
    """
    _require_specification(format)
    return format.element


@checked
def has_special_codes(format: "MXFormat | FormatSet") -> bool:
    """Whether a code of an element stands for NaN or Inf; of a set of formats none does."""
    if isinstance(format, FormatSet):
        return False
    element = element_format(format)
    return isinstance(element, FloatFormat) and not element.finite_only


_LARGEST_MEMBER_EMAX = 127
"""Then the exponent of a block has ten bits: two bytes of scales and two such numbers."""


@dataclass(frozen=True, kw_only=True)
class FormatSet:
    """MX formats that an operand of an array can have in turn: a mode beside each beat says which.

    An element of a set counts relative to ``2^emax`` of its own format, so those of all members are
    less than 2. The array adds what is missing to the exponents of the blocks.

    Parameters
    ----------
    name : str
        Identifier of at most 64 characters, also used in the names of generated modules.
    members : tuple of MXFormat
        Two or more formats of different names with floating-point elements, no codes for NaN and
        Inf, scales of E8M0 and an emax from 0 to 127; one with the widest codes first. The place of
        a member is its mode.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not as above; the message names it.
    """

    name: str
    members: tuple[MXFormat, ...]

    def __post_init__(self) -> None:
        owner = f"FormatSet {require_identifier('FormatSet: name', self.name)}"
        if not isinstance(self.members, tuple | list):
            raise TypeError(
                f"{owner}: members must be a tuple of MXFormat, not {type(self.members).__name__}"
            )
        object.__setattr__(self, "members", tuple(self.members))
        for fmt in self.members:
            self._require_member(owner, fmt)
        names = [fmt.name for fmt in self.members]
        if len(set(names)) < max(len(names), 2):
            raise ValueError(
                f"{owner}: members must be two or more formats of different names, not "
                f"{', '.join(names) or 'none'}"
            )
        if self.members[0].width < self.width:
            raise ValueError(
                f"{owner}: the first of members must have codes of {self.width} bits, the widest, "
                f"not of {self.members[0].width} as {self.members[0].name} has"
            )

    @staticmethod
    def _require_member(owner: str, fmt: object) -> None:
        """Refuse what an operand that takes several formats cannot be."""
        if not isinstance(fmt, MXFormat):
            raise TypeError(
                f"{owner}: members must be a tuple of MXFormat, not of {type(fmt).__name__}"
            )
        element = fmt.element
        if not isinstance(element, FloatFormat) or not element.finite_only:
            raise ValueError(
                f"{owner}: members must have floating-point elements without codes for NaN "
                f"and Inf, not those of {fmt.name}"
            )
        if fmt.scale != E8M0:
            raise ValueError(
                f"{owner}: members must have scales of {E8M0.name}, not of {fmt.scale.name} as "
                f"{fmt.name} has"
            )
        if not 0 <= fmt.emax <= _LARGEST_MEMBER_EMAX:
            raise ValueError(
                f"{owner}: members must have an emax from 0 to {_LARGEST_MEMBER_EMAX}, not "
                f"{fmt.emax} as {fmt.name} has"
            )

    @property
    def scale(self) -> ScaleFormat:
        """Format of the scales."""
        return E8M0

    @property
    def width(self) -> int:
        """Bits in which the code of any member finds room."""
        return max(fmt.element.width for fmt in self.members)

    @property
    def mode_bits(self) -> int:
        """Bits of a mode."""
        return (len(self.members) - 1).bit_length()

    @property
    def precision(self) -> int:
        """Most significant bits of an element."""
        return max(fmt.element.mantissa_bits + 1 for fmt in self.members)

    @property
    def quantum_exponent(self) -> int:
        """Every element, relative to ``2^emax`` of its format, is a multiple of this power of 2."""
        return min(fmt.element.quantum_exponent - fmt.emax for fmt in self.members)

    @property
    def exponents(self) -> tuple[int, ...]:
        """The ``emax`` of each member, which the exponents of blocks lack."""
        return tuple(fmt.emax for fmt in self.members)

    @property
    def packed(self) -> tuple[int, ...]:
        """Codes of each member that lie in the place of one: a power of two.

        One, where codes do not fill the place.
        """
        shares = [divmod(self.width, fmt.width) for fmt in self.members]
        return tuple(many if not rest and many & (many - 1) == 0 else 1 for many, rest in shares)

    @checked
    def mode(self, format: MXFormat) -> int:
        """The mode that stands for a member.

        Raises
        ------
        TypeError, ValueError
            If it is none.
        """
        if format not in self.members:
            names = [member.name for member in self.members]
            raise ValueError(f"format must be {one_of(names, format.name)}")
        return self.members.index(format)


FORMAT_SETS: Mapping[str, FormatSet] = MappingProxyType(
    {
        "multi": FormatSet(
            name="multi",
            members=tuple(
                MX_FORMATS[name]
                for name in ("mxsf", "mxfp8_e2m5", "mxfp6_e3m2", "mxfp6_e2m3", "mxfp4_e2m1")
            ),
        )
    }
)
"""Every set of formats by name: ``multi`` are all that fit into the operand of MXSF."""

OPERAND_FORMATS: Mapping[str, MXFormat | FormatSet] = MappingProxyType(
    {**MX_FORMATS, **FORMAT_SETS}
)
"""Everything that an operand of hardware can have, by name."""


def named(name: str, formats: Mapping[str, _T]) -> _T:
    """The format of a name, in capitals or small letters, with ``-`` or ``_``.

    One of its parts is enough where no other format has it: ``e4m3`` is ``mxfp8_e4m3`` among
    `BLOCK_FORMATS`, and ``fp8`` is refused, which might be three of them.

    Parameters
    ----------
    name : str
        What was given.
    formats : Mapping
        The formats that it can be, by their names.

    Raises
    ------
    ValueError
        If it is the name of none, or might be that of several.
    """
    plain = name.lower().replace("-", "_")
    if plain in formats:
        return formats[plain]
    part = re.compile(rf"(?:^(?:mx|nv)?|_){re.escape(plain)}(?:fnu?z?)?(?:_|$)")
    meant = [known for known in formats if part.search(known)]
    if len(meant) == 1:
        return formats[meant[0]]
    raise ValueError(f"format must be {one_of(formats, name, meant=meant)}")


def mx_format(format: str | MXFormat) -> MXFormat:
    """Look a format up in the catalogue; a specification is passed through.

    Parameters
    ----------
    format : str or MXFormat
        Name of a catalogued format as `named` takes it, or a specification of one's own.

    Raises
    ------
    ValueError
        If it is the name of none in `BLOCK_FORMATS`, or might be that of several.
    TypeError
        If `format` is neither a name nor a specification.
    """
    if isinstance(format, MXFormat):
        return format
    if not isinstance(format, str):
        raise TypeError(f"format must be a name or an MXFormat, not {type(format).__name__}")
    return named(format, BLOCK_FORMATS)


def mx_formats(
    format: str | MXFormat, format_w: str | MXFormat | None = None
) -> tuple[MXFormat, MXFormat]:
    """Formats of the operands `a` and `w` of a product, see `mx_format`.

    Parameters
    ----------
    format : str or MXFormat
        Of `a`, and of `w` if that is not given.
    format_w : str or MXFormat, optional
        Of `w`.

    Raises
    ------
    TypeError, ValueError
        As `mx_format`.
    """
    return mx_format(format), mx_format(format if format_w is None else format_w)


def scalar_format(format: str | FloatFormat | ScaleFormat) -> FloatFormat | ScaleFormat:
    """Look a scalar format up in the catalogue; a specification is passed through.

    Parameters
    ----------
    format : str, FloatFormat or ScaleFormat
        Name of a catalogued format as `named` takes it, or a specification of one's own.

    Raises
    ------
    ValueError
        If it is the name of none in `SCALAR_FORMATS`, or might be that of several.
    TypeError
        If `format` is neither a name nor a specification.
    """
    if isinstance(format, FloatFormat | ScaleFormat):
        return format
    if not isinstance(format, str):
        raise TypeError(
            f"format must be a name, a FloatFormat or a ScaleFormat, not {type(format).__name__}"
        )
    return named(format, SCALAR_FORMATS)
