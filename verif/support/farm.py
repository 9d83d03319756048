"""Units side by side in one simulation: different ones, or copies of one for long sweeps."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxsafe.rtl.unit import Unit
from mxsafe.verilog.generate import generate
from verif.support import manifest
from verif.support.manifest import Module, Words
from verif.support.simulators import SCRATCH, run_lockstep
from verif.support.wrappers import SHARED, beside

__all__ = ["Farm", "copies_of", "farm_of", "run_farm"]


@dataclass(frozen=True)
class Farm:
    """Units without handshakes by a key of one's own, and the wrapper around them."""

    wrapper: Module
    modules: dict[str, Module]


def farm_of(folder: Path, name: str, units: Mapping[str, Unit[Any]]) -> Farm:
    """Different units, generated into a folder."""
    generate(units.values(), folder)
    loaded = manifest.load(folder)
    modules = {key: loaded[unit.module_name] for key, unit in units.items()}
    return Farm(beside(folder, name, modules), modules)


def copies_of(module: Module, count: int) -> Farm:
    """Copies of a unit: as many rows of a stimulus take one cycle together."""
    modules = {f"copy{number}": module for number in range(count)}
    return Farm(beside(SCRATCH, f"{module.name}_{count}_copies", modules), modules)


def run_farm(
    simulator: str,
    farm: Farm,
    inputs: Mapping[str, Words],
    en: NDArray[np.int64],
    rst: NDArray[np.int64],
    *,
    unsettled: int = 0,
) -> dict[str, dict[str, Words]]:
    """Return the values of every pin of every unit, by unit and port.

    Parameters
    ----------
    simulator : {"icarus", "verilator"}
    farm : Farm
    inputs : Mapping
        By ``<key>.<port>`` the words of every input but clock, reset and enable; short ones begin
        again.
    en, rst : ndarray of int64
        Clock enable and reset of all units, a row each cycle.
    unsettled : int
        See `run_lockstep`.
    """
    ports = farm.wrapper.ports
    rows = len(en)
    stimulus = {
        "en": ports["en"].words(en),
        "rst": ports["rst"].words(rst),
        "inputs": ports["inputs"].join_words(
            {name: np.resize(words, (rows, words.shape[1])) for name, words in inputs.items()}
        ),
    }
    log = run_lockstep(simulator, farm.wrapper, stimulus, unsettled=unsettled)
    pins = ports["inputs"].split_words(log["inputs"]) | ports["outputs"].split_words(log["outputs"])
    shared = {name: log[name] for name in SHARED if name in log}
    return {
        key: shared | {name: pins[f"{key}.{name}"] for name in module.ports if name not in SHARED}
        for key, module in farm.modules.items()
    }
