"""The systolic tensor array against `matmul`: shapes, blocks, arithmetics, stalls, resets."""

from pathlib import Path

import numpy as np
import pytest

import mxsafe as mx
from mxsafe.flow.generate import generate
from mxsafe.formats import MX_FORMATS
from mxsafe.model.gemm import Arithmetic
from mxsafe.rtl.sta import STA
from verif import manifest
from verif.array_job import Product, run_products
from verif.checkers import assert_equal
from verif.conftest import Tally, available
from verif.manifest import Module

ARITHMETICS: tuple[Arithmetic, ...] = ("fp12", "exact")
Block = int | tuple[int, int]
both_arithmetics = pytest.mark.parametrize("arithmetic", ARITHMETICS)


def operands(
    rng: np.random.Generator, m: int, k: int, n: int, block: Block, fmt: str = "mxsf"
) -> Product:
    """A product whose elements and scales reach every class, NaN and extreme scales included."""
    result = []
    for shape, axis in (((m, k), -1), ((k, n), -2)):
        x = rng.standard_normal(shape) * np.exp2(rng.integers(-12, 3, shape))
        x[rng.random(shape) < 0.1] = 0.0
        x *= rng.choice([1.0, -1.0], shape)
        q = mx.quantize(x, fmt, block=block, axis=axis)
        kind = rng.random(q.scales.shape)
        scales = np.where(kind < 0.03, rng.integers(0, 20, kind.shape), q.scales)
        scales = np.where((kind > 0.03) & (kind < 0.06), rng.integers(230, 255, kind.shape), scales)
        scales = np.where((kind > 0.06) & (kind < 0.063), 255, scales).astype(np.uint8)
        result.append(mx.QuantizedTensor(q.codes, scales, q.format, q.block, q.axis))
    return result[0], result[1]


def random_products(seed: int, count: int, size: int, deepest: int, block: Block) -> list[Product]:
    """Products of random shapes: ragged, smaller than the array, of one block and of many."""
    rng = np.random.default_rng(seed)
    return [
        operands(
            rng,
            int(rng.integers(1, 2 * size + 2)),
            int(rng.integers(1, deepest)),
            int(rng.integers(1, 2 * size + 2)),
            block,
        )
        for _ in range(count)
    ]


def compare(
    products: list[Product], got: list[np.ndarray], arithmetic: Arithmetic, lanes: int
) -> None:
    for (a, w), result in zip(products, got, strict=True):
        expected = mx.matmul(a, w, arithmetic=arithmetic, lanes=lanes)
        assert_equal("product", result.view(np.uint32), expected.view(np.uint32))


def small_array(folder: Path, arithmetic: Arithmetic, **parameters: int) -> Module:
    sizes = {"pu_rows": 2, "pu_columns": 2, "rows": 2, "columns": 2, "lanes": 2} | parameters
    unit = STA(format=MX_FORMATS["mxsf"], arithmetic=arithmetic, **sizes)
    generate([unit], folder)
    return manifest.load(folder)[unit.module_name]


@both_arithmetics
@pytest.mark.parametrize("block", [64, (8, 8)])
@pytest.mark.parametrize("stall", [0.0, 0.3])
def test_small_array(
    simulator: str,
    arithmetic: Arithmetic,
    block: Block,
    stall: float,
    tmp_path: Path,
    tally: Tally,
) -> None:
    module = small_array(tmp_path, arithmetic)
    count = {"icarus": 12, "verilator": 60}[simulator]
    products = random_products(7, count, 4, 90, block)
    result = run_products(simulator, module, products, stall=stall)
    compare(products, result.products, arithmetic, module.parameters["lanes"])
    assert not result.out_of_step.any()
    tally(simulator, f"{module.name} tiles", result.tiles)


CONFIGURATIONS: dict[str, dict[str, int]] = {
    "a single unit": {"pu_rows": 1, "pu_columns": 1, "rows": 4, "columns": 4, "lanes": 4},
    "a single MAC": {"pu_rows": 1, "pu_columns": 1, "rows": 1, "columns": 1, "lanes": 1},
    "oblong": {"pu_rows": 3, "pu_columns": 1, "rows": 1, "columns": 2, "lanes": 4},
    "oblong the other way": {"pu_rows": 1, "pu_columns": 3, "rows": 2, "columns": 1, "lanes": 4},
    "one register stage": {"pipeline": 1},
}


@both_arithmetics
@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_other_configurations(
    configuration: str, arithmetic: Arithmetic, tmp_path: Path, tally: Tally
) -> None:
    module = small_array(tmp_path, arithmetic, **CONFIGURATIONS[configuration])
    products = random_products(3, 8, 4, 40, 8)
    result = run_products(available("icarus"), module, products, stall=0.2)
    compare(products, result.products, arithmetic, module.parameters["lanes"])
    tally("icarus", "array configurations, tiles", result.tiles)


@pytest.mark.parametrize("units", [1, 2, 4])
@pytest.mark.parametrize("block", [2, 8, 13])
def test_accumulate_units(units: int, block: int, tmp_path: Path, tally: Tally) -> None:
    """A block that ends before the units are free waits, and only then."""
    module = small_array(tmp_path, "exact", units=units)
    assert module.parameters["block_cycles"] == 4 // units
    rng = np.random.default_rng(units)
    products = [operands(rng, 8, 52, 8, block)]
    result = run_products(available("icarus"), module, products)
    compare(products, result.products, "exact", module.parameters["lanes"])
    beats = -(-block // module.parameters["lanes"])
    blocks = [min(block, 52 - start) for start in range(0, 52, block)]
    waits = max(beats, module.parameters["block_cycles"]) * (len(blocks) - 1)
    last = max(-(-blocks[-1] // module.parameters["lanes"]), module.parameters["block_cycles"])
    steady = result.tiles * (waits + last)
    tail = module.latency + 4 + 4  # into the array, and a tile's rows out
    assert steady <= result.cycles <= steady + tail
    tally("icarus", "array configurations, tiles", result.tiles)


@both_arithmetics
def test_reset_at_any_time(
    simulator: str, arithmetic: Arithmetic, tmp_path: Path, tally: Tally
) -> None:
    module = small_array(tmp_path, arithmetic)
    products = random_products(5, 4, 4, 40, 8)
    moments = np.random.default_rng(2).integers(1, 120, 12).tolist()
    result = run_products(simulator, module, products, stall=0.2, resets_after=moments)
    compare(products, result.products, arithmetic, module.parameters["lanes"])
    tally(simulator, f"{module.name} tiles", result.tiles)


@both_arithmetics
def test_streams_out_of_step(arithmetic: Arithmetic, tmp_path: Path) -> None:
    """The first operand says where a tile ends; from then on every row is flagged."""
    module = small_array(tmp_path, arithmetic)
    rng = np.random.default_rng(4)
    products = [operands(rng, 12, 160, 12, 8)]
    result = run_products(available("icarus"), module, products, w_last_missing=True)
    compare(products, result.products, arithmetic, module.parameters["lanes"])
    assert result.out_of_step.all()


@both_arithmetics
@pytest.mark.parametrize("block", [64, (8, 8)])
def test_full_array(
    arithmetic: Arithmetic, block: Block, modules: dict[str, Module], tally: Tally
) -> None:
    module = modules["mxsf_sta" if arithmetic == "fp12" else "mxsf_sta_exact"]
    products = random_products(9, 40, 16, 150, block)
    a, w = operands(np.random.default_rng(6), 40, 56, 24, (8, 8))
    products += [(a, w), (w.T, a.T)]  # transposed tiles go in as they are
    result = run_products(available("verilator"), module, products, stall=0.15)
    compare(products, result.products, arithmetic, module.parameters["lanes"])
    tally("verilator", f"{module.name} tiles", result.tiles)


@pytest.mark.full
@both_arithmetics
@pytest.mark.parametrize("block", [64, 32, 12, (8, 8)])
def test_full_array_at_length(
    arithmetic: Arithmetic, block: Block, modules: dict[str, Module], tally: Tally
) -> None:
    module = modules["mxsf_sta" if arithmetic == "fp12" else "mxsf_sta_exact"]
    for seed in range(4):
        products = random_products(100 + seed, 100, 16, 300, block)
        result = run_products(available("verilator"), module, products, stall=0.1, seed=seed)
        compare(products, result.products, arithmetic, module.parameters["lanes"])
        tally("verilator", f"{module.name} tiles", result.tiles)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"pu_rows": 0}, "pu_rows must be a positive integer, not 0"),
        ({"columns": 2.5}, "columns must be a positive integer, not 2.5"),
        ({"arithmetic": "bf16"}, "arithmetic must be one of fp12, exact, not 'bf16'"),
        (
            {"arithmetic": "exact", "units": 3},
            "units must divide the 4 * 4 = 16 MACs, not 3",
        ),
        ({"units": 2}, "units goes with arithmetic exact, but 2 was given"),
        ({"lanes": 3}, "lanes must be a power of two, not 3"),
    ],
)
def test_configurations_that_cannot_work(parameters: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError) as error:
        STA(format=MX_FORMATS["mxsf"], **parameters)
    assert str(error.value) == message
