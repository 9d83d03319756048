"""Exact dot product of decoded operands: what the MACs of an array have in them."""

from amaranth.hdl import Cat, Module, signed
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.formats import MXFormat, require_finite_float, require_power_of_two
from mxsafe.rtl.decoder import OperandDecoder, operand_layout
from mxsafe.rtl.multiplier import OperandMultiplier, Product
from mxsafe.rtl.pipeline import Pipeline, check_pipeline
from mxsafe.rtl.signed_sum import Term, add
from mxsafe.rtl.unit import Unit, mac_module_name, place

__all__ = ["LaneDecoder", "OperandDot"]


class LaneDecoder(Unit):
    """Element codes to operands, side by side. Combinational.

    Parameters
    ----------
    format : MXFormat
        Format of the codes: floating-point elements without special codes.
    count : int
        Codes.

    Attributes
    ----------
    codes : In(array of codes)
    operands : Out(array of struct of significand, shift, sign)
    """

    def __init__(self, *, format: MXFormat, count: int) -> None:
        self.format = format
        self._count = count
        super().__init__(
            {
                "codes": In(data.ArrayLayout(format.element.width, count)),
                "operands": Out(data.ArrayLayout(operand_layout(format), count)),
            },
            module_name=f"{format.name}_lane_decoder_{count}",
            parameters={"format": format.name, "count": count},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for index in range(self._count):
            decoder = OperandDecoder(format=self.format)
            place(m, platform, f"decode_{index}", decoder)
            m.d.comb += [
                decoder.code.eq(self.codes[index]),
                self.operands[index]
                .as_value()
                .eq(Cat(decoder.significand, decoder.shift, decoder.sign)),
            ]
        return m


class OperandDot(Unit):
    """Dot product of a few decoded operands a cycle, exact, its sign still to be applied.

    Parameters
    ----------
    format : MXFormat
        Format of both operands: floating-point elements without special codes.
    lanes : int
        Products a cycle, a power of two.
    pipeline : int, optional
        Register stages, by default 1. From the output backwards they stand at ``output``,
        ``sums`` (before the last addition) and ``products``.

    Attributes
    ----------
    en : In(1)
        Clock enable of every register.
    a, w : In(array of struct of significand, shift, sign)
        See `operand_layout`.
    value : Out(signed), negate : Out(1)
        The dot product is ``-value`` where `negate` is set: whoever adds it up complements it
        anyway, after the register. Units of ``2^unit_exponent``, as for `SafeMacExact`.
    latency : int
        Enabled clocks from operands to `value`; equal to `pipeline`.

    Raises
    ------
    ValueError
        If a parameter is not as above; the message gives the numbers.
    """

    def __init__(self, *, format: MXFormat, lanes: int = 4, pipeline: int | None = None) -> None:
        element = require_finite_float(format)
        lanes = require_power_of_two("lanes", lanes)
        self.boundaries = ("products", "sums", "output") if lanes > 2 else ("products", "output")
        stages = 1 if pipeline is None else pipeline
        check_pipeline(stages, self.boundaries)
        self.format = format
        self.lanes = lanes
        product = Product.of(element)
        self.unit_exponent = product.unit_exponent
        operands = data.ArrayLayout(operand_layout(format), lanes)
        width = product.magnitude_bits + 1 + (lanes - 1).bit_length()
        super().__init__(
            {
                "en": In(1),
                "a": In(operands),
                "w": In(operands),
                "value": Out(signed(width)),
                "negate": Out(1),
            },
            module_name=mac_module_name(
                "operand_dot",
                format=format,
                lanes=lanes,
                pipeline=None if stages == 1 else stages,
            ),
            parameters={
                "format": format.name,
                "lanes": lanes,
                "pipeline": stages,
                "unit_exponent": self.unit_exponent,
            },
            latency=stages,
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        pipe = Pipeline(m, self.en, self.boundaries, self.latency, reset=False)

        terms: list[Term] = []
        for lane in range(self.lanes):
            multiply = OperandMultiplier(format=self.format)
            place(m, platform, f"multiply_{lane}", multiply)
            m.d.comb += [
                multiply.a.as_value().eq(self.a[lane].as_value()),
                multiply.w.as_value().eq(self.w[lane].as_value()),
            ]
            terms.append((multiply.magnitude, multiply.sign))
        terms = pipe.cross_terms("products", terms)
        while len(terms) > 1:
            level = f"level{len(terms)}"
            if len(terms) == 2 and "sums" in self.boundaries:
                terms = pipe.cross_terms("sums", terms)
            terms = [
                add(m, f"{level}_{left // 2}", terms[left], terms[left + 1])
                for left in range(0, len(terms), 2)
            ]
        ((value, negate),) = terms
        pipe.drive(self.value, value)
        pipe.drive(self.negate, negate)
        return m
