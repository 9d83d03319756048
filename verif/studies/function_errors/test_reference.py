"""The reference of the errors is itself checked against mpmath."""

import mpmath
import numpy as np
import pytest

from studies.function_errors.errors import BOUNDS, numbers
from studies.function_errors.models import function_of
from studies.function_errors.reference import REFERENCE_ERROR, reference
from verif.studies.function_references import exact_value, unit


@pytest.mark.parametrize("name", [name for name in BOUNDS if name == function_of(name)])
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
