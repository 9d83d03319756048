"""The first half of a converter's lane: a float32 or bfloat16 word, normalised and shortened."""

from typing import cast

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib.wiring import In, Out

from mxsafe.formats import SCALAR_FORMATS, FloatFormat, MXFormat
from mxsafe.rtl.arithmetic.bits import named
from mxsafe.rtl.stream.alignment import Alignment
from mxsafe.rtl.unit import Unit

__all__ = ["SOURCES", "FloatNormaliser", "source_format"]

SOURCES = {"float32": "fp32", "bfloat16": "bf16"}
"""Formats that a converter reads, with their names in the catalogue."""


def source_format(source: str) -> FloatFormat:
    """Specification of a format that a converter reads.

    Raises
    ------
    ValueError
        If there is no such format.
    """
    if source not in SOURCES:
        raise ValueError(f"source must be one of {', '.join(SOURCES)}, not {source!r}")
    return cast(FloatFormat, SCALAR_FORMATS[SOURCES[source]])


class FloatNormaliser(Unit):
    """Float word to exponent and fraction, as much of it as decides an element code.

    A subnormal comes out normalised, with the exponent ``-p`` for a leading one ``p`` places below
    the top of its mantissa. One that is too small to count under any scale byte, and zero, get an
    exponent that is as much too low. Combinational.

    Parameters
    ----------
    format : MXFormat
        Format that is converted to.
    source : {"float32", "bfloat16"}
        Format of the word.

    Attributes
    ----------
    word : In(width)
    sign : Out(1)
    exponent : Out(signed)
        Biased as in the word, with `subnormal` still to be added: whatever adds next has room for a
        carry.
    subnormal : Out(1)
    fraction : Out(mantissa bits of the element + 2)
        Below the leading one: mantissa, guard bit, and in bit 0 whether anything is lower.

    Raises
    ------
    ValueError
        If there is no such source, or the format does not suit a converter.

    Notes
    -----
    Normalising costs more than all else in the unit, so what is shifted is only as long as the
    fraction needs at each step. Tried for MXSF, in GE on nangate45 (script ``area``):

    ============================================================  ====  ============
    of a lane without registers                                   unit  whole lane
    ============================================================  ====  ============
    leading one to one-hot, then AND and OR of all positions      166   317
    shift by 8, 4, 2, 1: this                                     125   276
    no normalising: shift to units of the smallest element, then
    find the leading one and round there                                320
    ============================================================  ====  ============
    """

    def __init__(self, *, format: MXFormat, source: str) -> None:
        fields = source_format(source).fields
        self.alignment = Alignment.of(format)
        self._fields = fields
        # Places from which on the leading one of a subnormal makes an element of zero.
        self._deep = self.alignment.steps - self.alignment.emax
        super().__init__(
            {
                "word": In(1 + fields.width),
                "sign": Out(1),
                "exponent": Out(signed(fields.exponent_bits + 1)),
                "subnormal": Out(1),
                "fraction": Out(self.alignment.mantissa_bits + 2),
            },
            module_name=f"{format.name}_{source}_normaliser",
            parameters={"format": format.name, "source": source},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bits, kept = self._fields.mantissa_bits, self.alignment.mantissa_bits
        mantissa = named(m, "mantissa", bits, self.word[:bits])
        field = named(m, "exponent_field", self._fields.exponent_bits, self.word[bits:-1])
        subnormal = named(m, "is_subnormal", 1, ~field.any())
        place, normalised = self._normalised(m, mantissa)
        padded = Cat(Const(0, max(kept + 2 - bits, 0)), mantissa)
        surplus = len(padded) - kept - 1
        normal = Cat(padded[:surplus].any(), padded[surplus:])
        low_exponent = ~Cat(place, Const(0, len(self.exponent) - len(place)))
        m.d.comb += [
            self.sign.eq(self.word[-1]),
            self.subnormal.eq(subnormal),
            self.exponent.eq(
                Cat(field, Const(0, 1)) | (low_exponent & subnormal.replicate(len(low_exponent)))
            ),
            self.fraction.eq(Mux(subnormal, normalised, normal)),
        ]
        return m

    def _normalised(self, m: Module, mantissa: Signal) -> tuple[Value, Value]:
        """How far below the top the leading one of a mantissa is, and the fraction below it."""
        kept = self.alignment.mantissa_bits
        shifts = [1 << i for i in reversed(range(self._deep.bit_length()))]
        rest = sum(shifts)
        length = max(len(mantissa), kept + 2 + rest)
        window: Value = Cat(Const(0, length - len(mantissa)), mantissa)
        lower: Value = Const(0, 1)
        places: list[Value] = []
        for shift in shifts:
            rest -= shift
            moved = named(m, f"moved_{shift}", 1, ~window[-shift:].any())
            chosen = Mux(moved, window << shift, window)[: len(window)]
            surplus = len(window) - (kept + 2 + rest)
            lower = named(m, f"lower_{shift}", 1, lower | chosen[:surplus].any())
            window = named(m, f"window_{shift}", len(window) - surplus, chosen[surplus:])
            places.insert(0, moved)
        if len(mantissa) < (1 << len(shifts)) - 1:
            # Zero looks like a leading one just below the mantissa: move it out of reach.
            zero = named(m, "is_zero", 1, ~mantissa.any())
            places = [bit | zero for bit in places]
        return Cat(*places), Cat(lower, window[:-1])
