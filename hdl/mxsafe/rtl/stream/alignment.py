"""How the two halves of a converter's lane count binades: as exponent fields of the elements.

Tested by `verif/rtl/stream/test_converter.py`.
"""

from dataclasses import dataclass

from mxsafe.formats import FloatFormat, MXFormat


@dataclass(frozen=True)
class Alignment:
    """The binades of an element format, counted so that most of them are exponent fields.

    Binade ``n`` is that of the exponent field ``n`` in the format's lowest mode, subnormals go on
    downwards from 0. MXSF: 10, 9, 8 are its E2M5 mode, 7 to 1 its E3M2 mode, 0 and -1 the
    subnormals, and -2 is the half of the smallest value, which may still round up. Below that
    everything rounds to zero.

    Attributes
    ----------
    top : int
        Binade of the largest element (MXSF: 10).
    bottom : int
        Binade of half the smallest (MXSF: -2).
    normals_from : int
        Lowest binade of the normal numbers with all mantissa bits (MXSF: 8).
    mantissa_bits : int
        Mantissa bits of those (MXSF: 5).
    low_bits : int
        Mantissa bits of the lowest mode (MXSF: 2).
    emax : int
        Exponent of the largest element (MXSF: 0).
    """

    top: int
    bottom: int
    normals_from: int
    mantissa_bits: int
    low_bits: int
    emax: int

    @classmethod
    def of(cls, format: MXFormat) -> "Alignment":
        """The alignment of a format's elements.

        Raises
        ------
        ValueError
            If their largest exponent is negative, or there are binades between their two modes.
        """
        element = format.element
        if element.emax < 0:
            raise ValueError(
                f"format must have elements of at least 1, not of at most {element.max_value}"
            )
        if not isinstance(element, FloatFormat):
            # Fixed point is all subnormal: binade 0 is the largest.
            bits = element.mantissa_bits + 1
            return cls(0, -bits, 1, element.mantissa_bits, bits, element.emax)
        fields, low = element.fields, element.sub or element.fields
        normals_from = 1 if element.sub is None else 1 << low.exponent_bits
        if fields.min_exponent + low.bias != normals_from:
            raise ValueError(
                f"format must have modes without binades between them, not those of {format.name}"
            )
        return cls(
            element.emax + low.bias,
            -low.mantissa_bits,
            normals_from,
            fields.mantissa_bits,
            low.mantissa_bits,
            element.emax,
        )

    @property
    def steps(self) -> int:
        """Binades from the largest to the half of the smallest, both included (MXSF: 13)."""
        return self.top - self.bottom + 1

    @property
    def lowest(self) -> int:
        """Lowest number that stands for a binade: so far down even what was the largest is zero."""
        return self.bottom - self.steps - 1

    @property
    def binade_bits(self) -> int:
        """Bits of a signed number for every binade (MXSF: 5)."""
        return max(self.top.bit_length(), (-self.lowest - 1).bit_length()) + 1
