"""The runs of direct casts: weights and activations of trained models in each format."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from studies.evidence.formats import Configuration, configurations
from studies.evidence.runs import Run

__all__ = ["MODELS", "Model", "runs"]


@dataclass(frozen=True)
class Model:
    """What is cast.

    Attributes
    ----------
    function : str
        Module of this package whose ``measure`` casts it.
    cost : float
        Seconds of one configuration, roughly.
    samples, quick : Mapping
        Parameters of ``measure``; and of its small subset.
    """

    function: str
    cost: float
    samples: Mapping[str, Any] = field(default_factory=dict)
    quick: Mapping[str, Any] = field(default_factory=dict)


MODELS = {
    "smollm2": Model(
        "language",
        30.0,
        {"documents": 32, "tokens": 200},
        {"documents": 2, "tokens": 32},
    ),
}
"""By name."""

QUICK = (Configuration("float32"), Configuration("mxsf", "1x64"), Configuration("mxfp8_e4m3", "8x8"))


def runs(*, quick: bool, seeds: int) -> list[Run]:
    """Plan every model in every configuration; of few samples in few formats if `quick`.

    Nothing here starts at random, so `seeds` is not used.
    """
    plan = []
    for name, model in MODELS.items():
        for one in QUICK if quick else configurations():
            samples = model.quick if quick else model.samples
            plan.append(
                Run(
                    name=f"direct-cast/{name}/{one.path}{'/quick' if quick else ''}",
                    function=f"studies.evidence.{model.function}:measure",
                    parameters={"format": one.format, "block": one.block, **samples},
                    cost=model.cost,
                )
            )
    return plan
