"""Distances of scales from anchors, and anchors that become NaN: against their definition."""

import numpy as np

from mxsafe.rtl.array.scale_distances import ScaleDistances
from verif.support.checkers import assert_equal
from verif.support.farm import published_farm, run_farm

_CLOCKS = 2000


def test_random_beats() -> None:
    """Scales near anchors and far from them, tiles and blocks of all lengths, pauses, resets."""
    farm = published_farm("distances_of_scales", ScaleDistances)
    rng = np.random.default_rng(7)
    en, valid = rng.random(_CLOCKS) < 0.8, rng.random(_CLOCKS) < 0.8
    first, ends = rng.random(_CLOCKS) < 0.2, rng.random(_CLOCKS) < 0.5
    rst = rng.random(_CLOCKS) < 0.02
    flags = {"valid": valid, "first": first, "ends": ends}
    given, numbers = {}, {}
    for key, module in farm.modules.items():
        count = module.parameters["count"]
        anchors = rng.integers(0, 256, (_CLOCKS, count))
        near = anchors - rng.choice([-1, 0, 1, 2, 15, 30, 31, 32, 33, 64, 200], anchors.shape)
        scales = np.where(rng.random(anchors.shape) < 0.8, near, rng.integers(0, 256, near.shape))
        scales = np.clip(scales, 0, 255)
        numbers[key] = anchors, scales
        given |= {f"{key}.{name}": flag[:, None].astype(np.uint8) for name, flag in flags.items()}
        given[f"{key}.anchors"] = module.ports["anchors"].join(anchors)
        given[f"{key}.scales"] = module.ports["scales"].join(scales)
    logs = run_farm("icarus", farm, given, en.astype(np.int64), rst.astype(np.int64))
    for key, module in farm.modules.items():
        anchors, scales = numbers[key]
        most = (1 << module.parameters["distance_bits"]) - 1
        got = {name: module.ports[name].split(logs[key][name]) for name in ("distances", "guarded")}
        # Above its anchor the distance is of no use.
        below = scales <= anchors
        expected = np.minimum(anchors - scales, most)
        assert_equal("distances", got["distances"][below], expected[below])
        spoilt = np.zeros(anchors.shape[1], np.bool_)
        guarded = anchors.copy()
        for clock in range(_CLOCKS):
            here = np.zeros_like(spoilt) if first[clock] else spoilt.copy()
            if valid[clock] and ends[clock]:
                here |= ~below[clock]
            guarded[clock, here] = 255
            if rst[clock]:
                spoilt[:] = False
            elif en[clock] and valid[clock]:
                spoilt = here
        assert (guarded != anchors).sum() > 500
        assert_equal("guarded", got["guarded"], guarded)
