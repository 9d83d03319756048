"""Products and sums one after the other, against NumPy, each lane by itself."""

import numpy as np
import pytest

from mxsafe.model.accumulate import canonical
from mxsafe.rtl.vector.multiply_add import MultiplyAdd
from verif.rtl.arithmetic.multiplier_checks import random_pairs
from verif.support.checkers import assert_equal
from verif.support.farm import farm_of, published_farm, run_farm
from verif.support.manifest import Module

UNITS = {
    "both": MultiplyAdd(),
    "product": MultiplyAdd(add=False),
    "sum": MultiplyAdd(multiply=False),
}
FARMS = {
    "published": lambda: published_farm("multiply_adds", MultiplyAdd),
    "others": lambda: farm_of("other_multiply_adds", UNITS),
}


def _addend_latency(module: Module) -> int:
    """Enabled cycles from a number to its addend."""
    names = ("multiply", "add", "multiply_stages", "add_stages", "late_addend", "target")
    p = module.parameters
    return MultiplyAdd(**{name: p[name] for name in names if name in p}).config.addend_latency


@pytest.mark.parametrize("which", FARMS)
def test_lanes(which: str) -> None:
    """Numbers of all kinds, addends like a number or its product, and cycles without enable."""
    farm = FARMS[which]()
    rng = np.random.default_rng(51)
    x, factor = random_pairs(52, 60)
    count = x.size
    order = rng.permutation(count)
    x, factor = x[order], factor[order]
    en = np.concatenate([np.ones(count), np.zeros(count // 4)]) > 0
    most = max(module.latency for module in farm.modules.values())
    rng.shuffle(en[most:])
    turns = np.cumsum(en) - en
    inputs, expected = {}, {}
    for key, module in farm.modules.items():
        p = module.parameters
        with np.errstate(all="ignore"):
            product = canonical(x.view(np.float32) * factor.view(np.float32))
            value = product if p["multiply"] else x.view(np.float32)
            near = value.view(np.uint32) ^ rng.integers(0, 1 << 26, count, np.uint32) << 6
            some = np.where(rng.random(count) < 0.3, factor, near)
            addend = np.where(rng.random(count) < 0.3, value.view(np.uint32) ^ 1 << 31, some)
            addend = addend.astype(np.uint32)
            result = canonical(value + addend.view(np.float32)) if p["add"] else value
        expected[key] = result.view(np.uint32)
        given = {"x": x, "factor": factor, "addend": np.roll(addend, _addend_latency(module))}
        for name in given.keys() & module.ports.keys():
            # In a cycle without enable there is something else.
            noise = rng.integers(0, 1 << 32, en.size, np.uint32)
            carried = np.where(en, given[name][np.minimum(turns, count - 1)], noise)
            inputs[f"{key}.{name}"] = carried.view(np.uint8).reshape(-1, 4)
    logs = run_farm(
        "icarus", farm, inputs, en.astype(np.int64), np.zeros_like(turns), unsettled=most
    )
    for key, module in farm.modules.items():
        got = logs[key]["result"][en].reshape(-1).view(np.uint32)[module.latency :]
        assert_equal(
            key, got, expected[key][: got.size], x=x[: got.size], factor=factor[: got.size]
        )
