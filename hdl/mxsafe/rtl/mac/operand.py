"""How elements look to the multipliers of an array: which factor of a product they are, and how.

Tested by `verif/rtl/mac/test_operand_decoder.py`.
"""

from dataclasses import dataclass
from typing import Literal

from amaranth.hdl import ShapeLike, signed
from amaranth.lib import data

from mxsafe.formats import FloatFields, FloatFormat, FormatSet, IntFormat, MXFormat
from mxsafe.products import OperandFormats
from mxsafe.rtl.arithmetic.radix4 import gate_bits

Side = Literal["a", "w"]
SIDES: tuple[Side, Side] = ("a", "w")

Factor = Literal["digits", "triple"]
"""Preparation of a significand, see `mxsafe.rtl.arithmetic.radix4`: to be cut into digits, or
to be multiplied by them, for which its triple goes along."""
FACTORS: tuple[Factor, Factor] = ("digits", "triple")


@dataclass(frozen=True)
class Operand:
    """How an element looks to a multiplier: ``significand * 2^(shift + quantum_exponent)``.

    The significand is right-aligned: those of subnormals and of MXSF's sub-FP mode stay where the
    code has them. Counting from half of the smallest subnormal makes exponent field 0 weigh as
    much as field 1, and MXSF's shift almost all wires. An integer has the one shift 1.

    Attributes
    ----------
    significand_bits : int
        MXSF: 6. Of an integer those of its magnitude.
    quantum_exponent : int
        One less than the exponent of the smallest subnormal (MXSF: -12), of a set of formats
        relative to ``2^emax`` of the member.
    max_shift : int
        Largest shift of a finite value (MXSF: 7); the smallest is 1.
    """

    significand_bits: int
    quantum_exponent: int
    max_shift: int

    @classmethod
    def of(cls, format: MXFormat | FormatSet) -> "Operand":
        """The operand that a format's elements become, or those of all formats of a set."""
        if isinstance(format, FormatSet):
            quantum_exponent = format.quantum_exponent - 1
            # Elements are below 2: the shift of the widest significand leads up to there.
            return cls(format.precision, quantum_exponent, 1 - format.precision - quantum_exponent)
        element = format.element
        quantum_exponent = element.quantum_exponent - 1
        if isinstance(element, IntFormat):
            return cls(element.width, quantum_exponent, 1)
        return cls(
            significand_bits=element.mantissa_bits + 1,
            quantum_exponent=quantum_exponent,
            max_shift=element.emax - element.mantissa_bits - quantum_exponent,
        )

    @property
    def magnitude_bits(self) -> int:
        """Bits of the largest magnitude, in units of the smallest shift (MXSF: 12)."""
        return self.significand_bits + self.max_shift - 1

    @staticmethod
    def top_digit_is_never_one(format: MXFormat | FormatSet) -> bool:
        """Whether the top two bits of no significand are 01.

        Those of MXSF begin with a one, or are three bits of the sub-FP mode: their top digit is 2
        or 3, or it is 0.
        """
        if isinstance(format, FormatSet) or isinstance(format.element, IntFormat):
            return False
        bits, sub = format.element.mantissa_bits + 1, format.element.sub
        return bits % 2 == 0 and sub is not None and sub.mantissa_bits + 1 <= bits - 2

    @staticmethod
    def largest_significands(format: MXFormat | FormatSet) -> dict[int, int]:
        """For each shift less one the largest significand that comes with it."""
        operand = Operand.of(format)
        largest: dict[int, int] = {}

        def count(shift: int, bits: int, left: int = 0) -> None:
            largest[shift - 1] = max(largest.get(shift - 1, 0), ((1 << bits) - 1) << left)

        members = format.members if isinstance(format, FormatSet) else (format,)
        for member in members:
            element = member.element
            if isinstance(element, IntFormat):
                return {0: 1 << (element.width - 1)}
            emax = member.emax if isinstance(format, FormatSet) else 0
            fields, sub = element.fields, element.sub
            left = operand.left(element, fields, emax) if isinstance(format, FormatSet) else 0
            offset = operand.offset(fields, emax) - left
            for field in range(1, 1 << fields.exponent_bits):
                count(field + offset, fields.mantissa_bits + 1, left)
            if sub is None:
                count(1 + offset, fields.mantissa_bits, left)
                continue
            for field in range(1 << sub.exponent_bits):
                count(max(field, 1), sub.mantissa_bits + (field > 0))
        return largest

    def offset(self, fields: FloatFields, emax: int = 0) -> int:
        """The shift of a normal code with exponent field ``e`` is ``e`` plus this (MXSF: 4).

        Parameters
        ----------
        fields : FloatFields
            How the code is read.
        emax : int
            Exponent that the element counts relative to, of a member of a set.
        """
        return -fields.bias - fields.mantissa_bits - emax - self.quantum_exponent

    def left(self, element: FloatFormat, fields: FloatFields, emax: int) -> int:
        """Bits by which significands of a member of a set are moved to the left.

        As far as there is room, and the smallest shift stays at least 1: then formats with as many
        exponent bits look alike.
        """
        free = self.significand_bits - 1 - fields.mantissa_bits
        return min(free, self.offset(fields, emax))


def factor_of(formats: OperandFormats, side: Side, *, dsp: bool) -> Factor | None:
    """Return the preparation of an operand's significands; None where a DSP block multiplies them.

    The narrower significand is cut into digits, for each digit is a row to be added.
    """
    if dsp:
        return None
    bits = {other: Operand.of(formats.of(other)).significand_bits for other in SIDES}
    digits: Side = "a" if bits["a"] <= bits["w"] else "w"
    return "digits" if side == digits else "triple"


def operand_fields(format: MXFormat | FormatSet, factor: Factor | None) -> dict[str, int]:
    """Names and widths of what an operand consists of, lowest bits first.

    What is prepared for multiplication by digits has the shift less one, its `distance`: then that
    of a product counts from 0, and its shifter has no bits that are always 0. Integers have none.
    """
    operand = Operand.of(format)
    width = operand.significand_bits
    fields = {"significand": width}
    if factor == "digits":
        never = Operand.top_digit_is_never_one(format)
        fields = {"gates": gate_bits(width, top_is_never_one=never)}
    if factor == "triple":
        fields["triple"] = width + 1  # the upper bits of three times the significand
    shift = {"shift": operand.max_shift.bit_length()}
    if factor is not None:
        distance_bits = (operand.max_shift - 1).bit_length()
        shift = {"distance": distance_bits} if distance_bits else {}
    return {**fields, **shift, "sign": 1}


def operand_layout(formats: OperandFormats, side: Side, *, dsp: bool) -> data.StructLayout:
    """An element as a multiplier takes it, see `OperandDecoder`.

    What is cut into digits comes as their gates (MXSF: 12 bits in all), the other factor as
    significand and triple (17 bits), both with their `distance` and sign. For a DSP block both are
    just significands with shift and sign. Where both are integers, an element is its own operand:
    the one field `number` is the code.
    """
    format = formats.of(side)
    if formats.has_integers:
        assert isinstance(format, MXFormat)
        return data.StructLayout({"number": signed(format.element.width)})
    fields: dict[str, ShapeLike] = dict(operand_fields(format, factor_of(formats, side, dsp=dsp)))
    return data.StructLayout(fields)
