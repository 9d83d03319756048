"""Formats by job, from results of synthesis, casts and training (JSON in ``docs/``)."""

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from studies.evidence import casts, trainings
from studies.pages import DOCS, comparison, training, training_pass
from studies.pages.pairs import ARRAYS
from studies.synthesised import find, load, usual_numbers

FORMATS = ("mxsf", "mxfp8_e2m5", "mxfp8_e4m3", "mxint8")
"""Formats of eight bits that the page compares."""
_FOLLOWS = 0.05
"""How much less accurate a format may be than float32 and still follow it."""


def reach(experiments: list[training.Record]) -> dict[str, int]:
    """Exponents of the smallest weights of the second digit at which formats follow float32.

    Parameters
    ----------
    experiments : list of Mapping
        Of two digits, the largest weight first.
    """
    found: dict[str, int] = {}
    for experiment in experiments:
        runs = training.runs_of(experiment)
        right = {name: training.last(own, "accuracy").mean() for (name, _), own in runs.items()}
        for name in FORMATS:
            if right[name] > right["float32"] - _FOLLOWS:
                found[name] = round(math.log2(experiment["setting"]["weights"][-1]))
    return found


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
    results = json.loads((DOCS / "evidence.json").read_text())
    evidence, trained = casts.Casts(results), trainings.Trainings(results)
    medians = [run[-1] for run in trained.numbers("resnet18", "float32", "medians")]
    heads = training.split(json.loads((DOCS / "training.json").read_text()))[1]
    traffic = training_pass.layer_traffic()
    single, several = find(load(), ARRAYS[0]), find(load(), ARRAYS[1], format="multi")
    return {
        "formats": FORMATS,
        "macs": _macs(),
        "lost": {name: np.mean([run[name][0] for run in medians]) for name in FORMATS},
        "gradient": {name: np.mean([run[name][1] for run in medians]) for name in FORMATS},
        "reach": reach(heads),
        "nearer": lambda *pair: casts.tally(evidence, pair, evidence.nearer_by, *casts.BLOCKS),
        "orders": [row[-2] for row in trainings.order_rows(trained)[1:]],
        "tiles": traffic["8x8"],
        "rows": traffic["1x64"],
        "several": usual_numbers(several)["ge"] / usual_numbers(single)["ge"] - 1,
    }
