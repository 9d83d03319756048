"""The element decoder (paper, Fig. 5e)."""

from dataclasses import dataclass
from typing import Literal

from amaranth.hdl import Cat, Const, Module, Mux, Shape, ShapeLike, Signal, Value, signed
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.formats import FloatFormat, IntFormat, MXFormat, element_format, has_special_codes
from mxsafe.rtl.arithmetic.bits import named
from mxsafe.rtl.arithmetic.radix4 import digit_gates, gate_bits, triple_bits, upper_triple
from mxsafe.rtl.unit import Unit

__all__ = [
    "SIDES",
    "Decoder",
    "Operand",
    "OperandDecoder",
    "Side",
    "finite_parameter",
    "finite_suffix",
    "is_special",
    "operand_layout",
]

Side = Literal["a", "w"]
SIDES: tuple[Side, Side] = ("a", "w")


def is_special(element: FloatFormat | IntFormat, code: Value) -> Value:
    """Whether a code stands for NaN or Inf; a constant 0 if no code of the format does."""
    if isinstance(element, IntFormat) or element.finite_only:
        return Const(0, 1)
    magnitude = code[:-1]
    if element.specials == "ieee":
        return magnitude[element.fields.mantissa_bits :].all()
    return magnitude.all()


class Decoder(Unit):
    """Element code to sign, exponent and normalised significand.

    For MXSF that is E4M5: the value is ``(-1)^sign * 2^(exponent - 15) * significand / 32``, with
    the leading one in bit 5. Subnormals come out normalised, zero as exponent 0, significand 0.
    The code of an integer element is its value already, and is put out as that. Combinational.

    Parameters
    ----------
    format : MXFormat
        Format of the code.

    Attributes
    ----------
    code : In(width)
        Element code.
    sign : Out(1)
    exponent : Out
        Biased so that the largest exponent of the format is the largest code (MXSF: 4 bits).
    significand : Out(mantissa bits + 1)
    nan : Out(1)
        Only of a format with codes for NaN or Inf: the code is one; `exponent` and `significand`
        are then 0.
    number : Out(signed(width))
        Only of a format with integer elements, and its only output: the value in units of the
        smallest positive one (MXINT8: 8 bits, ``2^-6``).
    bias : int
        Bias of `exponent`; 0 for integers.

    Notes
    -----
    Exponents are re-biased by adding constants. MXSF has three subnormals, so their leading one is
    found by cases instead of by a leading-zero counter and a shifter.
    """

    def __init__(self, *, format: MXFormat) -> None:
        element = element_format(format)
        self.format = format
        self._element = element
        self.exponent_bits = self.bias = 0
        parameters: dict[str, object] = {"format": format.name}
        if isinstance(element, IntFormat):
            outputs = {"number": Out(signed(element.width))}
            parameters["unit_exponent"] = element.quantum_exponent
        else:
            smallest = element.quantum_exponent  # of the smallest subnormal, code 1 or more
            self.exponent_bits = (element.emax - smallest + 1).bit_length()
            self.bias = (1 << self.exponent_bits) - 1 - element.emax
            outputs = {
                "sign": Out(1),
                "exponent": Out(self.exponent_bits),
                "significand": Out(element.mantissa_bits + 1),
            }
            parameters["exponent_bias"] = self.bias
            if has_special_codes(format):
                outputs["nan"] = Out(1)
        super().__init__(
            {"code": In(element.width), **outputs},
            module_name=f"{format.name}_decoder",
            parameters=parameters,
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        element = self._element
        if isinstance(element, IntFormat):
            m.d.comb += self.number.eq(self.code.as_signed())
            return m
        fields, sub = element.fields, element.sub
        mantissa = named(m, "mantissa", fields.mantissa_bits, self.code[: fields.mantissa_bits])
        field = named(
            m, "exponent_field", fields.exponent_bits, self.code[fields.mantissa_bits : -1]
        )
        normal = named(m, "is_normal", 1, field.any())
        m.d.comb += self.sign.eq(self.code[-1])

        width = self.exponent_bits
        normal_exponent = (field + (self.bias - fields.bias))[:width]
        if sub is None:
            low_exponent, low_significand = self._normalised(
                mantissa, self.bias + fields.min_exponent
            )
        else:
            sub_mantissa = named(m, "sub_mantissa", sub.mantissa_bits, mantissa)
            sub_field = named(
                m, "sub_exponent_field", sub.exponent_bits, mantissa[sub.mantissa_bits :]
            )
            sub_normal = named(m, "sub_is_normal", 1, sub_field.any())
            tiny_exponent, tiny_significand = self._normalised(
                sub_mantissa, self.bias + sub.min_exponent
            )
            padding = Const(0, fields.mantissa_bits - sub.mantissa_bits)
            low_exponent = Mux(
                sub_normal, (sub_field + (self.bias - sub.bias))[:width], tiny_exponent
            )
            low_significand = Mux(
                sub_normal, Cat(padding, sub_mantissa, 1), Cat(padding, tiny_significand)
            )
        exponent = Mux(normal, normal_exponent, low_exponent)
        significand = Mux(normal, Cat(mantissa, 1), low_significand)
        if has_special_codes(self.format):
            m.d.comb += self.nan.eq(is_special(element, self.code))
            exponent, significand = Mux(self.nan, 0, exponent), Mux(self.nan, 0, significand)
        m.d.comb += [self.exponent.eq(exponent), self.significand.eq(significand)]
        return m

    def _normalised(self, mantissa: Signal, exponent: int) -> tuple[Value, Value]:
        """Exponent code and significand of a subnormal ``mantissa * 2^exponent / 2^bits``."""
        bits = len(mantissa)
        result_exponent: Value = Const(0, self.exponent_bits)
        result_significand: Value = Const(0, bits + 1)
        for leading in range(bits):  # the highest set bit wins: it comes last
            shift = bits - leading
            hit = mantissa[leading]
            result_exponent = Mux(hit, Const(exponent - shift, self.exponent_bits), result_exponent)
            result_significand = Mux(
                hit, Cat(Const(0, shift), mantissa[: leading + 1]), result_significand
            )
        return result_exponent, result_significand


@dataclass(frozen=True)
class Operand:
    """How an element looks to a multiplier: ``significand * 2^(shift + unit_exponent)``.

    The significand is right-aligned: those of subnormals and of MXSF's sub-FP mode stay where the
    code has them. Counting from half of the smallest subnormal makes exponent field 0 weigh as
    much as field 1, and MXSF's shift almost all wires.

    Attributes
    ----------
    significand_bits : int
        MXSF: 6.
    unit_exponent : int
        One less than the exponent of the smallest subnormal (MXSF: -12).
    offset : int
        A normal code with exponent field ``e`` has the shift ``e + offset`` (MXSF: 4).
    max_shift : int
        Largest shift of a finite value (MXSF: 7); the smallest is 1.
    """

    significand_bits: int
    unit_exponent: int
    offset: int
    max_shift: int

    @classmethod
    def of(cls, element: FloatFormat) -> "Operand":
        """The operand that a format's elements become."""
        fields = element.fields
        unit_exponent = element.quantum_exponent - 1
        offset = -fields.bias - fields.mantissa_bits - unit_exponent
        return cls(
            significand_bits=fields.mantissa_bits + 1,
            unit_exponent=unit_exponent,
            offset=offset,
            max_shift=(element.max_magnitude >> fields.mantissa_bits) + offset,
        )


def _operand_fields(operand: Operand, side: Side | None) -> dict[str, int]:
    """Names and widths of what an operand consists of, lowest bits first."""
    width = operand.significand_bits
    factor = {"significand": width}
    if side == "a":
        factor = {"gates": gate_bits(width)}
    if side == "w":
        factor["triple"] = triple_bits(width)
    return {**factor, "shift": operand.max_shift.bit_length(), "sign": 1}


def operand_layout(format: MXFormat, side: Side | None) -> data.StructLayout:
    """An element as a multiplier takes it, see `OperandDecoder`.

    Side ``a`` has the gates of its significand's digits (MXSF: 13 bits in all), side ``w`` the
    significand and its triple (17 bits), no side just the significand; all have the shift and the
    sign. An integer element is its own operand: the one field `number` is the code.
    """
    element = element_format(format)
    if isinstance(element, IntFormat):
        return data.StructLayout({"number": signed(element.width)})
    fields: dict[str, ShapeLike] = dict(_operand_fields(Operand.of(element), side))
    return data.StructLayout(fields)


def finite_suffix(format: MXFormat, finite: bool) -> str:
    """What the name of a unit says of `finite`, if it makes a difference to the format."""
    return "_finite" if finite and has_special_codes(format) else ""


def finite_parameter(format: MXFormat, finite: bool) -> dict[str, bool]:
    """What the parameters of a unit say of `finite`, if it makes a difference to the format."""
    return {"finite": finite} if has_special_codes(format) else {}


class OperandDecoder(Unit):
    """Element code to sign, right-aligned significand and shift: what a multiplier wants.

    The value is ``(-1)^sign * significand * 2^(shift + unit_exponent)``. Combinational.

    Nothing has to find the leading one of a subnormal, and the product of two operands needs a
    shift of 0..12 instead of the 0..18 of normalised ones. MXSF's shift is ``1, e1, e0`` for E2M5
    and the exponent field for E3M2. See `Operand`.

    Parameters
    ----------
    format : MXFormat
        Format of the code: floating-point elements (integers need no decoding).
    side : {"a", "w"}, optional
        Prepare the significand for multiplication, see `mxsafe.rtl.arithmetic.radix4`. Implies `finite`.
    finite : bool
        Nobody cares what becomes of codes for NaN and Inf: there is no `nan`, and they come out as
        any number.

    Attributes
    ----------
    code : In(width)
    sign : Out(1)
    shift : Out
        At least 1 (MXSF: 3 bits, 1..7).
    significand : Out(mantissa bits + 1)
        Not with side ``a``.
    gates : Out
        Only with side ``a``: the gates of the significand's digits.
    triple : Out
        Only with side ``w``: the upper bits of its triple.
    nan : Out(1)
        Only of a format with codes for NaN or Inf, unless `finite`: the code is one; `significand`
        is then 0.
    operand : Operand
        Widths and units.

    Raises
    ------
    ValueError
        If the format has integer elements.
    """

    def __init__(self, *, format: MXFormat, side: Side | None = None, finite: bool = False) -> None:
        element = element_format(format)
        if isinstance(element, IntFormat):
            raise ValueError(
                f"format must have floating-point elements, not those of {format.name}: "
                "integers are operands as they are"
            )
        if side not in (None, *SIDES):
            raise ValueError(f"side must be one of {', '.join(SIDES)} or None, not {side!r}")
        finite = finite or side is not None
        self.format = format
        self._element = element
        self._side = side
        self.operand = Operand.of(element)
        self._flagged = has_special_codes(format) and not finite
        outputs = _operand_fields(self.operand, side)
        if self._flagged:
            outputs["nan"] = 1
        super().__init__(
            {"code": In(element.width), **{name: Out(bits) for name, bits in outputs.items()}},
            module_name=f"{format.name}{finite_suffix(format, finite)}_operand_decoder"
            + (f"_{side}" if side else ""),
            parameters={
                "format": format.name,
                "unit_exponent": self.operand.unit_exponent,
                **finite_parameter(format, finite),
                **({"side": side} if side else {}),
            },
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        fields, sub = self._element.fields, self._element.sub
        mantissa = named(m, "mantissa", fields.mantissa_bits, self.code[: fields.mantissa_bits])
        field = named(
            m, "exponent_field", fields.exponent_bits, self.code[fields.mantissa_bits : -1]
        )
        normal = named(m, "is_normal", 1, field.any())
        m.d.comb += self.sign.eq(self.code[-1])

        low_fields = fields if sub is None else sub
        low_mantissa = mantissa[: low_fields.mantissa_bits]
        low_field: Value = Const(0, 1) if sub is None else mantissa[sub.mantissa_bits :]
        low_normal = named(m, "low_is_normal", 1, low_field.any())
        # Exponent field 0 weighs as much as field 1.
        low_shift = Cat(low_field[0] | ~low_normal, low_field[1:])
        significand = Mux(normal, Cat(mantissa, 1), Cat(low_mantissa, low_normal))
        m.d.comb += self.shift.eq(Mux(normal, self._with_offset(field), low_shift))
        if self._side == "a":
            decoded = named(m, "decoded", self.operand.significand_bits, significand)
            m.d.comb += self.gates.eq(digit_gates(decoded))
            return m
        if self._flagged:
            m.d.comb += self.nan.eq(is_special(self._element, self.code))
            significand = Mux(self.nan, 0, significand)
        m.d.comb += self.significand.eq(significand)
        if self._side == "w":
            m.d.comb += self.triple.eq(upper_triple(self.significand))
        return m

    def _with_offset(self, field: Signal) -> Value:
        """``field + offset``, by wires alone where the two have no bit in common."""
        if self.operand.offset % (1 << len(field)) == 0:
            high = self.operand.offset >> len(field)
            return Cat(field, Const(high, Shape(max(high.bit_length(), 1))))
        return field + self.operand.offset
