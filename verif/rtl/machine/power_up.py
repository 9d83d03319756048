"""Machines as they may be after power-up: buffers of the interpreter hold anything."""

import numpy as np

from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.model.machine import Machine


def powered_up(configuration: MachineConfiguration, seed: int) -> Machine:
    """An interpreter whose buffers begin with random bytes."""
    machine = Machine(configuration)
    rng = np.random.default_rng(seed)
    for name in sorted({*configuration.load_buffers, *configuration.store_buffers}):
        words = machine.buffers.words(name)
        words[:] = rng.integers(0, 256, words.shape, np.uint8)
    return machine
