"""Exact dot product of decoded operands: what the MACs of an array have in them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Const, Module, signed
from amaranth.lib import data
from amaranth.lib.wiring import In, Member, Out

from mxsafe.products import OperandFormats
from mxsafe.rtl.arithmetic.bits import named
from mxsafe.rtl.arithmetic.pipeline import Pipeline
from mxsafe.rtl.arithmetic.signed_sum import Term, add_pairs
from mxsafe.rtl.configuration import Configuration
from mxsafe.rtl.mac.multiplier import OperandMultiplier
from mxsafe.rtl.mac.operand import SIDES, operand_layout
from mxsafe.rtl.unit import Unit, place
from mxsafe.validation import require_integer, require_power_of_two

__all__ = ["OperandDot", "OperandDotConfiguration"]


@dataclass(frozen=True, kw_only=True)
class OperandDotConfiguration(Configuration):
    """An `OperandDot`.

    Parameters
    ----------
    formats : OperandFormats
        Formats of both operands. What is not finite gives any number.
    lanes : int
        Products a cycle, a power of two.
    pipeline : int
        Register stages: the first at ``sums`` (each of half the products); then at ``products``
        too, which for one or two lanes is the same place; then at ``total``, after the last
        addition. With 0 the unit is combinational.
    dsp : bool
        Multiply with ``*``, which FPGA tools map to DSP blocks, instead of by digits.
    reset : bool
        Whether the registers are reset.

    Raises
    ------
    ValueError
        If a parameter is not as above; the message gives the numbers.
    """

    unnamed = frozenset({"formats"})

    formats: OperandFormats
    lanes: int = 4
    pipeline: int = 1
    dsp: bool = False
    reset: bool = False

    def __post_init__(self) -> None:
        self._set(lanes=require_power_of_two("lanes", self.lanes))
        self._set(pipeline=require_integer("pipeline", self.pipeline, 0, len(self._places)))
        self._set(reset=bool(self.reset and self.pipeline))

    @property
    def base(self) -> str:
        """Name of the module in its usual configuration."""
        return f"{self.formats.name}_operand_dot"

    @property
    def latency(self) -> int:
        """Enabled clocks from operands to `halves`."""
        return self.pipeline

    @property
    def _places(self) -> tuple[str, ...]:
        lanes = self.lanes
        return ("sums", "products", "total") if lanes > 2 else ("products", "total")[:lanes]

    @property
    def registered(self) -> tuple[str, ...]:
        """Places that hold registers."""
        return self._places[: self.pipeline]

    @property
    def half_count(self) -> int:
        """Numbers that make up a dot product."""
        return 1 if "total" in self.registered else min(self.lanes, 2)

    @property
    def half_bits(self) -> int:
        """Bits of each of them, sign included."""
        return self.formats.sum_bits(max(self.lanes // self.half_count, 1)) + 1

    @property
    def dot_bits(self) -> int:
        """Bits of a whole dot product, sign included."""
        return self.formats.sum_bits(self.lanes) + 1

    @property
    def properties(self) -> Mapping[str, Any]:
        """The weight of the lowest bit."""
        return {"quantum_exponent": self.formats.quantum_exponent}


class OperandDot(Unit[OperandDotConfiguration]):
    """Dot product of a few decoded operands a cycle, exact, but for its last addition.

    Whoever adds dot products up adds both halves at once, for the price of that addition: three
    numbers take one row of full adders more than two, and no second carry chain.

    Attributes
    ----------
    en : In(1)
        Clock enable of every register.
    a, w : In(array of struct)
        See `operand_layout`.
    halves : Out(array of signed), negate : Out
        The dot product is the sum of the halves, each subtracted where `negate` is set: two sums of
        half the products, or one number with registers at ``total`` or a single lane. Those of
        two integers are never negated. Multiples of ``2^quantum_exponent``.
    """

    def ports(self) -> Mapping[str, Member]:
        """Operands and halves of the dot product."""
        config = self.config
        operands = {side: operand_layout(config.formats, side, dsp=config.dsp) for side in SIDES}
        return {
            **({"en": In(1)} if config.pipeline else {}),
            **{side: In(data.ArrayLayout(operands[side], config.lanes)) for side in SIDES},
            "halves": Out(data.ArrayLayout(signed(config.half_bits), config.half_count)),
            "negate": Out(config.half_count),
        }

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.config
        enable = self.en if config.pipeline else Const(1)
        # All places given hold registers, so their order does not matter.
        pipe = Pipeline(m, enable, config.registered, config.pipeline, reset=config.reset)

        terms = [self._product(m, platform, lane) for lane in range(config.lanes)]
        terms = pipe.cross_terms("products", terms)
        # Signs stay pending: adding two terms takes one row of XOR gates, and so does the last sum.
        while len(terms) > config.half_count:
            if len(terms) == 2:
                terms = pipe.cross_terms("sums", terms)
            terms = add_pairs(m, terms)
        terms = pipe.cross_terms("sums" if config.half_count == 2 else "total", terms)
        for index, (value, negate) in enumerate(terms):
            m.d.comb += [self.halves[index].eq(value), self.negate[index].eq(negate)]
        return m

    def _product(self, m: Module, platform: object, lane: int) -> Term:
        formats, a, w = self.config.formats, self.a[lane], self.w[lane]
        # Integers have their sign within; other products carry it beside them.
        if formats.has_integers:
            product = a.number * w.number
            return named(m, f"product_{lane}", product.shape(), product), Const(0, 1)
        multiply = OperandMultiplier(formats=formats, dsp=self.config.dsp)
        place(m, platform, f"multiply_{lane}", multiply)
        m.d.comb += [
            multiply.a.as_value().eq(a.as_value()),
            multiply.w.as_value().eq(w.as_value()),
        ]
        return multiply.magnitude, multiply.sign
