"""Fixed-point piecewise polynomials: the numbers that models and hardware of functions share.

A table is data and nothing else: JSON files beside this one, written by ``python -m
studies.tables``. `mxsafe.model.polynomial` and `mxsafe.rtl.vector.polynomial` evaluate it. Each is
there for both *grades* of vector functions: what a grade promises is in ``docs/vector.md``.
"""

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from importlib import resources
from typing import Any, Literal

from mxsafe.validation import checked, require_integer, require_one_of, shown

Grade = Literal["compact", "fine"]
"""How exact a vector function is; the name of a table ends with it."""
GRADES: tuple[Grade, ...] = ("compact", "fine")
MOST_IN_ROW = 65536
"""Values of the longest row that models reduce, and hardware by one descriptor after the other."""
Coefficients = tuple[int, int, int]
"""Of one segment: `c0`, `c1` and `c2`."""
Bounds = tuple[int, int, int, int]
"""Of one segment: smallest and largest slope, smallest and largest result."""


@dataclass(frozen=True)
class Place:
    """A segment of a function of floating-point numbers.

    Attributes
    ----------
    function : str
    exponent : int
        Of the numbers, unbiased.
    depth : int
        How many of the highest bits of the mantissa tell the segments of a binade apart here. The
        offset is made of the bits below these.
    index : int
        These bits.
    form : str
        What is done with the result, see `mxsafe.tables.activation`.
    """

    function: str
    exponent: int
    depth: int
    index: int
    form: str


@dataclass(frozen=True, kw_only=True)
class Table:
    """A function as polynomials of degree two on segments, in integers.

    A polynomial is one in the distance from the middle of its segment, so that factors are short.
    With the coefficients ``c0, c1, c2`` of a segment and an unsigned `offset` in it::

        distance = offset - 2^(offset_bits - 1)
        slope = c1 + product(c2, distance >> distance_cut, slope_shift)
        result = c0 + product(slope, distance, result_shift)

    ``result * 2^-fraction_bits`` is the value; ``>>`` rounds towards minus infinity. A product is a
    sum of rows, one for each digit from -2 to 2 of its second factor in radix 4 (Booth's), and each
    row is cut where the result ends, so that what would not reach the result is never added up. For
    the digit ``i`` of ``b``, made of the bits ``2i + 1``, ``2i`` and ``2i - 1``::

        times = bit[2i] + bit[2i - 1] - 2 * bit[2i + 1]
        row = (times * a << 2i) >> shift                if bit[2i + 1] is 0
        row = ~((-times * a << 2i) >> shift)            if it is 1

    So a product is off by up to one for each row, downwards; the coefficients make up for the mean.

    Attributes
    ----------
    name : str
    offset_bits : int
        Bits of an offset, which runs through a segment.
    high_bits : int
        Of a distance, how many of the highest `c2` is multiplied by; 0 where segments are straight
        lines.
    fraction_bits : int
        Result in units of ``2^-fraction_bits``.
    slope_bits : int
        `c1` and the slope in units of ``2^-slope_bits``, for a segment of length 1.
    curvature_bits : int
        `c2` in units of ``2^-curvature_bits``.
    coefficients : tuple of (int, int, int)
        Of each segment.
    bounds : tuple of (int, int, int, int)
        Of each segment: smallest and largest slope, smallest and largest result, over all offsets.
    places : tuple of Place
        What each segment is for, in a table of functions of floating-point numbers.
    error : float
        Largest error over all segments and offsets, found by trying them all, relative or absolute
        as the function's specification says.
    """

    name: str
    offset_bits: int
    high_bits: int
    fraction_bits: int
    slope_bits: int
    curvature_bits: int
    coefficients: tuple[Coefficients, ...]
    bounds: tuple[Bounds, ...]
    error: float
    places: tuple[Place, ...] = ()

    @property
    def segments(self) -> int:
        """How many there are."""
        return len(self.coefficients)

    @property
    def index_bits(self) -> int:
        """Bits of a segment's number."""
        return (self.segments - 1).bit_length()

    @property
    def distance_cut(self) -> int:
        """Low bits of the distance that `c2` is not multiplied by."""
        return self.offset_bits - self.high_bits

    @property
    def slope_shift(self) -> int:
        """Bits that the inner product loses."""
        return self.curvature_bits + self.high_bits - self.slope_bits

    @property
    def result_shift(self) -> int:
        """Bits that the outer product loses."""
        return self.slope_bits + self.offset_bits - self.fraction_bits

    @property
    def slopes(self) -> tuple[int, int]:
        """Smallest and largest slope."""
        return min(each[0] for each in self.bounds), max(each[1] for each in self.bounds)

    @property
    def results(self) -> tuple[int, int]:
        """Smallest and largest result."""
        return min(each[2] for each in self.bounds), max(each[3] for each in self.bounds)

    @checked
    def only(self, segments: Sequence[int]) -> "Table":
        """The table of these segments alone.

        Raises
        ------
        TypeError, ValueError
            If they are no sequence of integers, or there is not one of them.
        """
        for segment in segments:
            require_integer("segments", segment, 0, self.segments - 1)
        places = tuple(self.places[segment] for segment in segments) if self.places else ()
        return replace(
            self,
            coefficients=tuple(self.coefficients[segment] for segment in segments),
            bounds=tuple(self.bounds[segment] for segment in segments),
            places=places,
        )

    def column(self, power: int) -> tuple[int, ...]:
        """Coefficients of one power of the offset, by segment.

        Raises
        ------
        ValueError
            If it is none of 0, 1 and 2.
        """
        power = require_integer("power", power, 0, 2)
        return tuple(each[power] for each in self.coefficients)


@checked
def from_parameters(parameters: Mapping[str, Any]) -> Table:
    """A table from what its JSON holds."""
    known = {field.name for field in fields(Table)}
    if not known - {"places"} <= parameters.keys() <= known:
        raise ValueError(f"parameters must be {', '.join(sorted(known))}, not {shown(parameters)}")
    coefficients = tuple((c0, c1, c2) for c0, c1, c2 in parameters["coefficients"])
    bounds = tuple((a, b, c, d) for a, b, c, d in parameters["bounds"])
    places = tuple(Place(*place) for place in parameters.get("places", ()))
    rows = {"coefficients": coefficients, "bounds": bounds, "places": places}
    return Table(**{**parameters, **rows})


def names() -> list[str]:
    """Names of all tables, in order."""
    files = resources.files(__name__).iterdir()
    return sorted(file.name[:-5] for file in files if file.name.endswith(".json"))


@functools.cache
def load(name: str) -> Table:
    """The table of that name.

    Raises
    ------
    ValueError
        If there is none.
    """
    require_one_of("name", name, names())
    text = resources.files(__name__).joinpath(f"{name}.json").read_text(encoding="utf-8")
    return from_parameters(json.loads(text))
