"""All configurations of a unit that stand in ``gen/``, and words for their ports."""

from collections import defaultdict
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from mxsafe.rtl.unit import Unit
from verif.support import manifest
from verif.support.farm import Farm
from verif.support.manifest import Module, Words
from verif.support.wrappers import beside

__all__ = ["made_by", "published", "published_farm", "random_words"]


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


def published_farm(
    folder: Path,
    name: str,
    unit: type[Unit[Any]],
    wanted: Callable[[Module], bool] = lambda module: True,
) -> Farm:
    """Those of them that are wanted, side by side in one simulation."""
    modules = {key: module for key, module in published(unit).items() if wanted(module)}
    return Farm(beside(folder, name, modules), modules)


def random_words(rng: np.random.Generator, bits: int, count: int) -> Words:
    """Random numbers of so many bits, as words of a port."""
    places = rng.integers(0, 2, (count, bits)).astype(np.uint8)
    return np.packbits(places, axis=1, bitorder="little")
