"""Small networks from training to shipping: trained in a format, quantised, saved, loaded."""

import copy
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
mxt = pytest.importorskip("mxsafe.torch")
libraries = pytest.importorskip("studies.benchmarks.libraries")
nn = torch.nn


def cnn() -> Any:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, groups=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 2 * 2, 4),
    )


def images() -> tuple[Any, Any]:
    """Images whose class is where they are bright."""
    labels = torch.arange(32) % 4
    x = torch.randn(32, 1, 8, 8) * 0.3
    for image, label in zip(x, labels.tolist(), strict=True):
        image[0, 4 * (label // 2) :, 4 * (label % 2) :] += 1
    return x, labels


def gpt() -> Any:
    return libraries.Gpt(width=32, layers=1, words=16)


def texts() -> tuple[Any, Any]:
    tokens = (torch.arange(8)[:, None] + torch.arange(9)) % 16
    return tokens[:, :-1], tokens[:, 1:]


@pytest.mark.filterwarnings("ignore")  # of the compiler itself
@pytest.mark.parametrize(("make", "data"), [(cnn, images), (gpt, texts)], ids=["cnn", "gpt"])
def test_from_training_to_shipping(make: Any, data: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, (x, labels) = make(), data()
    optimiser = torch.optim.AdamW(model.parameters(), 1e-2)
    losses = []
    for _ in range(25):
        optimiser.zero_grad()
        with mxt.microscaling("mxsf", block=32):
            scores = model(x)
        loss = nn.functional.cross_entropy(scores.reshape(-1, scores.shape[-1]), labels.flatten())
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0] / 2

    before = mxt.nbytes(model.eval())
    with torch.no_grad(), mxt.microscaling("mxsf", block=32, gradients=None):
        in_context = model(x)
    summary = mxt.quantize_(model, "mxsf", block=32)
    assert mxt.nbytes(model) == summary.after < before / 2
    with torch.no_grad():
        expected = model(x)
        if make is cnn:  # an embedding is in the format here only
            assert torch.equal(expected, in_context)
        path = tmp_path / "model.safetensors"
        mxt.save_model(path, model)
        fresh = make().eval()
        mxt.load_model(path, fresh)
        assert torch.equal(fresh(x), expected)
        assert torch.equal(copy.deepcopy(fresh)(x), expected)
        narrow = copy.deepcopy(fresh).to(torch.bfloat16)
        y = narrow(x.bfloat16() if x.is_floating_point() else x)
        assert y.dtype == torch.bfloat16
        assert (y.float() - expected).norm() < 0.05 * expected.norm()
        assert torch.equal(torch.compile(fresh, backend="aot_eager")(x), expected)
        assert torch.equal(torch.export.export(fresh, (x,)).module()(x), expected)
