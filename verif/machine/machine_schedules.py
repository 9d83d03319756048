"""Programs in every order that their tokens allow."""

import numpy as np
from numpy.typing import NDArray

from mxsafe.machine.assembler import Instruction
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.description import QUEUES
from verif.rtl.machine.power_up import powered_up


def run_in_any_order(
    program: list[Instruction],
    memory: NDArray[np.uint8],
    configuration: MachineConfiguration,
    seed: int,
) -> None:
    """Run a program on memory, each time with a queue drawn at random of those that can go on.

    Queues have no limit, so what runs ahead runs as far as tokens let it. Each descriptor is done
    whole. Buffers begin at random.
    """
    rng = np.random.default_rng(seed)
    machine = powered_up(configuration, seed)
    words = memory.reshape(-1, configuration.word_bytes)
    waiting = [[i for i in program if i.descriptor.queue == queue] for queue in range(len(QUEUES))]
    tokens = np.zeros((len(QUEUES), len(QUEUES)), int)  # from a queue, to a queue
    bits = np.arange(len(QUEUES))
    while any(waiting):
        ready = [
            queue
            for queue, left in enumerate(waiting)
            if left and np.all(tokens[:, queue] >= (left[0]["wait"] >> bits & 1))
        ]
        assert ready, "nothing can go on"
        queue = int(rng.choice(ready))
        instruction = waiting[queue].pop(0)
        tokens[:, queue] -= instruction["wait"] >> bits & 1
        machine.execute(instruction, words)
        tokens[queue] += instruction["signal"] >> bits & 1
    assert not tokens.any(), "tokens are left"
