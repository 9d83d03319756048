"""Token that travels with an operand beat through the array.

Tested by `verif/rtl/array/test_sub_matrix_unit.py`.
"""

from amaranth.lib import data


class Token(data.Struct):
    """Flags of one operand beat.

    Attributes
    ----------
    valid : 1
        The beat holds operands; a bubble otherwise.
    first : 1
        It starts a tile: accumulators begin at +0.
    block_last : 1
        It ends a block: scales are applied (arithmetic `exact`).
    last : 1
        It ends a tile: accumulators hold the result.
    """

    valid: 1  # type: ignore[valid-type]
    first: 1  # type: ignore[valid-type]
    block_last: 1  # type: ignore[valid-type]
    last: 1  # type: ignore[valid-type]
