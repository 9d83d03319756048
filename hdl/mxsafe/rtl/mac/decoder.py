"""The element decoder (paper, Fig. 5e)."""

from collections.abc import Mapping
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib.wiring import In, Out

from mxsafe.formats import IntFormat, MXFormat, element_format, has_special_codes
from mxsafe.rtl.arithmetic.bits import named, noted, truncated
from mxsafe.rtl.mac.special_codes import is_special
from mxsafe.rtl.unit import Configuration, Ports, Unit


class DecoderConfiguration(Configuration):
    """A `Decoder`.

    Parameters
    ----------
    format : MXFormat
        Format of the code.
    """

    format: MXFormat

    def __post_init__(self) -> None:
        element_format(self.format)

    @property
    def exponent_bits(self) -> int:
        """Bits of the exponent (MXSF: 4); 0 of integers."""
        element = self.format.element
        if isinstance(element, IntFormat):
            return 0
        smallest = element.quantum_exponent  # of the smallest subnormal, code 1 or more
        return (element.emax - smallest + 1).bit_length()

    @property
    def bias(self) -> int:
        """Bias of the exponent, whose largest code is that of the largest value; 0 of integers."""
        element = self.format.element
        if isinstance(element, IntFormat):
            return 0
        return (1 << self.exponent_bits) - 1 - element.emax

    @property
    def properties(self) -> Mapping[str, Any]:
        """The bias, or the weight of an integer's lowest bit."""
        if isinstance(self.format.element, IntFormat):
            return {"quantum_exponent": self.format.element.quantum_exponent}
        return {"exponent_bias": self.bias}


class Decoder(Unit[DecoderConfiguration]):
    """Element code to sign, exponent and normalised significand.

    For MXSF that is E4M5: the value is ``(-1)^sign * 2^(exponent - 15) * significand / 32``, with
    the leading one in bit 5. Subnormals come out normalised, zero as exponent 0, significand 0.
    The code of an integer element is its value already, and is put out as that. Combinational.

    Attributes
    ----------
    code : In(width)
        Element code.
    sign : Out(1)
        Its sign.
    exponent : Out
        Biased so that the largest exponent of the format is the largest code (MXSF: 4 bits).
    significand : Out(mantissa bits + 1)
        With the leading one.
    nan : Out(1)
        Only of a format with codes for NaN or Inf: the code is one; `exponent` and `significand`
        are then 0.
    number : Out(signed(width))
        Only of a format with integer elements, and its only output: the value as a multiple of the
        smallest positive one (MXINT8: 8 bits, ``2^-6``).

    Notes
    -----
    Exponents are re-biased by adding constants. MXSF has three subnormals, so their leading one is
    found by cases instead of by a leading-zero counter and a shifter.
    """

    def ports(self) -> Ports:
        config, element = self.config, self.config.format.element
        if isinstance(element, IntFormat):
            return {"code": In(element.width), "number": Out(signed(element.width))}
        return {
            "code": In(element.width),
            "sign": Out(1),
            "exponent": Out(config.exponent_bits),
            "significand": Out(element.mantissa_bits + 1),
            **({"nan": Out(1)} if has_special_codes(config.format) else {}),
        }

    def fill(self, m: Module, platform: object) -> None:
        format, bias, width = self.config.format, self.config.bias, self.config.exponent_bits
        element = format.element
        if isinstance(element, IntFormat):
            m.d.comb += self.number.eq(self.code.as_signed())
            return
        fields, sub = element.fields, element.sub
        mantissa = named(m, "mantissa", fields.mantissa_bits, self.code[: fields.mantissa_bits])
        field = named(
            m, "exponent_field", fields.exponent_bits, self.code[fields.mantissa_bits : -1]
        )
        normal = named(m, "is_normal", 1, field.any())
        m.d.comb += self.sign.eq(self.code[-1])

        noted(
            normal,
            "Exponent field 0 has the subnormals; or, with two modes (MXSF), the second mode, "
            "whose fields lie within the mantissa and whose field 0 has the subnormals.",
        )
        normal_exponent = truncated(
            m,
            "normal_exponent",
            width,
            field + (bias - fields.bias),
            note="Fields of either mode are re-biased by adding a constant.",
        )
        if sub is None:
            low_exponent, low_significand = self._normalised(
                m, "subnormal", mantissa, bias + fields.min_exponent
            )
        else:
            sub_mantissa = named(m, "sub_mantissa", sub.mantissa_bits, mantissa)
            sub_field = named(
                m, "sub_exponent_field", sub.exponent_bits, mantissa[sub.mantissa_bits :]
            )
            sub_normal = named(m, "sub_is_normal", 1, sub_field.any())
            tiny_exponent, tiny_significand = self._normalised(
                m, "subnormal", sub_mantissa, bias + sub.min_exponent
            )
            sub_exponent = truncated(m, "sub_exponent", width, sub_field + (bias - sub.bias))
            padding = Const(0, fields.mantissa_bits - sub.mantissa_bits)
            low_exponent = named(
                m, "low_exponent", width, Mux(sub_normal, sub_exponent, tiny_exponent)
            )
            low_significand = named(
                m,
                "low_significand",
                fields.mantissa_bits + 1,
                Mux(sub_normal, Cat(padding, sub_mantissa, 1), Cat(padding, tiny_significand)),
            )
            noted(low_significand, "The shorter mantissa stands at the top of the significand.")
        exponent = Mux(normal, normal_exponent, low_exponent)
        significand = Mux(normal, Cat(mantissa, 1), low_significand)
        if has_special_codes(format):
            noted(self.nan, "What stands for NaN or Inf comes out as a zero beside this flag.")
            m.d.comb += self.nan.eq(is_special(element, self.code))
            exponent, significand = Mux(self.nan, 0, exponent), Mux(self.nan, 0, significand)
        m.d.comb += [self.exponent.eq(exponent), self.significand.eq(significand)]

    def _normalised(
        self, m: Module, name: str, mantissa: Signal, exponent: int
    ) -> tuple[Value, Value]:
        """Exponent code and significand of a subnormal ``mantissa * 2^exponent / 2^bits``."""
        bits = len(mantissa)
        result_exponent: Value = Const(0, self.config.exponent_bits)
        result_significand: Value = Const(0, bits + 1)
        for leading in range(bits):  # the highest set bit wins: it comes last
            shift = bits - leading
            hit = mantissa[leading]
            result_exponent = Mux(
                hit, Const(exponent - shift, self.config.exponent_bits), result_exponent
            )
            result_significand = Mux(
                hit, Cat(Const(0, shift), mantissa[: leading + 1]), result_significand
            )
        normalised = named(m, f"{name}_exponent", self.config.exponent_bits, result_exponent)
        noted(
            normalised, "The few subnormals are normalised by cases, faster than by counting zeros."
        )
        return normalised, named(m, f"{name}_significand", bits + 1, result_significand)
