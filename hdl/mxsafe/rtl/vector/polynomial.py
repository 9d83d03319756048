"""A piecewise polynomial in hardware: a table of coefficients, two multiplications, two sums."""

from collections.abc import Sequence

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Value, signed

from mxsafe.rtl.arithmetic.bits import named, truncated
from mxsafe.rtl.arithmetic.pipeline import Pipeline
from mxsafe.tables import Table

BOUNDARY = "sloped"
"""Where registers may stand within `polynomial`: behind the slope."""


def polynomial(
    m: Module, name: str, table: Table, segment: Value, offset: Value, pipe: Pipeline
) -> Value:
    """The value of a table, combinational but for the registers of `pipe`.

    `c0` is looked up behind them, and the segment crosses them in its place: fewer bits to store.

    Parameters
    ----------
    m : amaranth.hdl.Module
    name : str
        Name of the result, and prefix of the names of what leads to it.
    table : Table
        Of a power of two of segments.
    segment : Value
        Number of the segment, `Table.index_bits` wide.
    offset : Value
        `Table.offset_bits` wide, unsigned.
    pipe : Pipeline
        It may have registers at `BOUNDARY`; what goes beside the polynomial has to cross them too.

    Returns
    -------
    Value
        In units of ``2^-fraction_bits``, as wide as `Table.results` need.
    """
    coefficients = columns(table)
    c1, c2 = (_looked_up(m, f"{name}_c{n}", segment, coefficients[n]) for n in (1, 2))
    distance: Value = named(
        m, f"{name}_distance", signed(len(offset)), Cat(offset[:-1], ~offset[-1])
    )
    slope = slope_at(m, name, table, c1, c2, distance)
    slope = pipe.cross(BOUNDARY, f"{name}_slope", slope)
    segment = pipe.cross(BOUNDARY, f"{name}_segment", segment)
    c0 = _looked_up(m, f"{name}_c0", segment, coefficients[0])
    distance = pipe.cross(BOUNDARY, f"{name}_distance", distance).as_signed()
    shape = result_shape(table)
    rows = product_rows(m, f"{name}_rise", slope, distance, table.result_shift)
    total = truncated(m, f"{name}_total", shape.width, sum(rows, c0))
    return named(m, name, shape, total.as_signed() if shape.signed else total)


def slope_at(m: Module, name: str, table: Table, c1: Value, c2: Value, distance: Value) -> Value:
    """The slope from the middle of a segment to what is at a (signed) distance from it."""
    shape = slope_shape(table)
    if not table.high_bits:
        return c1.as_signed() if shape.signed else c1
    high = distance[table.distance_cut :].as_signed()
    rows = product_rows(m, f"{name}_bend", c2, high, table.slope_shift)
    total = truncated(m, f"{name}_slope_total", shape.width, sum(rows, c1))
    return named(m, f"{name}_slope", shape, total.as_signed() if shape.signed else total)


def columns(table: Table, width: int | None = None) -> tuple[list[int], list[int], list[int]]:
    """The coefficients, `c0` and `c1` together with the constants of the rows added to them.

    These two are unsigned, modulo what their sums are wide: `width` bits, or those of results.
    """
    c0, c1, c2 = (table.column(power) for power in range(3))
    rise = rise_constant(table)
    bend = _constant(range_shape(c2), table.high_bits, table.slope_shift)
    narrow = slope_shape(table).width
    wide = width or result_shape(table).width
    return (
        [(value + rise) % (1 << wide) for value in c0],
        [(value + bend) % (1 << narrow) for value in c1],
        list(c2),
    )


def product_rows(m: Module, name: str, a: Value, b: Value, shift: int) -> list[Value]:
    """Rows of a product by a signed factor as `mxsafe.tables.Table` defines it.

    They are unsigned: a sign bit of weight ``-2^n`` is its inverse of weight ``2^n``, and the
    constant ``-2^n``. These constants (`columns`) are to be added.
    """
    rows: list[Value] = []
    for digit, low in enumerate(range(0, len(b), 2)):
        middle, high = b[low], b[min(low + 1, len(b) - 1)]
        below = b[low - 1] if low else Const(0, 1)
        part = f"{name}_{digit}"
        once = named(m, f"{part}_once", 1, middle ^ below)
        twice = named(m, f"{part}_twice", 1, ~once & (middle ^ high))
        times = Mux(once, a, 0) | Mux(twice, a << 1, 0)
        wide = Shape(len(a) + 1, a.shape().signed)
        scaled = named(m, f"{part}_times", wide, times)
        cut = scaled[shift - low :] if shift > low else Cat(Const(0, low - shift), scaled)
        kept = cut ^ high.replicate(len(cut))
        row = Cat(kept[:-1], ~kept[-1]) if wide.signed else Cat(kept, ~high)
        rows.append(named(m, f"{part}_row", len(row), row))
    return rows


def rise_constant(table: Table) -> int:
    """Return the constant that goes with the rows of slope times distance."""
    return _constant(slope_shape(table), table.offset_bits, table.result_shift)


def _constant(shape: Shape, bits: int, shift: int) -> int:
    """Return the constant of a product's rows, of a factor of that shape by one of some bits."""
    lengths = [max(shape.width + 1 + low - shift, 0) for low in range(0, bits, 2)]
    return -sum(1 << (length - shape.signed) for length in lengths)


def slope_shape(table: Table) -> Shape:
    """The shape of all slopes of a table."""
    return range_shape(table.slopes)


def result_shape(table: Table) -> Shape:
    """The shape of all results of a table."""
    return range_shape(table.results)


def range_shape(values: Sequence[int]) -> Shape:
    """The shape that holds some numbers; of 0 bits if all are 0."""
    low, high = min(values), max(values)
    return Shape.cast(range(min(low, 0), high + 1))


def _looked_up(m: Module, name: str, index: Value, values: Sequence[int]) -> Value:
    """The number at an index, by multiplexers: synthesis does not know a memory in them.

    Of a memory whose address is in a register Yosys stores the data in place of the address: more
    bits, and the table is looked up before the register.
    """
    shape = range_shape(values)
    found: list[Value] = [Const(value, shape) for value in values]
    for bit in index:
        pairs = zip(found[0::2], found[1::2], strict=True)
        found = [Mux(bit, above, below) for below, above in pairs]
    return named(m, name, shape, found[0].as_signed() if shape.signed else found[0])
