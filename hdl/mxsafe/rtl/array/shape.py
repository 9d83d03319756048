"""Sizes of an array and of the sub-matrix units it consists of."""

from dataclasses import dataclass, fields

from mxsafe.rtl.configuration import Options
from mxsafe.validation import require_positive_integer, require_power_of_two

__all__ = ["ArrayShape", "UnitShape"]


@dataclass(frozen=True, kw_only=True)
class _Shape(Options):
    lanes: int = 4

    def __post_init__(self) -> None:
        for field in fields(self):
            require = require_power_of_two if field.name == "lanes" else require_positive_integer
            self._set(**{field.name: require(field.name, getattr(self, field.name))})

    def __str__(self) -> str:
        sizes = [getattr(self, field.name) for field in fields(self) if field.name != "lanes"]
        return "x".join(map(str, [*sizes, self.lanes]))

    @property
    def differences(self) -> list[str]:
        """All sizes, if one of them is not as usual."""
        return [] if self == type(self)() else [str(self)]


@dataclass(frozen=True, kw_only=True)
class UnitShape(_Shape):
    """Size of a sub-matrix unit.

    Parameters
    ----------
    rows, columns : int
        MACs.
    lanes : int
        Products a MAC and cycle, a power of two.

    Raises
    ------
    ValueError
        If a size is not as above.
    """

    rows: int = 4
    columns: int = 4

    @property
    def macs(self) -> int:
        """MACs of the unit."""
        return self.rows * self.columns


@dataclass(frozen=True, kw_only=True)
class ArrayShape(_Shape):
    """Size of a systolic array; the usual one is the paper's.

    Parameters
    ----------
    pu_rows, pu_columns : int
        Sub-matrix units.
    rows, columns : int
        MACs of each.
    lanes : int
        Products a MAC and cycle, a power of two.

    Raises
    ------
    ValueError
        If a size is not as above.
    """

    pu_rows: int = 4
    pu_columns: int = 4
    rows: int = 4
    columns: int = 4

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
