"""Stages of a chain that move on when they are told to: all published ones, in every cycle."""

import numpy as np

from mxsafe.rtl.stream.beat_chain import BeatChain
from verif.support.checkers import assert_equal
from verif.support.farm import published_farm, run_farm
from verif.support.units import random_words

_CLOCKS, _FILLED = 700, 10
"""Cycles, and the first ones of them, in which all stages are filled."""


def test_random_moves() -> None:
    """Each stage moves or stays at random, and resets come in between."""
    farm = published_farm("beat_chains", BeatChain)
    rng = np.random.default_rng(11)
    filled = np.arange(_CLOCKS) < _FILLED
    rst = (rng.random(_CLOCKS) < 0.03) & ~filled
    given, moves, flags = {}, {}, {}
    for key, module in farm.modules.items():
        stages, ports = module.parameters["stages"], module.ports
        moves[key] = (rng.random((_CLOCKS, stages)) < 0.6) | filled[:, None]
        flags[key] = rng.integers(0, 2, (_CLOCKS, 2))
        shown = rng.integers(0, stages + 1, _CLOCKS)
        given |= {
            f"{key}.beat": random_words(rng, ports["beat"].width, _CLOCKS),
            f"{key}.beat_valid": flags[key][:, :1].astype(np.uint8),
            f"{key}.beat_ends": flags[key][:, 1:].astype(np.uint8),
            f"{key}.moves": ports["moves"].words(moves[key] @ (1 << np.arange(stages))),
            f"{key}.shown": ports["shown"].words((1 << shown) % (1 << stages)),
        }
        moves[key] = np.concatenate([moves[key], shown[:, None]], axis=1)
    logs = run_farm(
        "icarus", farm, given, np.ones(_CLOCKS, np.int64), rst.astype(np.int64), unsettled=_FILLED
    )
    for key, module in farm.modules.items():
        stages, ports = module.parameters["stages"], module.ports
        # Cycles in which what is in each stage came, and its flags.
        came, state = np.zeros(stages, np.int64), np.zeros((stages, 2), np.int64)
        rows = []
        for clock in range(_CLOCKS):
            shown = moves[key][clock, -1]
            rows.append([came[-1], came[shown] if shown < stages else -1, *state.T.ravel()])
            moving = moves[key][clock, :-1].astype(np.bool_)
            came = np.where(moving, np.concatenate([[clock], came[:-1]]), came)
            next_state = np.concatenate([flags[key][clock : clock + 1], state[:-1]])
            state = np.where(moving[:, None], next_state, state) * (not rst[clock])
        told = np.array(rows)[_FILLED:]
        beats, log = given[f"{key}.beat"], {n: w[_FILLED:] for n, w in logs[key].items()}
        compared = assert_equal("waiting", log["waiting"], beats[told[:, 0]])
        largest = ports["beat"].split_words(beats)["largest"][told[:, 1]]
        largest[told[:, 1] < 0] = 0
        assert_equal("shown_largest", log["shown_largest"], largest)
        weights = 1 << np.arange(stages)
        for name, values in (("valid", told[:, 2 : 2 + stages]), ("ends", told[:, 2 + stages :])):
            assert_equal(name, ports[name].numbers(log[name]), values @ weights)
        assert compared >= _CLOCKS - _FILLED
