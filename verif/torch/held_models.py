"""A network with every kind of module that is quantised, and ways to quantise it."""

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
nn = torch.nn


class Network(nn.Module):
    """Every kind of module that is quantised, and some that are not."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(20, 48)
        self.layer = nn.TransformerEncoderLayer(48, 2, 96, dropout=0.0, batch_first=True)
        self.wide = nn.Conv1d(48, 12, 3, padding=1, groups=2, padding_mode="circular")
        self.flat = nn.Conv2d(1, 6, (3, 2), stride=2, padding="valid", bias=False)
        self.deep = nn.Conv3d(2, 4, 2)
        self.norm = nn.LayerNorm(8)
        self.last = nn.Linear(8, 20)

    def forward(self, tokens: Any) -> Any:
        x = self.wide(self.layer(self.words(tokens)).transpose(1, 2))
        x = self.flat(x.unsqueeze(1)).flatten(1)[:, :64].reshape(-1, 2, 4, 4, 2)
        return self.last(self.norm(self.deep(x).flatten(1)[:, :8]))


def network() -> Any:
    torch.manual_seed(0)
    return Network().eval()


def tokens() -> Any:
    return torch.randint(0, 20, (3, 9), generator=torch.Generator().manual_seed(1))


OPTIONS: list[dict[str, Any]] = [
    {"block": 16},
    {"block": (8, 4)},
    {"block": 16, "activations": None},
    {"block": 16, "weights": "mxfp4_e2m1"},
    {"block": 16, "activations": "mxfp8_e4m3", "weights": "mxfp6_e2m3"},
]
