"""Length of a bit, shared by both ends of a serial line.

Tested by `verif/rtl/board/test_uart.py`.
"""

from typing import Annotated

from mxsafe.rtl.unit import Configuration
from mxsafe.validation import within

_LEAST_DIVISOR = 4
"""The middle of a bit is found to a quarter of it."""
_MOST_DIVISOR = 1 << 16


Divisor = Annotated[int, within(_LEAST_DIVISOR, _MOST_DIVISOR)]
"""Annotation of cycles a bit."""


class LineConfiguration(Configuration):
    """A unit at a serial line.

    Parameters
    ----------
    divisor : int
        Cycles of a bit, 4 to 65,536.
    """

    divisor: Divisor = 50
