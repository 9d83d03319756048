"""Tangents and gradients of `torch.func` go straight through quantised tensors."""

import subprocess
import sys
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
mxt = pytest.importorskip("mxsafe.torch")


# PyTorch's own, of what its forward mode imports.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")


def drawn(*shape: int, seed: int = 0) -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def same(pairs: list[tuple[Any, Any]]) -> None:
    compared = 0
    for got, expected in pairs:
        assert torch.equal(got, expected)
        compared += got.numel()
    assert compared > 0


@pytest.mark.parametrize("fmt", ["mxsf", "mxint8", "nvfp4"])
@pytest.mark.parametrize("engine", ["auto", "torch", "numpy"])
def test_tangents_go_straight_through(fmt: str, engine: str) -> None:
    forward_ad = torch.autograd.forward_ad
    x, tangent = drawn(5, 16), drawn(5, 16, seed=1)
    run = lambda t: mxt.fake_quantize(t, fmt, block=8, engine=engine)  # noqa: E731
    values, got = torch.func.jvp(run, (x,), (tangent,))
    with torch.no_grad():
        _, without = torch.func.jvp(run, (x,), (tangent,))
    with forward_ad.dual_level():
        dual = forward_ad.unpack_dual(run(forward_ad.make_dual(x, tangent)))
    pairs = [(values, run(x)), (dual.primal, run(x))]
    pairs += [(t, tangent) for t in (got, without, dual.tangent)]
    each = torch.vmap(run)(x)
    pairs += [(each[i], run(x[i])) for i in range(5)]  # NVFP4 has a scale for each
    zeros = torch.vmap(torch.func.grad(lambda t: run(t).square().sum()))(x)
    pairs.append((zeros, 2 * each))
    same(pairs)


def test_tangents_of_what_is_clipped() -> None:
    t = torch.tensor([1.0, -0.3, 0.004, 1.99])
    run = lambda t: mxt.fake_quantize(t, "mxsf", block=4, clipped="zero")  # noqa: E731
    expected = torch.tensor([1.0, 1.0, 1.0, 0.0])
    _, tangent = torch.func.jvp(run, (t,), (torch.ones(4),))
    each = torch.vmap(torch.func.grad(lambda t: run(t).sum()))(torch.stack([t, t]))
    same([(tangent, expected), (each, torch.stack([expected] * 2))])


def test_importing_brings_no_compiler() -> None:
    code = "import sys, mxsafe.torch; assert 'torch._dynamo' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
