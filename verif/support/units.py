"""Units of tests: generated, as published in ``gen/``, and broken on purpose."""

import atexit
import shutil
import tempfile
from collections import defaultdict
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from mxsafe.formats import MX_FORMATS, FormatSet, MXFormat
from mxsafe.rtl.unit import Configuration, Unit
from mxsafe.verilog.generate import generate
from mxsafe.verilog.names import part_name
from mxsafe.verilog.presets import build
from verif.support import manifest
from verif.support.manifest import Module, Words

_SUFFIXES = {"fp12": "", "exact": "_exact", "window": "_window", "bf16": "_bf16"}


def array_unit(
    arithmetic: str, format: MXFormat | FormatSet = MX_FORMATS["mxsf"], **options: Any
) -> Unit[Any]:
    """A systolic array; `options` are those of `mxsafe.verilog.presets.build`."""
    return build(f"sta{_SUFFIXES[arithmetic]}", format, **options)


def layer_unit(arithmetic: str, format: MXFormat = MX_FORMATS["mxsf"], **options: Any) -> Unit[Any]:
    """A layer; `options` are those of `mxsafe.verilog.presets.build`."""
    return build(f"layer{_SUFFIXES[arithmetic]}", format, **options)


_kept = Path(tempfile.mkdtemp(prefix="mxsafe-units-"))
atexit.register(shutil.rmtree, _kept)
_made: dict[Configuration, Module] = {}


def new_folder() -> Path:
    """A folder that lasts as long as the process."""
    return Path(tempfile.mkdtemp(dir=_kept))


def generated(unit: Unit) -> Module:
    """A unit's module: that of ``gen/`` where there is one, or one that is generated once.

    So what a unit's own tests drive counts for its part of ``gen/``, whose name begins otherwise.
    """
    if unit.config not in _made:
        found = manifest.generated().get(unit.module_name)
        made_from = found and manifest.made_from(found.sources[0])
        if not found or found.given or made_from != unit.__module__:
            folder = new_folder()
            generate([unit], folder)
            found = manifest.load(folder)[unit.module_name]
        _made[unit.config] = found
    return _made[unit.config]


def published(unit: type[Unit[Any]]) -> dict[str, Module]:
    """Modules of ``gen/`` that a class of units makes, by name: each file says from where it is."""
    modules = manifest.generated()
    found = {name: modules[name] for name in made_by().get(unit.__module__, [])}
    assert found, f"gen/ has no {unit.__name__}"
    return found


@cache
def made_by() -> dict[str, list[str]]:
    """Units of ``gen/`` by the Python module that made them, as the heads of files say."""
    names: dict[str, list[str]] = defaultdict(list)
    for name, module in manifest.generated().items():
        names[manifest.made_from(module.sources[0])].append(name)
    return dict(names)


def random_words(rng: np.random.Generator, bits: int, count: int) -> Words:
    """Random numbers of so many bits, as words of a port."""
    places = rng.integers(0, 2, (count, bits)).astype(np.uint8)
    return np.packbits(places, axis=1, bitorder="little")


def mutated(module: Module, right: str, wrong: str, *, name: str | None = None) -> Module:
    """A module whose sources are copies, with one text replaced in one of them.

    The text stands once in all sources, or in that of the module `name`.
    """
    folder = new_folder()
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
