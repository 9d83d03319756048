"""The largest of several exponents: all published units side by side, against NumPy's maximum."""

import numpy as np

from mxsafe.rtl.stream.largest_exponent import LargestExponent
from verif.support.checkers import assert_equal
from verif.support.farm import published_farm, run_farm


def test_published_ones() -> None:
    """Numbers of all lengths, many equal to one another, the largest one in each place."""
    count = 1_500
    farm = published_farm("largest_exponents", LargestExponent)
    rng = np.random.default_rng(1)
    given, fields = {}, {}
    for key, module in farm.modules.items():
        bits, places = module.parameters["bits"], module.parameters["count"]
        numbers = rng.integers(0, 1 << bits, (count, places)) >> rng.integers(0, bits, (count, 1))
        # All of them equal, apart from a bit of one.
        alike = np.repeat(numbers[:, :1], places, axis=1)
        alike[np.arange(count), np.arange(count) % places] ^= 1 << rng.integers(0, bits, count)
        fields[key] = np.where(rng.random((count, 1)) < 0.5, numbers, alike)
        given[f"{key}.fields"] = module.ports["fields"].join(fields[key])
    logs = run_farm("icarus", farm, given, np.ones(count, np.int64), np.zeros(count, np.int64))
    for key, module in farm.modules.items():
        got = module.ports["largest"].numbers(logs[key]["largest"])
        assert_equal(key, got, fields[key].max(axis=1))
