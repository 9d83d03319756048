"""SQNR of the layers of quantised models."""

import copy
import math
from pathlib import Path
from typing import Any

import pytest

from verif.support.tests import raises
from verif.torch.held_models import network, tokens

torch = pytest.importorskip("torch", reason="torch is not installed")
mxt = pytest.importorskip("mxsafe.torch")
nn = torch.nn


def models(**options: Any) -> tuple[Any, Any]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))
    held = copy.deepcopy(model)
    mxt.quantize_(held, "mxfp4_e2m1", **options)
    return model, held


def test_ratios_are_those_of_the_outputs(tmp_path: Path) -> None:
    model, held = models()
    x = torch.randn(5, 32)
    errors = mxt.layer_errors(model, held, x)
    first, last = errors.layers
    assert (first.name, last.name, first.weights) == ("0", "2", "mxfp4_e2m1")
    assert first.alone == first.within  # nothing moved before it
    with torch.no_grad():
        y, moved, hidden = (t.double() for t in (model(x), held(x), held[2](model[:2](x))))
    assert last.within == pytest.approx(
        10 * math.log10(y.square().sum() / (moved - y).square().sum())
    )
    assert last.alone == pytest.approx(
        10 * math.log10(y.square().sum() / (hidden - y).square().sum())
    )
    assert str(errors).splitlines()[0].split("  ")[0] == "module"
    assert f"{last.alone:.1f}" in str(errors)
    assert f"<td>{last.within:.1f}</td>" in errors._repr_html_()
    assert not any(module._forward_hooks for module in (*model.modules(), *held.modules()))
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    errors.save_figure(tmp_path / "layers.svg")
    assert "SQNR" in (tmp_path / "layers.svg").read_text()


def test_every_kind_of_layer() -> None:
    model = network()
    held = copy.deepcopy(model)
    mxt.quantize_(held, "mxsf")
    errors = mxt.layer_errors(model, held, tokens())
    assert len(errors.layers) == 8
    assert all(20 < one.within < 60 for one in errors.layers), str(errors)


def test_bad_input() -> None:
    model, held = models()
    with raises(ValueError, "quantised must have quantised modules, not none: see quantize_"):
        mxt.layer_errors(held, model, torch.ones(1, 32))
    with raises(ValueError, "reference must have a module '0', not none"):
        mxt.layer_errors(nn.Linear(32, 4), held, torch.ones(1, 32))


def test_layers_of_any_name_count_and_those_that_did_not_run_are_said() -> None:
    model = nn.ModuleDict({"out_proj": nn.Linear(8, 8), "idle": nn.Linear(8, 8)})
    model.forward = lambda x: model["out_proj"](x)
    held = copy.deepcopy(model)
    held.forward = lambda x: held["out_proj"](x)
    mxt.quantize_(held, "mxsf")
    ran, idle = mxt.layer_errors(model, held, torch.ones(1, 8)).layers
    assert (ran.name, idle.name) == ("out_proj", "idle")
    assert 0 < ran.within < math.inf
    assert math.isnan(idle.alone)
    assert math.isnan(idle.within)


@pytest.mark.parametrize(("calls", "word"), [((1, 2), "more"), ((2, 1), "less")])
def test_layers_that_are_called_otherwise_are_refused(calls: Any, word: str) -> None:
    pair = models()
    for model, many in zip(pair, calls, strict=True):
        model.forward = lambda x, model=model, many=many: [model[0](x) for _ in range(many)]
    with raises(ValueError, f"quantised must call '0' as often as reference, not {word}"):
        mxt.layer_errors(*pair, torch.ones(1, 32))
    assert not any(module._forward_hooks for model in pair for module in model.modules())


def test_models_are_compared_in_eval_and_stay_as_they_were() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 8))
    model[1].eval()
    model[1].running_mean.fill_(0.5)
    held = copy.deepcopy(model)
    mxt.quantize_(held, "mxsf")
    model[2].train(), held[2].train()
    errors = mxt.layer_errors(model, held, torch.randn(16, 8))
    assert errors.layers[1].within > 20  # not two drawings of the dropout
    for one in (model, held):
        assert [module.training for module in one] == [True, False, True, True]
    model.train(), held.train()
    assert mxt.layer_errors(model, held, torch.randn(16, 8)).layers[1].within > 20
    assert model[1].running_mean.tolist() == [0.5] * 8
