"""Operations of the host: each result is the exact one, rounded to binary32 once."""

import math

import mpmath
import numpy as np
import pytest

from mxsafe.model import host

RNG = np.random.default_rng(0)
EXACT = {
    "relu": lambda x: max(x, mpmath.mpf(0)),
    "gelu": lambda x: x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2,
    "silu": lambda x: x / (1 + mpmath.exp(-x)),
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
    "reciprocal": lambda x: 1 / x,
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "abs": abs,
    **{name: getattr(mpmath, name) for name in ("tanh", "exp", "cos", "erf", "log", "sin")},
}


def drawn(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("f4")


@pytest.mark.parametrize("name", host.FUNCTIONS)
def test_functions(name: str) -> None:
    values = drawn(200) * 3
    if name in ("rsqrt", "log"):
        values = np.abs(values)
    with mpmath.workdps(40):
        wanted = [float(EXACT[name](mpmath.mpf(float(x)))) for x in values]
    assert np.array_equal(host.function(name, values), np.float32(wanted))
    assert EXACT.keys() == host.FUNCTIONS.keys()


def test_products() -> None:
    a, b = drawn(3, 5, 70), drawn(1, 6, 70)
    wanted = [
        [[math.fsum(x * y for x, y in zip(m, n, strict=True)) for n in np.float64(b[0])] for m in o]
        for o in np.float64(a)
    ]
    assert np.array_equal(host.product(a, b), np.float32(wanted))


@pytest.mark.parametrize("length", [1, 2, 7, 64])
def test_rows(length: int) -> None:
    x, gain, bias = drawn(5, length), drawn(length), drawn(length)
    powers = np.exp(0.5 * np.float64(x) - np.float64(x).max(-1, keepdims=True))
    near = {"rtol": 2.0**-23, "atol": 1e-9}
    np.testing.assert_allclose(host.softmax(x, 0.5), powers / powers.sum(-1, keepdims=True), **near)
    square = drawn(length, length)
    causal = host.softmax(square, causal=True)
    assert not np.triu(causal, 1).any()
    np.testing.assert_allclose(causal.sum(-1), 1, rtol=1e-6)
    np.testing.assert_array_equal(causal[-1], host.softmax(square)[-1])
    for centre in (False, True):
        rows = np.float64(x) - (np.float64(x).mean(-1, keepdims=True) if centre else 0)
        spread = np.sqrt(np.square(rows).mean(-1, keepdims=True) + 1e-3)
        found = host.norm(x, gain, bias, 1e-3, centre=centre)
        np.testing.assert_allclose(found, rows / spread * gain + bias, **near)
