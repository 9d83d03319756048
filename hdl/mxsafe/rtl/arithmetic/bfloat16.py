"""binary32 numbers as bfloat16.

Tested by `verif/rtl/stream/test_number_rounder.py`.
"""

from amaranth.hdl import Module, Mux, Value

from mxsafe.rtl.arithmetic.bits import named, noted, truncated

_NAN = 0x7FC0


def rounded_to_bfloat16(m: Module, index: int, number: Value) -> Value:
    """A binary32 number as bfloat16, to nearest even; NaN has one code.

    Parameters
    ----------
    m : amaranth.hdl.Module
    index : int
        Which of several numbers it is, for the names of signals.
    number : Value
        32 bits.
    """
    upper, lower = number[16:], number[:16]
    increment = noted(
        named(m, f"increment_{index}", 1, lower[15] & (upper[0] | lower[:15].any())),
        "binary32 to bfloat16, nearest even: up above half an ulp, or at half of an odd one.",
    )
    total = truncated(m, f"rounded_{index}", 16, upper + increment)
    special = named(m, f"is_special_{index}", 1, number[23:31].all())
    is_nan = named(m, f"is_nan_{index}", 1, special & number[:23].any())
    narrow = named(m, f"narrow_{index}", 16, Mux(is_nan, _NAN, total))
    return noted(narrow, "Every NaN has one code; a carry out of the largest binade makes Inf.")
