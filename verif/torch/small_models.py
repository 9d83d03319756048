"""Small models of PyTorch and transformers that compile."""

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

nn = torch.nn


def perceptron() -> Any:
    return nn.Sequential(
        nn.Linear(48, 100), nn.GELU(), nn.Linear(100, 60), nn.ReLU(), nn.Linear(60, 7)
    )


class Mixer(nn.Module):
    """Layers along tokens and along features, and the mean over tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 24, 4, stride=4)
        self.norm, self.tokens = nn.LayerNorm(24), nn.Linear(16, 16)
        self.features, self.head = nn.Linear(24, 24), nn.Linear(24, 5)

    def forward(self, x: Any) -> Any:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = x + self.tokens(self.norm(x).transpose(1, 2)).transpose(1, 2)
        x = x + nn.functional.silu(self.features(self.norm(x)))
        return self.head(x.mean(1))


def transformers() -> Any:
    return pytest.importorskip("transformers", reason="transformers is not installed")


def bert() -> Any:
    t = transformers()
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    return t.BertModel(t.BertConfig(vocab_size=100, intermediate_size=128, **sizes))


def llama() -> Any:
    t = transformers()
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    heads = {"num_key_value_heads": 2, "use_cache": False}
    return t.LlamaModel(t.LlamaConfig(vocab_size=100, intermediate_size=96, **sizes, **heads))


def gpt2() -> Any:
    t = transformers()
    sizes = {"vocab_size": 100, "n_embd": 64, "n_layer": 2, "n_head": 2, "use_cache": False}
    return t.GPT2Model(t.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0))


def vit() -> Any:
    t = transformers()
    sizes = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
    more = {"intermediate_size": 96, "image_size": 32, "patch_size": 8}
    return t.ViTModel(t.ViTConfig(**sizes, **more))


def encoder() -> Any:
    layer = nn.TransformerEncoderLayer(64, 2, 96, activation="gelu", batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


def ids() -> Any:
    return torch.randint(0, 100, (1, 13))


class Parts(nn.Module):
    """Modules one after the other, of which the host may compute some."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.wave = encoder(), Wave()
        self.norm, self.head = nn.LayerNorm(64), nn.Linear(64, 9)

    def forward(self, x: Any) -> Any:
        return torch.softmax(self.head(self.norm(self.wave(self.encoder(x)))), -1)


class Wave(nn.Module):
    def forward(self, x: Any) -> Any:
        y = torch.sin(x) + torch.cos(x) * torch.log(torch.abs(x) + 1) + torch.erf(x)
        return torch.where(y > 0, y / (torch.sqrt(torch.abs(y)) + 1), 0.25 * y)
