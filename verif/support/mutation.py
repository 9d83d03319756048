"""Designs that are broken on purpose."""

from pathlib import Path

from verif.support.manifest import Module

__all__ = ["mutated"]


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
