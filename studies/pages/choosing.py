"""Formats by job, from results of synthesis, casts and trainings (JSON in ``docs/``)."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from mxsafe.model import pass_traffic
from studies.evidence import casts, trainings
from studies.pages import comparison, kept, learning
from studies.pages.pairs import ARRAYS
from studies.synthesised import find, load, usual_numbers
from verif.data import minilm

FORMATS = ("mxsf", "mxfp8_e2m5", "mxfp8_e4m3", "mxint8")
"""Formats of eight bits that the page compares."""


def _macs() -> dict[str, Mapping[str, Any]]:
    """Area, energy and error of a MAC with exact sums, by format."""
    synthesis = load()
    macs: dict[str, Mapping[str, Any]] = {}
    for name in FORMATS:
        unit = find(synthesis, "pu_exact, 1 accumulator", format=name)
        macs[name] = {
            "ge": usual_numbers(unit)["ge"] / unit["macs"],
            "pj": unit["power"]["mac_pj"],
            "error": comparison.layer_error(name, "exact", 64).relative,
        }
    return macs


def values() -> dict[str, Any]:
    """Return the values of the page's template."""
    results = kept("evidence")
    evidence, trained = casts.Casts(results), trainings.Trainings(results)
    medians = [run[-1] for run in trained.numbers("resnet18", "float32", "medians")]
    beside = learning.of_setting(kept("learning"), "beside")
    (batch, inputs), (_, outputs) = (array.shape for array in minilm.load())
    single, several = find(load(), ARRAYS[0]), find(load(), ARRAYS[1], format="multi")
    return {
        "formats": FORMATS,
        "macs": _macs(),
        "lost": {name: np.mean([run[name][0] for run in medians]) for name in FORMATS},
        "gradient": {name: np.mean([run[name][1] for run in medians]) for name in FORMATS},
        "reach": {name: learning.lost_below(name) for name in FORMATS},
        "beside": {name: (beside[name] - beside["float32"]).mean() for name in FORMATS},
        "nearer": lambda *pair: casts.tally(evidence, pair, evidence.nearer_by, *casts.BLOCKS),
        "orders": [row[-2] for row in trainings.order_rows(trained)[1:]],
        "tiles": pass_traffic(batch, inputs, outputs, block=(8, 8)),
        "rows": pass_traffic(batch, inputs, outputs, block=64),
        "several": usual_numbers(several)["ge"] / usual_numbers(single)["ge"] - 1,
    }
