"""Target of a unit: standard cells, or the carry chains and DSP blocks of an FPGA.

A *target* is one word in the configurations of units. It chooses where registers may stand and how
many there are, which `mxsafe.rtl.timing` says as data, and in five units how they are built, which
their notes say: "By target". Bits are the same; only the latency differs.

Tested by `verif/rtl/test_timing.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mxsafe.validation import require_integer

Target = Literal["asic", "fpga"]
_Way = tuple[float, tuple[int, ...]]
"""The longest way between two registers, and where they stand."""
TARGETS: tuple[Target, Target] = ("asic", "fpga")


@dataclass(frozen=True)
class Place:
    """A boundary where a register may stand.

    Attributes
    ----------
    name : str
    levels : float
        Levels of look-up tables from the place before, wires between them counted; a carry chain of
        24 to 32 bits counts as three.
    """

    name: str
    levels: float


def spread(places: Sequence[Place], stages: object) -> tuple[str, ...]:
    """The places that hold registers, so that the longest way between two of them is shortest.

    The last place always holds one, where there are any.

    Parameters
    ----------
    places : sequence of Place
        All places, in the direction of the data.
    stages : int
        Registers.

    Raises
    ------
    ValueError
        If there are not so many places.
    """
    count = require_integer("pipeline", stages, 0, len(places))
    if not count:
        return ()
    lengths = [place.levels for place in places]
    # Longest way, and the places taken, with the last register so far at each place.
    shortest: list[_Way] = [(sum(lengths[: end + 1]), (end,)) for end in range(len(places))]
    for _ in range(count - 1):
        longer: list[_Way] = []
        for end in range(len(places)):
            ways = [
                (max(shortest[before][0], sum(lengths[before + 1 : end + 1])), before)
                for before in range(end)
            ]
            longest, before = min(ways, default=(float("inf"), -1))
            longer.append((longest, (*(shortest[before][1] if ways else ()), end)))
        shortest = longer
    return tuple(places[place].name for place in shortest[-1][1])
