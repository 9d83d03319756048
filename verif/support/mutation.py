"""Designs that are broken on purpose."""

from pathlib import Path

from mxsafe.verilog.names import part_name
from verif.support.manifest import Module

__all__ = ["mutated"]


def mutated(module: Module, name: str, right: str, wrong: str, folder: Path) -> list[Path]:
    """Copies of a module's sources with one text replaced in one of them, that of a unit."""
    names = [source.stem for source in module.sources]
    meant = name if name in names else part_name(name)
    assert meant in names, f"{name} is not among {', '.join(names)}"
    sources = []
    for source in module.sources:
        text = source.read_text()
        if source.stem == meant:
            assert text.count(right) == 1, f"{name} no longer holds {right!r} once"
            text = text.replace(right, wrong)
        sources.append(folder / source.name)
        sources[-1].write_text(text)
    return sources
