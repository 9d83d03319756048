"""Multipliers of two elements: exact, and rounded to the format of the adder tree.

Tested by `verif/rtl/mac/test_operand_dot.py`.
"""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Cat, Const, Module, Value, signed
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.formats import FloatFormat
from mxsafe.products import OperandFormats
from mxsafe.rtl.arithmetic.bits import (
    cleared,
    equals,
    gated_or,
    leading_one,
    named,
    noted,
    select,
    truncated,
)
from mxsafe.rtl.arithmetic.dsp_multiplier import DSP_BITS, DspMultiplier, DspMultiplierConfiguration
from mxsafe.rtl.arithmetic.pipeline import Pipeline, Sideband
from mxsafe.rtl.arithmetic.radix4 import multiply, multiply_in_chains
from mxsafe.rtl.mac.operand import SIDES, Operand, Side, factor_of, operand_layout
from mxsafe.rtl.mac.operand_decoder import OperandDecoder
from mxsafe.rtl.timing import Target, Timed, at
from mxsafe.rtl.unit import Configuration, Ports, Unit, place

DSP_PLACES = ("operands", "multiplied", "significands")
"""Where a `DspMultiplier` has its registers, and where look-up tables may have some."""
_DSP = DspMultiplierConfiguration()


def comes_signed(config: Timed) -> bool:
    """Whether a product is a signed number and a carry, not a magnitude and a sign beside it."""
    return config.target == "fpga"


def product_places(config: Timed) -> tuple[str, ...]:
    """Where registers may stand within a product, in the direction of the data."""
    return (*DSP_PLACES, "shifted") if comes_signed(config) else ()


def block_registers(config: Timed) -> int:
    """Registers of a DSP block, which stand wherever one multiplies."""
    return at(config, "block", of="OperandMultiplier")


@dataclass(frozen=True)
class Product:
    """Widths and quantum of the exact product of two elements.

    Attributes
    ----------
    significand_bits : int
        Bits of the product of the significands (MXSF: 12).
    max_shift : int
        Largest shift of that product (MXSF: 12); the smallest is 0.
    magnitude_bits : int
        Bits of the largest product (MXSF: 24).
    quantum_exponent : int
        Exponent of its quantum, the product of both smallest positive values (MXSF: -22).
    """

    significand_bits: int
    max_shift: int
    magnitude_bits: int
    quantum_exponent: int

    @classmethod
    def of(cls, formats: OperandFormats) -> "Product":
        """The product of an element of each operand."""
        left, right = Operand.of(formats.a), Operand.of(formats.w)
        return cls(
            significand_bits=left.significand_bits + right.significand_bits,
            # The quantum is that of both smallest shifts, 1.
            max_shift=left.max_shift + right.max_shift - 2,
            magnitude_bits=formats.product_bits,
            quantum_exponent=formats.quantum_exponent,
        )

    @property
    def shift_bits(self) -> int:
        """Bits of the sum of both operands' shifts, which is that of the product plus 2."""
        return (self.max_shift + 2).bit_length()


def _significand_product(m: Module, formats: OperandFormats, a: Any, w: Any, *, dsp: bool) -> Value:
    """Product of the significands of two operands, with ``*`` or by digits."""
    if dsp:
        bits = Product.of(formats).significand_bits
        return named(m, "product", bits, a.significand * w.significand)
    if factor_of(formats, "a", dsp=dsp) == "triple":
        a, w = w, a
    return multiply(m, "product", a.gates, w.significand, w.triple)


def _shift_of_product(
    m: Module, product: Product, a: Any, w: Any, *, dsp: bool
) -> tuple[Value, int]:
    """How far the product of significands goes to the left, and by how much that is too far."""
    if dsp:
        shift = named(m, "shift", product.shift_bits, a.shift + w.shift)
        return noted(shift, "Two too large: the shift of either operand counts from 1."), 2
    bits = product.max_shift.bit_length()
    # Integers have no distance, and one of the two is no integer.
    distances = [operand.distance for operand in (a, w) if hasattr(operand, "distance")]
    return truncated(m, "shift", bits, sum(distances[1:], distances[0])), 0


class OperandMultiplierConfiguration(Configuration):
    """An `OperandMultiplier`.

    Parameters
    ----------
    formats : OperandFormats
        Formats of both operands, not both of integers. What is not finite gives any number.
    dsp : bool
        Multiply with ``*``, which FPGA tools map to DSP blocks, instead of by digits.
    target : {"asic", "fpga"}
        For an FPGA a `DspMultiplier` multiplies, or without `dsp` look-up tables do.
    registers : tuple of str
        For an FPGA without `dsp` those of `DSP_PLACES` that hold registers.
    halved : bool
        For an FPGA a register stands within the shift, or behind that of the operands.
    paired : bool
        For an FPGA the product of the significands comes from outside, from a `PairedMultiplier`
        that takes them when the operands come.
    complemented : bool
        For an FPGA a negative product lacks a one, which comes as `plus`; also if `paired`.
        Otherwise a factor is negated.
    reset : bool
        Whether the registers are reset.
    """

    shown_if_not_default = frozenset(
        {"target", "registers", "halved", "paired", "complemented", "reset"}
    )

    formats: OperandFormats
    dsp: bool = False
    target: Target = "asic"
    registers: tuple[str, ...] = ()
    halved: bool = False
    paired: bool = False
    complemented: bool = False
    reset: bool = False

    @property
    def boundaries(self) -> tuple[str, ...]:
        """Where registers stand."""
        if not self.signed:
            return ()
        shifted = ("shifted",) if self.halved else ()
        multiplied = DSP_PLACES if self.dsp else self.registers
        return (*shifted, *multiplied) if self.shifts_first else (*multiplied, *shifted)

    @property
    def shifts_first(self) -> bool:
        """On an FPGA operands are shifted, not their product, if the block has bits for that."""
        operands = (Operand.of(self.formats.of(side)) for side in SIDES)
        fit = all(each.magnitude_bits < DSP_BITS for each in operands)  # and their sign
        in_block = self.signed and self.dsp and not self.paired
        return in_block and not self.complemented and fit

    @property
    def signed(self) -> bool:
        """Whether the product is a signed number, see `comes_signed`."""
        return comes_signed(self)

    @property
    def plain(self) -> bool:
        """Whether operands are not prepared for multiplication by digits."""
        return self.dsp or self.signed

    @property
    def latency(self) -> int:
        """Enabled cycles from operands to the product."""
        return len(self.boundaries)

    @property
    def product(self) -> Product:
        """Widths and quantum of the product."""
        return Product.of(self.formats)

    @property
    def properties(self) -> Mapping[str, Any]:
        """The weight of the product's lowest bit."""
        return {"quantum_exponent": self.product.quantum_exponent}


class OperandMultiplier(Unit[OperandMultiplierConfiguration]):
    """Product of two prepared operands as sign and fixed-point magnitude.

    Attributes
    ----------
    en : In(1)
        Clock enable, if there are registers.
    a, w : In(struct)
        See `operand_layout`.
    significands : In
        Their product, of operands three cycles before, if it comes from outside.
    sign : Out(1)
        Sign of the product.
    magnitude : Out
        A multiple of the product of both smallest subnormals (MXSF: 24 bits, quantum ``2^-22``).
    term : Out(signed), plus : Out(1)
        For an FPGA instead of these: the product is ``term + plus``.

    Notes
    -----
    By target: combinational, with a sign that stays beside, unless it is for an FPGA. There numbers
    are signed, so that sums need no gates in front of their carry chains, and a block multiplies in
    three cycles. It takes 18 bits, and elements of most formats are numbers of fewer (MXSF: 13 with
    the sign). Such operands are shifted in front of the block, where their shifts are less than
    that of the product. With wider formats, and where two products come from one block, the product
    is shifted: a level of look-up tables for each bit of the shift, half of them behind the block,
    half behind a register more.
    """

    def ports(self) -> Ports:
        config = self.config
        return {
            **({"en": In(1)} if config.latency else {}),
            **{side: In(operand_layout(config.formats, side, dsp=config.plain)) for side in SIDES},
            **({"significands": In(config.product.significand_bits)} if config.paired else {}),
            **(
                {"term": Out(signed(config.product.magnitude_bits + 1)), "plus": Out(1)}
                if config.signed
                else {"sign": Out(1), "magnitude": Out(config.product.magnitude_bits)}
            ),
        }

    def fill(self, m: Module, platform: object) -> None:
        config, product = self.config, self.config.product
        if config.shifts_first:
            self._multiply_in_place(m, platform)
            return
        if config.signed:
            self._multiply_in_stages(m, platform)
            return
        significands = _significand_product(m, config.formats, self.a, self.w, dsp=config.dsp)
        shift, always_zero = _shift_of_product(m, product, self.a, self.w, dsp=config.dsp)
        m.d.comb += self.sign.eq(self.a.sign ^ self.w.sign)
        if always_zero:
            shifted = named(m, "shifted", None, significands << shift)
            m.d.comb += self.magnitude.eq(shifted >> always_zero)
        else:
            m.d.comb += self.magnitude.eq(self._shifted(m, significands, shift))

    def _shifted(self, m: Module, significands: Value, shift: Value) -> Value:
        """The product, whose upper steps to the left are one choice.

        Small significands come with small shifts, so a choice has no more bits than are possible.
        """
        config = self.config
        left, right = (Operand.largest_significands(config.formats.of(side)) for side in SIDES)
        largest: dict[int, int] = {}
        for (near, factor), (far, other) in itertools.product(left.items(), right.items()):
            largest[near + far] = max(largest.get(near + far, 0), factor * other)
        low = max(len(shift) - 2, 0)
        near = (
            named(m, "shifted_by_low_bits", None, significands << shift[:low])
            if low
            else significands
        )
        choices = []
        for step in range(1 << (len(shift) - low)):
            bits = [
                (number << distance).bit_length()
                for distance, number in largest.items()
                if distance >> low == step
            ]
            if bits:
                gate = named(m, f"is_step_{step}", 1, equals(shift[low:], step))
                choices.append(
                    (gate, Cat(Const(0, step << low), near[: max(bits) - (step << low)]))
                )
        return noted(
            gated_or(m, "shifted", choices),
            "Both upper bits of the shift at once, as a choice of four. Small significands come "
            "with small shifts, so a choice has no more bits than are possible.",
        )

    def _pipe(self, m: Module) -> tuple[Value, Pipeline]:
        """The clock enable, and the registers."""
        config = self.config
        enable = self.en if config.latency else Const(1)
        return enable, Pipeline(m, enable, config.boundaries, config.latency, reset=config.reset)

    def _multiply_in_stages(self, m: Module, platform: object) -> None:
        """Registers of a block, and the shift in two halves."""
        config = self.config
        enable, pipe = self._pipe(m)
        # Where nothing multiplies meanwhile, two bits that are always 0 cost less.
        always_zero = 0 if config.dsp else 2
        bits = (config.product.max_shift + always_zero).bit_length()
        total = self.a.shift + self.w.shift
        distance: Value = truncated(m, "distance", bits, total - 2 if config.dsp else total)
        negative: Value = named(m, "is_negative", 1, self.a.sign ^ self.w.sign)
        beside = config.paired or config.complemented
        sideband = Sideband(
            pipe, distance=distance, is_negative=negative if beside else Const(0, 1)
        )
        significands: Value
        if config.paired:
            significands = self.significands
            for boundary in DSP_PLACES:
                sideband.cross(boundary)
        else:
            multiply = FactorsInStages(config.formats, dsp=config.dsp, reset=config.reset)
            factors = multiply.factors(m, self.a, self.w, None if beside else negative)
            significands = multiply.product(m, platform, "significands", enable, factors, sideband)
        distance = sideband["distance"]
        sideband = Sideband(pipe, is_negative=sideband["is_negative"])
        half = bits // 2
        near = named(m, "shifted_by_low_bits", None, significands << distance[:half])
        noted(near, "The shift in two halves, with room for a register between them.")
        near, high = sideband.cross("shifted", shifted=near, high=distance[half:])
        width = len(self.term)
        shifted = (near << Cat(Const(0, half), high))[always_zero:]
        far = named(m, "shifted", width, shifted[:width])
        negative = sideband["is_negative"]
        if beside:
            noted(
                self.term,
                "One short where it is negative: a complement, whose one comes as plus and is the "
                "carry into the next addition.",
            )
        m.d.comb += [
            self.term.eq(far ^ negative.replicate(width)),
            self.plus.eq(negative),
        ]

    def _multiply_in_place(self, m: Module, platform: object) -> None:
        """Operands in fixed point, then the block: nothing is left to be shifted behind it."""
        config = self.config
        enable, pipe = self._pipe(m)
        numbers: dict[Side, Value] = {side: self._in_fixed_point(m, side) for side in SIDES}
        narrow, wide = sorted(SIDES, key=lambda side: len(numbers[side]))
        half = len(numbers[narrow]) // 2
        negative: Value = named(m, "is_negative", 1, self.a.sign ^ self.w.sign)
        borrows: Value = named(m, "borrows", 1, numbers[narrow][:half].any() & negative)
        noted(borrows, "Known a cycle before the number is negated: its upper half need not wait.")
        number, other, borrows, negative = pipe.cross_all(
            "shifted",
            number=numbers[narrow],
            other=numbers[wide],
            borrows=borrows,
            is_negative=negative,
        )
        lower = _negated(m, "lower_half", number[:half], negative)[:half]
        upper = _negated(m, "upper_half", Cat(borrows, number[half:]), negative)[1:]
        factors = Cat(lower, upper).as_signed(), Cat(other, 0).as_signed()
        product = dsp_product(m, platform, "numbers", enable, factors, reset=config.reset)
        m.d.comb += [self.term.eq(product[: len(self.term)]), self.plus.eq(0)]

    def _in_fixed_point(self, m: Module, side: Side) -> Value:
        """Magnitude of an operand, a multiple of its format's smallest subnormal."""
        operand = getattr(self, side)
        far = noted(
            named(m, f"shifted_{side}", None, operand.significand << operand.shift),
            "Element in fixed point, in front of the DSP block: nothing is left to shift behind "
            "it. Bit 0 is always 0, for the smallest shift is 1.",
        )
        return far[1 : 1 + Operand.of(self.config.formats.of(side)).magnitude_bits]


@dataclass(frozen=True)
class FactorsInStages:
    """How an FPGA multiplies significands: in a DSP block, or in look-up tables.

    Attributes
    ----------
    formats : OperandFormats
        Formats of the operands.
    dsp : bool
        In a `DspMultiplier`, whose registers are at `DSP_PLACES`; else there is a register at those
        that the sideband has.
    reset : bool
        Whether the block is reset.
    suffix : str
        End of the factor's name.
    """

    formats: OperandFormats
    dsp: bool
    reset: bool
    suffix: str = ""

    @property
    def _signed_side(self) -> Side:
        """The factor that may be negative; without a block the other one is cut into digits."""
        bits = {side: Operand.of(self.formats.of(side)).significand_bits for side in SIDES}
        return "a" if self.dsp or bits["a"] >= bits["w"] else "w"

    def factors(self, m: Module, a: Any, w: Any, negative: Value | None) -> tuple[Value, Value]:
        """Both significands; the first is negated by a flag, if there is one."""
        side = self._signed_side
        factor, other = (a, w) if side == "a" else (w, a)
        if negative is None:
            return factor.significand, other.significand
        name = f"factor_{side}{self.suffix}"
        return _negated(m, name, factor.significand, negative), other.significand

    def product(
        self,
        m: Module,
        platform: object,
        name: str,
        en: Value,
        factors: tuple[Value, Value],
        sideband: Sideband,
    ) -> Value:
        """Their product; the other sideband values go along."""
        factor, other = factors
        if self.dsp:
            for boundary in DSP_PLACES:
                sideband.cross(boundary)
            block = (factor, Cat(other, 0).as_signed() if factor.shape().signed else other)
            return dsp_product(m, platform, name, en, block, reset=self.reset)
        entered, multiplied, behind = DSP_PLACES
        factor, other = sideband.cross(
            entered, **{f"{name}_factor": factor, f"{name}_other": other}
        )
        digits: Side = "w" if self._signed_side == "a" else "a"
        product = multiply_in_chains(
            m,
            f"{name}_product",
            other,
            factor,
            sideband,
            multiplied,
            top_is_never_one=Operand.top_digit_is_never_one(self.formats.of(digits)),
        )
        (product,) = sideband.cross(behind, **{name: product})
        return product


def _negated(m: Module, name: str, value: Value, negate: Value) -> Value:
    """`value`, or the number below zero that is as large: gates, faster than a short carry chain.

    A negated number differs from its opposite in all bits above the lowest one.
    """
    above = Cat(value[:place].any() for place in range(1, len(value) + 1))
    flips = noted(
        named(m, f"{name}_flips", len(above), above & negate.replicate(len(above))),
        "Negation without a carry chain: a number and its opposite differ in all bits above the "
        "lowest one.",
    )
    return named(m, name, None, Cat(value[0], Cat(value[1:], 0) ^ flips)).as_signed()


def dsp_product(
    m: Module,
    platform: object,
    name: str,
    en: Value,
    factors: tuple[Value, Value],
    *,
    reset: bool,
) -> Value:
    """The product of two factors behind a `DspMultiplier`, in as many bits as both together."""
    is_signed = all(factor.shape().signed for factor in factors)
    unit = DspMultiplier(signed=is_signed, reset=reset)
    block = place(m, platform, f"multiply_{name}", unit, reset=reset)
    m.d.comb += [block.en.eq(en), block.a.eq(factors[0]), block.b.eq(factors[1])]
    width = sum(len(factor) for factor in factors)
    bits = truncated(m, f"{name}_product", width, block.product)
    return bits.as_signed() if is_signed else bits


class PairedMultiplierConfiguration(Configuration):
    """A `PairedMultiplier`.

    Parameters
    ----------
    formats : OperandFormats
        Formats of both operands, not both of integers.

    Raises
    ------
    ValueError
        If two products do not fit a block; the message gives the numbers.
    """

    formats: OperandFormats

    def __post_init__(self) -> None:
        if not self.fits(self.formats):
            raise ValueError(
                f"paired must be False where a significand of A and a product have more than "
                f"{DSP_BITS} bits or both operands are integers, not True with {self.formats.name}"
            )

    @property
    def latency(self) -> int:
        """Enabled cycles from significands to their products."""
        return _DSP.latency

    @property
    def product(self) -> Product:
        """Widths of a product."""
        return Product.of(self.formats)

    @property
    def a_bits(self) -> int:
        """Bits of a significand of A."""
        return Operand.of(self.formats.a).significand_bits

    @staticmethod
    def fits(formats: OperandFormats) -> bool:
        """Whether two products fit a block."""
        if formats.has_integers:
            return False
        bits = Operand.of(formats.a).significand_bits + Product.of(formats).significand_bits
        return bits <= DSP_BITS


class PairedMultiplier(Unit[PairedMultiplierConfiguration]):
    """Products of two significands with a third, in one DSP block.

    MACs of two rows of an array that stand in the same column have the same element of W. With the
    significands of A as far from each other as a product has bits, one multiplication gives both
    products side by side: ``(a_1 * 2^12 + a_0) * w`` is ``a_1 * w * 2^12 + a_0 * w``, and
    ``a_0 * w`` is below ``2^12``. Signs are beside the significands, so that nothing is borrowed.

    Attributes
    ----------
    en : In(1)
        Clock enable of every register; none is reset.
    a : In(array of 2)
        Significands of two rows.
    w : In
        The significand of the column.
    products : Out(array of 2)
        The product with each of the two.
    """

    def ports(self) -> Ports:
        config = self.config
        return {
            "en": In(1),
            "a": In(data.ArrayLayout(config.a_bits, 2)),
            "w": In(Operand.of(config.formats.w).significand_bits),
            "products": Out(data.ArrayLayout(config.product.significand_bits, 2)),
        }

    def fill(self, m: Module, platform: object) -> None:
        apart = self.config.product.significand_bits
        both = Cat(self.a[0], Const(0, apart - len(self.a[0])), self.a[1])
        factors = (named(m, "both", None, both), self.w)
        noted(
            self.products.as_value(),
            "Two products from one DSP block: the significands of two rows stand as far apart as a "
            "product has bits. They are unsigned, so nothing is borrowed between the products.",
        )
        products = dsp_product(m, platform, "both", self.en, factors, reset=False)
        m.d.comb += self.products.as_value().eq(products)


class RoundingMultiplierConfiguration(Configuration):
    """A `RoundingMultiplier`.

    Parameters
    ----------
    formats : OperandFormats
        Formats of both codes: floating-point elements.
    sum_format : FloatFormat
        Format that products are rounded to.
    finite : bool
        Codes for NaN and Inf come out as any number, and there is no `nan`; no matter for formats
        without such codes.
    dsp : bool
        Multiply with ``*``, which FPGA tools map to DSP blocks, instead of by digits.

    Raises
    ------
    ValueError
        If a format has integer elements.
    """

    formats: OperandFormats
    sum_format: FloatFormat
    finite: bool = False
    dsp: bool = False

    def __post_init__(self) -> None:
        _ = self.formats.float_elements  # which refuses integers
        self._set(finite=self.finite and self.formats.has_special_codes)

    @property
    def base(self) -> str:
        return f"{self.formats.name}_{self.sum_format.name}_multiplier"

    @property
    def product(self) -> Product:
        """Widths and quantum of the exact product."""
        return Product.of(self.formats)

    @property
    def flagged(self) -> bool:
        """Whether there is the output `nan`."""
        return self.formats.has_special_codes and not self.finite

    @property
    def excess(self) -> int:
        """Bits of the exact product below the new quantum; negative if they are missing."""
        return self.sum_format.quantum_exponent - self.product.quantum_exponent

    @property
    def most_drops(self) -> int:
        """Most low bits that rounding takes from a product of significands."""
        bits = self.product.significand_bits
        return min(max(bits - self.sum_format.precision, self.excess, 0), bits + 1)

    @property
    def rounded_bits(self) -> int:
        """Bits of a rounded product of significands."""
        bits = self.product.significand_bits
        # Whether the largest product of significands can round up to one more bit.
        largest = math.prod((1 << element.precision) - 1 for element in self.formats.float_elements)
        carries = largest + (1 << self.most_drops >> 1) >= 1 << bits
        return max(bits + carries, min(self.most_drops, bits) + 1)

    @property
    def magnitude_bits(self) -> int:
        """Bits of the largest product, rounded, as a multiple of the new quantum."""
        largest = math.prod(element.max_value for element in self.formats.float_elements)
        fraction, exponent = math.frexp(largest)
        precision = self.sum_format.precision
        significand = round(math.ldexp(fraction, precision))  # Python's ties go to even too
        shift = exponent - precision - self.sum_format.quantum_exponent
        return (significand << shift).bit_length()


class RoundingMultiplier(Unit[RoundingMultiplierConfiguration]):
    """Product of two element codes, rounded to nearest even in the adder tree's format.

    The result is *in place*: not packed into exponent and mantissa, but sign and fixed-point
    magnitude, a multiple of the smallest subnormal of `sum_format` with at most its number of
    significant bits. Combinational.

    Rounding comes before the shift, where the product is still narrow. With ``p`` significant
    bits kept, the low ``q`` bits go, ``q = max(bits of the product - p, bits below the smallest
    subnormal)``. ``half - 1`` is a run of ones below the guard bit, so adding it and the lowest
    kept bit rounds to nearest even without a sticky bit.

    Attributes
    ----------
    a, w : In(width)
        Element codes.
    sign : Out(1)
        Also that of a zero.
    magnitude : Out
        A multiple of the smallest subnormal of `sum_format` (MXSF: 20 bits, quantum ``2^-18``).
    nan : Out(1)
        Only of a format with codes for NaN or Inf, unless `finite`: an operand is one; `magnitude`
        is then 0.
    """

    def ports(self) -> Ports:
        config = self.config
        return {
            **{side: In(config.formats.of(side).width) for side in SIDES},
            "sign": Out(1),
            "magnitude": Out(config.magnitude_bits),
            **({"nan": Out(1)} if config.flagged else {}),
        }

    def fill(self, m: Module, platform: object) -> None:
        config = self.config
        left, right = (self._decoder(m, platform, side) for side in SIDES)
        product = _significand_product(m, config.formats, left, right, dsp=config.dsp)
        shift, too_far = _shift_of_product(m, config.product, left, right, dsp=config.dsp)
        kept = self._rounded(m, product, shift, too_far)
        surplus = config.excess + too_far  # bits of the shifted product below the result's quantum
        if (spare := surplus - config.product.significand_bits) > 0:
            bits = (config.product.max_shift + too_far - spare).bit_length()
            shift = truncated(
                m,
                "distance",
                bits,
                shift - spare,
                note="With less of a shift than what is subtracted here nothing is kept.",
            )
            surplus -= spare
        shifted = named(m, "shifted", None, kept << shift)
        m.d.comb += [
            self.sign.eq(left.sign ^ right.sign),
            self.magnitude.eq(shifted >> surplus if surplus > 0 else shifted << -surplus),
        ]
        if config.flagged:
            flags = (unit.nan for unit in (left, right) if unit.config.nan)
            m.d.comb += self.nan.eq(Cat(*flags).any())

    def _decoder(self, m: Module, platform: object, side: Side) -> OperandDecoder:
        """The decoder of one operand, with its code."""
        config = self.config
        decoder = OperandDecoder(
            format=config.formats.of(side),
            factor=factor_of(config.formats, side, dsp=config.dsp),
            nan=config.flagged,
        )
        place(m, platform, f"decode_{side}", decoder)
        m.d.comb += decoder.code.eq(getattr(self, side))
        return decoder

    def _rounded(self, m: Module, product: Value, shift: Value, least: int) -> Value:
        """The product of significands, its low bits rounded off before it is shifted."""
        config = self.config
        precision, most, width = config.sum_format.precision, config.most_drops, config.rounded_bits
        if not most:
            return product
        long = Cat(product[j + precision :].any() for j in range(most))
        # Below the smallest shift there is nothing to compare with.
        levels = (config.excess - j + least for j in range(most))
        low = Cat(shift < level if level > least else Const(0, 1) for level in levels)
        too_long = named(m, "drops_for_precision", most, long)
        too_low = named(m, "drops_for_subnormals", most, low)
        drops = noted(
            named(m, "drops", most, too_long | too_low),
            "drops[j]: at least j + 1 low bits go, for the precision or for the smallest "
            "subnormal. The product is rounded while it is narrow, and shifted then.",
        )
        tie_to_even = named(
            m, "tie_to_even", 1, select(leading_one(drops), product[1:].as_unsigned())
        )
        noted(tie_to_even, "The lowest kept bit: 1 where a tie goes up to even.")
        with_half = noted(
            named(m, "with_half", None, product + drops[1:]),
            "drops[1:] is half of the new quantum less one: with the lowest kept bit added it "
            "rounds to nearest even, with no sticky bit.",
        )
        rounded = truncated(m, "rounded", width, with_half + tie_to_even)
        kept = named(m, "kept", width, cleared(rounded, drops))
        return noted(kept, "Bits that are dropped hold what the addition left.")
