"""Sizes of an array and of the sub-matrix units it consists of.

Tested by `verif/rtl/array/test_systolic_array.py`.
"""

from dataclasses import fields

from mxsafe.rtl.unit import Options
from mxsafe.validation import Alike, AlikePower

_MOST_PRODUCTS = 1 << 16
"""Products a cycle of the largest array: 64 times the paper's."""


class _Shape(Options):
    lanes: AlikePower = 4

    def __str__(self) -> str:
        sizes = [getattr(self, field.name) for field in fields(self) if field.name != "lanes"]
        return "x".join(map(str, [*sizes, self.lanes]))

    @property
    def differences(self) -> list[str]:
        """All sizes, if one of them is not at its default."""
        return [] if self == type(self)() else [str(self)]


class UnitShape(_Shape):
    """Size of a sub-matrix unit.

    Parameters
    ----------
    rows, columns : int
        MACs.
    lanes : int
        Products a MAC and cycle, a power of two.
    """

    rows: Alike = 4
    columns: Alike = 4

    @property
    def macs(self) -> int:
        """MACs of the unit."""
        return self.rows * self.columns


class ArrayShape(_Shape):
    """Size of a systolic array; the default one is the paper's.

    Parameters
    ----------
    pu_rows, pu_columns : int
        Sub-matrix units.
    rows, columns : int
        MACs of each.
    lanes : int
        Products a MAC and cycle, a power of two.
    """

    pu_rows: Alike = 4
    pu_columns: Alike = 4
    rows: Alike = 4
    columns: Alike = 4

    def __post_init__(self) -> None:
        products = self.array_rows * self.array_columns * self.lanes
        if products > _MOST_PRODUCTS:
            raise ValueError(
                f"pu_rows * rows * pu_columns * columns * lanes must be at most {_MOST_PRODUCTS}, "
                f"not {products}"
            )

    @property
    def unit(self) -> UnitShape:
        """Size of a sub-matrix unit."""
        return UnitShape(rows=self.rows, columns=self.columns, lanes=self.lanes)

    @property
    def array_rows(self) -> int:
        """Rows of MACs in the whole array."""
        return self.pu_rows * self.rows

    @property
    def array_columns(self) -> int:
        """Columns of MACs in the whole array."""
        return self.pu_columns * self.columns
