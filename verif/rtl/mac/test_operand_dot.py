"""Outputs and refusals of an array's MAC; those for FPGAs against integers."""

from pathlib import Path

import numpy as np
import pytest

from mxsafe.formats import MX_FORMATS
from mxsafe.products import OperandFormats
from mxsafe.rtl.mac.multiplier import OperandMultiplier
from mxsafe.rtl.mac.operand_dot import OperandDot, OperandDotConfiguration
from verif.support.checkers import assert_equal
from verif.support.farm import Farm, beside, run_farm
from verif.support.manifest import Module
from verif.support.tests import refused
from verif.support.units import published

INTEGERS = OperandFormats(MX_FORMATS["mxint8"], MX_FORMATS["mxint8"])
MXSF = OperandFormats(MX_FORMATS["mxsf"], MX_FORMATS["mxsf"])
_NOT_LATE = "late must be 0 with target fpga, integers, carry_save or one product in a sum, not 1"


@pytest.mark.parametrize(
    ("lanes", "pipeline", "registered", "numbers"),
    [
        (1, 1, ("products",), 1),
        (2, 1, ("sums",), 1),
        (4, 0, (), 1),
        (4, 1, ("sums",), 1),
        (4, 3, ("sums", "products", "halves"), 1),
        (8, 1, ("sums",), 2),
        (8, 3, ("sums", "products", "total"), 1),
        (16, 2, ("sums", "products"), 4),
    ],
)
def test_sums_of_four_products(
    lanes: int, pipeline: int, registered: tuple[str, ...], numbers: int
) -> None:
    dot = OperandDotConfiguration(
        formats=MXSF, lanes=lanes, pipeline=pipeline, together=min(lanes, 4)
    )
    assert (dot.registered, dot.half_count) == (registered, numbers)
    assert dot.half_bits == MXSF.sum_bits(lanes // numbers) + 1


_CLOCKS, _FILLED = 1500, 40
"""Rows, and the first ones of them, in which all registers are filled."""


def _numbers(rng: np.random.Generator, lanes: int) -> np.ndarray:
    """Signs, distances from 1 on, and significands of prepared operands."""
    shape = (_CLOCKS, lanes)
    significands = rng.integers(0, 64, shape) >> rng.integers(0, 6, shape)
    return np.stack([rng.integers(0, 2, shape), rng.integers(1, 8, shape), significands])


def _operands(module: Module, name: str, numbers: np.ndarray) -> np.ndarray:
    signs, distances, significands = numbers
    packed = signs << 9 | distances << 6 | significands
    word = sum(packed[:, lane].astype(object) << 10 * lane for lane in range(packed.shape[1]))
    size = -(-module.ports[name].width // 8)
    rows = [int(number).to_bytes(size, "little") for number in np.atleast_1d(word)]
    return np.frombuffer(b"".join(rows), np.uint8).reshape(_CLOCKS, size)


def test_published_ones_for_fpgas(tmp_path: Path) -> None:
    """Operands, and products of significands from outside, at random; pauses and resets."""
    modules = {
        name: module
        for name, module in (published(OperandDot) | published(OperandMultiplier)).items()
        if module.parameters.get("target") == "fpga"
    }
    farm = Farm(beside(tmp_path, "dots_for_fpgas", modules), modules)
    rng = np.random.default_rng(9)
    en = (rng.random(_CLOCKS) < 0.8) | (np.arange(_CLOCKS) < _FILLED)
    rst = (rng.random(_CLOCKS) < 0.02) & (np.arange(_CLOCKS) >= _FILLED)
    given, words = {}, {}
    for key, module in modules.items():
        lanes = module.parameters.get("lanes", 1)
        a, w = (_numbers(rng, lanes) for _ in range(2))
        words |= {f"{key}.{side}": _operands(module, side, n) for side, n in (("a", a), ("w", w))}
        outside = rng.integers(0, 1 << 12, (_CLOCKS, lanes))
        if "significands" in module.ports:
            words[f"{key}.significands"] = module.ports["significands"].words(
                sum(outside[:, lane] << 12 * lane for lane in range(lanes))
            )
        given[key] = a, w, outside
    logs = run_farm(
        "icarus", farm, words, en.astype(np.int64), rst.astype(np.int64), unsettled=_FILLED
    )
    taken = np.flatnonzero(en)
    for key, module in modules.items():
        a, w, outside = given[key]
        significands = a[2] * w[2]
        if "significands" in module.ports:
            # Of operands three enabled cycles before.
            significands = np.zeros_like(outside)
            significands[taken[:-3]] = outside[taken[3:]]
        products = significands << a[1] + w[1] - 2
        sums = np.where(a[0] ^ w[0], -products, products).sum(axis=1)
        # A number of enabled cycles ago, unless a reset came since then.
        before = np.searchsorted(taken, np.arange(_CLOCKS)) - module.latency
        source = taken[np.maximum(before, 0)]
        expected = sums[source]
        if module.parameters.get("reset"):
            resets = np.concatenate([[0], np.cumsum(rst)])
            expected[resets[:_CLOCKS] > resets[source]] = 0
        log, ports = logs[key], module.ports
        output = "halves" if "halves" in ports else "term"
        count = ports["plus"].width
        bits = ports[output].width // count
        whole = ports[output].numbers(log[output]).astype(np.int64)
        got = np.zeros(len(whole), np.int64)
        for i in range(count):
            got = got + (log["plus"][:, 0].astype(np.int64) >> i & 1)
        for half in range(count):
            part = whole >> bits * half & (1 << bits) - 1
            got = got + part - (part >> bits - 1 << bits)
        compared = assert_equal(key, got[_FILLED:], expected[_FILLED:])
        assert compared == _CLOCKS - _FILLED


@pytest.mark.parametrize("lanes", [2, 4, 8])
def test_sums_without_carries(lanes: int) -> None:
    dot = OperandDotConfiguration(formats=MXSF, lanes=lanes, carry_save=True)
    assert (dot.registered, dot.half_count, dot.carries) == (("sums",), 2, "plus")
    assert dot.half_bits == dot.dot_bits


test_errors = refused(
    OperandDotConfiguration,
    [
        ({"together": 3}, "together must be a power of two, not 3"),
        ({"lanes": 2, "together": 4}, "together must be at most 2 lanes, not 4"),
        (
            {"lanes": 8, "together": 8, "target": "fpga"},
            "together must be half of 8 lanes with target fpga, not 8",
        ),
        ({"paired": True}, "paired must be False with target asic, not True"),
        ({"late": 9}, "late must be an integer from 0 to 8, not 9"),
        ({"together": 1, "late": 1}, _NOT_LATE),
        ({"target": "fpga", "late": 1}, _NOT_LATE),
        ({"carry_save": True, "late": 1}, _NOT_LATE),
        ({"lanes": 1, "carry_save": True}, "lanes must be at least 2 with carry_save, not 1"),
        (
            {"lanes": 8, "together": 4, "carry_save": True},
            "together must be all of 8 lanes with carry_save, not 4",
        ),
        (
            {"carry_save": True, "target": "fpga"},
            "carry_save must be False with target fpga, not True",
        ),
        (
            {"carry_save": True, "formats": INTEGERS},
            "carry_save must be False where both operands are integers, not True",
        ),
    ],
    formats=MXSF,
)
