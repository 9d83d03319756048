"""A language model that holds its weights in formats, of ``docs/language_model.json``."""

import math
from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

from studies.pages import kept

Numbers = Mapping[str, Any]
"""Content of ``docs/language_model.json``: results by format."""


def rows(numbers: Numbers) -> list[tuple[str, ...]]:
    """Formats, head first."""
    head = ("", "perplexity", "MB of memory", "MB of the file", "loaded again")
    return [head, *(_row(name, one) for name, one in numbers.items())]


def _row(name: str, one: Numbers) -> tuple[str, ...]:
    file = f"{one['file'] / 1e6:.1f}" if "file" in one else "-"
    same = ("same bits" if one["same"] else "others") if "same" in one else "-"
    return name, f"{one['perplexity']:.2f}", f"{one['bytes'] / 1e6:.1f}", file, same


def values() -> dict[str, Any]:
    """Return the values of the page's template."""
    numbers, whole = kept("language_model"), kept("language_machine")
    return {
        "numbers": numbers,
        "rows": rows,
        "program": whole["program"],
        "machine": summary(whole["texts"], whole["tokens"]),
        "texts": len(whole["texts"]),
        "tokens": whole["tokens"],
    }


def summary(texts: Sequence[Numbers], tokens: int) -> dict[str, Any]:
    """Perplexities of all texts in float32 and on the machine, counts and means."""
    predicted = len(texts) * (tokens - 1)
    return {
        **{
            kind: math.exp(sum(one[kind] for one in texts) / predicted)
            for kind in ("float32", "machine")
        },
        "same": sum(one["same"] for one in texts),
        "tokens": len(texts) * tokens,
        "cosine": mean(one["cosine"] for one in texts),
    }
