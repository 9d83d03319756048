"""Element codes to operands: what the multipliers of an array take, made once at its edge."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from amaranth.hdl import Cat, Const, Module, Mux, Shape, ShapeLike, Signal, Value, signed
from amaranth.lib import data
from amaranth.lib.wiring import In, Member, Out

from mxsafe.formats import FloatFormat, IntFormat, MXFormat, element_format, has_special_codes
from mxsafe.rtl.arithmetic.bits import named
from mxsafe.rtl.arithmetic.radix4 import digit_gates, gate_bits, triple_bits, upper_triple
from mxsafe.rtl.configuration import Configuration
from mxsafe.rtl.mac.special_codes import is_special
from mxsafe.rtl.unit import Unit, place

__all__ = [
    "SIDES",
    "LaneDecoder",
    "LaneDecoderConfiguration",
    "Operand",
    "OperandDecoder",
    "OperandDecoderConfiguration",
    "Side",
    "operand_layout",
]

Side = Literal["a", "w"]
SIDES: tuple[Side, Side] = ("a", "w")


@dataclass(frozen=True)
class Operand:
    """How an element looks to a multiplier: ``significand * 2^(shift + quantum_exponent)``.

    The significand is right-aligned: those of subnormals and of MXSF's sub-FP mode stay where the
    code has them. Counting from half of the smallest subnormal makes exponent field 0 weigh as
    much as field 1, and MXSF's shift almost all wires.

    Attributes
    ----------
    significand_bits : int
        MXSF: 6.
    quantum_exponent : int
        One less than the exponent of the smallest subnormal (MXSF: -12).
    offset : int
        A normal code with exponent field ``e`` has the shift ``e + offset`` (MXSF: 4).
    max_shift : int
        Largest shift of a finite value (MXSF: 7); the smallest is 1.
    """

    significand_bits: int
    quantum_exponent: int
    offset: int
    max_shift: int

    @classmethod
    def of(cls, element: FloatFormat) -> "Operand":
        """The operand that a format's elements become."""
        fields = element.fields
        quantum_exponent = element.quantum_exponent - 1
        offset = -fields.bias - fields.mantissa_bits - quantum_exponent
        return cls(
            significand_bits=fields.mantissa_bits + 1,
            quantum_exponent=quantum_exponent,
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


@dataclass(frozen=True, kw_only=True)
class OperandDecoderConfiguration(Configuration):
    """An `OperandDecoder`.

    Parameters
    ----------
    format : MXFormat
        Format of the code: floating-point elements (integers need no decoding).
    side : {"a", "w"}, optional
        Prepare the significand for multiplication by digits, see
        `mxsafe.rtl.arithmetic.radix4`.
    nan : bool
        Flag codes for NaN and Inf, if the format has such; else they come out as any number.

    Raises
    ------
    ValueError
        If the format has integer elements, or there is no such side.
    """

    unnamed = frozenset({"format", "side"})

    format: MXFormat
    side: Side | None = None
    nan: bool = False

    def __post_init__(self) -> None:
        if isinstance(element_format(self.format), IntFormat):
            raise ValueError(
                f"format must have floating-point elements, not those of {self.format.name}: "
                "integers are operands as they are"
            )
        if self.side not in (None, *SIDES):
            raise ValueError(f"side must be one of {', '.join(SIDES)} or None, not {self.side!r}")
        self._set(nan=self.nan and has_special_codes(self.format))

    @property
    def element(self) -> FloatFormat:
        """Format of the elements."""
        element = self.format.element
        assert isinstance(element, FloatFormat)
        return element

    @property
    def base(self) -> str:
        """Name of the module in its usual configuration."""
        return f"{self.format.name}_operand_decoder" + (f"_{self.side}" if self.side else "")

    @property
    def properties(self) -> Mapping[str, Any]:
        """The weight of a significand's lowest bit at shift 0."""
        return {"quantum_exponent": Operand.of(self.element).quantum_exponent}


class OperandDecoder(Unit[OperandDecoderConfiguration]):
    """Element code to sign, right-aligned significand and shift: what a multiplier wants.

    The value is ``(-1)^sign * significand * 2^(shift + quantum_exponent)``. Combinational.

    Nothing has to find the leading one of a subnormal, and the product of two operands needs a
    shift of 0..12 instead of the 0..18 of normalised ones. MXSF's shift is ``1, e1, e0`` for E2M5
    and the exponent field for E3M2. See `Operand`.

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
        Only where wanted, of a format with codes for NaN or Inf: the code is one; the significand
        is then 0.
    """

    def ports(self) -> Mapping[str, Member]:
        """The code, and the fields of the operand."""
        config = self.config
        fields = _operand_fields(Operand.of(config.element), config.side)
        return {
            "code": In(config.element.width),
            **{name: Out(bits) for name, bits in fields.items()},
            **({"nan": Out(1)} if config.nan else {}),
        }

    def elaborate(self, platform: object) -> Module:
        m = Module()
        element, side = self.config.element, self.config.side
        fields, sub = element.fields, element.sub
        mantissa = named(m, "mantissa", fields.mantissa_bits, self.code[: fields.mantissa_bits])
        field = named(
            m, "exponent_field", fields.exponent_bits, self.code[fields.mantissa_bits : -1]
        )
        normal = named(m, "is_normal", 1, field.any())
        m.d.comb += self.sign.eq(self.code[-1])

        # What exponent field 0 stands for: subnormals, or a second mode within the mantissa.
        low_fields = fields if sub is None else sub
        low_mantissa = mantissa[: low_fields.mantissa_bits]
        low_field: Value = Const(0, 1) if sub is None else mantissa[sub.mantissa_bits :]
        low_normal = named(m, "low_is_normal", 1, low_field.any())
        # Exponent field 0 weighs as much as field 1.
        low_shift = Cat(low_field[0] | ~low_normal, low_field[1:])
        # Each mantissa stays where the code has it, so a multiplexer of two is all there is.
        significand = Mux(normal, Cat(mantissa, 1), Cat(low_mantissa, low_normal))
        m.d.comb += self.shift.eq(Mux(normal, self._with_offset(field), low_shift))
        # A significand of 0 keeps what such a code stands for out of the sums.
        if self.config.nan:
            m.d.comb += self.nan.eq(is_special(element, self.code))
            significand = Mux(self.nan, 0, significand)
        # Both factors are prepared here, once for all multipliers that they reach.
        if side == "a":
            bits = Operand.of(element).significand_bits
            m.d.comb += self.gates.eq(digit_gates(named(m, "decoded", bits, significand)))
        else:
            m.d.comb += self.significand.eq(significand)
        if side == "w":
            m.d.comb += self.triple.eq(upper_triple(self.significand))
        return m

    def _with_offset(self, field: Signal) -> Value:
        """``field + offset``, by wires alone where the two have no bit in common."""
        offset = Operand.of(self.config.element).offset
        if offset % (1 << len(field)) == 0:
            high = offset >> len(field)
            return Cat(field, Const(high, Shape(max(high.bit_length(), 1))))
        return field + offset


@dataclass(frozen=True, kw_only=True)
class LaneDecoderConfiguration(Configuration):
    """A `LaneDecoder`.

    Parameters
    ----------
    format : MXFormat
        Format of the codes: floating-point elements.
    side : {"a", "w"}, optional
        Which operand of the multipliers it makes, see `operand_layout`.
    count : int
        Codes.
    nan : bool
        Flag codes for NaN and Inf, if the format has such; else they come out as any number.
    """

    unnamed = frozenset({"format", "side"})

    format: MXFormat
    side: Side | None = None
    count: int = 16
    nan: bool = False

    def __post_init__(self) -> None:
        self._set(nan=self.decoder.nan)

    @property
    def decoder(self) -> OperandDecoderConfiguration:
        """The decoder of one code."""
        return OperandDecoderConfiguration(format=self.format, side=self.side, nan=self.nan)

    @property
    def base(self) -> str:
        """Name of the module in its usual configuration."""
        return f"{self.format.name}_lane_decoder" + (f"_{self.side}" if self.side else "")


class LaneDecoder(Unit[LaneDecoderConfiguration]):
    """Element codes to operands, side by side. Combinational.

    Attributes
    ----------
    codes : In(array of codes)
    operands : Out(array of struct)
        See `operand_layout`.
    nan : Out(1)
        Only where wanted, of a format with codes for NaN or Inf: one of the codes is one.
    """

    def ports(self) -> Mapping[str, Member]:
        """Codes and operands."""
        config = self.config
        operands = data.ArrayLayout(operand_layout(config.format, config.side), config.count)
        return {
            "codes": In(data.ArrayLayout(config.format.element.width, config.count)),
            "operands": Out(operands),
            **({"nan": Out(1)} if config.nan else {}),
        }

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config, flags = self.config, []
        fields = operand_layout(config.format, config.side).members
        for index in range(config.count):
            decoder = OperandDecoder(config.decoder)
            place(m, platform, f"decode_{index}", decoder)
            m.d.comb += [
                decoder.code.eq(self.codes[index]),
                self.operands[index].as_value().eq(Cat(getattr(decoder, name) for name in fields)),
            ]
            if config.nan:
                flags.append(decoder.nan)
        if config.nan:
            m.d.comb += self.nan.eq(Cat(flags).any())
        return m
