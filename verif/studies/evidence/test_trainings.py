"""Trainings compared, from numbers made up here."""

import math
from typing import Any

import numpy as np
import pytest

from studies import pages
from studies.evidence import trainings
from studies.evidence.trainings import FORMATS, Difference, Trainings, spread
from studies.pages import evidence

LAYERS = ("layer2.1.conv2", "fc")
SHARES = {"mxint8": 0.4, "mxfp8_e4m3": 0.001, "mxfp8_e2m5": 0.3, "mxsf": 0.04}
ERRORS = {"mxint8": 0.02, "mxfp8_e4m3": 0.03, "mxfp8_e2m5": 0.009, "mxsf": 0.01}


def result(architecture: str, fmt: str, seed: int, accuracy: float) -> dict[str, Any]:
    numbers: dict[str, Any] = {
        "accuracy": [accuracy - 0.1, accuracy],
        "loss": [1.0, 0.5],
        "training_loss": [1.0, 0.4],
    }
    if fmt == "float32":
        summary = {
            name: {layer: [SHARES[name], ERRORS[name]] for layer in LAYERS} for name in SHARES
        }
        medians = {name: [SHARES[name], ERRORS[name]] for name in SHARES}
        numbers |= {"medians": [medians] * 2, "layers": summary, "weights": summary}
    return {
        "name": f"training/{architecture}/{fmt}/{seed}",
        "parameters": {
            "architecture": architecture,
            "format": fmt,
            "seed": seed,
            "size": "small",
            "images": 10_000,
            "epochs": 2,
            "batch": 64,
            "tests": 10_000,
        },
        "numbers": numbers,
    }


def results(architectures: tuple[str, ...], seeds: int = 3) -> list[dict[str, Any]]:
    """MXSF is surely better than E4M3, E4M3 worse than E2M5; the rest is open."""
    at = {
        "float32": (0.80, 0.81, 0.82),
        "mxsf": (0.80, 0.811, 0.819),
        "mxfp8_e4m3": (0.75, 0.759, 0.77),
        "mxfp8_e2m5": (0.78, 0.79, 0.801),
        "mxint8": (0.79, 0.77, 0.80),
    }
    return [
        result(name, fmt, seed, at[fmt][seed])
        for name in architectures
        for fmt in FORMATS
        for seed in range(seeds)
    ]


def test_differences_are_shown_with_their_interval() -> None:
    # Three values with mean 2 and standard deviation 1: 2 ± 4.303 / sqrt(3).
    assert str(spread(np.array([1.0, 2.0, 3.0]))) == "+2.00 [-0.48, +4.48]"
    assert spread(np.array([1.0])) == Difference(1.0, -math.inf, math.inf, 1)
    assert str(spread(np.array([1.0]))) == "+1.00"


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(0.1, 2.0, "confirmed"), (-2.0, -0.1, "refuted"), (-0.1, 0.1, "open")],
)
def test_verdicts(low: float, high: float, verdict: str) -> None:
    assert Difference(0.0, low, high, 3).verdict == verdict


def test_orders() -> None:
    runs = Trainings(results(("resnet18",)))
    rows = {row[1]: row[2:] for row in trainings.order_rows(runs)[1:]}
    assert {key: row[2:] for key, row in rows.items()} == {
        "float32 > MXSF": ("open", "refuted"),  # by 0.6 points in the paper
        "MXSF > MXFP8 E4M3": ("confirmed", "refuted"),
        "MXFP8 E4M3 > E2M5 (BOOST)": ("refuted", "refuted"),
        "E2M5 (BOOST) > MXINT8": ("open", "refuted"),
    }
    assert rows["MXSF > MXFP8 E4M3"][:2] == ("+3.1", "+5.03 [+4.65, +5.41]")


def test_missing_runs_are_left_out() -> None:
    few = [one for one in results(("resnet18", "deit"), 2) if one["parameters"]["format"] != "mxsf"]
    runs = Trainings(few)
    assert runs.architectures == ["resnet18", "deit"]
    assert [row[1] for row in trainings.order_rows(runs)[1:3]] == [
        "MXFP8 E4M3 > E2M5 (BOOST)",
        "E2M5 (BOOST) > MXINT8",
    ]
    assert trainings.accuracy_rows(runs)[2][2:] == (
        "80.50 ± 0.71 (2)",
        "78.00 ± 1.41 (2)",
        "75.45 ± 0.64 (2)",
        "78.50 ± 0.71 (2)",
        "",
    )


def test_section() -> None:
    names = ("tuning/mxsf/0", "training/resnet18/mxsf/0/quick")
    others = [{"name": name, "parameters": {}, "numbers": {}} for name in names]
    made = others + results(("resnet18", "mobilenetv2", "deit"))
    text = " ".join(pages.text("evidence", evidence.values(made)).split())
    assert "Of 12 orders 3 are confirmed, 3 are refuted and 6 are open" in text
    assert "| ResNet-18 | here, Fashion-MNIST | 81.00 ± 1.00 (3) |" in text
    assert "MXSF is +5.03 [+4.65, +5.41] points more accurate than MXFP8 E4M3 (paper: +3.6)" in text
    assert (
        "MXSF is +1.97 [+1.59, +2.35] points more accurate than E2M5 (BOOST) (paper: +11.1)" in text
    )
    assert "| ResNet-18, layer2.1.conv2 | underflow | 40.00 % | 0.10 % | 30.00 % | 4.00 % |" in text
    assert "is 5.0 points, in MXFP8 E4M3 by ResNet-18 (paper: 38.8 points, in MXINT8 by" in text
    assert "holds in 18 of 18 layers of all runs, and E4M3 has the largest error in 18" in text
