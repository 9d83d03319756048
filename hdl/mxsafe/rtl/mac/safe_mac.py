"""SAFE-MAC with the paper's FP12 adder tree (Fig. 5c)."""

from amaranth.hdl import Cat, Const, Module, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.formats import MXFormat, has_special_codes
from mxsafe.products import fp12_format, require_float
from mxsafe.rtl.arithmetic.bits import named
from mxsafe.rtl.arithmetic.packing import Packer, float_layout
from mxsafe.rtl.arithmetic.pipeline import Pipeline, check_pipeline
from mxsafe.rtl.arithmetic.rounder import Rounder
from mxsafe.rtl.arithmetic.signed_sum import Term, add
from mxsafe.rtl.mac.decoder import finite_parameter, finite_suffix
from mxsafe.rtl.mac.multiplier import RoundingMultiplier
from mxsafe.rtl.unit import Unit, describe, dsp_parameter, mac_module_name, place
from mxsafe.validation import require_power_of_two

__all__ = ["SafeMac"]


_USUAL_STAGES = 3


class SafeMac(Unit):
    """Dot product of a few element codes a cycle, rounded as the paper's FP12 adder tree does.

    Every product is rounded to `sum_format`, then pairs, then pairs of pairs. A new input is taken
    on every enabled clock.

    Parameters
    ----------
    format : MXFormat
        Format of both operands: floating-point elements. Codes for NaN and Inf count as zeros with
        the code's sign.
    lanes : int
        Products a cycle, a power of two.
    pipeline : int, optional
        Register stages, by default 3 where there are as many places. From the
        output backwards they stand at ``output``, ``sums`` (before the last addition) and
        ``products``.
    finite : bool
        Nobody cares what becomes of codes for NaN and Inf: there is no `nan`, and the partial sum
        is any number.
    dsp : bool
        Multiply with ``*``, which FPGA tools map to DSP blocks, instead of by digits (see
        `mxsafe.rtl.arithmetic.radix4`).

    Attributes
    ----------
    en : In(1)
        Clock enable of every register.
    a, w : In(array of `lanes` codes)
        Lane ``i`` in bits ``[width*i +: width]``.
    partial_sum : Out(struct of mantissa, exponent, sign)
    nan : Out(1)
        Only of a format with codes for NaN or Inf, unless `finite`: one of the operands that
        `partial_sum` belongs to is one.
    sum_format : FloatFormat
        Format of products and sums, see `mxsafe.products.fp12_format`.
    latency : int
        Enabled clocks from operands to `partial_sum`; equal to `pipeline`.

    Raises
    ------
    ValueError
        If a parameter is not as above; the message gives the numbers.

    Notes
    -----
    Paper, section V-B; the numbers' format and bias in `mxsafe.products.fp12_format`.

    Microarchitectures tried, one register stage, four lanes, yosys 0.70 to NanGate 45 nm (gate
    equivalents, OpenSTA) and to Xilinx LUTs without DSPs:

    ====================================================  =====  ======  ====
    adder tree                                            GE     ns      LUTs
    ====================================================  =====  ======  ====
    adders that align, add, normalise, round and pack     4,120  6.9
    in place, increment chosen by guard and sticky bits   3,642  6.9     854
    in place, half an ulp less one added                  3,596  6.6     875
    the same, the last sum normalised before it rounds    3,486  6.0     755
    ====================================================  =====  ======  ====

    *In place* means that nothing is packed between the decoders and the output: an FP12 number is
    a 23-bit integer, see `Rounder`. Only the last sum, which leaves packed, is normalised.
    Multiplication by digits (`mxsafe.rtl.arithmetic.radix4`) took the last of them to 694 LUTs.
    """

    def __init__(
        self,
        *,
        format: MXFormat,
        lanes: int = 4,
        pipeline: int | None = None,
        finite: bool = False,
        dsp: bool = False,
    ) -> None:
        element = require_float(format)
        lanes = require_power_of_two("lanes", lanes)
        sum_format = fp12_format(format, lanes)
        self.boundaries = ("products", "sums", "output") if lanes > 2 else ("products", "output")
        usual = pipeline is None or pipeline == _USUAL_STAGES
        stages = min(_USUAL_STAGES, len(self.boundaries)) if pipeline is None else pipeline
        check_pipeline(stages, self.boundaries)
        self.format = format
        self.lanes = lanes
        self.sum_format = sum_format
        self._finite = finite
        self._dsp = dsp
        self._flagged = has_special_codes(format) and not finite
        codes = data.ArrayLayout(element.width, lanes)
        super().__init__(
            {
                "en": In(1),
                "a": In(codes),
                "w": In(codes),
                "partial_sum": Out(float_layout(sum_format)),
                **({"nan": Out(1)} if self._flagged else {}),
            },
            module_name=mac_module_name(
                "safe_mac",
                format=format,
                lanes=lanes,
                pipeline=None if usual else stages,
                dsp=dsp,
            )
            + finite_suffix(format, finite),
            parameters={
                "format": format.name,
                "arithmetic": "fp12",
                "sum_format": describe(sum_format),
                "lanes": lanes,
                "pipeline": stages,
            }
            | finite_parameter(format, finite)
            | dsp_parameter(dsp),
            latency=stages,
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        pipe = Pipeline(m, self.en, self.boundaries, self.latency)

        terms: list[Term] = []
        flags: list[Value] = []
        for lane in range(self.lanes):
            multiply = RoundingMultiplier(
                format=self.format,
                sum_format=self.sum_format,
                finite=self._finite,
                dsp=self._dsp,
            )
            place(m, platform, f"multiply_{lane}", multiply)
            m.d.comb += [multiply.a.eq(self.a[lane]), multiply.w.eq(self.w[lane])]
            terms.append((multiply.magnitude, multiply.sign))
            if self._flagged:
                flags.append(multiply.nan)
        nan = Cat(flags).any() if flags else Const(0, 1)
        nan = pipe.cross("products", "nan", nan)
        terms = pipe.cross_terms("products", terms)
        # A sum of zeros is -0 only if every product is negative, and then every product is -0.
        zero_sign: Value = named(m, "zero_sign", 1, Cat(sign for _, sign in terms).all())

        while len(terms) > 2:
            terms = self._add_pairs(m, platform, terms)
        if "sums" in self.boundaries:
            terms = pipe.cross_terms("sums", terms)
            zero_sign = pipe.cross("sums", "zero_sign", zero_sign)
            nan = pipe.cross("sums", "nan", nan)
        value, negate = add(m, "total", *terms) if len(terms) == 2 else terms[0]

        pack = Packer(sum_format=self.sum_format)
        place(m, platform, "pack", pack)
        m.d.comb += [
            pack.value.eq(value),
            pack.negate.eq(negate),
            pack.zero_sign.eq(zero_sign),
        ]
        pipe.drive(self.partial_sum, pack.code)
        if self._flagged:
            pipe.drive(self.nan, nan)
        return m

    def _add_pairs(self, m: Module, platform: object, terms: list[Term]) -> list[Term]:
        """One level of the tree: neighbours added, and rounded in place."""
        sums: list[Term] = []
        level = f"level{len(terms)}"
        for left in range(0, len(terms), 2):
            name = f"{level}_{left // 2}"
            exact, negate = add(m, name, terms[left], terms[left + 1])
            rounder = Rounder(width=len(exact), sum_format=self.sum_format)
            place(m, platform, f"round_{name}", rounder)
            m.d.comb += rounder.value.eq(exact)
            sums.append((rounder.rounded, negate))
        return sums
