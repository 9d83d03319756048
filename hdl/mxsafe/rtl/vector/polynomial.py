"""A piecewise polynomial in hardware: a table of coefficients, two multiplications, two sums."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Value
from amaranth.lib.wiring import In, Member, Out

from mxsafe import tables
from mxsafe.rtl.arithmetic.bits import named
from mxsafe.rtl.arithmetic.pipeline import Pipeline
from mxsafe.rtl.configuration import Configuration
from mxsafe.rtl.unit import Unit
from mxsafe.tables import Table
from mxsafe.validation import require_integer

__all__ = [
    "POLYNOMIAL_BOUNDARIES",
    "Polynomial",
    "PolynomialConfiguration",
    "lookup",
    "polynomial",
    "range_shape",
]

POLYNOMIAL_BOUNDARIES = ("looked_up", "sloped")
"""Where registers may stand within `polynomial`: behind the table, and behind the slope."""


def polynomial(
    m: Module,
    name: str,
    table: Table,
    segment: Value,
    offset: Value,
    *,
    pipe: Pipeline | None = None,
) -> Value:
    """The value of a table, combinational but for the registers of `pipe`.

    Parameters
    ----------
    m : amaranth.hdl.Module
        The module being elaborated.
    name : str
        Name of the result, and prefix of the names of what leads to it.
    table : Table
    segment : Value
        Number of the segment, `Table.index_bits` wide. If there is none, the result is anything.
    offset : Value
        `Table.offset_bits` wide, unsigned.
    pipe : Pipeline, optional
        It has registers at those of `POLYNOMIAL_BOUNDARIES` that are among its own; what goes
        beside the polynomial has to cross them too.

    Returns
    -------
    Value
        In units of ``2^-fraction_bits``, as wide as `Table.smallest` and `Table.largest` need.
    """
    cross = pipe.cross if pipe else lambda boundary, name, value: value
    c0, c1, c2 = (
        cross("looked_up", f"{name}_c{power}", lookup(m, f"{name}_c{power}", segment, column))
        for power, column in ((power, table.column(power)) for power in range(3))
    )
    offset = cross("looked_up", f"{name}_offset", offset)
    high = offset[table.offset_cut :]
    slope = _plus_product(m, f"{name}_slope", c1, c2, high, table.slope_shift, table.slopes)
    slope = cross("sloped", f"{name}_slope", slope)
    c0 = cross("sloped", f"{name}_c0", c0)
    offset = cross("sloped", f"{name}_offset", offset)
    bounds = table.smallest, table.largest
    return _plus_product(m, name, c0, slope, offset, table.result_shift, bounds)


def _plus_product(
    m: Module,
    name: str,
    start: Value,
    a: Value,
    b: Value,
    shift: int,
    bounds: tuple[int, int],
) -> Value:
    """`start` and the rows of ``a * b``, each cut by itself, added up in one sum."""
    total = start
    for bit in range(len(b)):
        row = (a << bit) >> shift
        if len(a):
            gated = named(m, f"{name}_row_{bit}", row.shape(), Mux(b[bit], row, 0))
            total = total + gated
    return named(m, name, range_shape(bounds), total)


def range_shape(values: Sequence[int]) -> Shape:
    """The shape that holds some numbers; of 0 bits if all are 0."""
    low, high = min(values), max(values)
    return Shape.cast(range(min(low, 0), high + 1))


def lookup(m: Module, name: str, index: Value, values: Sequence[int]) -> Value:
    """The number at an index; beyond the last, anything."""
    shape = range_shape(values)
    if min(values) == max(values):
        return Const(values[0], shape)
    # One constant with all numbers in a row, in places of a power of two of bits, so that the
    # shift is the index and zeros. A case for each number has a Verilog that Icarus does not take,
    # and its gates are no fewer.
    width = shape.width
    place = (width - 1).bit_length()
    packed = sum((value & ((1 << width) - 1)) << (at << place) for at, value in enumerate(values))
    row = Const(packed, len(values) << place)
    found = named(m, f"{name}_and_following", len(row), row >> Cat(Const(0, place), index))[:width]
    return named(m, name, shape, found.as_signed() if shape.signed else found)


@dataclass(frozen=True, kw_only=True)
class PolynomialConfiguration(Configuration):
    """A `Polynomial`.

    Parameters
    ----------
    table : str
        One of `mxsafe.tables.names`.
    pipeline : int
        Registers on the way, 0 to 2: at the last of `POLYNOMIAL_BOUNDARIES`.

    Raises
    ------
    ValueError
        If there is no such table, or there cannot be so many registers.
    """

    unnamed = frozenset({"table"})

    table: str
    pipeline: int = 0

    def __post_init__(self) -> None:
        if self.table not in tables.names():
            raise ValueError(
                f"table must be one of {', '.join(tables.names())}, not {self.table!r}"
            )
        most = len(POLYNOMIAL_BOUNDARIES)
        self._set(pipeline=require_integer("pipeline", self.pipeline, 0, most))

    @property
    def base(self) -> str:
        """Name of the module in its usual configuration."""
        return f"{self.table}_polynomial"

    @property
    def latency(self) -> int:
        """Enabled clocks from an offset to its value."""
        return self.pipeline


class Polynomial(Unit[PolynomialConfiguration]):
    """A table on its own: `polynomial` between ports.

    Attributes
    ----------
    en : In(1)
        Clock enable, if there are registers.
    segment, offset : In
    value : Out
        In units of ``2^-fraction_bits``.
    """

    @property
    def table(self) -> Table:
        """What it evaluates."""
        return tables.load(self.config.table)

    def ports(self) -> Mapping[str, Member]:
        """Segment and offset, and the value."""
        table = self.table
        enable = {"en": In(1)} if self.config.pipeline else {}
        return {
            **enable,
            "segment": In(table.index_bits),
            "offset": In(table.offset_bits),
            "value": Out(range_shape((table.smallest, table.largest))),
        }

    def elaborate(self, platform: object) -> Module:
        m = Module()
        enable = self.en if self.config.pipeline else Const(1)
        stages = self.config.pipeline
        pipe = Pipeline(m, enable, POLYNOMIAL_BOUNDARIES, stages, reset=False)
        value = polynomial(m, "result", self.table, self.segment, self.offset, pipe=pipe)
        m.d.comb += self.value.eq(value)
        return m
