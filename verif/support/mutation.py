"""Designs that are broken on purpose."""

from dataclasses import replace
from pathlib import Path

from mxsafe.verilog.names import part_name
from verif.support.manifest import Module

__all__ = ["mutated"]


def mutated(
    module: Module, right: str, wrong: str, folder: Path, *, name: str | None = None
) -> Module:
    """A module whose sources are copies in a new folder, with one text replaced in one of them.

    The text stands once in all sources, or in that of the module `name`.
    """
    folder.mkdir()
    meant = (
        name if name is None or name in {one.stem for one in module.sources} else part_name(name)
    )
    texts = {source: source.read_text() for source in module.sources}
    found = [
        source
        for source, text in texts.items()
        for _ in range(text.count(right))
        if meant in (None, source.stem)
    ]
    assert len(found) == 1, f"{name or module.name} holds {right!r} {len(found)} times, not once"
    texts[found[0]] = texts[found[0]].replace(right, wrong)
    for source, text in texts.items():
        (folder / source.name).write_text(text)
    return replace(module, sources=tuple(folder / source.name for source in texts))
