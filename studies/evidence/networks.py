"""Networks for images of 28 x 28 in one channel: ResNet-18, MobileNetV2 and a DeiT of Tiny's shape.

Depths, kernels, expansions and heads are those of the papers; what a size chooses is the width, so
that a network fits one core of a CPU or fills a GPU. Since images are small, ResNet-18's first
convolution is one of 3 x 3 without pooling behind it, and patches are of 7 x 7 or 4 x 4 pixels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it
from torch import nn

CLASSES = 10


def _normalised(*layers: nn.Module, activation: type[nn.Module] | None) -> nn.Sequential:
    """A convolution, the batch normalisation of its result, and an activation."""
    outputs = layers[-1].out_channels
    after = [] if activation is None else [activation()]
    return nn.Sequential(*layers, nn.BatchNorm2d(outputs), *after)


def _conv(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)


class BasicBlock(nn.Module):
    """Two convolutions of 3 x 3, and the way around them."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = _conv(inputs, outputs, 3, stride), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = _conv(outputs, outputs, 3), nn.BatchNorm2d(outputs)
        self.downsample: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.downsample = _normalised(_conv(inputs, outputs, 1, stride), activation=None)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The sum of both ways."""
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + self.downsample(x))


class ResNet18(nn.Module):
    """ResNet-18: four stages of two blocks, of `width` to eight times as many channels.

    With a width of 64, that of the paper, it has eleven million parameters. Layers have the names
    that torchvision gives them.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = _conv(1, width, 3, 2), nn.BatchNorm2d(width)
        inputs = width
        for number in range(4):
            outputs = width << number
            first = BasicBlock(inputs, outputs, 1 if number == 0 else 2)
            stage = nn.Sequential(first, BasicBlock(outputs, outputs, 1))
            self.add_module(f"layer{number + 1}", stage)
            inputs = outputs
        self.fc = nn.Linear(inputs, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of the classes."""
        x = torch.relu(self.bn1(self.conv1(x)))
        for number in range(4):
            x = self.get_submodule(f"layer{number + 1}")(x)
        return self.fc(x.mean((2, 3)))


class InvertedResidual(nn.Module):
    """A convolution of channels one by one, between one that widens and one that narrows."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = inputs * expansion
        layers: list[nn.Module] = []
        if expansion != 1:
            layers.append(_normalised(_conv(inputs, hidden, 1), activation=nn.ReLU6))
        layers.append(
            _normalised(_conv(hidden, hidden, 3, stride, groups=hidden), activation=nn.ReLU6)
        )
        layers.append(_normalised(_conv(hidden, outputs, 1), activation=None))
        self.layers = nn.Sequential(*layers)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the layers' result for `x`, with `x` added if they keep its shape."""
        y = self.layers(x)
        return x + y if self.residual else y


_STAGES = (
    # expansion, channels, blocks, stride
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def mobilenetv2(width: float) -> nn.Module:
    """MobileNetV2: its seventeen blocks, with `width` times its channels, in multiples of 8."""

    def scaled(channels: int) -> int:
        return max(8, round(channels * width / 8) * 8)

    inputs = scaled(32)
    layers: list[nn.Module] = [_normalised(_conv(1, inputs, 3, 2), activation=nn.ReLU6)]
    for expansion, channels, blocks, stride in _STAGES:
        outputs = scaled(channels)
        for number in range(blocks):
            step = stride if number == 0 else 1
            layers.append(InvertedResidual(inputs, outputs, step, expansion))
            inputs = outputs
    last = scaled(1280)
    layers.append(_normalised(_conv(inputs, last, 1), activation=nn.ReLU6))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(last, CLASSES))


class Attention(nn.Module):
    """Self-attention of several heads."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attention of all tokens to all."""
        n, tokens, width = x.shape
        qkv = self.qkv(x).reshape(n, tokens, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value)
        return self.project(mixed.transpose(1, 2).reshape(n, tokens, width))


class EncoderBlock(nn.Module):
    """Attention and a perceptron, each behind a normalisation and with a way around it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.attention = Attention(width, heads)
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The sums."""
        x = x + self.attention(self.norms[0](x))
        return x + self.fc2(F.gelu(self.fc1(self.norms[1](x))))


class VisionTransformer(nn.Module):
    """A DeiT without distillation: a class token in front of the patches."""

    def __init__(self, width: int, depth: int, heads: int, patch: int) -> None:
        super().__init__()
        self.embed = nn.Conv2d(1, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.zeros(1, (28 // patch) ** 2 + 1, width))
        self.blocks = nn.Sequential(*(EncoderBlock(width, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, CLASSES)
        for parameter in (self.token, self.places):
            nn.init.trunc_normal_(parameter, std=0.02)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of the classes."""
        patches = self.embed(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(len(x), -1, -1), patches], 1) + self.places
        return self.head(self.norm(self.blocks(tokens))[:, 0])


ARCHITECTURES: dict[str, Callable[..., nn.Module]] = {
    "resnet18": ResNet18,
    "mobilenetv2": mobilenetv2,
    "deit": VisionTransformer,
}

SIZES: dict[str, dict[str, dict[str, Any]]] = {
    "tiny": {
        "resnet18": {"width": 4},
        "mobilenetv2": {"width": 0.125},
        "deit": {"width": 24, "depth": 2, "heads": 3, "patch": 7},
    },
    "small": {
        "resnet18": {"width": 8},
        "mobilenetv2": {"width": 0.25},
        "deit": {"width": 48, "depth": 12, "heads": 3, "patch": 7},
    },
    "paper": {
        "resnet18": {"width": 64},
        "mobilenetv2": {"width": 1.0},
        "deit": {"width": 192, "depth": 12, "heads": 3, "patch": 4},
    },
}
"""Parameters of each network: for a test, for one core, and those of the paper, for a GPU."""


def network(architecture: str, size: str = "small") -> nn.Module:
    """A network with random weights, of PyTorch's own generator.

    Parameters
    ----------
    architecture : {"resnet18", "mobilenetv2", "deit"}
        Which.
    size : {"tiny", "small", "paper"}
        Its width, and the depth of the smallest transformer.

    Raises
    ------
    ValueError
        If there is no such architecture or size.
    """
    if architecture not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise ValueError(f"architecture must be one of {known}, not {architecture!r}")
    if size not in SIZES:
        raise ValueError(f"size must be one of {', '.join(SIZES)}, not {size!r}")
    return ARCHITECTURES[architecture](**SIZES[size][architecture])
