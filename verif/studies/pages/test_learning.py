"""The page on a transformer that learns: what its prose claims is so, and follows the numbers."""

import json
from typing import Any

import numpy as np
import pytest

from studies import pages
from studies.pages import DOCS, kept, learning
from studies.pages.learning import interval, last, loss_differences, parted, rows, runs_of, smoothed

COMMITTED = kept("learning")
STEPS = COMMITTED["setting"]["steps"]


def test_all_trainings_are_there() -> None:
    """Each of all steps and seeds; losses fall."""
    kinds = runs_of(COMMITTED)
    formats = ("mxsf", "mxfp8_e4m3", "mxfp8_e2m5", "mxint8", "mxfp4_e2m1")
    assert {name for engine, name in kinds if engine == "model"} == set(formats)
    assert {("float32", "float32"), ("microscaling", "mxsf")} < kinds.keys()
    seeds = [run["seed"] for run in kinds["float32", "float32"]]
    for runs in kinds.values():
        assert [run["seed"] for run in runs] == seeds
        for run in runs:
            assert len(run["losses"]) == STEPS
            assert np.mean(run["losses"][-10:]) < 0.6 * run["losses"][0]
            assert run["accuracy"] > 0.6


def test_four_bits_part_and_eight_stay() -> None:
    """Eight bits are closer to float32 than a fifth of what four bits are away."""
    kinds = runs_of(COMMITTED)
    assert "mxfp4_e2m1" in parted(COMMITTED)
    far = interval(loss_differences(COMMITTED, ("model", "mxfp4_e2m1")))[0]
    for engine, name in kinds:
        if engine != "float32" and name != "mxfp4_e2m1":
            near = interval(loss_differences(COMMITTED, (engine, name)))[0]
            assert abs(near) < 0.2 * far, name


def test_a_replay_is_of_the_first_steps() -> None:
    if COMMITTED["replay"] is not None:
        assert COMMITTED["replay"]["steps"][:2] == [1, 2]
        assert COMMITTED["replay"]["numbers"] > 100_000


def test_intervals() -> None:
    """Of 2, 3, 4 and 7: a mean of 4, a deviation of 2.160, a t of 3.182."""
    mean, half = interval(np.array([2.0, 3.0, 4.0, 7.0]))
    assert mean == 4.0
    assert half == pytest.approx(3.182 * 2.1602 / 2, abs=1e-3)
    assert interval(np.array([3.0])) == (3.0, 0.0)


def test_differences_are_paired() -> None:
    """Of one seed those of each step of the last half, of several their means."""
    runs = [
        {"engine": engine, "format": name, "seed": seed, "losses": losses, "accuracy": 0.5}
        for engine, name, seed, losses in (
            ("float32", "float32", 0, [9.0, 9.0, 1.0, 2.0]),
            ("model", "mxsf", 0, [9.0, 9.0, 1.5, 2.0]),
            ("float32", "float32", 1, [9.0, 9.0, 3.0, 4.0]),
            ("model", "mxsf", 1, [9.0, 9.0, 4.0, 5.0]),
        )
    ]
    two: dict[str, Any] = {
        "setting": {**COMMITTED["setting"], "steps": 4, "parts": 1},
        "runs": runs,
        "replay": None,
    }
    one = {**two, "runs": runs[:2]}
    assert last(two) == 2
    assert loss_differences(one, ("model", "mxsf")).tolist() == [0.5, 0.0]
    assert loss_differences(two, ("model", "mxsf")).tolist() == [0.25, 1.0]
    assert parted(one) == []
    text = pages.text("learning", learning.values(two))
    assert "**4 steps of 2 seeds**" in text
    assert "over the seeds" in text
    assert "Replayed" not in text
    assert "No program has these bits yet" in text
    of_parts = {**two, "setting": {**two["setting"], "parts": 64}}
    assert "No program" not in pages.text("learning", learning.values(of_parts))
    full = {**two, "setting": {**two["setting"], "steps": 628}, "runs": runs * 3}
    assert "too dear" not in pages.text("learning", learning.values(full))
    assert len(rows(two)) == 3


def test_curves_are_means_of_neighbours() -> None:
    assert smoothed(np.array([[1.0, 3.0, 5.0, 1.0]]), 2).tolist() == [[2.0, 4.0, 3.0]]


def test_pictures_and_numbers_are_written_as_they_are() -> None:
    text = (DOCS / "learning.json").read_text()
    assert json.loads(text) == COMMITTED
    assert [*learning.pictures()] == ["learning.svg"]
