"""Direct casts of networks that were trained here in float32: images with labels."""

from functools import cache
from pathlib import Path
from typing import Any

import torch

from studies.evidence import fashion_mnist
from studies.evidence.casting import cast
from studies.evidence.formats import Configuration
from studies.evidence.training import trained

_BATCH = 200


def require() -> None:
    """Refuse where the images are missing."""
    fashion_mnist.folder()


@cache
def _images(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    images, labels = fashion_mnist.read("test", count)
    return torch.from_numpy(images.copy()), torch.from_numpy(labels.copy())


_network = cache(trained)


def _logits(model: torch.nn.Module, count: int) -> torch.Tensor:
    return torch.cat([model(batch).float() for batch in _images(count)[0].split(_BATCH)])


@cache
def _references(architecture: str, out: Path, seed: int, count: int) -> torch.Tensor:
    return _logits(_network(architecture, out, seed), count)


@torch.inference_mode()
def measure(
    *, format: str, block: str, architecture: str, seed: int, images: int, folder: Path
) -> dict[str, Any]:
    """Judge the first test images of Fashion-MNIST.

    The network is that of the training run of the same folder of results.

    Returns
    -------
    dict
        `columns` and `rows`: sums of every 200 images. ``right`` counts images whose label is
        the likeliest class, ``same`` those for which that is float32's; ``noise`` and ``signal``
        are sums of squares of the logits' errors, and of float32's logits less their mean.
    """
    out = next(above for above in folder.parents if above.name == "direct-cast").parent
    references = _references(architecture, out, seed, images)
    labels = _images(images)[1]
    model = _network(architecture, out, seed)
    with cast(model, Configuration(format, block)):
        logits = _logits(model, images)
    rows = []
    for got, expected, label in zip(
        *(t.split(_BATCH) for t in (logits, references, labels)), strict=True
    ):
        signal = expected - expected.mean(-1, keepdim=True)
        rows.append(
            [
                len(got),
                int((got.argmax(-1) == label).sum()),
                int((got.argmax(-1) == expected.argmax(-1)).sum()),
                float(f"{float((got - expected).double().square().sum()):.6g}"),
                float(f"{float(signal.double().square().sum()):.6g}"),
            ]
        )
    columns = ["images", "right", "same", "noise", "signal"]
    return {"unit": "200 images", "columns": columns, "rows": rows}
