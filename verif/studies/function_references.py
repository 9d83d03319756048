"""Functions of single numbers by mpmath."""

from typing import Any

import mpmath

from studies.tables.activation import value


def exact_value(name: str, x: Any) -> Any:
    """The exact value, to mpmath's precision."""
    more = {
        "exp": mpmath.exp,
        "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
        "reciprocal": lambda x: 1 / x,
        "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    }
    return more[name](x) if name in more else value(name, x)


def unit(name: str, x: Any, exact: Any) -> Any:
    """Return the unit of the errors."""
    if name.endswith("derivative"):
        return mpmath.mpf(1)
    return abs(x) if name in ("gelu", "silu") and x < 0 else abs(exact)
