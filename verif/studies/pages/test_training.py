"""The page on training: what its prose claims is so."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from studies.pages import DOCS, training
from studies.pages.training import last, points_above_float32, runs_of
from studies.training.comparison import (
    EIGHT_BITS,
    FLOATS,
    STANDARD,
    Arithmetic,
    Trial,
    as_text,
    run_trial,
)
from studies.training.network import Microscaling
from verif.support.tests import raises

COMMITTED = json.loads((DOCS / "training.json").read_text())
NETWORKS, HEADS = training.split(COMMITTED)


@cache
def written() -> Mapping[str, bytes]:
    """The pictures, as they are drawn today."""
    return training.pictures()


def test_the_numbers_are_written_as_they_are() -> None:
    assert (DOCS / "training.json").read_text() == as_text(COMMITTED)


def test_the_pictures_are_fresh() -> None:
    """Every text of the committed pictures, and every line and band to a hundredth of a point."""
    assert written().keys() == set(
        re.findall(r"\((\w+\.svg)\)", (DOCS / "training.md").read_text())
    )
    for name in written():
        committed, now = (DOCS / name).read_text(), written()[name].decode()
        texts = [re.findall(r"<!-- (.*?) -->", svg) for svg in (committed, now)]
        assert len(texts[0]) > 20
        assert texts[0] == texts[1]
        shapes = [
            [
                float(number)
                for d in re.findall(r'<path d="([^"]*)" clip-path', svg)
                for number in re.findall(r"-?[0-9.]+", d)
            ]
            for svg in (committed, now)
        ]
        assert len(shapes[0]) > 200
        np.testing.assert_allclose(shapes[0], shapes[1], rtol=0, atol=0.01)


def test_the_numbers_are_of_the_standard_experiments() -> None:
    assert len(COMMITTED["experiments"]) == len(STANDARD)
    for written, experiment in zip(COMMITTED["experiments"], STANDARD, strict=True):
        assert written["title"] == experiment.title
        assert [(r["format"], r["arithmetic"], r["seed"]) for r in written["runs"]] == [
            (t.format, t.arithmetic, t.seed) for t in experiment.trials()
        ]
        setting = written["setting"]
        assert (setting["hidden"], setting["epochs"], setting["batch"], setting["weights"]) == (
            list(experiment.setting.hidden),
            experiment.setting.epochs,
            experiment.setting.batch,
            list(experiment.setting.weights),
        )
        for run in written["runs"]:
            assert len(run["accuracy"]) == experiment.setting.epochs
            assert len(run["layers"]) == len(experiment.setting.hidden) + 1


@pytest.mark.parametrize(
    ("experiment", "format", "arithmetic"),
    [
        (0, "mxsf", "exact"),
        (0, "mxsf", "fp12"),
        (0, "mxfp8_e4m3", "exact"),
        (1, "mxint8", "exact"),
        (5, "mxsf", "exact"),
    ],
)
def test_the_numbers_are_those_of_the_code(
    experiment: int, format: str, arithmetic: Arithmetic
) -> None:
    """The first epoch of some of the trainings once more."""
    kept = runs_of(COMMITTED["experiments"][experiment])[format, arithmetic][2]
    setting = replace(STANDARD[experiment].setting, epochs=1)
    curves = run_trial(Trial(setting=setting, format=format, arithmetic=arithmetic, seed=2))
    for measure in ("accuracy", "first_accuracy", "loss", "train_loss", "underflow", "lost"):
        assert kept[measure][0] == pytest.approx(getattr(curves, measure)[0], rel=1e-5), measure


def run(format: str, arithmetic: str, seed: int, **curves: list[float]) -> dict[str, Any]:
    return {"format": format, "arithmetic": arithmetic, "seed": seed, **curves}


def test_rows() -> None:
    curves = {
        "loss": [1.0, 0.25],
        "train_loss": [1.0, 0.5],
        "underflow": [0.125, 0.5],
        "lost": [0.0, 0.03125],
    }
    experiment = {
        "title": "some",
        "setting": {"weights": [1.0, 0.25]},
        "runs": [
            run("float32", "float32", 0, accuracy=[0.1, 0.9], first_accuracy=[0, 1], **curves),
            run("float32", "float32", 1, accuracy=[0.1, 0.8], first_accuracy=[0, 1], **curves),
            run("mxsf", "fp12", 0, accuracy=[0.1, 0.91], first_accuracy=[0, 0.5], **curves),
            run("mxsf", "fp12", 1, accuracy=[0.1, 0.79], first_accuracy=[0, 1], **curves),
        ],
    }
    assert training.accuracy_rows(experiment)[1:] == [
        ("float32", "", "85.00 ± 7.07 %", "", "0.250", "0.5000", "", "", ""),
        (
            "mxsf",
            "fp12",
            "85.00 ± 8.49 %",
            "+0.00 ± 1.41",
            "0.250",
            "0.5000",
            "12.5%",
            "50.0%",
            "3.125%",
        ),
    ]
    assert training.weight_rows([experiment]) == [
        ("weight", "float32", "mxsf", "first digit, least"),
        ("2^-2", "85.0 ± 7.1 %", "85.0 ± 8.5 %", "75.0%"),
    ]


def test_nothing_to_draw() -> None:
    for draw in (training.draw_curves, training.draw_weights):
        with raises(ValueError, "experiments must not be empty"):
            draw([])


def test_claims_on_networks() -> None:
    orders = set()
    for experiment in NETWORKS:
        kinds = runs_of(experiment)
        base = last(kinds["float32", "float32"], "accuracy")
        scatter = max(
            100 * np.std(last(runs, "accuracy") - base, ddof=1)
            for (name, _), runs in kinds.items()
            if name in EIGHT_BITS
        )
        assert training.largest_gap(experiment) < scatter
        points = points_above_float32(experiment)
        for arithmetic in ("exact", "fp12"):
            orders.add(tuple(sorted(FLOATS, key=lambda name: points[name, arithmetic])))
        for name in FLOATS:
            assert abs(points[name, "fp12"] - points[name, "exact"]) < scatter
        lost = {name: last(kinds[name, "exact"], "underflow").mean() for name in EIGHT_BITS}
        assert sorted(lost, key=lambda name: -lost[name]) == [
            "mxint8",
            "mxfp8_e2m5",
            "mxsf",
            "mxfp8_e4m3",
        ]
        for name in EIGHT_BITS:
            runs = kinds[name, "exact"]
            assert last(runs, "underflow").min() > last(runs, "underflow", 0).max()
    assert len(orders) > 2


@pytest.mark.parametrize(
    ("format", "exponent", "share"),
    [
        ("mxint8", -7, 1 / 3),
        ("mxfp8_e2m5", -8, 1 / 5),
        ("mxsf", -12, 1 / 66),
        ("mxfp8_e4m3", -18, 0.0),
    ],
)
def test_claims_on_the_worst_tile(format: str, exponent: int, share: float) -> None:
    tile = np.full((8, 8), 2.0**exponent, np.float32)
    tile[3, 4] = 1
    for slightly_more, lost in ((1, 63), (1 + 2**-20, 0)):
        x = tile * np.float32(slightly_more)
        stored = Microscaling(format=format).store(x)
        stored.along(-1)
        assert stored.underflow.lost == lost
        if lost:
            assert stored.underflow.lost_share == pytest.approx(share, rel=0.02, abs=3e-4)


def test_claims_on_range() -> None:
    """How far below float32 each format is, in points, by the weight of the second digit."""
    below: dict[str, dict[float, float]] = {name: {} for name in EIGHT_BITS}
    for experiment in HEADS:
        for (name, _), points in points_above_float32(experiment).items():
            below[name][experiment["setting"]["weights"][1]] = -points
    for name, first, falls in (
        ("mxint8", 2.0**-6, 5),
        ("mxfp8_e2m5", 2.0**-8, 30),
        ("mxsf", 2.0**-12, 20),
        ("mxfp8_e4m3", 0.0, 0),
    ):
        for weight, points in below[name].items():
            assert (points > falls) if weight <= first else (points < 2), (name, weight)
    for experiment in HEADS:
        for runs in runs_of(experiment).values():
            assert last(runs, "first_accuracy").mean() > 0.945
    places = np.arange(20) // 8
    assert np.count_nonzero(~np.isin(places[10:], places[:10])) == 4
