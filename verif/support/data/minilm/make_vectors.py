"""Record what enters the vector functions of all-MiniLM-L6-v2's first layer.

Real sentences run through the model as in `make_slice`. One file holds

* ``scores``: attention scores of one sentence before scale and softmax, float32, shape
  (heads, tokens, tokens); ``scale`` is what they are multiplied by;
* ``hidden``: rows before the layer normalisation behind the attention, shape (tokens, 384), with
  its ``gain``, ``bias`` and ``epsilon``;
* ``preactivations``: rows before the feed-forward block's GELU, shape (tokens, 1536).

Usage::

    python -m verif.support.data.minilm.make_vectors [OUT.npz]
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np

from verif.support.data.minilm import make_slice
from verif.support.data.minilm.make_slice import FloatArray, Model

DEFAULT_OUTPUT = Path(__file__).resolve().parent / "layer0_vectors.npz"
SENTENCE = 1
"""The sentence whose scores are kept."""
ROWS = 12
"""Rows before the GELU that are kept."""


def vectors(model: Model) -> dict[str, FloatArray | np.float32]:
    """Return the inputs of softmax, layer normalisation and GELU."""
    _, text = make_slice.SENTENCES[SENTENCE]
    ids, _ = model.encode(text)
    x = make_slice.embed(ids, model)
    prefix = "encoder.layer.0"
    width = x.shape[1] // model.heads

    def heads(part: str) -> FloatArray:
        projected = make_slice.linear(x, model, f"{prefix}.attention.self.{part}")
        return projected.reshape(len(x), model.heads, width).transpose(1, 0, 2)

    scores = make_slice.matmul(heads("query"), heads("key").transpose(0, 2, 1))
    scale = np.float32(1 / np.sqrt(width))
    weights = make_slice.softmax(scores * scale)
    context = make_slice.matmul(weights, heads("value")).transpose(1, 0, 2).reshape(x.shape)
    hidden = make_slice.linear(context, model, f"{prefix}.attention.output.dense") + x
    norm = f"{prefix}.attention.output.LayerNorm"
    normalised = make_slice.layer_norm(hidden, model, norm)
    preactivations = make_slice.linear(normalised[:ROWS], model, f"{prefix}.intermediate.dense")
    return {
        "scores": scores,
        "scale": scale,
        "hidden": hidden,
        "gain": model.tensor(f"{norm}.weight"),
        "bias": model.tensor(f"{norm}.bias"),
        "epsilon": np.float32(model.epsilon),
        "preactivations": preactivations,
    }


def main(argv: list[str]) -> int:
    """Write the file, whole or not at all."""
    out = Path(argv[0]) if argv else DEFAULT_OUTPUT
    temporary = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as stream:
            np.savez_compressed(stream, **vectors(make_slice.load_model()))
        temporary.replace(out)
    except (make_slice.SliceError, OSError) as error:
        print(f"make_vectors.py: {error}", file=sys.stderr)
        return 1
    finally:
        temporary.unlink(missing_ok=True)
    print(f"wrote {out}, {out.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
