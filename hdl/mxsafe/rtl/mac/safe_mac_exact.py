"""SAFE-MAC that adds exactly, in fixed point.

Tested by `verif/rtl/mac/test_safe_mac.py`.
"""

from collections.abc import Mapping

from amaranth.hdl import Cat, Const, Module, Mux, Value, signed
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.products import OperandFormats
from mxsafe.rtl.arithmetic.bits import named
from mxsafe.rtl.arithmetic.pipeline import Pipeline, check_pipeline
from mxsafe.rtl.arithmetic.signed_sum import Term, add_in_a_chain, add_resolved
from mxsafe.rtl.mac.multiplier import block_registers, product_places
from mxsafe.rtl.mac.operand import SIDES, factor_of
from mxsafe.rtl.mac.operand_decoder import LaneDecoder
from mxsafe.rtl.mac.operand_dot import OperandDot
from mxsafe.rtl.mac.safe_mac import mac_base, mac_boundaries
from mxsafe.rtl.timing import Target, at
from mxsafe.rtl.unit import Configuration, Part, Ports, Unit, place
from mxsafe.validation import AlikePower, about


class SafeMacExactConfiguration(Configuration):
    """A `SafeMacExact`.

    Parameters
    ----------
    formats : OperandFormats
        Formats of both operands. Codes for NaN and Inf count as zeros.
    lanes : int
        Products a cycle, a power of two.
    pipeline : int, optional
        Register stages, by default 2 where there are as many places. From the
        output backwards they stand at ``output``, ``sums`` (before the last addition) and
        ``products``. For an FPGA there are those of the DSP blocks too, and ``shifted`` within the
        shift of a product or behind those of its operands: by default 7 or as many as there are.
        Without such blocks they come after those behind them, in the order of `dot_places`.
    dsp : bool, optional
        Multiply with ``*``, which FPGA tools map to DSP blocks, instead of by digits (see
        `mxsafe.rtl.arithmetic.radix4`), by default for an FPGA; no matter for integer elements. For
        an FPGA without DSP blocks False: products are then made of look-up tables and carry chains.
    target : {"asic", "fpga"}
        What the unit is built for, see `mxsafe.rtl.timing`.
    """

    formats: OperandFormats
    lanes: AlikePower = 4
    pipeline: int | None = None
    dsp: bool | None = None
    target: Target = "asic"

    def __post_init__(self) -> None:
        boundaries, block = self.boundaries, block_registers(self)
        self._settle(pipeline=min(at(self, "default"), len(boundaries)), dsp=bool(block))
        least = 1 + (block if self.dsp else 0)
        self._set(pipeline=check_pipeline(self.pipeline, boundaries, least))
        with about(products="lanes"):
            self.formats.sum_bits(self.lanes)

    @property
    def base(self) -> str:
        """Name of the module: that of MXSF is plain, others end in their format's."""
        return mac_base("safe_mac_exact", self.formats)

    @property
    def boundaries(self) -> tuple[str, ...]:
        """Where registers may stand, those of the output last."""
        return (*product_places(self), *mac_boundaries(self.lanes))

    dot = Part(OperandDot, pipeline=lambda c: c.latency - 1, reset=lambda _: True)

    @property
    def properties(self) -> Mapping[str, object]:
        """The arithmetic, and the weight of the lowest bit."""
        return {"arithmetic": "exact", "quantum_exponent": self.formats.quantum_exponent}


class SafeMacExact(Unit[SafeMacExactConfiguration]):
    """Dot product of a few element codes a cycle, without any rounding.

    Products are integers, so their sum is one. A new input is taken on every enabled cycle. It is
    made of what an array has: operand decoders at its edge, and `OperandDot` in its MACs.

    Attributes
    ----------
    en : In(1)
        Clock enable of every register.
    a, w : In(array of `lanes` codes)
        Lane ``i`` in bits ``[width*i +: width]``.
    dot : Out(signed)
        A multiple of ``2^quantum_exponent``, the product of both formats' smallest positive values
        (MXSF: 27 bits, ``2^-22``).
    nan : Out(1)
        Only of formats with codes for NaN or Inf: one of the operands that `dot` belongs to is
        one.

    Notes
    -----
    Products are added in pairs, and the sign of each pair is applied later. What was tried is in
    ``docs/experiments.md``.
    """

    def ports(self) -> Ports:
        config = self.config
        codes = {side: config.formats.of(side).width for side in SIDES}
        return {
            "en": In(1),
            **{side: In(data.ArrayLayout(width, config.lanes)) for side, width in codes.items()},
            "dot": Out(signed(config.dot.dot_bits)),
            **({"nan": Out(1)} if config.formats.has_special_codes else {}),
        }

    def fill(self, m: Module, platform: object) -> None:
        config = self.config
        boundaries = config.boundaries
        pipe = Pipeline(m, self.en, boundaries, config.latency)
        multiply = place(m, platform, "multiply", OperandDot(config.dot))
        if config.dot.pipeline:
            m.d.comb += multiply.en.eq(self.en)
        flags = self._decode(m, platform, multiply)

        pipe.drive(self.dot, self._total(m, multiply))
        if config.formats.has_special_codes:
            # The flag takes as many cycles as the numbers; the last register is that of the output.
            nan: Value = Cat(*flags).any()
            for boundary in boundaries[:-1]:
                nan = pipe.cross(boundary, "nan", nan)
            pipe.drive(self.nan, nan)

    def _total(self, m: Module, multiply: OperandDot) -> Value:
        """The last addition, which in an array is made with that to the sum before."""
        config, signed_products = self.config, multiply.config.signed
        if signed_products and not config.dsp and len(multiply.halves) == 2:
            left, right = multiply.halves
            carry = multiply.plus[1] if config.lanes > 2 else multiply.plus.any()
            return add_in_a_chain(m, "total", left, right, carry)
        if signed_products or config.formats.has_integers:
            terms: list[Term] = [(value, Const(0, 1)) for value in multiply.halves]  # never negated
        else:
            terms = list(zip(multiply.halves, multiply.negate, strict=True))
        if len(terms) == 2:
            return add_resolved(m, "total", *terms)
        (value, negate) = terms[0]
        number = value if isinstance(negate, Const) else Mux(negate, -value, value)
        return named(m, "total", self.dot.shape(), number)

    def _decode(self, m: Module, platform: object, multiply: OperandDot) -> list[Value]:
        """Give the codes to what multiplies; return the flags of codes for NaN and Inf."""
        config = self.config
        flags = []
        for side in SIDES:
            codes, operands = getattr(self, side), getattr(multiply, side)
            if config.formats.has_integers:
                m.d.comb += operands.as_value().eq(codes.as_value())
                continue
            decode = LaneDecoder(
                format=config.formats.of(side),
                factor=factor_of(config.formats, side, dsp=multiply.config.plain),
                count=config.lanes,
                nan=True,
            )
            place(m, platform, f"decode_{side}", decode)
            m.d.comb += [
                decode.codes.as_value().eq(codes.as_value()),
                operands.as_value().eq(decode.operands.as_value()),
            ]
            if decode.config.nan:
                flags.append(decode.nan)
        return flags
