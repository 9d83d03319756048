"""The runs of direct casts: weights and activations of trained models in each format."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from studies.evidence.formats import Configuration, configurations
from studies.evidence.runs import Run


@dataclass(frozen=True)
class Model:
    """Model that is cast.

    Attributes
    ----------
    function : str
        Module of this package and its function that casts.
    cost : float
        Seconds of one configuration, roughly.
    samples, quick : Mapping
        Other parameters of that function; and of the small subset, empty where it has none.
    """

    function: str
    cost: float
    samples: Mapping[str, Any] = field(default_factory=dict)
    quick: Mapping[str, Any] = field(default_factory=dict)


def _trained(architecture: str, cost: float) -> Model:
    samples = {"architecture": architecture, "seed": 0}
    return Model("trained:measure", cost, {**samples, "images": 10_000})


MODELS = {
    "smollm2": Model(
        "language:measure",
        30.0,
        {"documents": 20, "tokens": 200},
        {"documents": 2, "tokens": 32},
    ),
    "minilm-sentences": Model(
        "embeddings:sentences",
        7.0,
        {"groups": 24, "sentences": 16},
        {"groups": 2, "sentences": 8},
    ),
    "minilm-words": Model(
        "embeddings:words",
        2.0,
        {"groups": 38, "pairs": 35},
        {"groups": 2, "pairs": 10},
    ),
    "efficientnet": Model(
        "images:measure",
        12.0,
        {"photographs": 17, "crops": 10},
        {"photographs": 2, "crops": 1},
    ),
    "magika": Model("file_types:measure", 5.0, {"files": 24}, {"files": 1}),
    "resnet18": _trained("resnet18", 10.0),
    "mobilenetv2": _trained("mobilenetv2", 10.0),
    "deit": _trained("deit", 10.0),
}
"""By name."""

QUICK = (
    Configuration("float32"),
    Configuration("mxsf", "1x64"),
    Configuration("mxfp8_e4m3", "8x8"),
)


def runs(*, quick: bool, seeds: int) -> list[Run]:
    """Plan every model in every configuration; of few samples in few formats if `quick`.

    Nothing here starts at random, so `seeds` is not used.
    """
    plan = []
    for name, model in MODELS.items():
        if quick and not model.quick:
            continue
        for one in QUICK if quick else configurations():
            samples = model.quick if quick else model.samples
            plan.append(
                Run(
                    name=f"direct-cast/{name}/{one.path}{'/quick' if quick else ''}",
                    function=f"studies.evidence.{model.function}",
                    parameters={"format": one.format, "block": one.block, **samples},
                    cost=model.cost,
                )
            )
    return plan
