"""The networks: their sizes against those that are published, and what they do to images."""

from typing import Any

import pytest

from verif.support.tests import raises

torch = pytest.importorskip("torch", reason="torch is not installed")
networks = pytest.importorskip("studies.evidence.networks")

IMAGENET = {
    # Parameters that torchvision and timm state, less first and last layers for ImageNet, and the
    # places of 196 patches, plus ours.
    "resnet18": 11_689_512 - 3 * 49 * 64 - 513_000 + 9 * 64 + 5_130,
    "mobilenetv2": 3_504_872 - 3 * 9 * 32 - 1_281_000 + 9 * 32 + 12_810,
    "deit": 5_717_416 - 3 * 256 * 192 - 197 * 192 - 193_000 + 16 * 192 + 50 * 192 + 1_930,
}


@pytest.mark.parametrize("architecture", IMAGENET)
def test_paper_sizes(architecture: str) -> None:
    model = networks.network(architecture, "paper")
    assert sum(parameter.numel() for parameter in model.parameters()) == IMAGENET[architecture]


@pytest.mark.parametrize("architecture", IMAGENET)
@pytest.mark.parametrize("size", ["tiny", "small"])
def test_scores_of_each_image_alone(architecture: str, size: str) -> None:
    torch.manual_seed(0)
    model = networks.network(architecture, size).eval()
    images = torch.randn(3, 1, 28, 28)
    scores = model(images)
    assert scores.shape == (3, 10)
    torch.testing.assert_close(model(images[1:2]), scores[1:2])
    scores.sum().backward()
    silent = [name for name, p in model.named_parameters() if p.grad is None]
    assert silent == []


def test_layers_of_resnet18_have_torchvisions_names() -> None:
    model = networks.network("resnet18", "tiny")
    names = {name for name, module in model.named_modules() if isinstance(module, torch.nn.Conv2d)}
    assert {"conv1", "layer2.0.downsample.0", "layer2.1.conv2", "layer4.1.conv2"} <= names
    assert len(names) == 20


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("vgg", "tiny"), "architecture must be one of resnet18, mobilenetv2, deit, not 'vgg'"),
        (("deit", "huge"), "size must be one of tiny, small, paper, not 'huge'"),
    ],
)
def test_bad_arguments(arguments: Any, message: str) -> None:
    with raises(ValueError, message):
        networks.network(*arguments)
