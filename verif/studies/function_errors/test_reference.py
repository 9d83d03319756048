"""What errors are measured against is itself measured against mpmath."""

from typing import Any

import mpmath
import numpy as np
import pytest

from studies.function_errors.errors import BOUNDS, numbers
from studies.function_errors.reference import REFERENCE_ERROR, reference
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
    """What errors are relative to."""
    if name.endswith("derivative"):
        return mpmath.mpf(1)
    return abs(x) if name in ("gelu", "silu") and x < 0 else abs(exact)


@pytest.mark.parametrize("name", BOUNDS)
def test_references_are_exact(name: str) -> None:
    rng = np.random.default_rng(5)
    uppers = [upper for upper in range(256 if name == "rsqrt" else 512) if upper & 255 != 255]
    chosen = rng.choice(uppers, 40, replace=False).tolist()
    for upper in [*chosen, *(range(112, 132) if name != "rsqrt" else ())]:
        mantissas = np.append(np.sort(rng.integers(1, 1 << 23, 4, np.uint32)), np.uint32(1 << 23))
        words = mantissas + np.uint32(upper << 23)
        ends_binade = numbers(words) if upper & 255 < 254 else numbers(words[:-1])
        with mpmath.workdps(40):
            for place, got in zip(ends_binade, reference(name, ends_binade), strict=True):
                x = mpmath.mpf(float(place))
                if name in ("exp", "sigmoid") and abs(x) > 126:
                    continue
                exact = exact_value(name, x)
                limit = REFERENCE_ERROR * unit(name, x, exact)
                assert abs(float(got) - exact) <= limit, f"{name} of {x}"
