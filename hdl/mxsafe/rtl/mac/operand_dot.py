"""Exact dot product of decoded operands: what the MACs of an array have in them."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from amaranth.hdl import Cat, Const, Module, Value, signed
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.products import OperandFormats
from mxsafe.rtl.arithmetic.bits import named, noted, truncated
from mxsafe.rtl.arithmetic.pipeline import Pipeline
from mxsafe.rtl.arithmetic.signed_sum import (
    Term,
    add_in_two_parts,
    add_pairs,
    add_pairs_in_chains,
    add_pairs_with_carry,
    add_without_carries,
)
from mxsafe.rtl.mac.multiplier import (
    DSP_PLACES,
    OperandMultiplier,
    OperandMultiplierConfiguration,
    block_registers,
    comes_signed,
    dsp_product,
    product_places,
)
from mxsafe.rtl.mac.operand import SIDES, operand_layout
from mxsafe.rtl.timing import Target, Timed, at, only_for
from mxsafe.rtl.unit import Configuration, Ports, Unit, place
from mxsafe.validation import AlikePower, about, require_integer, require_power_of_two, within

_NARROW_PRODUCT = 24
"""Bits of a product, of which two additions fit 2 ns behind the multiplier: then the sum of four
products has a register, which is half as many bits as two sums of two."""

_WITHIN = ("significands", "operands", "shifted", "multiplied")
"""Places within a product without a DSP block, in the order in which registers are put there."""

_LATE = 3
"""Upper bits of a sum of four products that would be too late for 2 ns with the carry."""
_MOST_LATE = 8


class OperandDotConfiguration(Configuration):
    """An `OperandDot`.

    Parameters
    ----------
    formats : OperandFormats
        Formats of both operands. What is not finite gives any number.
    lanes : int
        Products a cycle, a power of two.
    pipeline : int, optional
        Register stages, by default 1: the first at ``sums``, each of so many products as are added
        together; then at ``products`` too; then at ``total``, after the last addition, or where the
        first is there already at ``halves``, before it. With 0 the unit is combinational. For an
        FPGA there are those of the DSP blocks, by default all of the others too, and one at
        ``shifted``, within the shift of a product or behind those of its operands. Without such
        blocks none has to be there; see `dot_places`.
    dsp : bool, optional
        Multiply with ``*``, which FPGA tools map to DSP blocks, instead of by digits; by default
        for an FPGA, where it says whether there are such blocks.
    reset : bool
        Whether the registers are reset.
    target : {"asic", "fpga"}
        What the unit is built for, see `mxsafe.rtl.timing`.
    paired : bool
        For an FPGA products of significands come from outside, see `PairedMultiplier`.
    together : int, optional
        Products in each sum behind the registers at ``sums``, a power of two; by default half of
        them, as for an FPGA. With `carry_save` all of them.
    late : int
        Upper bits of these sums that take the carry of the bits below behind the registers, 0 to
        8; 0 for an FPGA, for integers, with `carry_save` and with one product in a sum, which have
        no such bits.
    carry_save : bool
        Not for an FPGA: products are added without a chain of carries, to two numbers.
    """

    shown_if_not_default = frozenset({"target", "paired", "together", "late", "carry_save"})

    formats: OperandFormats
    lanes: AlikePower = 4
    pipeline: int | None = None
    dsp: bool | None = None
    reset: bool = False
    target: Target = "asic"
    paired: bool = False
    together: AlikePower | None = None
    late: Annotated[int, within(0, _MOST_LATE)] = 0
    carry_save: bool = False

    def __post_init__(self) -> None:
        default = self.lanes if self.carry_save else max(self.lanes // 2, 1)
        block = block_registers(self)
        self._settle(dsp=bool(block), together=default)
        if self.carry_save:
            self._check_carry_save()
        together = require_power_of_two("together", self.together)
        self._set(together=together)
        if together > self.lanes:
            raise ValueError(f"together must be at most {self.lanes} lanes, not {together}")
        if self.signed and together != default:
            raise ValueError(
                f"together must be half of {self.lanes} lanes with target {self.target}, "
                f"not {together}"
            )
        self._settle(pipeline=min(at(self, "default"), len(self._places)))
        with about(products="lanes"):
            self.formats.sum_bits(self.lanes)
        least = block if self.dsp else 0
        self._set(pipeline=require_integer("pipeline", self.pipeline, least, len(self._places)))
        self._set(reset=bool(self.reset and self.pipeline))
        is_plain = self.signed or self.formats.has_integers or together == 1
        if self.late and (is_plain or self.carry_save):
            raise ValueError(
                "late must be 0 with target fpga, integers, carry_save or one product in a sum, "
                f"not {self.late}"
            )
        only_for(self, "fpga", "paired")
        if self.paired:
            require_dsp(self, self.dsp)

    def _check_carry_save(self) -> None:
        """Refuse what is not added without carries."""
        require_carry_save(self, self.formats)
        if self.lanes < 2:
            raise ValueError("lanes must be at least 2 with carry_save, not 1")
        if self.together != self.lanes:
            raise ValueError(
                f"together must be all of {self.lanes} lanes with carry_save, not {self.together}"
            )

    @property
    def _places(self) -> tuple[str, ...]:
        assert self.together is not None
        return dot_places(
            self.lanes,
            product_places(self),
            dsp=bool(self.dsp),
            together=self.together,
            carry_save=self.carry_save,
        )

    @property
    def registered(self) -> tuple[str, ...]:
        """Places that hold registers."""
        return self._places[: self.pipeline]

    def multiplier(self, lane: int = 0) -> OperandMultiplierConfiguration:
        """The multiplier of a lane, unless both operands are integers."""
        dsp = bool(self.dsp)
        return self.part(
            OperandMultiplierConfiguration,
            dsp=dsp,
            registers=() if dsp else tuple(p for p in DSP_PLACES if p in self.registered),
            halved="shifted" in self.registered,
            # As many ones may be missing as additions take for their carries: one a lane but one.
            complemented=self.signed and not dsp and lane > 0,
            reset=self.signed and self.reset,
        )

    @property
    def signed(self) -> bool:
        """Whether products come as signed numbers, see `comes_signed`: nothing is negated then."""
        return comes_signed(self)

    @property
    def plain(self) -> bool:
        """Whether operands are not prepared for multiplication by digits."""
        return bool(self.dsp) or self.signed

    @property
    def carries(self) -> str:
        """Name of the port beside `halves`."""
        return "plus" if self.signed or self.carry_save else "negate"

    @property
    def half_count(self) -> int:
        """Numbers that make up a dot product."""
        assert self.together is not None
        if self.carry_save:
            return 2
        return 1 if "total" in self.registered else self.lanes // self.together

    @property
    def half_bits(self) -> int:
        """Bits of each of them, sign included."""
        if self.carry_save:
            return self.dot_bits
        return self.formats.sum_bits(self.lanes // self.half_count) + 1

    @property
    def dot_bits(self) -> int:
        """Bits of a whole dot product, sign included."""
        return self.formats.sum_bits(self.lanes) + 1

    @property
    def properties(self) -> Mapping[str, Any]:
        """The weight of the lowest bit."""
        return {"quantum_exponent": self.formats.quantum_exponent}


def dot_places(
    lanes: int,
    within: Sequence[str] = (),
    *,
    dsp: bool = False,
    together: int | None = None,
    carry_save: bool = False,
) -> tuple[str, ...]:
    """Where registers may stand, in the order in which they are put there.

    Parameters
    ----------
    lanes : int
    within : sequence of str
        Places within a product, see `product_places`.
    dsp : bool
        See `OperandDotConfiguration`.
    together : int, optional
        The same, by default half of the lanes.
    carry_save : bool
        The same.
    """
    if carry_save:
        return ("sums", "products")
    together = together or max(lanes // 2, 1)
    last = ("total",) if together < lanes else ("halves",) * (together > 2)
    behind = (*("sums",) * (together > 1), "products", *last)
    before = [place for place in behind if place != "total"]
    block = [place for place in within if dsp and place in DSP_PLACES]
    others = sorted(set(within).difference(block), key=_WITHIN.index)
    return (*block, *before, *others, *behind[len(before) :])


def summed_together(formats: OperandFormats, lanes: int) -> int:
    """Products in each sum that a MAC in an array for standard cells hands on."""
    return min(lanes, 4 if formats.product_bits <= _NARROW_PRODUCT else 2)


def late_bits(formats: OperandFormats, lanes: int) -> int:
    """Upper bits of these sums that take their carry a cycle later, where MACs are the slowest."""
    of_four = summed_together(formats, lanes) > 2
    return _LATE if of_four and not formats.has_integers else 0


def require_carry_save(config: Timed, formats: OperandFormats) -> None:
    """That products can be added without carries: signs beside magnitudes, standard cells.

    Raises
    ------
    ValueError
        If they cannot.
    """
    only_for(config, "asic", "carry_save")
    if formats.has_integers:
        raise ValueError("carry_save must be False where both operands are integers, not True")


def require_dsp(config: Timed, dsp: object) -> None:
    """That a unit for an FPGA multiplies in DSP blocks, where it cannot without.

    Raises
    ------
    ValueError
        If it does not.
    """
    if block_registers(config) and not dsp:
        raise ValueError(f"dsp must be True with target {config.target}, not {dsp!r}")


class OperandDot(Unit[OperandDotConfiguration]):
    """Dot product of a few decoded operands a cycle, exact, but for its last addition.

    Whoever adds dot products up adds all halves at once, for the price of that addition: three
    numbers take one row of full adders more than two, and no second carry chain.

    Attributes
    ----------
    en : In(1)
        Clock enable of every register.
    a, w : In(array of struct)
        See `operand_layout`.
    significands : In(array)
        Products of their significands, `DspMultiplier` cycles later, if they come from outside.
    halves : Out(array of signed), negate : Out
        The dot product is the sum of the halves, each subtracted where `negate` is set: sums of so
        many products as are added together, or one number with registers at ``total``. Those of
        two integers are never negated. Multiples of ``2^quantum_exponent``.
    halves, plus : Out
        With `carry_save` or for an FPGA: the dot product is the sum of all of them. Nothing is
        negated: of products that are paired, and without DSP blocks, it lacks a one for each
        negative one, which the additions take for their carries. With `carry_save` there are two
        numbers, of as many bits as the dot product.
    """

    def ports(self) -> Ports:
        config = self.config
        operands = {side: operand_layout(config.formats, side, dsp=config.plain) for side in SIDES}
        bits = config.multiplier().product.significand_bits if config.paired else 0
        significands = {"significands": In(data.ArrayLayout(bits, config.lanes))}
        return {
            **({"en": In(1)} if config.pipeline else {}),
            **{side: In(data.ArrayLayout(operands[side], config.lanes)) for side in SIDES},
            **(significands if config.paired else {}),
            "halves": Out(data.ArrayLayout(signed(config.half_bits), config.half_count)),
            config.carries: Out(config.half_count),
        }

    def fill(self, m: Module, platform: object) -> None:
        config = self.config
        enable = self.en if config.pipeline else Const(1)
        # All places given hold registers, so their order does not matter.
        pipe = Pipeline(m, enable, config.registered, config.latency, reset=config.reset)

        terms = [self._product(m, platform, pipe, lane) for lane in range(config.lanes)]
        if config.formats.has_integers:
            terms = pipe.cross_terms("shifted", terms)
        if config.carry_save:
            self._put_without_carries(m, platform, pipe, pipe.cross_terms("products", terms))
            return
        of_target = add_pairs_with_carry if config.dsp else add_pairs_in_chains
        add_level = of_target if config.signed else add_pairs
        assert config.together is not None
        # By the number of products in a sum: where registers may stand behind it.
        places = {config.lanes: "total", config.lanes // 2: "halves"}
        places = {**places, config.together: "sums", 1: "products"}
        terms = pipe.cross_terms("products", terms)
        while len(terms) > config.half_count:
            count = 2 * config.lanes // len(terms)
            place = places.get(count, "")
            if config.late and place == "sums":
                terms = self._add_with_late_carry(m, pipe, terms)
                continue
            terms = pipe.cross_terms(place, add_level(m, terms))
        if config.carries == "negate":
            noted(
                self.negate,
                "Signs stay beside the sums to the end: whoever adds the halves up subtracts those "
                "that are negative.",
            )
        for index, (value, negate) in enumerate(terms):
            carries = getattr(self, config.carries)
            m.d.comb += [self.halves[index].eq(value), carries[index].eq(negate)]

    def _add_with_late_carry(self, m: Module, pipe: Pipeline, terms: Sequence[Term]) -> list[Term]:
        """A level of additions before a register, whose upper bits take their carry behind it."""
        sums: list[Term] = []
        for index in range(len(terms) // 2):
            left, right = terms[2 * index : 2 * index + 2]
            name = f"level{len(terms)}_{index}"
            lower, upper, negate = add_in_two_parts(m, name, left, right, self.config.late)
            lower, upper, negate = pipe.cross_all(
                "sums",
                **{f"lower_{index}": lower, f"upper_{index}": upper, f"negate_{index}": negate},
            )
            above = truncated(
                m,
                f"above_{index}",
                self.config.late,
                upper + lower[-1],
                note="Upper bits of a sum take the carry of the lower ones behind the register.",
            )
            sums.append((Cat(lower[:-1], above).as_signed(), negate))
        return sums

    def _put_without_carries(
        self, m: Module, platform: object, pipe: Pipeline, terms: Sequence[Term]
    ) -> None:
        """Two numbers and two carries, registered as the sums that they stand for would be."""
        numbers, carries = add_without_carries(m, platform, terms)
        for index, (number, carry) in enumerate(zip(numbers, carries, strict=True)):
            m.d.comb += [
                self.halves[index].eq(pipe.cross("sums", f"number_{index}", number)),
                self.plus[index].eq(pipe.cross("sums", f"carry_{index}", carry)),
            ]

    def _product(self, m: Module, platform: object, pipe: Pipeline, lane: int) -> Term:
        config, a, w = self.config, self.a[lane], self.w[lane]
        if config.formats.has_integers:
            product: Value = a.number * w.number
            if config.signed and config.dsp:
                factors = (a.number, w.number)
                product = dsp_product(m, platform, str(lane), self.en, factors, reset=config.reset)
            elif config.signed:
                product = self._product_in_tables(pipe, lane)
            return named(m, f"product_{lane}", product.shape(), product), Const(0, 1)
        multiply = OperandMultiplier(config.multiplier(lane))
        place(m, platform, f"multiply_{lane}", multiply, reset=config.reset or not multiply.latency)
        if multiply.latency:
            m.d.comb += multiply.en.eq(self.en)
        if config.paired:
            m.d.comb += multiply.significands.eq(self.significands[lane])
        m.d.comb += [
            multiply.a.as_value().eq(a.as_value()),
            multiply.w.as_value().eq(w.as_value()),
        ]
        if config.signed:
            complemented = config.paired or multiply.config.complemented
            return multiply.term, multiply.plus if complemented else Const(0, 1)
        return multiply.magnitude, multiply.sign

    def _product_in_tables(self, pipe: Pipeline, lane: int) -> Value:
        """Product of two integers, with registers around it: tools make carry chains of that."""
        entered, multiplied, behind = DSP_PLACES
        a, w = (getattr(self, side)[lane].number for side in SIDES)
        a, w = (pipe.cross(entered, f"{name}_{lane}", v) for name, v in (("a", a), ("w", w)))
        product = pipe.cross(multiplied, f"product_{lane}", a * w)
        return pipe.cross(behind, f"product_{lane}", product)
