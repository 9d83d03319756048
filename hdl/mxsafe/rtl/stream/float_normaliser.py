"""The first half of a converter's lane: a float32 or bfloat16 word, normalised and shortened."""

from typing import cast

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib.wiring import In, Out

from mxsafe.formats import SCALAR_FORMATS, FloatFormat, MXFormat
from mxsafe.rtl.arithmetic.bits import named, noted
from mxsafe.rtl.stream.alignment import Alignment
from mxsafe.rtl.unit import Configuration, Ports, Unit
from mxsafe.validation import require_one_of

SOURCES = {"float32": "fp32", "bfloat16": "bf16"}
"""Formats that a converter reads, with their names in the catalogue."""


def source_format(source: str) -> FloatFormat:
    """Specification of a format that a converter reads.

    Raises
    ------
    ValueError
        If there is no such format.
    """
    name = SOURCES[require_one_of("source", source, SOURCES)]
    return cast(FloatFormat, SCALAR_FORMATS[name])


class FloatNormaliserConfiguration(Configuration):
    """A `FloatNormaliser`.

    Parameters
    ----------
    format : MXFormat
        Format that is converted to.
    source : {"float32", "bfloat16"}
        Format of the word.

    Raises
    ------
    ValueError
        If there is no such source, or the format does not suit a converter.
    """

    unnamed = frozenset({"format", "source"})

    format: MXFormat
    source: str = "float32"

    def __post_init__(self) -> None:
        source_format(self.source)
        Alignment.of(self.format)

    @property
    def base(self) -> str:
        return f"{self.format.name}_{self.source}_normaliser"

    @property
    def alignment(self) -> Alignment:
        """How binades are counted."""
        return Alignment.of(self.format)

    @property
    def word(self) -> FloatFormat:
        """Format of the word."""
        return source_format(self.source)


class FloatNormaliser(Unit[FloatNormaliserConfiguration]):
    """Float word to exponent and fraction, as much of it as decides an element code.

    A subnormal comes out normalised, with the exponent ``-p`` for a leading one ``p`` places below
    the top of its mantissa. One that is too small to count under any scale byte, and zero, get an
    exponent that is as much too low. Combinational.

    Attributes
    ----------
    word : In(width)
        A floating-point number.
    sign : Out(1)
        Its sign.
    exponent : Out(signed)
        Biased as in the word, with `subnormal` still to be added: whatever adds next has room for a
        carry.
    subnormal : Out(1)
        The word is a subnormal number.
    fraction : Out(mantissa bits of the element + 2)
        Below the leading one: mantissa, guard bit, and in bit 0 whether anything is lower.

    Notes
    -----
    Normalising is the largest part of a lane, so each step shifts only the bits that the fraction
    needs there. What was tried is in ``docs/experiments.md``.
    """

    def ports(self) -> Ports:
        word, alignment = self.config.word, self.config.alignment
        return {
            "word": In(word.width),
            "sign": Out(1),
            "exponent": Out(signed(word.fields.exponent_bits + 1)),
            "subnormal": Out(1),
            "fraction": Out(alignment.mantissa_bits + 2),
        }

    def fill(self, m: Module, platform: object) -> None:
        fields, kept = self.config.word.fields, self.config.alignment.mantissa_bits
        bits = fields.mantissa_bits
        mantissa = named(m, "mantissa", bits, self.word[:bits])
        field = named(m, "exponent_field", fields.exponent_bits, self.word[bits:-1])
        subnormal = named(m, "is_subnormal", 1, ~field.any())
        place, normalised = self._normalised(m, mantissa)
        # A short mantissa (bfloat16) gets zeros for the bits below.
        padded = Cat(Const(0, max(kept + 2 - bits, 0)), mantissa)
        noted(
            self.fraction,
            "The lowest bit is sticky: it stands for all bits of the source that no element holds.",
        )
        surplus = len(padded) - kept - 1
        normal = Cat(padded[:surplus].any(), padded[surplus:])
        noted(
            self.exponent,
            "Of a subnormal the inverted place of its leading one: one too low, which is_subnormal "
            "makes up for in the next addition.",
        )
        low_exponent = ~Cat(place, Const(0, len(self.exponent) - len(place)))
        m.d.comb += [
            self.sign.eq(self.word[-1]),
            self.subnormal.eq(subnormal),
            self.exponent.eq(
                Cat(field, Const(0, 1)) | (low_exponent & subnormal.replicate(len(low_exponent)))
            ),
            self.fraction.eq(Mux(subnormal, normalised, normal)),
        ]

    def _normalised(self, m: Module, mantissa: Signal) -> tuple[Value, Value]:
        """How far below the top the leading one of a mantissa is, and the fraction below it."""
        alignment = self.config.alignment
        kept = alignment.mantissa_bits
        # Places from which on the leading one of a subnormal makes an element of zero.
        deep = alignment.steps - alignment.emax
        shifts = [1 << i for i in reversed(range(deep.bit_length()))]
        rest = sum(shifts)
        # What a step shifts: all that may still come up into the fraction, and no more.
        length = max(len(mantissa), kept + 2 + rest)
        window: Value = Cat(Const(0, length - len(mantissa)), mantissa)
        lower: Value = Const(0, 1)
        places: list[Value] = []
        for shift in shifts:
            rest -= shift
            moved = named(m, f"moved_{shift}", 1, ~window[-shift:].any())
            near = Cat(Const(0, shift), window[:-shift])
            chosen = named(m, f"shifted_{shift}", len(window), Mux(moved, near, window))
            surplus = len(window) - (kept + 2 + rest)
            some = named(m, f"cut_{shift}", 1, chosen[:surplus].any())
            lower = named(m, f"lower_{shift}", 1, lower | some)
            noted(
                some,
                "Bits that no later step of this normalisation can bring up into the fraction "
                "count for the sticky bit alone.",
            )
            window = named(m, f"window_{shift}", len(window) - surplus, chosen[surplus:])
            places.insert(0, moved)
        if len(mantissa) < (1 << len(shifts)) - 1:
            zero = named(m, "is_zero", 1, ~mantissa.any())
            noted(zero, "Zero looks like a leading one just below the mantissa: it is moved away.")
            places = [bit | zero for bit in places]
        return Cat(*places), Cat(lower, window[:-1])
