"""The FP12 adder and the rounder of the adder tree: every operand there is, on Verilator."""

import numpy as np
import pytest

from mxsafe.formats import BF16, FP12_E4M7, MX_FORMATS, FloatFields, FloatFormat
from mxsafe.model.float_arithmetic import add, decode_float, encode_float, round_float
from mxsafe.rtl.arithmetic.fp_adder import FPAdder
from mxsafe.rtl.arithmetic.packing import Packer, Unpacker
from mxsafe.rtl.arithmetic.rounder import Rounder
from mxsafe.rtl.array.accumulator import Accumulator
from mxsafe.rtl.unit import Unit
from verif.support.checkers import assert_equal
from verif.support.farm import COPIES, side_by_side
from verif.support.manifest import Module
from verif.support.simulators import run_lockstep
from verif.support.tests import Volume, raises

CODES = 1 << FP12_E4M7.width


def test_adder_on_all_pairs(modules: dict[str, Module], volume: Volume) -> None:
    """All pairs in both orders; in the default run of blocks of codes that differ in one."""
    ports = modules["fp12_adder"].ports
    farm = side_by_side(modules["fp12_adder"], ports["a"], ports["b"], ports["sum"])
    a, high = (grid.ravel() for grid in np.mgrid[0:CODES, 0 : CODES // COPIES])
    with_both_orders = volume(default=False, full=True, variants=True)
    if not with_both_orders:
        block = a // COPIES
        one_order = (block == high) | ((block < high) == ((block + high) % 2 == 0))
        a, high = a[one_order], high[one_order]
    log = run_lockstep("verilator", farm, {"a": a, "high": high})
    values = decode_float(np.arange(CODES))
    a, high = farm.ports["a"].numbers(log["a"]), farm.ports["high"].numbers(log["high"])
    b = high[:, None] * COPIES + np.arange(COPIES)
    expected = encode_float(add(values[a][:, None], values[b])).astype(np.int64)
    got = farm.ports["results"].split(log["results"])
    compared = assert_equal("fp12_adder", got, expected, a=a, b=b)
    pairs = CODES * CODES
    assert compared == (pairs if with_both_orders else (pairs + CODES * COPIES) // 2)


def test_adder_on_icarus(modules: dict[str, Module]) -> None:
    module = modules["fp12_adder"]
    rng = np.random.default_rng(7)
    a = rng.integers(0, CODES, 8_000)
    near = (a ^ (CODES >> 1)) + rng.integers(-300, 300, a.size)  # half of them nearly cancel
    b = np.where(rng.random(a.size) < 0.5, near % CODES, rng.integers(0, CODES, a.size))
    largest = (CODES >> 1) - 1
    a = np.concatenate([a, np.repeat([largest, CODES - 1], CODES)])
    b = np.concatenate([b, np.tile(np.arange(CODES), 2)])
    log = run_lockstep("icarus", module, {"a": a, "b": b})
    a, b = module.ports["a"].numbers(log["a"]), module.ports["b"].numbers(log["b"])
    expected = encode_float(add(decode_float(a), decode_float(b))).astype(np.int64)
    assert_equal("fp12_adder", module.ports["sum"].numbers(log["sum"]), expected, a=a, b=b)


def test_rounder_on_all_numbers(modules: dict[str, Module]) -> None:
    (module,) = (m for m in modules.values() if m.unit.startswith("fp12_rounder_"))
    value, rounded = module.ports["value"], module.ports["rounded"]
    farm = side_by_side(module, None, value, rounded)
    rows = np.arange(1 << (value.width - (COPIES.bit_length() - 1)))
    log = run_lockstep("verilator", farm, {"high": rows})
    high = farm.ports["high"].numbers(log["high"])
    unsigned = high[:, None] * COPIES + np.arange(COPIES)
    number = np.where(unsigned >> (value.width - 1), unsigned - (1 << value.width), unsigned)
    got = farm.ports["results"].split(log["results"])
    quantum = FP12_E4M7.quantum_exponent
    expected = np.ldexp(
        round_float(np.ldexp(number.astype(np.float32), quantum)).astype(np.float64), -quantum
    ).astype(np.int64)
    # Magnitudes that round up to the sign bit do not fit; the unit's contract excludes them.
    fits = np.abs(expected) < 1 << (value.width - 1)
    assert fits.mean() > 0.99
    expected = np.where(fits, expected % (1 << value.width), got)
    assert_equal(module.name, got, expected, high=high)


def test_rounder_without_anything_to_round() -> None:
    with raises(ValueError, "width must be at least 10, not 9"):
        Rounder(width=9, sum_format=FP12_E4M7)


@pytest.mark.parametrize(
    ("sum_format", "message"),
    [
        (BF16, "sum_format must have one mode and finite codes only, not codes for NaN or Inf"),
        (
            MX_FORMATS["mxsf"].element,
            "sum_format must have one mode and finite codes only, not a second mode",
        ),
        (
            FloatFormat(name="wide", fields=FloatFields(exponent_bits=7, mantissa_bits=3, bias=63)),
            "sum_format must have values of at most 80 bits in fixed point, not 130",
        ),
    ],
)
@pytest.mark.parametrize("unit", [FPAdder, Packer, Unpacker, Accumulator])
def test_formats_that_fixed_point_cannot_hold(
    unit: type[Unit], sum_format: FloatFormat, message: str
) -> None:
    with raises(ValueError, message):
        unit(sum_format=sum_format)
