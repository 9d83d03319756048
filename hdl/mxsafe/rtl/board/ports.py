"""The signature between a bridge and the memory of a board.

Tested by `verif/rtl/board/test_serial_bridge.py`.
"""

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class MemoryAccess(wiring.Signature):
    """Single words of a memory that a machine uses too, seen from who wants them.

    Parameters
    ----------
    words : int
        Words of 32 bits that the memory has.

    Attributes
    ----------
    valid : Out(1)
        A word is read or written; it stays as it is until it is taken.
    ready : In(1)
        It is taken.
    writes : Out(1)
        It is written.
    address : Out
        Number of the word.
    data : Out(32)
        The word, if it is written.
    there : In(1)
        A word that is read is there, some cycles after `ready`; nothing is wanted meanwhile.
    found : In(32)
        That word, in this cycle alone.
    """

    def __init__(self, words: int) -> None:
        super().__init__(
            {
                "valid": Out(1),
                "ready": In(1),
                "writes": Out(1),
                "address": Out(range(words)),
                "data": Out(32),
                "there": In(1),
                "found": In(32),
            }
        )
