"""Trainings side by side: what runs, what is counted, what is kept."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mxsafe as mx
from mxsafe.formats import IntFormat
from studies.training import comparison
from studies.training.comparison import (
    EIGHT_BITS,
    STANDARD,
    WEIGHTS,
    Experiment,
    Setting,
    Trial,
    compare,
    record,
    run_trial,
)
from studies.training.data import Dataset, load_digits
from studies.training.network import (
    Adam,
    Microscaling,
    Optimiser,
    Underflow,
    evaluate,
    initial_state,
    training_step,
)

SMALL = Setting(hidden=(8,), epochs=2, batch=32)


@pytest.fixture(scope="module")
def few() -> Dataset:
    data = load_digits()
    return Dataset(
        train_inputs=data.train_inputs[:72],
        train_labels=data.train_labels[:72],
        test_inputs=data.test_inputs[:40],
        test_labels=data.test_labels[:40],
        classes=10,
    )


def test_standard_experiments() -> None:
    networks, weights = STANDARD[:2], STANDARD[2:]
    assert [len(e.setting.hidden) for e in networks] == [2, 6]
    for experiment in networks:
        kinds = dict.fromkeys((t.format, t.arithmetic) for t in experiment.trials())
        assert ("float32", "float32") in kinds
        assert {name for name, arithmetic in kinds if arithmetic == "exact"} > set(EIGHT_BITS)
        assert {name for name, arithmetic in kinds if arithmetic == "fp12"} == {
            name for name in EIGHT_BITS if not isinstance(mx.MX_FORMATS[name].element, IntFormat)
        }
        assert len(experiment.trials()) == 5 * len(kinds)
    assert [e.setting.weights for e in weights] == [(1.0, weight) for weight in WEIGHTS]
    assert all(isinstance(e.setting.optimiser, Adam) for e in weights)


def test_a_training_is_its_steps(few: Dataset) -> None:
    """The curves against a loop written down anew, and shares of sums rather than their means."""
    curves = run_trial(Trial(setting=SMALL, format="mxint8", arithmetic="exact", seed=3), few)
    numbers = Microscaling(format="mxint8")
    state = initial_state((64, 8, 10), 3)
    rng = np.random.default_rng((3, 1))
    for epoch in range(2):
        order, losses, lost = rng.permutation(72), [], [Underflow(), Underflow()]
        for chosen in (order[:32], order[32:64]):
            step = training_step(
                state,
                few.train_inputs[chosen],
                few.train_labels[chosen],
                numbers=numbers,
                optimiser=Optimiser(rate=0.05),
            )
            state = step.state
            losses.append(step.loss)
            lost = [a + b for a, b in zip(lost, step.underflow, strict=True)]
        measures = evaluate(state, few.test_inputs, few.test_labels, numbers=numbers)
        assert curves.accuracy[epoch] == curves.first_accuracy[epoch] == measures.accuracy
        assert curves.loss[epoch] == pytest.approx(measures.loss, rel=1e-12)
        assert curves.train_loss[epoch] == np.mean(losses)
        assert curves.underflow[epoch] == sum(u.lost for u in lost) / sum(u.nonzero for u in lost)
        assert curves.lost[epoch] == pytest.approx(
            sum(u.lost_magnitude for u in lost) / sum(u.magnitude for u in lost), rel=1e-12
        )
    assert 0 < curves.lost[-1] < curves.underflow[-1]
    assert curves.layers == tuple(u.ratio for u in lost)


def test_images_side_by_side(few: Dataset) -> None:
    inputs, labels = comparison._side_by_side(
        few.test_inputs, few.test_labels, 2, np.random.default_rng(5)
    )
    assert (inputs.shape, labels.shape) == ((40, 128), (40, 2))
    for head in (0, 1):
        images = inputs[:, 64 * head : 64 * head + 64]
        places = [
            int(np.flatnonzero((few.test_inputs == image).all(axis=1))[0]) for image in images
        ]
        assert sorted(places) == list(range(40)) != places
        assert labels[:, head].tolist() == few.test_labels[places].tolist()
    assert labels[:, 0].tolist() != labels[:, 1].tolist()


def test_two_heads(few: Dataset) -> None:
    setting = Setting(hidden=(8,), epochs=1, batch=32, optimiser=Adam(), weights=(1.0, 0.5))
    curves = run_trial(Trial(setting=setting, format="mxint8", arithmetic="exact", seed=0), few)
    assert len(curves.layers) == 2
    assert curves.accuracy != curves.first_accuracy


def test_results_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "SCRATCH", tmp_path)
    setting = Setting(hidden=(8,), epochs=1, batch=479)
    experiment = Experiment(title="small", setting=setting, exact=("mxsf",), seeds=1)
    planned = experiment.trials()
    first = dict(compare(planned, jobs=1))
    assert first == {trial: run_trial(trial) for trial in planned}

    def refuse(*args: Any, **options: Any) -> None:
        raise AssertionError("nothing is left to run")

    monkeypatch.setattr(comparison, "ProcessPoolExecutor", refuse)
    assert dict(compare(planned, jobs=1)) == first
    written = record([experiment], first)["experiments"][0]
    assert [run["format"] for run in written["runs"]] == ["float32", "mxsf"]
    assert written["setting"]["optimiser"] == {"name": "Optimiser", "rate": 0.05, "momentum": 0.9}
    assert written["runs"][1]["train_loss"] == [float(f"{first[planned[1]].train_loss[0]:.6g}")]

    monkeypatch.setattr(comparison, "_source_digest", lambda: "another")
    with pytest.raises(AssertionError):
        next(compare(planned, jobs=1))
