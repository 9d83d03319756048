"""What a function between streams is held to: beats of numbers, and the model's answers."""

from typing import Any

import numpy as np

from mxsafe.model import activate
from verif.support.checkers import assert_equal
from verif.support.manifest import Module
from verif.support.stream_job import Streamed, run_stream
from verif.support.vector_checks import random_floats

__all__ = ["check_activations"]


def check_activations(
    simulator: str, module: Module, seed: int, beats: int, **options: Any
) -> Streamed:
    """So many random beats have the results of the model, and keep the ends of their packets.

    Further options are those of `run_stream`.
    """
    rng = np.random.default_rng(seed)
    width, ports = module.parameters["width"], module.ports
    numbers = random_floats(rng, (beats, width))
    last = rng.random(beats) < 0.2
    last[-1] = True
    job = {
        "s_axis_tdata": ports["s_axis_tdata"].join(numbers.view(np.uint32)),
        "s_axis_tlast": ports["s_axis_tlast"].words(last),
    }
    streamed = run_stream(simulator, module, job, **options)
    got = ports["m_axis_tdata"].split(streamed.words["m_axis_tdata"]).astype(np.uint32)
    expected = activate(numbers, module.parameters["function"]).view(np.uint32)
    index = np.arange(beats)
    assert_equal(module.name, got, expected, beat=index, word=numbers.view(np.uint32))
    assert_equal("m_axis_tlast", streamed.words["m_axis_tlast"][:, 0], last.astype(np.uint8))
    return streamed
