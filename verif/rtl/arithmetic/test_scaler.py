"""Both scalers against the model: every pair of scales, and magnitudes of every length."""

import itertools
from dataclasses import dataclass

import numpy as np
import pytest

from mxsafe.model.accumulate import canonical, scaled
from mxsafe.rtl.arithmetic.scaler import Scaler, ScalerConfiguration, scale_stages
from verif.support.checkers import assert_equal
from verif.support.farm import Farm, beside, farm_of, run_farm
from verif.support.manifest import Module
from verif.support.simulators import lint
from verif.support.tests import Volume, raises
from verif.support.units import published


def magnitudes(rng: np.random.Generator, n: int, width: int) -> np.ndarray:
    """Integers of all lengths, with runs of ones and lone bits among them."""
    values = rng.integers(0, 1 << width, n) >> rng.integers(0, width, n)
    lone = (1 << rng.integers(0, width, n)) | (1 << rng.integers(0, width, n))
    ones = (1 << rng.integers(1, width + 1, n)) - 1
    kind = rng.integers(0, 4, n)
    return np.choose(kind, [values, values, lone, ones])


def corners(width: int, unit: int) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of scales, and magnitudes that with them lie around half the least subnormal."""
    found = []
    for bit, nudge, power in itertools.product(range(width), (-1, 0, 1), (-151, -150, -149)):
        exponent = 2 * 127 - unit - bit + power
        if 0 <= exponent <= 2 * 254:
            low = min(exponent, 254)
            found.append((low << 8 | exponent - low, (1 << bit) + nudge))
    pairs, numbers = np.array(found, np.int64).T
    return pairs, numbers


SCALERS = {
    "22": Scaler(width=22, quantum_exponent=-18),
    "22, signed": Scaler(width=22, quantum_exponent=-18, twos_complement=True),
    **{
        f"30, signed, {stages} stages": Scaler(
            width=30, quantum_exponent=-22, pipeline=stages, twos_complement=True
        )
        for stages in (1, 2, 3, 4)
    },
    "32, signed": Scaler(width=32, quantum_exponent=-22, twos_complement=True),
    "53, 1 stage": Scaler(width=53, quantum_exponent=3, pipeline=1),
    "30, signed, fpga, most stages": Scaler(
        width=30,
        quantum_exponent=-22,
        pipeline=scale_stages(ScalerConfiguration(target="fpga"), 30).most,
        twos_complement=True,
        target="fpga",
    ),
    "53, signed, 1 stage": Scaler(width=53, quantum_exponent=3, pipeline=1, twos_complement=True),
}


@pytest.fixture(scope="module")
def scalers(tmp_path_factory: pytest.TempPathFactory) -> Farm:
    """The scalers above, and all others that are published."""
    folder = tmp_path_factory.mktemp("scalers")
    modules = farm_of("scalers", SCALERS).modules
    made = {module.name for module in modules.values()}
    modules |= {name: one for name, one in published(Scaler).items() if name not in made}
    return Farm(beside(folder, "scalers", modules), modules)


@pytest.mark.full
def test_lint_clean(scalers: Farm) -> None:
    assert lint(scalers.wrapper) == ""


@dataclass(frozen=True)
class Operands:
    """Operands of a scaler: scales as pairs of bytes, and signed magnitudes."""

    pairs: np.ndarray
    negative: np.ndarray
    magnitude: np.ndarray


def operands(module: Module, every: int) -> Operands:
    """One of so many pairs of scales, and the corners; rows to flush follow."""
    p = module.parameters
    width, twos_complement = p["width"], p["twos_complement"]
    pairs = np.arange(every // 2, 1 << 16, every)
    rng = np.random.default_rng(8)
    tight, near = corners(width, p["quantum_exponent"])
    assert len(tight) > 2 * width
    pairs = np.concatenate([pairs, tight, np.zeros(module.latency, np.int64)])
    negative, magnitude = rng.integers(0, 2, pairs.size), magnitudes(rng, pairs.size, width)
    magnitude[-module.latency - len(near) :][: len(near)] = near
    if twos_complement:
        magnitude[:3], negative[:3] = (1 << width, 1, 0), (1, 1, 0)
        negative = negative & (magnitude != 0)
    return Operands(pairs, negative, magnitude)


def inputs(module: Module, given: Operands) -> dict[str, np.ndarray]:
    """Return the values of the pins."""
    high, low = given.pairs >> 8, given.pairs & 255
    number = {"negative": given.negative, "magnitude": given.magnitude}
    if module.parameters["twos_complement"]:
        number = {"value": np.where(given.negative, -given.magnitude, given.magnitude)}
    return number | {"block_exponent": high + low, "nan": (high == 255) | (low == 255)}


@pytest.mark.one_simulator("verilator")
def test_products(simulator: str, scalers: Farm, volume: Volume) -> None:
    """All scalers side by side; one with fewer operands than others gets some of them again.

    In cycles without enable they get operands whose turn it is not.
    """
    every = {"icarus": 6, "verilator": volume(3, 1, 1)}[simulator]
    given = {key: operands(module, every) for key, module in scalers.modules.items()}
    pins = {key: inputs(module, given[key]) for key, module in scalers.modules.items()}
    words = {
        f"{key}.{name}": module.ports[name].words(values)
        for key, module in scalers.modules.items()
        for name, values in pins[key].items()
    }
    rows = max(one.pairs.size for one in given.values())
    latest = max(module.latency for module in scalers.modules.values())
    rng = np.random.default_rng(9)
    en = np.concatenate([np.ones(rows), np.zeros(rows // 8)]) > 0
    rng.shuffle(en[latest:])
    # Each operand in its enabled cycle, and any other one in cycles without.
    turns = np.where(en, np.cumsum(en) - en, rng.integers(0, rows, en.size))
    words = {name: np.resize(each, (rows, each.shape[1]))[turns] for name, each in words.items()}
    log = run_farm(
        simulator, scalers, words, en.astype(np.int64), np.zeros_like(turns), unsettled=latest
    )
    for key, module in scalers.modules.items():
        for name, values in pins[key].items():
            carried = module.ports[name].numbers(log[key][name][en][: len(values)])
            assert (carried == values).all()
        compare(module, given[key], log[key]["product"][en])


def compare(module: Module, given: Operands, products: np.ndarray) -> int:
    """Check products against the model; how many."""
    count = given.pairs.size - module.latency
    scale_a, scale_w = given.pairs[:count] >> 8, given.pairs[:count] & 255
    negative, magnitude = given.negative[:count], given.magnitude[:count]
    got = module.ports["product"].numbers(products[module.latency :][:count])
    exponent = module.parameters["quantum_exponent"]
    values = np.copysign(np.ldexp(magnitude.astype(np.float64), exponent), 0.5 - negative)
    expected = canonical(scaled(values, scale_a.astype(np.uint8), scale_w.astype(np.uint8)))
    compared = assert_equal(
        module.name,
        got,
        expected.view(np.uint32).astype(np.int64),
        magnitude=magnitude,
        scale_a=scale_a,
        scale_w=scale_w,
    )
    subnormal = (np.abs(expected) < 2.0**-126) & (expected != 0)
    assert subnormal.sum() > 300
    assert np.isinf(expected).sum() > 1_000
    return compared


@pytest.mark.parametrize(
    ("width", "unit", "message"),
    [
        (1, -22, "width must be an integer from 2 to 80, not 1"),
        (30, 65, "quantum_exponent must be an integer from -64 to 64, not 65"),
    ],
)
def test_refused(width: int, unit: int, message: str) -> None:
    with raises(ValueError, message):
        Scaler(width=width, quantum_exponent=unit)
