"""Checks of parameters: each names the parameter, the requirement and the value that came."""

import operator

__all__ = ["require_positive_integer", "require_power_of_two"]


def _integer(value: object) -> int:
    """The integer that a value is; 0 if it is none."""
    if isinstance(value, bool):
        return 0
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return 0


def require_positive_integer(name: str, value: object) -> int:
    """The value of a parameter that must be a positive integer.

    Raises
    ------
    ValueError
        If it is not one.
    """
    number = _integer(value)
    if number < 1:
        raise ValueError(f"{name} must be a positive integer, not {value!r}")
    return number


def require_power_of_two(name: str, value: object) -> int:
    """The value of a parameter that must be a power of two.

    Raises
    ------
    ValueError
        If it is not one.
    """
    number = _integer(value)
    if number < 1 or number & (number - 1):
        raise ValueError(f"{name} must be a power of two, not {value!r}")
    return number
