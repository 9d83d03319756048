"""The steps of a SAFE-MAC for an FPGA: many short ones, with a carry chain for each addition.

With DSP blocks numbers are signed from the factors on; without, signs stay beside them, and only
additions see them (see `mxsafe.rtl.arithmetic.signed_sum`). Rounding to nearest even treats both
signs alike, and the last sum is packed as `mxsafe.rtl.arithmetic.scaler` does it: of a negative
number the magnitude less one is the complement, and the one that is missing comes in with the
rounding.

Tested by `verif/rtl/mac/test_safe_mac.py`.
"""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Value, signed

from mxsafe.rtl.arithmetic.bits import (
    cleared,
    leading_one,
    named,
    noted,
    ones_below_leading,
    select,
    truncated,
)
from mxsafe.rtl.arithmetic.packing import count_ones, fixed_point_bits
from mxsafe.rtl.arithmetic.pipeline import Pipeline, Sideband
from mxsafe.rtl.arithmetic.signed_sum import Term, add_in_a_chain
from mxsafe.rtl.mac.multiplier import DSP_PLACES, FactorsInStages, RoundingMultiplierConfiguration
from mxsafe.rtl.timing import Place

_FACTORS = tuple(map(Place, DSP_PLACES, (3.5, 4.5, 3)))
_PRODUCT = (
    Place("dropped", 2.5),
    Place("tied", 2.5),
    Place("rounded", 2.5),
    Place("shifted_low", 2.5),
    Place("products", 1.5),
)
_LEVEL = (("added", 3), ("leading", 3), ("tied", 3), ("rounded", 3))
_PACKED = (
    Place("total", 4),
    Place("leading", 3),
    Place("counted", 3),
    Place("shifted_high", 1.5),
    Place("shifted", 1.5),
    Place("incremented", 2),
    Place("output", 3),
)


def mac_places(lanes: int, *, dsp: bool) -> tuple[Place, ...]:
    """Where registers may stand, but for those of DSP blocks, which always do."""
    levels = []
    while lanes > 2:
        levels += [Place(f"{name}_of_{lanes}", depth) for name, depth in _LEVEL]
        lanes //= 2
    return (*(() if dsp else _FACTORS), *_PRODUCT, *levels, *_PACKED)


@dataclass(frozen=True)
class MacSteps:
    """Building blocks of a SAFE-MAC for an FPGA.

    Attributes
    ----------
    m : amaranth.hdl.Module
    platform : object
        What `fill` was given.
    pipe : Pipeline
        The registers.
    config : RoundingMultiplierConfiguration
        Formats and widths.
    enable : Value
        Clock enable of DSP blocks.
    """

    m: Module
    platform: object
    pipe: Pipeline
    config: RoundingMultiplierConfiguration
    enable: Value

    def product(self, lane: int, a: Any, w: Any) -> Term:
        """Product of two decoded elements, rounded in place.

        Parameters
        ----------
        lane : int
            Number of the product, part of its names.
        a, w : OperandDecoder
            The decoders of both codes.
        """
        m, config, dsp = self.m, self.config, self.config.dsp
        negative: Value = named(m, f"is_negative_{lane}", 1, a.sign ^ w.sign)
        total = named(m, f"shift_{lane}", config.product.shift_bits, a.shift + w.shift)
        negate = Const(0, 1) if dsp else negative
        sideband = Sideband(self.pipe, **{f"shift_{lane}": total, f"negate_{lane}": negate})
        multiply = FactorsInStages(config.formats, dsp=dsp, reset=True, suffix=f"_{lane}")
        factors = multiply.factors(m, a, w, negative if dsp else None)
        name = f"significands_{lane}"
        product = multiply.product(m, self.platform, name, self.enable, factors, sideband)
        number = product if dsp else Cat(product, 0).as_signed()
        kept = self._rounded_product(lane, number, sideband)

        distance, surplus = sideband[f"shift_{lane}"], config.excess + 2
        if (spare := surplus - config.product.significand_bits) > 0:
            bits = (config.product.max_shift + 2 - spare).bit_length()
            distance = truncated(
                m,
                f"distance_{lane}",
                bits,
                distance - spare,
                note="With less of a shift than what is subtracted here nothing is kept.",
            )
            surplus -= spare
        half = len(distance) // 2
        near: Value = named(m, f"shifted_by_low_bits_{lane}", None, kept << distance[:half])
        parts = {f"shifted_{lane}": near, f"high_{lane}": distance[half:]}
        near, high = sideband.cross("shifted_low", **parts)
        far = near << Cat(Const(0, half), high)
        moved = far[surplus:] if surplus > 0 else Cat(Const(0, -surplus), far)
        name, width = f"product_{lane}", config.magnitude_bits + 1
        (value,) = sideband.cross("products", **{name: moved[:width]})
        return value.as_signed(), sideband[f"negate_{lane}"]

    def _rounded_product(self, lane: int, product: Value, sideband: Sideband) -> Value:
        """A signed product of significands, its low bits rounded off before it is shifted."""
        m, config, name = self.m, self.config, f"product_{lane}"
        precision, most = config.sum_format.precision, config.most_drops
        if not most:
            for boundary in ("dropped", "tied", "rounded"):
                (product,) = sideband.cross(boundary, **{name: product})
            return product
        width = max(len(product), most + 1)
        number: Value = named(m, f"number_{lane}", signed(width), product)
        bits = config.product.significand_bits
        folded = named(m, f"folded_{lane}", bits, number[:bits] ^ number[-1].replicate(bits))
        shift = sideband[f"shift_{lane}"]
        noted(folded, "Leading one of a negative product: it is looked for in the complement.")
        long = Cat(folded[place + precision :].any() for place in range(most))
        levels = (config.excess - place + 2 for place in range(most))
        low = Cat(shift < level if level > 2 else Const(0, 1) for level in levels)
        too_long = named(m, f"drops_for_precision_{lane}", most, long)
        too_low = named(m, f"drops_for_subnormals_{lane}", most, low)
        drops: Value = named(m, f"drops_{lane}", most, too_long | too_low)
        noted(drops, "drops[j]: at least j + 1 low bits go, for the precision or for subnormals.")
        number, drops = sideband.cross("dropped", **{name: number, f"drops_{lane}": drops})
        return self._rounded(name, number, drops, sideband, ("tied", "rounded"))

    def _rounded(
        self,
        name: str,
        number: Value,
        drops: Value,
        sideband: Sideband,
        boundaries: tuple[str, str],
    ) -> Value:
        """A signed number rounded to nearest even, without the low bits that are set in `drops`.

        As in `Rounder`; the boundaries are behind the choice of the lowest kept bit, and behind the
        addition.
        """
        tied, behind = boundaries
        tie: Value = named(self.m, f"{name}_tie", 1, select(leading_one(drops), number[1:]))
        noted(tie, "The lowest kept bit: with half an ulp less one it rounds to nearest even.")
        values = {name: number, f"{name}_drops": drops, f"{name}_tie": tie}
        number, drops, tie = sideband.cross(tied, **values)
        half = Cat(drops[1:], Const(0, 1)).as_signed()
        total = add_in_a_chain(self.m, f"{name}_with_half", number, half, tie)
        values = {f"{name}_rounded": total, f"{name}_drops": drops}
        total, drops = sideband.cross(behind, **values)
        kept = named(self.m, f"{name}_kept", total.shape(), cleared(total, drops).as_signed())
        return noted(kept, "Rounded in place: dropped bits hold what the addition left.")

    def added(self, terms: list[Term], left: int) -> Term:
        """The sum of two neighbours of a level of the adder tree, rounded in place."""
        level = len(terms)
        name = f"level{level}_{left // 2}"
        added, leading, tied, rounded = (f"{place}_of_{level}" for place, _ in _LEVEL)
        total, negate = self._sum(name, *terms[left : left + 2])
        sideband, width = Sideband(self.pipe, **{f"{name}_negate": negate}), len(total)
        (total,) = sideband.cross(added, **{name: total})
        drops = self._drops(name, total)
        total, drops = sideband.cross(leading, **{name: total, f"{name}_drops": drops})
        kept = self._rounded(name, total, drops, sideband, (tied, rounded))
        return kept[:width].as_signed(), sideband[f"{name}_negate"]

    def _sum(self, name: str, left: Term, right: Term) -> Term:
        """Return the result of `add` from one carry chain."""
        (value, negate), (other, other_negate) = left, right
        if isinstance(negate, Const) and isinstance(other_negate, Const):
            return add_in_a_chain(self.m, name, value, other, Const(0, 1)), negate
        differ = named(self.m, f"{name}_differ", 1, negate ^ other_negate)
        turned = other.as_unsigned() ^ differ.replicate(len(other))
        addend = named(self.m, f"{name}_addend", None, turned)
        return add_in_a_chain(self.m, name, value, addend.as_signed(), differ), negate

    def _drops(self, name: str, value: Value) -> Value:
        """Which bits lie below those that are kept, of a negative number in its complement."""
        high = value[self.config.sum_format.precision : -1]
        folded = named(self.m, f"{name}_folded", len(high), high ^ value[-1].replicate(len(high)))
        noted(folded, "The leading one decides which bits go; the lowest bits always fit.")
        return ones_below_leading(self.m, f"{name}_drops", folded)

    def packed(self, terms: list[Term], beside: Sideband) -> tuple[Value, Value]:
        """Magnitude bits of the code of a sum, rounded to nearest even, and the sign.

        Parameters
        ----------
        terms : list of Term
            What is still to be added: two numbers, or one.
        beside : Sideband
            Crosses all places from ``total`` on; has the sign of a zero, `zero_sign`.
        """
        m, precision = self.m, self.config.sum_format.precision
        total, negate = self._sum("total", *terms) if len(terms) == 2 else terms[0]
        beside.add(negate=negate)
        (total,) = beside.cross(
            "total", total=total[: fixed_point_bits(self.config.sum_format) + 1]
        )
        drops = self._drops("total", total)
        total, drops = beside.cross("leading", total=total, total_drops=drops)
        negative = total[-1]
        ones = named(m, "exponent", None, count_ones(m, "ones", drops))
        sticky = named(m, "sticky", 1, (total & drops[1:]).any())
        large = named(m, "is_large", 1, drops[0])
        folded = total[:-1] ^ negative.replicate(len(total) - 1)
        wide = named(m, "folded", None, Cat(negative, folded))
        noted(
            wide, "Below a complement there are ones without end: the first may be the guard bit."
        )
        beside.add(negative=negative, sticky=sticky, is_large=large)
        wide, ones = beside.cross("counted", folded=wide, exponent=ones)
        half = len(ones) // 2
        high = named(m, "shifted_by_high_bits", None, wide >> Cat(Const(0, half), ones[half:]))
        beside.add(exponent=ones)
        (high,) = beside.cross("shifted_high", shifting=high[: precision + (1 << half)])
        low = named(m, "shifted", None, high >> beside["exponent"][:half])
        (low,) = beside.cross("shifted", shifted=low[: precision + 1])
        guard, kept = low[0], low[1:]
        odd, sticky, negative = kept[0], beside["sticky"], beside["negative"]
        of_negative = noted(
            named(m, "increment_of_negative", 1, guard | (odd & ~sticky)),
            "Nearest even of a negative number from its complement, which is one short: that one "
            "reaches the guard bit if there are only ones below it.",
        )
        up = named(m, "increment", 1, Mux(negative, of_negative, guard & (odd | sticky)))
        nonzero = named(m, "is_nonzero", 1, negative | beside["is_large"] | kept.any())
        noted(nonzero, "A sum of zeros has the sign that was found beside the sums.")
        sign = Mux(nonzero, negative ^ beside["negate"], beside["zero_sign"])
        sign = named(m, "sign", 1, sign)
        kept, up, sign = beside.cross("incremented", kept=kept, increment=up, sign=sign)
        left = Cat(kept[:-1], beside["exponent"])
        right = Cat(up, Const(0, precision - 2), kept[-1])
        packed = truncated(
            m,
            "packed",
            len(left),
            left + right,
            note="The hidden bit adds itself to the exponent, and so does a carry out of the "
            "mantissa.",
        )
        return packed, sign
