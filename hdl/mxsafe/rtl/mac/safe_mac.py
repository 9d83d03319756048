"""SAFE-MAC with the paper's FP12 adder tree (Fig. 5c)."""

from collections.abc import Mapping

from amaranth.hdl import Cat, Const, Module, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.formats import FloatFormat
from mxsafe.products import OperandFormats
from mxsafe.rtl.arithmetic.bits import named, noted
from mxsafe.rtl.arithmetic.packing import Packer, float_layout
from mxsafe.rtl.arithmetic.pipeline import Pipeline, Sideband, check_pipeline
from mxsafe.rtl.arithmetic.rounder import Rounder
from mxsafe.rtl.arithmetic.signed_sum import Term, add
from mxsafe.rtl.mac.multiplier import DSP_PLACES, RoundingMultiplier, block_registers
from mxsafe.rtl.mac.operand import SIDES
from mxsafe.rtl.mac.operand_decoder import OperandDecoder
from mxsafe.rtl.mac.safe_mac_stages import MacSteps, mac_places
from mxsafe.rtl.timing import Target, at, spread
from mxsafe.rtl.unit import Configuration, Part, Ports, Unit, describe, place
from mxsafe.validation import AlikePower


def mac_base(base: str, formats: OperandFormats) -> str:
    """Name of a MAC in its default configuration: of MXSF without the format."""
    return base if formats.name == "mxsf" else f"{base}_{formats.name}"


def mac_boundaries(lanes: int) -> tuple[str, ...]:
    """Where registers of a MAC may stand, in the direction of the data."""
    return ("products", "sums", "output") if lanes > 2 else ("products", "output")


class SafeMacConfiguration(Configuration):
    """A `SafeMac`.

    Parameters
    ----------
    formats : OperandFormats
        Formats of both operands: floating-point elements. Codes for NaN and Inf count as zeros with
        the code's sign.
    lanes : int
        Products a cycle, a power of two.
    pipeline : int, optional
        Register stages, by default 3 where there are as many places. From the
        output backwards they stand at ``output``, ``sums`` (before the last addition) and
        ``products``. For an FPGA three are those of the DSP blocks, and the others stand where they
        make the longest way shortest, see `spread`; by default there are 16, or as many as there
        are places.
    dsp : bool, optional
        Multiply with ``*``, which FPGA tools map to DSP blocks, instead of by digits (see
        `mxsafe.rtl.arithmetic.radix4`), by default for an FPGA. For an FPGA without DSP blocks
        False: products are then made of look-up tables and carry chains.
    finite : bool
        The partial sum of codes for NaN and Inf is any number, and there is no `nan`; no matter for
        formats without such codes.
    target : {"asic", "fpga"}
        What the unit is built for, see `mxsafe.rtl.timing`.
    """

    formats: OperandFormats
    lanes: AlikePower = 4
    pipeline: int | None = None
    dsp: bool | None = None
    finite: bool = False
    target: Target = "asic"

    def __post_init__(self) -> None:
        _ = self.formats.float_elements  # which refuses integers
        block = block_registers(self)
        self._settle(dsp=bool(block))
        self._settle(pipeline=min(at(self, "default"), len(self.places)))
        least = 1 + (block if self.dsp else 0)
        self._set(
            pipeline=check_pipeline(self.pipeline, self.places, least),
            finite=self.finite and self.formats.has_special_codes,
        )
        self.formats.fp12_format(self.lanes)

    @property
    def base(self) -> str:
        """Name of the module: the paper's is plain, others begin with their format's."""
        return mac_base("safe_mac", self.formats)

    @property
    def in_steps(self) -> bool:
        """Whether it is made of `MacSteps`, see `SafeMac`."""
        return self.target == "fpga"

    @property
    def places(self) -> tuple[str, ...]:
        """Where registers may stand."""
        if not self.in_steps:
            return mac_boundaries(self.lanes)
        own = tuple(place.name for place in mac_places(self.lanes, dsp=bool(self.dsp)))
        return (*DSP_PLACES, *own) if self.dsp else own

    @property
    def boundaries(self) -> tuple[str, ...]:
        """Where registers of so many stand; for standard cells those are the last of them."""
        if not self.in_steps:
            return self.places
        within = DSP_PLACES if self.dsp else ()
        others = mac_places(self.lanes, dsp=bool(self.dsp))
        return (*within, *spread(others, self.latency - len(within)))

    @property
    def sum_format(self) -> FloatFormat:
        """Format of products and sums, see `OperandFormats.fp12_format`."""
        return self.formats.fp12_format(self.lanes)

    multiplier = Part(
        RoundingMultiplier,
        sum_format=lambda c: c.sum_format,
        dsp=lambda c: bool(c.dsp),
    )

    @property
    def properties(self) -> Mapping[str, object]:
        """The format of products and sums."""
        sums = {"name": self.sum_format.name, **describe(self.sum_format.fields)}
        return {"arithmetic": "fp12", "sum_format": sums}


class SafeMac(Unit[SafeMacConfiguration]):
    """Dot product of a few element codes a cycle, rounded as the paper's FP12 adder tree does.

    Every product is rounded to `sum_format`, then pairs, then pairs of pairs. A new input is taken
    on every enabled cycle.

    Attributes
    ----------
    en : In(1)
        Clock enable of every register.
    a, w : In(array of `lanes` codes)
        Lane ``i`` in bits ``[width*i +: width]``.
    partial_sum : Out(struct of mantissa, exponent, sign)
        The dot product.
    nan : Out(1)
        Only of formats with codes for NaN or Inf, unless `finite`: one of the operands that
        `partial_sum` belongs to is one.

    Notes
    -----
    Paper, section V-B; the numbers' format and bias in `OperandFormats.fp12_format`.

    Sums stay 23-bit integers from the decoders to the output (see `Rounder`); only the last sum,
    which leaves packed, is normalised. What was tried is in ``docs/experiments.md``.

    By target: for an FPGA it is made of `MacSteps`, short ones that registers may stand between, of
    signed numbers where DSP blocks multiply. In standard cells a cycle is long enough for a product
    and its rounding, which are one `RoundingMultiplier` without registers.
    """

    def ports(self) -> Ports:
        config = self.config
        codes = {side: config.formats.of(side).width for side in SIDES}
        return {
            "en": In(1),
            **{side: In(data.ArrayLayout(width, config.lanes)) for side, width in codes.items()},
            "partial_sum": Out(float_layout(config.sum_format)),
            **({"nan": Out(1)} if config.multiplier.flagged else {}),
        }

    def fill(self, m: Module, platform: object) -> None:
        config = self.config
        if config.in_steps:
            self._add_in_steps(m, platform)
            return
        flagged = config.multiplier.flagged
        pipe = Pipeline(m, self.en, config.boundaries, config.latency)

        terms: list[Term] = []
        flags: list[Value] = []
        for lane in range(config.lanes):
            multiply = place(m, platform, f"multiply_{lane}", RoundingMultiplier(config.multiplier))
            m.d.comb += [multiply.a.eq(self.a[lane]), multiply.w.eq(self.w[lane])]
            terms.append((multiply.magnitude, multiply.sign))
            if flagged:
                flags.append(multiply.nan)
        nan = Cat(flags).any() if flags else Const(0, 1)
        nan = pipe.cross("products", "nan", nan)
        terms = pipe.cross_terms("products", terms)
        zero_sign: Value = named(m, "zero_sign", 1, Cat(sign for _, sign in terms).all())
        noted(zero_sign, "A sum of zeros is -0 only if every product is negative: all are -0 then.")

        while len(terms) > 2:
            terms = self._add_pairs(m, platform, terms)
        if "sums" in config.boundaries:
            terms = pipe.cross_terms("sums", terms)
            zero_sign = pipe.cross("sums", "zero_sign", zero_sign)
            nan = pipe.cross("sums", "nan", nan)
        value, negate = add(m, "total", *terms) if len(terms) == 2 else terms[0]

        pack = place(m, platform, "pack", Packer(sum_format=config.sum_format))
        noted(
            pack.value,
            "Sums before this one were rounded in place, as multiples of the smallest subnormal; "
            "the packer rounds this one, for it looks for the leading one anyway.",
        )
        m.d.comb += [
            pack.value.eq(value),
            pack.negate.eq(negate),
            pack.zero_sign.eq(zero_sign),
        ]
        pipe.drive(self.partial_sum, pack.code)
        if flagged:
            pipe.drive(self.nan, nan)

    def _add_in_steps(self, m: Module, platform: object) -> None:
        """The same for an FPGA: see `MacSteps`."""
        config = self.config
        pipe = Pipeline(m, self.en, config.boundaries, config.latency)
        steps = MacSteps(m, platform, pipe, config.multiplier, self.en)
        lanes = [self._decode(m, platform, lane) for lane in range(config.lanes)]
        flags = [unit.nan for pair in lanes for unit in pair if unit.config.nan]
        zero_sign = named(m, "zero_sign", 1, Cat(a.sign ^ w.sign for a, w in lanes).all())
        beside = Sideband(
            pipe,
            zero_sign=noted(
                zero_sign, "The sign of a sum of zeros: -0 only if every product is negative."
            ),
            nan=named(m, "any_nan", 1, Cat(flags).any()) if flags else Const(0, 1),
        )
        terms = [steps.product(lane, a, w) for lane, (a, w) in enumerate(lanes)]
        while len(terms) > 2:
            terms = [steps.added(terms, left) for left in range(0, len(terms), 2)]
        for boundary in config.places[: config.places.index("total")]:
            beside.cross(boundary)
        magnitude, sign = steps.packed(terms, beside)
        pipe.drive(self.partial_sum.as_value(), Cat(magnitude, sign))
        if config.multiplier.flagged:
            pipe.drive(self.nan, beside["nan"])

    def _decode(
        self, m: Module, platform: object, lane: int
    ) -> tuple[OperandDecoder, OperandDecoder]:
        """Decoders of both codes of a lane."""
        decoders = []
        for side in SIDES:
            format, flagged = self.config.formats.of(side), self.config.multiplier.flagged
            unit = OperandDecoder(format=format, nan=flagged)
            place(m, platform, f"decode_{side}_{lane}", unit)
            m.d.comb += unit.code.eq(getattr(self, side)[lane])
            decoders.append(unit)
        return decoders[0], decoders[1]

    def _add_pairs(self, m: Module, platform: object, terms: list[Term]) -> list[Term]:
        """One level of the tree: neighbours added, and rounded in place."""
        sums: list[Term] = []
        level = f"level{len(terms)}"
        for left in range(0, len(terms), 2):
            name = f"{level}_{left // 2}"
            exact, negate = add(m, name, terms[left], terms[left + 1])
            rounder = Rounder(width=len(exact), sum_format=self.config.sum_format)
            place(m, platform, f"round_{name}", rounder)
            m.d.comb += rounder.value.eq(exact)
            sums.append((rounder.rounded, negate))
        return sums
