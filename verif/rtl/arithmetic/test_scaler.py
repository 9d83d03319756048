"""Both scalers against the model: every pair of scales, and magnitudes of every length."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from mxsafe.model.accumulate import canonical, scaled
from mxsafe.rtl.arithmetic.scaler import Scaler
from verif.support.checkers import assert_equal
from verif.support.generated import generated
from verif.support.simulators import lint, run_lockstep
from verif.support.tests import Tally


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


@pytest.mark.parametrize(
    ("width", "unit", "pipeline", "twos_complement"),
    [
        (22, -18, 0, False),
        (22, -18, 0, True),
        (30, -22, 1, True),
        (30, -22, 2, True),
        (30, -22, 3, True),
        (30, -22, 4, True),
        (32, -22, 0, True),
        (53, 3, 1, False),
        (53, 3, 1, True),
    ],
)
def test_products(
    simulator: str,
    width: int,
    unit: int,
    pipeline: int,
    twos_complement: bool,
    tmp_path: Path,
    tally: Tally,
) -> None:
    scaler = Scaler(
        width=width, quantum_exponent=unit, pipeline=pipeline, twos_complement=twos_complement
    )
    name = scaler.module_name
    module = generated(scaler, tmp_path)
    if simulator == "verilator":
        assert lint(module) == ""
    ports = module.ports
    pairs = np.arange(1 << 16)
    if simulator == "icarus":  # a quarter there, every pair of scales on Verilator
        pairs = pairs[1::4]
    rng = np.random.default_rng(8)
    tight, near = corners(width, unit)
    assert len(tight) > 2 * width
    pairs = np.concatenate([pairs, tight, np.zeros(module.latency, np.int64)])
    controls = {"en": np.ones_like(pairs), "rst": np.zeros_like(pairs)}
    negative, magnitude = rng.integers(0, 2, pairs.size), magnitudes(rng, pairs.size, width)
    magnitude[-module.latency - len(near) :][: len(near)] = near
    if twos_complement:
        magnitude[:3], negative[:3] = (1 << width, 1, 0), (1, 1, 0)
        number = {"value": np.where(negative, -magnitude, magnitude)}
        negative = negative & (magnitude != 0)
    else:
        number = {"negative": negative, "magnitude": magnitude}
    stimulus = {
        name: ports[name].words(values)
        for name, values in (controls | number).items()
        if name in ports
    } | {
        "block_exponent": ports["block_exponent"].words((pairs >> 8) + (pairs & 255)),
        "nan": ports["nan"].words((pairs >> 8 == 255) | (pairs & 255 == 255)),
    }
    log = run_lockstep(simulator, module, stimulus, unsettled=module.latency)
    count = pairs.size - module.latency
    scale_a, scale_w = pairs[:count] >> 8, pairs[:count] & 255
    for port, values in number.items():
        assert (ports[port].numbers(log[port]) == values).all()
    negative, magnitude = negative[:count], magnitude[:count]
    got = ports["product"].numbers(log["product"][module.latency :])
    values = np.copysign(np.ldexp(magnitude.astype(np.float64), unit), 0.5 - negative)
    expected = canonical(scaled(values, scale_a.astype(np.uint8), scale_w.astype(np.uint8)))
    compared = assert_equal(
        name,
        got,
        expected.view(np.uint32).astype(np.int64),
        magnitude=magnitude,
        scale_a=scale_a,
        scale_w=scale_w,
    )
    subnormal = (np.abs(expected) < 2.0**-126) & (expected != 0)
    assert subnormal.sum() > 300
    assert np.isinf(expected).sum() > 1_000
    tally(simulator, name, compared)


@pytest.mark.parametrize(
    ("width", "unit", "message"),
    [
        (1, -22, "width must be an integer from 2 to 80, not 1"),
        (30, 65, "quantum_exponent must be an integer from -64 to 64, not 65"),
    ],
)
def test_refused(width: int, unit: int, message: str) -> None:
    with pytest.raises(ValueError) as error:
        Scaler(width=width, quantum_exponent=unit)
    assert str(error.value) == message
