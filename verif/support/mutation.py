"""Designs that are broken on purpose."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from verif.support.manifest import Module

__all__ = ["mutated", "some"]


def mutated(module: Module, name: str, right: str, wrong: str, folder: Path) -> list[Path]:
    """Copies of a module's sources with one text replaced in one of them."""
    names = [source.stem for source in module.sources]
    assert name in names, f"{name} is not among {', '.join(names)}"
    sources = []
    for source in module.sources:
        text = source.read_text()
        if source.stem == name:
            assert text.count(right) == 1, f"{name} no longer holds {right!r} once"
            text = text.replace(right, wrong)
        sources.append(folder / source.name)
        sources[-1].write_text(text)
    return sources


def some(mutations: Iterable[str], every: int = 2) -> list[object]:
    """Every other one, or one of so many; all in the full run."""
    return [
        pytest.param(name, marks=pytest.mark.full) if index % every else name
        for index, name in enumerate(mutations)
    ]
