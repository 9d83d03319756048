"""Direct casts: what is quantised where, and small runs against the numbers that are kept."""

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxsafe.cli.arguments import UserError
from studies import pages
from studies.evidence.direct_cast import MODELS, runs
from studies.evidence.formats import MX, Configuration
from verif.support.tests import some

torch = pytest.importorskip("torch", reason="torch is not installed")
mxt = pytest.importorskip("mxsafe.torch")
cast = pytest.importorskip("studies.evidence.casting").cast

CASES = [Configuration(name, block) for name in MX for block in ("1x64", "8x8", "1x32")]


class Network(torch.nn.Module):
    """Convolutions, attention and a linear layer."""

    def __init__(self, groups: int = 1) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(3, 24, 3, padding=1)
        self.middle = torch.nn.Conv2d(24, 24, 3, groups=groups, bias=False)
        self.last = torch.nn.Linear(24, 10)

    def forward(self, x: Any) -> Any:
        x = torch.relu(self.middle(torch.relu(self.first(x))))
        x = x.flatten(2).transpose(1, 2)
        x = torch.nn.functional.scaled_dot_product_attention(x, x, x)
        return self.last(x.mean(1))


def made(groups: int = 1) -> tuple[Any, Any]:
    """A network and its images."""
    torch.manual_seed(3)
    return Network(groups).eval(), torch.randn(9, 3, 8, 8)


@pytest.mark.parametrize("one", some(CASES, 5), ids=lambda one: one.path)
def test_weights_are_cast_once_and_right(one: Configuration) -> None:
    """Without groups, the same as the context alone; afterwards the network is as before."""
    model, x = made()
    weights = [parameter.clone() for parameter in model.parameters()]
    with torch.no_grad():
        with cast(model, one):
            got = model(x)
        with mxt.microscaling(one.format, block=one.shape):
            expected = model(x)
        plain = model(x)
    assert torch.equal(got, expected)
    assert not torch.equal(got, plain)
    for parameter, weight in zip(model.parameters(), weights, strict=True):
        assert torch.equal(parameter, weight)
        assert parameter.requires_grad


@pytest.mark.parametrize("one", some(CASES, 5), ids=lambda one: one.path)
def test_blocks_of_depthwise_convolutions_run_along_all_channels(one: Configuration) -> None:
    model, x = made(groups=24)
    inputs: list[Any] = []
    model.middle.register_forward_hook(lambda module, given, result: inputs.append((given, result)))
    with torch.no_grad(), cast(model, one):
        model(x)
    (((given,), result),) = inputs
    with torch.no_grad(), mxt.microscaling(one.format, block=one.shape):
        before = torch.relu(model.first(x))
    if isinstance(one.shape, int):
        values = mxt.fake_quantize(before, one.format, block=one.shape, axis=1)
        filters = mxt.fake_quantize(model.middle.weight, one.format, block=one.shape, axis=1)
    else:
        tiles = before.permute(2, 3, 0, 1).contiguous()
        values = mxt.fake_quantize(tiles, one.format, block=one.shape).permute(2, 3, 0, 1)
        tiles = model.middle.weight.permute(2, 3, 0, 1).contiguous()
        filters = mxt.fake_quantize(tiles, one.format, block=one.shape).permute(2, 3, 0, 1)
    assert torch.equal(given, values)
    expected = torch.nn.functional.conv2d(values, filters, groups=24)
    torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-6)


def test_floats() -> None:
    model, x = made()
    with torch.no_grad():
        plain = model(x)
        with cast(model, Configuration("float32")):
            assert torch.equal(model(x), plain)
        with cast(model, Configuration("bf16")):
            rounded = model(x)
    assert rounded.dtype == torch.bfloat16
    error = (rounded.float() - plain).norm() / plain.norm()
    assert 1e-4 < error < 2e-2


def test_what_cannot_be_cast_is_refused() -> None:
    model = torch.nn.Sequential(torch.nn.MultiheadAttention(8, 2))
    with pytest.raises(ValueError) as error, cast(model, Configuration("mxsf", "8x8")):
        pass
    assert str(error.value) == "model must not have a MultiheadAttention to be cast"


QUICK = runs(quick=True, seeds=1)
KEPT = {result["name"]: result for result in json.loads((pages.DOCS / "evidence.json").read_text())}


def test_rank_correlation() -> None:
    embeddings = pytest.importorskip("studies.evidence.embeddings")
    x = np.array([1.0, 2.0, 2.0, 5.0])
    assert embeddings.rank_correlation(x, x**3) == pytest.approx(1)
    assert embeddings.rank_correlation(x, -x) == pytest.approx(-1)
    y = np.array([1.0, 3.0, 2.0, 4.0])  # ranks 1, 2.5, 2.5, 4 and 1, 3, 2, 4
    assert embeddings.rank_correlation(x, y) == pytest.approx(4.5 / np.sqrt(4.5 * 5))


@pytest.mark.parametrize("model", [name for name, model in MODELS.items() if model.quick])
def test_small_runs_give_the_numbers_that_are_kept(model: str, tmp_path: Path) -> None:
    """Counts may differ by one, sums by what another processor makes of float32."""
    compared = 0
    for run in QUICK:
        if run.name.split("/")[1] != model:
            continue
        name, function = run.function.split(":")
        module = pytest.importorskip(name)
        try:
            module.require()
        except UserError as error:
            pytest.skip(str(error))
        numbers = getattr(importlib.import_module(name), function)(
            **run.parameters, folder=tmp_path
        )
        kept = KEPT[run.name]["numbers"]
        assert numbers["columns"] == kept["columns"]
        for i, column in enumerate(numbers["columns"]):
            got = np.array([row[i] for row in numbers["rows"]])
            expected = np.array([row[i] for row in kept["rows"]])
            counted = np.issubdtype(expected.dtype, np.integer)
            np.testing.assert_allclose(
                got, expected, 0 if counted else 0.05, 1 if counted else 1e-3, err_msg=column
            )
            compared += len(got)
    assert compared > 0
