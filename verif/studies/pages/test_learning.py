"""The page on a transformer that learns: what its prose claims is so, and follows the numbers."""

from typing import Any

import numpy as np
import pytest

from mxsafe.codec import dequantize, quantize
from studies import pages
from studies.evidence.statistics import student
from studies.pages import kept, learning
from studies.pages.learning import last, loss_differences, parted, rows, runs_of, smoothed

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
    far = student(loss_differences(COMMITTED, ("model", "mxfp4_e2m1")))[0]
    for engine, name in kinds:
        if engine != "float32" and name != "mxfp4_e2m1":
            near = student(loss_differences(COMMITTED, (engine, name)))[0]
            assert abs(near) < 0.2 * far, name


def test_replays_are_of_the_first_steps_and_of_every_format() -> None:
    kinds = runs_of(COMMITTED)
    replays = COMMITTED["replays"]
    assert {one["format"] for one in replays} == {name for _, name in kinds if name != "float32"}
    for one in replays:
        assert one["steps"][:2] == [1, 2]
        assert all(step % 50 == 0 for step in one["steps"][2:])
        assert one["numbers"] > len(one["steps"]) * 100_000
        assert one["descriptors"] > 1000 * one["batch"]
    for one in COMMITTED["verilog"]:
        assert len(one["cycles"]) == 3


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
        "replays": [],
        "verilog": [],
        "apart": [],
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
    assert "Where formats part" not in text
    assert "in 1 part." in text
    of_parts = {**two, "setting": {**two["setting"], "parts": 64}}
    assert "one image after the other" in pages.text("learning", learning.values(of_parts))
    full = {**two, "setting": {**two["setting"], "steps": 628}, "runs": runs * 3}
    assert "too dear" not in pages.text("learning", learning.values(full))
    assert len(rows(two)) == 3


def test_seeds_for_intervals_of_a_point() -> None:
    """Of differences of 0 and 2 points: a deviation of 1.414, so (2 * 1.96 * 1.414)^2."""
    found = {("model", "mxsf"): [0.5, 0.52], ("float32", "float32"): [0.5, 0.5]}
    runs = [
        {"engine": engine, "format": name, "seed": seed, "losses": [], "accuracy": accuracy}
        for (engine, name), accuracies in found.items()
        for seed, accuracy in enumerate(accuracies)
    ]
    assert learning.accuracy_differences({"runs": runs}, ("model", "mxsf")) == pytest.approx([0, 2])
    assert learning.wanted({"runs": runs}) == 31
    assert learning.widest({"runs": runs}) == pytest.approx(2 * 12.706, abs=1e-3)


def _apart(setting: str, format: str, seed: int, loss: float, second: float | None) -> Any:
    numbers = {"loss": loss, "accuracy": 0.5, "second": second, "steps": 7}
    engine = "float32" if format == "float32" else "microscaling"
    return {"setting": setting, "engine": engine, "format": format, "seed": seed, **numbers}


def test_pairs_that_part_do_so_by_more_than_their_interval() -> None:
    """Of the second question, or of losses; never four bits."""
    runs = [
        _apart(setting, format, seed, first + rise * seed, second)
        for setting in ("beside", "few")
        for format, first, rise, second in (
            ("float32", 1.0, 0.1, 0.9),
            ("mxsf", 1.1, 0.1, 0.9),
            ("mxint8", 1.1, 0.3, 0.5),
            ("mxfp8_e4m3", 1.2, 0.11, 0.9),
            ("mxfp4_e2m1", 3.0, 0.1, 0.1),
        )
        for seed in (0, 1)
    ]
    record = {"apart": runs}
    found = learning.apart_pairs(record)
    assert found == {
        "beside": ["mxsf from mxint8", "mxint8 from mxfp8_e4m3"],
        "few": ["mxsf from mxfp8_e4m3"],
    }
    rows = learning.apart_rows(record)
    assert rows[0] == ("format", "`beside`", "`few`")
    assert rows[1] == ("float32", "0.9000", "1.0500")
    assert rows[3] == ("mxint8", "0.5000 (-0.4000)", "1.2500 (+0.2000 ± 1.2706)")
    one = {"apart": [run for run in runs if run["seed"] == 0]}
    assert learning.apart_pairs(one) == {"beside": [], "few": []}


@pytest.mark.parametrize("name", ["mxsf", "mxfp8_e4m3", "mxfp8_e2m5", "mxint8"])
def test_what_is_lost_beside_a_large_element(name: str) -> None:
    """The page's bound, by the codec."""
    bound = 2.0 ** learning.lost_below(name)
    for factor, there in ((1.0, False), (1.001, True)):
        found = dequantize(quantize(np.float32([1, factor * bound]), name, block=2))
        assert (found[1] != 0) == there, factor


def test_curves_are_means_of_neighbours() -> None:
    assert smoothed(np.array([[1.0, 3.0, 5.0, 1.0]]), 2).tolist() == [[2.0, 4.0, 3.0]]
