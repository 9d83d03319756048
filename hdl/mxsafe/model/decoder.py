"""Model of the element decoder (paper, Fig. 5e; hardware: `mxsafe.rtl.mac.decoder`)."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mxsafe.codec import elements
from mxsafe.codec._inputs import Numbers
from mxsafe.formats import IntFormat, MXFormat, has_special_codes, mx_format
from mxsafe.validation import checked


class DecodedElement(NamedTuple):
    """Outputs of the decoder for each code: ``(-1)^sign * 2^(exponent - bias) * significand``.

    The significand has its leading one in its highest bit; zero is exponent 0, significand 0.
    """

    sign: NDArray[np.uint8]
    exponent: NDArray[np.uint8]
    significand: NDArray[np.uint8]


@checked
def is_special(codes: Numbers, format: str | MXFormat = "mxsf") -> NDArray[np.bool_]:
    """Flags of element codes that stand for NaN or Inf.

    Parameters
    ----------
    codes : array_like of int
        Element codes, any shape.
    format : str or MXFormat

    Returns
    -------
    ndarray of bool, shape of `codes`

    Raises
    ------
    ValueError
        If the format is unknown or a code too large.
    """
    values = elements.decode(codes, format)
    return ~np.isfinite(values)


@checked
def decode_fields(codes: Numbers, format: str | MXFormat = "mxsf") -> DecodedElement:
    """Sign, exponent and normalised significand of element codes.

    They are taken from the decoded values, so no bit of a code is looked at twice: the exponent
    is that of the value, biased so that the format's largest exponent has the largest code.

    Parameters
    ----------
    codes : array_like of int
        Element codes, any shape. NaN and Inf come out as zeros with their code's sign.
    format : str or MXFormat
        A format with floating-point elements.

    Returns
    -------
    DecodedElement
        For MXSF: 1, 4 and 6 bits, bias 15.

    Raises
    ------
    ValueError
        If the format is unknown or has integer elements, or a code is too large.
    """
    fmt = mx_format(format)
    element = fmt.element
    if isinstance(element, IntFormat):
        raise ValueError(f"format must have floating-point elements, not those of {fmt.name}")
    codes = np.asarray(codes)
    values = elements.decode(codes, fmt)
    values = np.where(np.isfinite(values), values, np.float32(0))
    significand, exponent = np.frexp(np.abs(values))  # significand in [0.5, 1)
    largest_code = (1 << (element.emax - element.quantum_exponent + 1).bit_length()) - 1
    biased = exponent - 1 - element.emax + largest_code
    scaled = np.ldexp(significand, element.mantissa_bits + 1)
    return DecodedElement(
        sign=(codes >> (element.width - 1)).astype(np.uint8),
        exponent=np.where(values == 0, 0, biased).astype(np.uint8),
        significand=scaled.astype(np.uint8),
    )


@checked
def decoder_outputs(
    codes: Numbers, format: str | MXFormat = "mxsf"
) -> dict[str, NDArray[np.number[Any]]]:
    """Return the outputs of a format's hardware decoder for element codes, by port.

    Parameters
    ----------
    codes : array_like of int
        Element codes, any shape.
    format : str or MXFormat
        Any format.

    Returns
    -------
    dict
        Of floating-point elements the fields of `DecodedElement`, and `nan` if the format has
        codes for NaN or Inf; of integer elements `number`, in units of the smallest positive
        value.

    Raises
    ------
    ValueError
        If the format is unknown or a code too large.
    """
    fmt = mx_format(format)
    if isinstance(fmt.element, IntFormat):
        return {"number": element_integers(codes, fmt)}
    outputs: dict[str, NDArray[np.number[Any]]] = dict(decode_fields(codes, fmt)._asdict())
    if has_special_codes(fmt):
        outputs["nan"] = is_special(codes, fmt).astype(np.uint8)
    return outputs


@checked
def element_integers(codes: Numbers, format: str | MXFormat = "mxsf") -> NDArray[np.int64]:
    """Values of element codes in units of the smallest positive one; 0 for NaN and Inf.

    Parameters
    ----------
    codes : array_like of int
        Element codes, any shape.
    format : str or MXFormat
        Any format whose values are integers of at most 63 bits in that unit.

    Returns
    -------
    ndarray of int64, shape of `codes`
    """
    fmt = mx_format(format)
    values = elements.decode(codes, fmt).astype(np.float64)
    values = np.where(np.isfinite(values), values, 0.0)
    return np.ldexp(values, -fmt.element.quantum_exponent).astype(np.int64)
