"""The binary32 multiplier against NumPy, which is checked against exact integers first."""

import numpy as np
import pytest

from mxsafe.rtl.arithmetic.float32_multiplier import Float32Multiplier
from mxsafe.rtl.timing import STAGES
from verif.rtl.arithmetic.multiplier_checks import (
    CLASSES,
    INFINITY,
    NAN,
    SIGN,
    check_products,
    expected_products,
    random_pairs,
)
from verif.support.checkers import assert_equal
from verif.support.farm import farm_of, in_parallel, run_farm
from verif.support.simulators import lint
from verif.support.tests import Volume, raises
from verif.support.units import generated

COPIES = 8
MOST = STAGES["Float32Multiplier"]["asic"].most


def _exact(a: int, b: int) -> int:
    """The same by integers: significands multiplied, cut with the rest in mind, packed."""
    sign = (a ^ b) & 1 << 31
    fields, fractions = zip(*((word >> 23 & 255, word & 0x7FFFFF) for word in (a, b)), strict=True)
    nan = any(f == 255 and m for f, m in zip(fields, fractions, strict=True))
    zero = any(f == 0 and m == 0 for f, m in zip(fields, fractions, strict=True))
    if nan or (zero and 255 in fields):
        return NAN
    if zero or 255 in fields:
        return sign | (0 if zero else INFINITY)
    product, exponent = 1, -2 * 149  # of the product's lowest bit
    for field, fraction in zip(fields, fractions, strict=True):
        product *= fraction | (field > 0) << 23
        exponent += max(field, 1) - 1
    # The result is a multiple of 2^quantum, below 2^24 of them before rounding.
    quantum = max(exponent + product.bit_length() - 24, -149)
    if quantum < exponent:
        product, exponent = product << exponent - quantum, quantum
    whole, rest = divmod(product, 1 << quantum - exponent)
    double, unit = 2 * rest, 1 << quantum - exponent
    whole += double > unit or (double == unit and whole & 1)
    # A hidden bit is one more in the exponent field, and so is a carry out of the significand.
    packed = (quantum + 149 << 23) + whole
    return sign | min(packed, INFINITY)


def test_numpy_multiplies_as_integers_do() -> None:
    a, b = random_pairs(30, 1_000)
    exact = np.array([_exact(int(x), int(y)) for x, y in zip(a, b, strict=True)], np.uint32)
    assert_equal("float32 products", expected_products(a, b), exact, a=a, b=b)


@pytest.mark.parametrize("least", [100_000, pytest.param(4_000_000, marks=pytest.mark.full)])
def test_products_equal_numpy(least: int) -> None:
    farm = in_parallel(generated(Float32Multiplier()), COPIES)
    share = -(-least // len(CLASSES) // COPIES) * COPIES
    expected = check_products("verilator", farm, 31, share)
    assert expected.size >= least
    for kind in (0, 1, 0x800000, INFINITY, NAN):
        assert (expected & ~SIGN == kind).sum() > 50, f"{kind:#x} is rare"


def test_products_on_icarus(volume: Volume) -> None:
    """With every number of registers, and an enable that comes and goes."""
    stages = range(MOST + 1)
    units = {f"{count} registers": Float32Multiplier(pipeline=count) for count in stages}
    units["fpga"] = Float32Multiplier(target="fpga")
    most = units["fpga"].latency
    farm = farm_of("multipliers", units)
    a, b = random_pairs(32, volume(80, 250))
    rng = np.random.default_rng(33)
    en = (rng.random(a.size) < 0.8).astype(np.int64)
    en[: most + 1] = 1
    inputs = {
        f"{key}.{name}": words.view(np.uint8).reshape(-1, 4)
        for key in units
        for name, words in (("a", a), ("b", b))
    }
    logs = run_farm("icarus", farm, inputs, en, np.zeros_like(en), unsettled=most)
    for key, log in logs.items():
        module = farm.modules[key]
        got = log["product"].reshape(-1).view(np.uint32)
        # Registers hold what came in so many enabled cycles ago.
        taken = np.flatnonzero(en) if module.latency else np.arange(a.size)
        before = np.searchsorted(taken, np.arange(a.size)) - module.latency
        here = np.flatnonzero(before >= 0)
        source = taken[before[here]] if module.latency else here
        assert_equal(key, got[here], expected_products(a, b)[source], a=a[source], b=b[source])


@pytest.mark.parametrize(
    ("pipeline", "wanted"),
    [(-1, "an integer from 0 to 4"), (5, "an integer from 0 to 4"), (1.5, "an integer or None")],
)
def test_registers_that_there_are_not(pipeline: object, wanted: str) -> None:
    with raises(ValueError, f"pipeline must be {wanted}, not {pipeline!r}"):
        Float32Multiplier(pipeline=pipeline)


def test_registers_for_fpgas() -> None:
    with raises(ValueError, "pipeline must be an integer from 5 to 5, not 4"):
        Float32Multiplier(pipeline=4, target="fpga")


@pytest.mark.parametrize(
    "unit",
    [
        Float32Multiplier(),
        Float32Multiplier(pipeline=MOST),
        Float32Multiplier(target="fpga"),
    ],
    ids=lambda unit: unit.module_name,
)
def test_lint(unit: Float32Multiplier) -> None:
    module = generated(unit)
    assert lint(module) == ""


def test_names() -> None:
    assert Float32Multiplier().module_name == "float32_multiplier"
    assert Float32Multiplier(pipeline=2, reset=True).module_name == (
        "float32_multiplier_pipeline2_reset"
    )
    assert Float32Multiplier(reset=True).config == Float32Multiplier().config
