"""SAFE-MAC that adds exactly, in fixed point."""

from amaranth.hdl import Cat, Const, Module, Mux, signed
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.formats import MXFormat, element_format, has_special_codes
from mxsafe.products import exact_sum_bits
from mxsafe.rtl.arithmetic.bits import named
from mxsafe.rtl.arithmetic.pipeline import Pipeline, check_pipeline
from mxsafe.rtl.arithmetic.signed_sum import Term, add, add_resolved
from mxsafe.rtl.mac.multiplier import Product, product_term
from mxsafe.rtl.unit import Unit, dsp_parameter, mac_module_name
from mxsafe.validation import require_power_of_two

__all__ = ["SafeMacExact"]


_USUAL_STAGES = 2


class SafeMacExact(Unit):
    """Dot product of a few element codes a cycle, without any rounding.

    Products are integers, so their sum is one. A new input is taken on every enabled clock.

    Parameters
    ----------
    format : MXFormat
        Format of both operands. Codes for NaN and Inf count as zeros.
    lanes : int
        Products a cycle, a power of two.
    pipeline : int, optional
        Register stages, by default 2 where there are as many places. From the
        output backwards they stand at ``output``, ``sums`` (before the last addition) and
        ``products``.
    dsp : bool
        Multiply with ``*``, which FPGA tools map to DSP blocks, instead of by digits (see
        `mxsafe.rtl.arithmetic.radix4`); no matter for integer elements.

    Attributes
    ----------
    en : In(1)
        Clock enable of every register.
    a, w : In(array of `lanes` codes)
        Lane ``i`` in bits ``[width*i +: width]``.
    dot : Out(signed)
        In units of ``2^unit_exponent`` (MXSF: 27 bits, units of ``2^-22``).
    nan : Out(1)
        Only of a format with codes for NaN or Inf: one of the operands that `dot` belongs to is
        one.
    unit_exponent : int
        Twice the exponent of the format's smallest positive value.
    latency : int
        Enabled clocks from operands to `dot`; equal to `pipeline`.

    Raises
    ------
    ValueError
        If a parameter is not as above; the message gives the numbers.

    Notes
    -----
    Microarchitectures tried, measured as those of `SafeMac`:

    =================================================  =====  =====  ====
    sum of the four products                           GE     ns     LUTs
    =================================================  =====  =====  ====
    each negated before its shift, ones shifted in     2,762  2.5    636
    each negated after its shift, one 4-operand sum    2,728  2.5    603
    carry-save rows, carries in their free low bits    2,735  2.4    623
    pairs with the sign pending (this one)             2,717  2.2    531
    =================================================  =====  =====  ====

    Multiplication by digits (`mxsafe.rtl.arithmetic.radix4`) took that to 488 LUTs, and the
    smallest netlist of `mxsafe synth` from 2,471 to 2,293 GE.
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
        self.boundaries = ("products", "sums", "output") if lanes > 2 else ("products", "output")
        usual = pipeline is None or pipeline == _USUAL_STAGES
        stages = min(_USUAL_STAGES, len(self.boundaries)) if pipeline is None else pipeline
        check_pipeline(stages, self.boundaries)
        self.format = format
        self.lanes = lanes
        self._dsp = dsp
        self.unit_exponent = Product.of(element).unit_exponent
        codes = data.ArrayLayout(element.width, lanes)
        width = exact_sum_bits(format, lanes) + 1
        super().__init__(
            {
                "en": In(1),
                "a": In(codes),
                "w": In(codes),
                "dot": Out(signed(width)),
                **({"nan": Out(1)} if has_special_codes(format) else {}),
            },
            module_name=mac_module_name(
                "safe_mac_exact",
                format=format,
                lanes=lanes,
                pipeline=None if usual else stages,
                dsp=dsp,
            ),
            parameters={
                "format": format.name,
                "arithmetic": "exact",
                "lanes": lanes,
                "pipeline": stages,
                "unit_exponent": self.unit_exponent,
                **dsp_parameter(dsp),
            },
            latency=stages,
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        pipe = Pipeline(m, self.en, self.boundaries, self.latency)

        terms: list[Term] = []
        flags = []
        for lane in range(self.lanes):
            term, flag = product_term(
                m,
                platform,
                f"multiply_{lane}",
                self.format,
                self.a[lane],
                self.w[lane],
                dsp=self._dsp,
            )
            terms.append(term)
            flags.append(flag)
        terms = pipe.cross_terms("products", terms)
        special = has_special_codes(self.format)
        nan = pipe.cross("products", "nan", Cat(flags).any() if special else Const(0, 1))
        while len(terms) > 2:
            level = f"level{len(terms)}"
            terms = [
                add(m, f"{level}_{left // 2}", terms[left], terms[left + 1])
                for left in range(0, len(terms), 2)
            ]
        if "sums" in self.boundaries:
            terms = pipe.cross_terms("sums", terms)
            nan = pipe.cross("sums", "nan", nan)
        if len(terms) == 2:
            dot = add_resolved(m, "total", *terms)
        else:
            (value, negate) = terms[0]
            number = value if isinstance(negate, Const) else Mux(negate, -value, value)
            dot = named(m, "total", self.dot.shape(), number)
        pipe.drive(self.dot, dot)
        if special:
            pipe.drive(self.nan, nan)
        return m
