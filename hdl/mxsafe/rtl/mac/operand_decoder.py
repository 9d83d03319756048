"""Element codes to operands: what the multipliers of an array take, made once at its edge."""

from collections.abc import Mapping
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.formats import (
    FloatFields,
    FloatFormat,
    FormatSet,
    IntFormat,
    MXFormat,
    has_special_codes,
)
from mxsafe.rtl.arithmetic.bits import gated_or, named, noted, truncated
from mxsafe.rtl.arithmetic.radix4 import digit_gates, upper_triple
from mxsafe.rtl.mac.operand import Factor, Operand, operand_fields
from mxsafe.rtl.mac.special_codes import is_special
from mxsafe.rtl.unit import Configuration, Part, Ports, Unit, place
from mxsafe.validation import Alike


def _base(format: MXFormat | FormatSet, unit: str, factor: Factor | None) -> str:
    return "_".join(filter(None, (format.name, unit, factor)))


class OperandDecoderConfiguration(Configuration):
    """An `OperandDecoder`.

    Parameters
    ----------
    format : MXFormat or FormatSet
        Format of the code. Integers are decoded where the other operand is not one.
    factor : {"digits", "triple"}, optional
        What the significand is prepared for, see `mxsafe.rtl.mac.operand`.
    nan : bool
        Flag codes for NaN and Inf, if the format has such; else they come out as any number.
    """

    unnamed = frozenset({"format", "factor"})

    format: MXFormat | FormatSet
    factor: Factor | None = None
    nan: bool = False

    def __post_init__(self) -> None:
        self._set(nan=self.nan and has_special_codes(self.format))

    @property
    def operand(self) -> Operand:
        """Operand that comes out."""
        return Operand.of(self.format)

    @property
    def base(self) -> str:
        return _base(self.format, "operand_decoder", self.factor)

    @property
    def properties(self) -> Mapping[str, Any]:
        """The weight of a significand's lowest bit at shift 0."""
        return {"quantum_exponent": self.operand.quantum_exponent}


class OperandDecoder(Unit[OperandDecoderConfiguration]):
    """Element code to sign, right-aligned significand and shift: what a multiplier wants.

    The value is ``(-1)^sign * significand * 2^(shift + quantum_exponent)``. Combinational.

    Nothing has to find the leading one of a subnormal, and the product of two operands needs a
    shift of 0..12 instead of the 0..18 of normalised ones. MXSF's shift is ``1, e1, e0`` for E2M5
    and the exponent field for E3M2. See `Operand`.

    Codes of a set of formats come in the low bits of `code`. Formats with as many exponent bits
    differ in where the fields lie, and only in that: E2M3 and E2M1 are decoded as E2M5.

    Attributes
    ----------
    code : In(width)
        Code of an element.
    member : In(members)
        Only of a set: one-hot, the format of the code.
    sign : Out(1)
        Its sign.
    shift : Out
        At least 1 (MXSF: 3 bits, 1..7). Only without a factor.
    distance : Out
        The shift less one. Only with a factor, and not of integers.
    significand : Out(mantissa bits + 1)
        Not with factor ``digits``.
    gates : Out
        Only with factor ``digits``: the gates of the significand's digits.
    triple : Out
        Only with factor ``triple``: the upper bits of its triple.
    nan : Out(1)
        Only where wanted, of a format with codes for NaN or Inf: the code is one; the significand
        is then 0.
    """

    def ports(self) -> Ports:
        config = self.config
        format = config.format
        fields = operand_fields(format, config.factor)
        members = {"member": In(len(format.members))} if isinstance(format, FormatSet) else {}
        return {
            "code": In(format.width),
            **members,
            **{name: Out(bits) for name, bits in fields.items()},
            **({"nan": Out(1)} if config.nan else {}),
        }

    def fill(self, m: Module, platform: object) -> None:
        format, factor = self.config.format, self.config.factor
        if isinstance(format, FormatSet):
            shift, significand = self._decode_set(m, format)
        elif isinstance(format.element, IntFormat):
            noted(self.sign, "The magnitude of the most negative code takes all bits.")
            m.d.comb += self.sign.eq(self.code[-1])
            shift, significand = Const(1), Mux(self.sign, -self.code, self.code)[: len(self.code)]
        else:
            shift, significand = self._decode_float(m, format.element)
        self._put_shift(m, shift)
        if factor == "digits":
            noted(
                self.gates,
                "Radix 4: for each digit of the significand, whether it is 1, 2, 3; prepared here "
                "once for all multipliers of a row or column.",
            )
            bits = self.config.operand.significand_bits
            never = Operand.top_digit_is_never_one(format)
            decoded = named(m, "decoded", bits, significand)
            m.d.comb += self.gates.eq(digit_gates(decoded, top_is_never_one=never))
        else:
            m.d.comb += self.significand.eq(significand)
        if factor == "triple":
            noted(
                self.triple,
                "Three times the significand but for the lowest bit, which is the same; prepared "
                "here once for all multipliers of a row or column.",
            )
            m.d.comb += self.triple.eq(upper_triple(self.significand))

    def _put_shift(self, m: Module, shift: Value) -> None:
        """Drive what the operand has of its shift."""
        bits = self.config.operand.max_shift.bit_length()
        if self.config.factor is None:
            m.d.comb += self.shift.eq(shift)
        elif self.config.operand.max_shift > 1:
            counted = named(m, "shift", bits, shift)
            m.d.comb += self.distance.eq(truncated(m, "shift_less_1", bits, counted - 1))

    def _decode_float(self, m: Module, element: FloatFormat) -> tuple[Value, Value]:
        """Drive the sign of a single format; return shift and significand."""
        fields = element.fields
        mantissa = named(m, "mantissa", fields.mantissa_bits, self.code[: fields.mantissa_bits])
        field = named(
            m, "exponent_field", fields.exponent_bits, self.code[fields.mantissa_bits : -1]
        )
        m.d.comb += self.sign.eq(self.code[-1])
        offset = self.config.operand.offset(fields)
        shift, significand = _decoded(m, "", field, mantissa, offset, element.sub)
        if self.config.factor != "digits":
            noted(
                self.significand,
                "Not normalised: each mantissa stays where the code has it, and the shift tells "
                "where that is. So a multiplexer of two is all there is.",
            )
        if self.config.nan:
            noted(self.nan, "NaN or Inf: a significand of 0 keeps it out of the sums.")
            m.d.comb += self.nan.eq(is_special(element, self.code))
            significand = Mux(self.nan, 0, significand)
        return shift, significand

    def _decode_set(self, m: Module, formats: FormatSet) -> tuple[Value, Value]:
        """Drive the sign of whatever format the code has; return shift and significand."""
        operand, gates = self.config.operand, list(self.member)
        signs: list[tuple[Value, Value]] = []
        kinds: dict[_Kind, list[tuple[Value, FloatFields, int]]] = {}
        for gate, format in zip(gates, formats.members, strict=True):
            element, emax = format.element, format.emax
            assert isinstance(element, FloatFormat)
            left = operand.left(element, element.fields, emax)
            offset = operand.offset(element.fields, emax) - left
            signs.append((gate, self.code[element.width - 1]))
            kind = (element.fields.exponent_bits, offset, element.sub)
            kinds.setdefault(kind, []).append((gate, element.fields, left))
        m.d.comb += self.sign.eq(gated_or(m, "sign_of", signs))
        shifts, significands = [], []
        for number, ((_, offset, sub), members) in enumerate(kinds.items()):
            fields, mantissas = [], []
            for gate, layout, left in members:
                mantissa = self.code[: layout.mantissa_bits]
                fields.append((gate, self.code[layout.mantissa_bits : layout.width]))
                mantissas.append((gate, Cat(Const(0, left), mantissa)))
            field = gated_or(m, f"exponent_field_{number}", fields)
            mantissa = gated_or(m, f"mantissa_{number}", mantissas)
            noted(
                field,
                "Formats with equally many exponent bits differ in where the fields lie, and only "
                "in that: shorter mantissas are moved to the left.",
            )
            shift, significand = _decoded(m, f"_{number}", field, mantissa, offset, sub)
            here = named(m, f"is_kind_{number}", 1, Cat(gate for gate, _, _ in members).any())
            shifts.append((here, shift))
            significands.append((here, significand))
        shift = gated_or(m, "shift_of", shifts)
        return shift, gated_or(m, "significand_of", significands)


_Kind = tuple[int, int, FloatFields | None]
"""Exponent bits, what is added to the field to make the shift, and a second mode."""


def _decoded(
    m: Module, suffix: str, field: Value, mantissa: Value, offset: int, sub: FloatFields | None
) -> tuple[Value, Value]:
    """Shift and significand from the fields of a floating-point code."""
    normal = named(m, f"is_normal{suffix}", 1, field.any())
    if sub is not None:
        noted(
            normal,
            "The seam of the two modes (MXSF): exponent field 0 is not that of subnormals. It "
            "opens the second mode, whose exponent lies in the upper bits of the mantissa.",
        )
    else:
        noted(normal, "Exponent field 0 has the subnormals, without a hidden bit.")
    low_mantissa = mantissa if sub is None else mantissa[: sub.mantissa_bits]
    low_field: Value = Const(0, 1) if sub is None else mantissa[sub.mantissa_bits :]
    low_normal = named(m, f"low_is_normal{suffix}", 1, low_field.any())
    if sub is not None:
        noted(
            low_normal,
            "Exponent field 0 of the second mode has its subnormals, and weighs as much as field "
            "1.",
        )
    low_shift = Const(1 + offset) if sub is None else Cat(low_field[0] | ~low_normal, low_field[1:])
    significand = Mux(normal, Cat(mantissa, 1), Cat(low_mantissa, low_normal))
    return Mux(normal, _with_offset(field, offset), low_shift), significand


def _with_offset(field: Value, offset: int) -> Value:
    """``field + offset``, by wires alone where the two have no bit in common."""
    if offset % (1 << len(field)) == 0:
        high = offset >> len(field)
        return Cat(field, Const(high, Shape(max(high.bit_length(), 1))))
    return field + offset


class LaneDecoderConfiguration(Configuration):
    """A `LaneDecoder`.

    Parameters
    ----------
    format : MXFormat or FormatSet
        Format of the codes.
    factor : {"digits", "triple"}, optional
        What significands are prepared for, see `mxsafe.rtl.mac.operand`.
    count : int
        Codes.
    nan : bool
        Flag codes for NaN and Inf, if the format has such; else they come out as any number.
    """

    unnamed = frozenset({"format", "factor"})

    format: MXFormat | FormatSet
    factor: Factor | None = None
    count: Alike = 16
    nan: bool = False

    def __post_init__(self) -> None:
        self._set(nan=self.decoder.nan)

    decoder = Part(OperandDecoder)

    @property
    def layout(self) -> data.StructLayout:
        """Layout of an operand."""
        return data.StructLayout(operand_fields(self.format, self.factor))

    @property
    def base(self) -> str:
        return _base(self.format, "lane_decoder", self.factor)


class LaneDecoder(Unit[LaneDecoderConfiguration]):
    """Element codes to operands, side by side. Combinational.

    Attributes
    ----------
    codes : In(array of codes)
        Codes of elements.
    mode : In
        Only of a set of formats: which of them the codes have, see `FormatSet`. What is no mode
        stands for the first.
    operands : Out(array of struct)
        See `operand_layout`.
    nan : Out(1)
        Only where wanted, of a format with codes for NaN or Inf: one of the codes is one.
    """

    def ports(self) -> Ports:
        config = self.config
        format = config.format
        return {
            "codes": In(data.ArrayLayout(format.width, config.count)),
            **({"mode": In(format.mode_bits)} if isinstance(format, FormatSet) else {}),
            "operands": Out(data.ArrayLayout(config.layout, config.count)),
            **({"nan": Out(1)} if config.nan else {}),
        }

    def fill(self, m: Module, platform: object) -> None:
        config, flags = self.config, []
        fields = config.layout.members
        format = config.format
        members: Value | None = None
        if isinstance(format, FormatSet):
            others = [self.mode == mode for mode in range(1, len(format.members))]
            one_hot = Cat(~Cat(others).any(), *others)
            members = named(m, "member", len(format.members), one_hot)
            noted(members, "One-hot, once for all codes; what is no mode stands for the first.")
        for index in range(config.count):
            decoder = place(m, platform, f"decode_{index}", OperandDecoder(config.decoder))
            m.d.comb += [
                decoder.code.eq(self.codes[index]),
                self.operands[index].as_value().eq(Cat(getattr(decoder, name) for name in fields)),
            ]
            if members is not None:
                m.d.comb += decoder.member.eq(members)
            if config.nan:
                flags.append(decoder.nan)
        if config.nan:
            m.d.comb += self.nan.eq(Cat(flags).any())
