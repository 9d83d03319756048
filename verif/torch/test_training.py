"""Training in a format: what products see, what is probed, and what goes on after a stop."""

import json
from pathlib import Path
from typing import Any

import pytest

import mxsafe as mx
from mxsafe.cli.arguments import UserError
from studies import pages
from verif.studies.fashion_mnist import write_images

torch = pytest.importorskip("torch", reason="torch is not installed")
mxt = pytest.importorskip("mxsafe.torch")
training = pytest.importorskip("studies.evidence.training")

SMALL: dict[str, Any] = {
    "architecture": "resnet18",
    "seed": 1,
    "size": "tiny",
    "images": 96,
    "epochs": 3,
    "batch": 16,
    "tests": 500,
}


@pytest.fixture
def images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_images(tmp_path, 96, 500)
    monkeypatch.setenv("FASHION_MNIST", str(tmp_path))


def tiles(t: Any, axes: tuple[int, int], fmt: str = "mxsf") -> Any:
    """Values by the reference, in tiles of two axes."""
    moved = t.detach().movedim(axes, (-2, -1)).contiguous().numpy()
    values = mx.dequantize(mx.quantize(moved, fmt, block=(8, 8), engine="numpy"))
    return torch.from_numpy(values).movedim((-2, -1), axes).contiguous()


@pytest.mark.parametrize("groups", [1, 2, 16])
def test_tiles_of_convolutions_go_through_all_channels(groups: int) -> None:
    torch.manual_seed(2)
    conv = torch.nn.Conv2d(16, 16, 3, 1, 1, groups=groups, bias=False)
    model = torch.nn.Sequential(conv)
    x = torch.randn(10, 16, 5, 5, requires_grad=True)
    with training.products(model, "mxsf"):
        y = model(x)
    g = torch.randn_like(y)
    y.backward(g)
    q = [tiles(t, (0, 1)) for t in (x, conv.weight, g)]
    expected = torch.nn.functional.conv2d(q[0], q[1], None, 1, 1, 1, groups)
    assert torch.equal(y, expected)
    of_x, of_weight, _ = torch.ops.aten.convolution_backward(
        q[2], q[0], q[1], None, [1, 1], [1, 1], [1, 1], False, [0, 0], groups, [True, True, False]
    )
    assert torch.equal(x.grad, of_x)
    assert torch.equal(conv.weight.grad, of_weight)
    assert "forward" not in vars(conv)


def test_probes_count_what_products_would_lose() -> None:
    torch.manual_seed(3)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(8, 8, 3, groups=8, bias=False),
        torch.nn.BatchNorm2d(8),
        torch.nn.Flatten(),
        torch.nn.Linear(8, 12),
    )
    x = torch.randn(16, 8, 3, 3, requires_grad=True)
    weights = torch.exp2(torch.randint(-12, 1, (16, 12)).float())
    before = {name: value.clone() for name, value in model.state_dict().items()}
    of_results, of_weights = training.probed(model, lambda: (model(x) * weights).sum())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert list(of_results["mxsf"]) == ["3", "0"]
    model.zero_grad()
    (model(x) * weights).sum().backward()
    for fmt in training.FORMATS[1:]:
        for found, gradient in (
            (of_results[fmt]["3"], weights),
            (of_weights[fmt]["3"], model[3].weight.grad),
            (of_weights[fmt]["0"], model[0].weight.grad),
        ):
            axes = (0, 1)
            values = tiles(gradient, axes, fmt)
            lost = ((values == 0) & (gradient != 0)).sum() / (gradient != 0).sum()
            error = (values - gradient).norm() / gradient.norm()
            assert found == pytest.approx([float(lost), float(error)], rel=1e-3)
    assert of_results["mxint8"]["3"][0] > of_results["mxsf"]["3"][0] > 0


@pytest.mark.usefixtures("images")
@pytest.mark.parametrize("fmt", ["float32", "mxsf"])
def test_an_interrupted_run_goes_on(
    fmt: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = training.measure(**SMALL, format=fmt, folder=tmp_path / "whole")
    assert len(whole["accuracy"]) == len(whole["loss"]) == len(whole["training_loss"]) == 3
    assert whole["training_loss"][-1] < whole["training_loss"][0]
    tested, calls = training.tested, []

    def stopped(*arguments: Any) -> Any:
        calls.append(None)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return tested(*arguments)

    monkeypatch.setattr(training, "tested", stopped)
    with pytest.raises(KeyboardInterrupt):
        training.measure(**SMALL, format=fmt, folder=tmp_path / "parts")
    assert training.measure(**SMALL, format=fmt, folder=tmp_path / "parts") == whole
    assert len(calls) == 4  # the first epoch was not made again
    assert ("medians" in whole) == (fmt == "float32")


@pytest.mark.usefixtures("images")
def test_what_other_parameters_left_is_not_gone_on_with(tmp_path: Path) -> None:
    longer = {**SMALL, "epochs": 2, "format": "mxsf"}
    training.measure(**{**longer, "epochs": 1}, folder=tmp_path / "one")
    found = training.measure(**longer, folder=tmp_path / "one")
    assert found == training.measure(**longer, folder=tmp_path / "other")


@pytest.mark.usefixtures("images")
def test_trained_networks_for_direct_casts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        training, "KEPT", {k: v for k, v in SMALL.items() if k not in ("seed", "architecture")}
    )
    with pytest.raises(FileNotFoundError) as error:
        training.trained("resnet18", tmp_path)
    message = f"out must hold training/resnet18/float32/0/model.pt, not {tmp_path}"
    assert str(error.value) == message
    run = training.training_run("resnet18", "float32", 0)
    numbers = training.measure(**run.parameters, folder=tmp_path / run.name)
    model = training.trained("resnet18", tmp_path)
    assert not model.training
    testing = map(torch.from_numpy, training.fashion_mnist.read("test", 500))
    assert training.tested(model, "float32", *testing)[0] == numbers["accuracy"][-1]


def test_runs() -> None:
    names = [run.name for run in training.runs(quick=False, seeds=2)]
    assert len(names) == len(set(names)) == 2 * 3 * 5
    assert names[0] == "training/resnet18/float32/0"
    assert {name.rsplit("/", 1)[1] for name in names[:15]} == {"0"}
    quick = training.runs(quick=True, seeds=3)
    assert [run.name for run in quick] == [
        "training/resnet18/float32/0/quick",
        "training/resnet18/mxsf/0/quick",
    ]


def test_the_committed_numbers_are_those_of_todays_runs() -> None:
    planned = {
        run.name: run for quick in (False, True) for run in training.runs(quick=quick, seeds=3)
    }
    committed = json.loads((pages.DOCS / "evidence.json").read_text())
    made = {one["name"]: one for one in committed if one["name"].startswith("training/")}
    assert made.keys() == planned.keys()
    for name, one in made.items():
        assert one["parameters"] == dict(planned[name].parameters), name


def test_small_runs_give_the_numbers_that_are_kept(tmp_path: Path) -> None:
    """As far as trainings stay together on other processors, whose float32 sums differ."""
    try:
        training.require()
    except UserError as error:
        pytest.skip(str(error))
    kept = {one["name"]: one for one in json.loads((pages.DOCS / "evidence.json").read_text())}
    for run in training.runs(quick=True, seeds=1):
        numbers = training.measure(**run.parameters, folder=tmp_path / run.name)
        expected = kept[run.name]["numbers"]
        assert numbers["accuracy"] == pytest.approx(expected["accuracy"], abs=0.1)
        assert numbers["training_loss"] == pytest.approx(expected["training_loss"], rel=0.1)
        for got, wanted in zip(
            numbers.get("medians", []), expected.get("medians", []), strict=True
        ):
            for fmt, ratios in wanted.items():
                assert got[fmt] == pytest.approx(ratios, rel=0.2, abs=1e-3)
