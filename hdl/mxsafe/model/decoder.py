"""Model of the element decoder (paper, Fig. 5e; hardware: `mxsafe.rtl.decoder`)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mxsafe.codec import elements
from mxsafe.formats import MXFormat, mx_format, require_finite_float

__all__ = ["DecodedElement", "decode_fields"]


class DecodedElement(NamedTuple):
    """What the decoder puts out for each code: ``(-1)^sign * 2^(exponent - bias) * significand``.

    The significand has its leading one in its highest bit; zero is exponent 0, significand 0.
    """

    sign: NDArray[np.uint8]
    exponent: NDArray[np.uint8]
    significand: NDArray[np.uint8]


def decode_fields(codes: ArrayLike, format: str | MXFormat = "mxsf") -> DecodedElement:
    """Sign, exponent and normalised significand of element codes.

    They are taken from the decoded values, so no bit of a code is looked at twice: the exponent
    is that of the value, biased so that the format's largest exponent has the largest code.

    Parameters
    ----------
    codes : array_like of int
        Element codes, any shape.
    format : str or MXFormat
        A format with floating-point elements and no special codes.

    Returns
    -------
    DecodedElement
        For MXSF: 1, 4 and 6 bits, bias 15.

    Raises
    ------
    ValueError
        If the format is unknown or a code too large.
    """
    element = require_finite_float(mx_format(format))
    values = elements.decode(codes, format)
    significand, exponent = np.frexp(np.abs(values))  # significand in [0.5, 1)
    largest_code = (1 << (element.emax - element.quantum_exponent + 1).bit_length()) - 1
    biased = exponent - 1 - element.emax + largest_code
    scaled = np.ldexp(significand, element.mantissa_bits + 1)
    return DecodedElement(
        sign=np.signbit(values).astype(np.uint8),
        exponent=np.where(values == 0, 0, biased).astype(np.uint8),
        significand=scaled.astype(np.uint8),
    )
