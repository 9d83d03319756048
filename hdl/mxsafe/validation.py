"""Checks of parameters: each names the parameter, the requirement and the value that came."""

import operator
import re

__all__ = [
    "require_count",
    "require_identifier",
    "require_integer",
    "require_positive_integer",
    "require_power_of_two",
]

_LONGEST_IDENTIFIER = 64
_IDENTIFIER = re.compile(f"[A-Za-z_][A-Za-z0-9_]{{0,{_LONGEST_IDENTIFIER - 1}}}")


def _as_integer(value: object) -> int | None:
    """The integer that a value is, NumPy's among them; None if it is none."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def require_count(name: str, value: object) -> int:
    """The value of a parameter that must be a non-negative integer.

    Raises
    ------
    ValueError
        If it is not one.
    """
    number = _as_integer(value)
    if number is None or number < 0:
        raise ValueError(f"{name} must be a non-negative integer, not {value!r}")
    return number


def require_positive_integer(name: str, value: object) -> int:
    """The value of a parameter that must be a positive integer.

    Raises
    ------
    ValueError
        If it is not one.
    """
    number = _as_integer(value)
    if number is None or number < 1:
        raise ValueError(f"{name} must be a positive integer, not {value!r}")
    return number


def require_power_of_two(name: str, value: object) -> int:
    """The value of a parameter that must be a power of two.

    Raises
    ------
    ValueError
        If it is not one.
    """
    number = _as_integer(value)
    if number is None or number < 1 or number & (number - 1):
        raise ValueError(f"{name} must be a power of two, not {value!r}")
    return number


def require_integer(name: str, value: object, least: int, most: int) -> int:
    """The value of a parameter that must be an integer within bounds, as Python's own.

    Raises
    ------
    ValueError
        If it is not one.
    """
    number = _as_integer(value)
    if number is None or not least <= number <= most:
        raise ValueError(f"{name} must be an integer from {least} to {most}, not {value!r}")
    return number


def require_identifier(name: str, value: object) -> str:
    """The value of a parameter that becomes part of the names of modules and files.

    Raises
    ------
    ValueError
        If it is anything but 1 to 64 ASCII letters, digits and underscores, the first no digit.
    """
    if not isinstance(value, str) or not _IDENTIFIER.fullmatch(value):
        raise ValueError(
            f"{name} must be an identifier (1 to {_LONGEST_IDENTIFIER} ASCII letters, digits and "
            f"underscores, the first no digit), not {value!r}"
        )
    return value
