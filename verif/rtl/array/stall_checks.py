"""Cycles without enable, which change nothing in a unit."""

from collections.abc import Mapping

import numpy as np

from verif.support.checkers import assert_equal
from verif.support.manifest import Module, Words
from verif.support.simulators import run_lockstep
from verif.support.units import random_words

_SHARE = 0.3
"""Of cycles without enable."""


def check_stalls(
    simulator: str, module: Module, given: Mapping[str, Words]
) -> tuple[int, dict[str, Words]]:
    """Check that outputs with pauses of the enable are those of the same rows without them.

    Parameters
    ----------
    module : Module
        A unit with an enable, or several side by side.
    given : Mapping
        Words of all inputs but clock, reset and enable, a row each enabled cycle.

    Returns
    -------
    compared : int
        How many bytes were compared.
    log : dict
        What all pins carried without such cycles.
    """
    ports = module.ports
    rng = np.random.default_rng(16)
    count = len(next(iter(given.values())))
    en = np.concatenate([np.ones(count), np.zeros(round(count * _SHARE / (1 - _SHARE)))]) > 0
    rng.shuffle(en[1:])  # the first row is there in the cycles before
    logs = []
    for enabled in (np.ones(count, np.bool_), en):
        stimulus = {name: random_words(rng, ports[name].width, len(enabled)) for name in given}
        for name, words in given.items():
            stimulus[name][enabled] = words
        stimulus |= {"en": ports["en"].words(enabled), "rst": ports["rst"].words(0 * enabled)}
        logs.append(run_lockstep(simulator, module, stimulus, unsettled=len(enabled)))
    outputs = [port.name for port in ports.values() if port.direction == "output"]
    compared = sum(assert_equal(name, logs[1][name][en], logs[0][name]) for name in outputs)
    return compared, logs[0]
