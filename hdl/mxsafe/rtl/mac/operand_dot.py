"""Exact dot product of decoded operands: what the MACs of an array have in them."""

from amaranth.hdl import Cat, Const, Module, signed
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.formats import IntFormat, MXFormat, element_format
from mxsafe.products import exact_sum_bits
from mxsafe.rtl.arithmetic.bits import named
from mxsafe.rtl.arithmetic.pipeline import Pipeline, check_pipeline
from mxsafe.rtl.arithmetic.signed_sum import Term, add
from mxsafe.rtl.mac.decoder import SIDES, OperandDecoder, Side, operand_layout
from mxsafe.rtl.mac.multiplier import OperandMultiplier, Product
from mxsafe.rtl.unit import Unit, dsp_parameter, mac_module_name, place
from mxsafe.validation import require_power_of_two

__all__ = ["LaneDecoder", "OperandDot"]


class LaneDecoder(Unit):
    """Element codes to operands, side by side. Combinational.

    Parameters
    ----------
    format : MXFormat
        Format of the codes: floating-point elements. NaN and Inf come out as any number.
    side : {"a", "w"} or None
        Which operand of the multipliers it makes, see `operand_layout`.
    count : int
        Codes.

    Attributes
    ----------
    codes : In(array of codes)
    operands : Out(array of struct)
    """

    def __init__(self, *, format: MXFormat, side: Side | None, count: int) -> None:
        self.format = format
        self._side = side
        self._count = count
        super().__init__(
            {
                "codes": In(data.ArrayLayout(format.element.width, count)),
                "operands": Out(data.ArrayLayout(operand_layout(format, side), count)),
            },
            module_name="_".join(
                [format.name, "lane_decoder", *([side] if side else []), str(count)]
            ),
            parameters={"format": format.name, "side": side, "count": count},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for index in range(self._count):
            decoder = OperandDecoder(format=self.format, side=self._side, finite=True)
            place(m, platform, f"decode_{index}", decoder)
            fields = operand_layout(self.format, self._side).members
            m.d.comb += [
                decoder.code.eq(self.codes[index]),
                self.operands[index].as_value().eq(Cat(getattr(decoder, name) for name in fields)),
            ]
        return m


class OperandDot(Unit):
    """Dot product of a few decoded operands a cycle, exact, but for its last addition.

    Whoever adds dot products up adds both halves at once, for the price of that addition: three
    numbers take one row of full adders more than two, and no second carry chain.

    Parameters
    ----------
    format : MXFormat
        Format of both operands. What is not finite gives any number.
    lanes : int
        Products a cycle, a power of two.
    pipeline : int, optional
        Register stages, by default 1: at ``sums`` (each of half the products); then at ``products``
        too, which for one or two lanes is the same place; then at ``total``, after the last
        addition.
    dsp : bool
        See `SafeMacExact`.

    Attributes
    ----------
    en : In(1)
        Clock enable of every register.
    a, w : In(array of struct)
        See `operand_layout`.
    halves : Out(array of signed), negate : Out
        The dot product is the sum of the halves, each subtracted where `negate` is set: two sums of
        half the products, or one number with registers at ``total`` or a single lane. Those of
        integers are never negated. Units of
        ``2^unit_exponent``, as for `SafeMacExact`.
    latency : int
        Enabled clocks from operands to `halves`; equal to `pipeline`.
    half_count, dot_bits, unit_exponent : int
        Halves, bits of a whole dot product with its sign, exponent of its unit.

    Raises
    ------
    ValueError
        If a parameter is not as above; the message gives the numbers.
    """

    def __init__(
        self,
        *,
        format: MXFormat,
        lanes: int = 4,
        pipeline: int | None = None,
        dsp: bool = False,
    ) -> None:
        element = element_format(format)
        lanes = require_power_of_two("lanes", lanes)
        places = ("sums", "products", "total") if lanes > 2 else ("products", "total")[:lanes]
        stages = 1 if pipeline is None else pipeline
        check_pipeline(stages, places)
        self._registered = places[:stages]
        self.format = format
        self.lanes = lanes
        self._dsp = dsp
        self.unit_exponent = Product.of(element).unit_exponent
        self.dot_bits = exact_sum_bits(format, lanes) + 1
        a, w = (
            data.ArrayLayout(operand_layout(format, None if dsp else side), lanes) for side in SIDES
        )
        self.half_count = 1 if "total" in self._registered else min(lanes, 2)
        half_bits = exact_sum_bits(format, max(lanes // self.half_count, 1)) + 1
        super().__init__(
            {
                "en": In(1),
                "a": In(a),
                "w": In(w),
                "halves": Out(data.ArrayLayout(signed(half_bits), self.half_count)),
                "negate": Out(self.half_count),
            },
            module_name=mac_module_name(
                "operand_dot",
                format=format,
                lanes=lanes,
                pipeline=None if stages == 1 else stages,
                dsp=dsp,
            ),
            parameters={
                "format": format.name,
                "lanes": lanes,
                "pipeline": stages,
                "unit_exponent": self.unit_exponent,
                **dsp_parameter(dsp),
            },
            latency=stages,
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # All of them hold registers, so their order does not matter.
        pipe = Pipeline(m, self.en, self._registered, self.latency, reset=False)

        terms: list[Term] = []
        for lane in range(self.lanes):
            terms.append(self._product(m, platform, lane))
        terms = pipe.cross_terms("products", terms)
        while len(terms) > self.half_count:
            if len(terms) == 2:
                terms = pipe.cross_terms("sums", terms)
            level = f"level{len(terms)}"
            terms = [
                add(m, f"{level}_{left // 2}", terms[left], terms[left + 1])
                for left in range(0, len(terms), 2)
            ]
        terms = pipe.cross_terms("sums" if self.half_count == 2 else "total", terms)
        for index, (value, negate) in enumerate(terms):
            m.d.comb += [self.halves[index].eq(value), self.negate[index].eq(negate)]
        return m

    def _product(self, m: Module, platform: object, lane: int) -> Term:
        a, w = self.a[lane], self.w[lane]
        if isinstance(self.format.element, IntFormat):
            product = a.number * w.number
            return named(m, f"product_{lane}", product.shape(), product), Const(0, 1)
        multiply = OperandMultiplier(format=self.format, dsp=self._dsp)
        place(m, platform, f"multiply_{lane}", multiply)
        m.d.comb += [
            multiply.a.as_value().eq(a.as_value()),
            multiply.w.as_value().eq(w.as_value()),
        ]
        return multiply.magnitude, multiply.sign
