"""Formats side by side on the same network: trainings, their curves, and their statistics."""

import hashlib
import json
import multiprocessing
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal
from unittest import mock

import numpy as np
from numpy.typing import NDArray

import mxsafe as mx
from mxsafe.atomic import write_atomically
from mxsafe.formats import IntFormat
from studies.training.data import DATASETS, Dataset
from studies.training.network import (
    FLOAT32,
    Adam,
    Microscaling,
    Numbers,
    Optimiser,
    Underflow,
    evaluate_heads,
    initial_state,
    training_step,
)
from verif.data import digits
from verif.support.simulators import SCRATCH

Arithmetic = Literal["float32", "exact", "fp12"]
EIGHT_BITS = ("mxsf", "mxfp8_e2m5", "mxfp8_e4m3", "mxint8")
FLOATS = tuple(
    name for name in EIGHT_BITS if not isinstance(mx.MX_FORMATS[name].element, IntFormat)
)
"""Those of eight bits that `fp12` can add."""
LANES = 4
"""Products that `fp12` adds at a time."""
FEW_BITS = ("mxfp6_e3m2", "mxfp6_e2m3", "mxfp4_e2m1")
WEIGHTS = tuple(2.0**-exponent for exponent in (0, 4, 6, 8, 10, 12, 14))
"""Weights of the second digit's loss."""
_DEFAULT = Optimiser(rate=0.05)
_SINGLE_THREAD = dict.fromkeys(
    ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)
"""Lets processes that start anew use one thread each, as NumPy reads it when it is imported."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Task of a training, and its method.

    Attributes
    ----------
    data : str
        Name in `studies.training.data.DATASETS`.
    hidden : tuple of int
        Outputs of each hidden layer.
    block : int or tuple of int
        Blocks of all matrices, see `Microscaling`.
    epochs, batch : int
        Passes over the images, in an order drawn anew for each; images a step. Those left over at
        the end of a pass make no step.
    optimiser : Optimiser or Adam
        What makes an update of the gradients.
    weights : tuple of float
        As many images as there are weights stand side by side; a head for each tells its class, and
        the heads' losses have these weights.
    """

    data: str = "digits"
    hidden: tuple[int, ...] = (64, 32)
    block: int | tuple[int, int] = (8, 8)
    epochs: int = 20
    batch: int = 64
    optimiser: Optimiser | Adam = _DEFAULT
    weights: tuple[float, ...] = (1.0,)


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Formats beside float32 in a setting.

    Attributes
    ----------
    title : str
        What sets it apart from others.
    setting : Setting
    exact, fp12 : tuple of str
        Formats in each arithmetic.
    seeds : int
        Trainings of each, with seeds from 0 on.
    """

    title: str
    setting: Setting
    exact: tuple[str, ...] = EIGHT_BITS
    fp12: tuple[str, ...] = ()
    seeds: int = 5

    def trials(self) -> list["Trial"]:
        """All trainings: float32, then by arithmetic, format and seed."""
        kinds: list[tuple[str, Arithmetic]] = [("float32", "float32")]
        kinds += [(name, "exact") for name in self.exact]
        kinds += [(name, "fp12") for name in self.fp12]
        return [
            Trial(setting=self.setting, format=name, arithmetic=arithmetic, seed=seed)
            for name, arithmetic in kinds
            for seed in range(self.seeds)
        ]


STANDARD: tuple[Experiment, ...] = (
    Experiment(
        title="three layers",
        setting=Setting(),
        exact=(*EIGHT_BITS, *FEW_BITS),
        fp12=FLOATS,
    ),
    Experiment(
        title="seven layers",
        setting=Setting(hidden=(64,) * 6, optimiser=Optimiser(rate=0.02)),
        exact=(*EIGHT_BITS, *FEW_BITS),
        fp12=FLOATS,
    ),
    *(
        Experiment(
            title=f"two digits, the second's loss times {weight:g}",
            setting=Setting(hidden=(64,), optimiser=Adam(rate=0.003), weights=(1.0, weight)),
        )
        for weight in WEIGHTS
    ),
)


"""Experiments that the page in ``docs`` compares."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One training.

    Attributes
    ----------
    setting : Setting
    format : str
        Name of an MX format, or ``float32``.
    arithmetic : {"float32", "exact", "fp12"}
        How products are added; ``float32`` with the format of that name only.
    seed : int
        Seed of the first weights and of the order of the images.
    """

    setting: Setting
    format: str
    arithmetic: Arithmetic
    seed: int

    def numbers(self) -> Numbers:
        """The format and its products."""
        if self.arithmetic == "float32":
            return FLOAT32
        product = partial(mx.matmul, arithmetic=self.arithmetic, lanes=LANES)
        return Microscaling(format=self.format, block=self.setting.block, product=product)


@dataclass(frozen=True, kw_only=True)
class Curves:
    """Curves of a training, one number an epoch.

    Attributes
    ----------
    accuracy, loss : tuple of float
        Of the last head, on the test images after the epoch, forward in the same arithmetic.
    first_accuracy : tuple of float
        Accuracy of the first head, which may be the same.
    train_loss : tuple of float
        Mean over the epoch's steps, each before its update.
    underflow : tuple of float
        Elements of dY, the gradients by the outputs of all layers before the activation, which are
        not zero and become zero when they are quantised, over all that are not zero.
    lost : tuple of float
        Sum of the magnitudes of those, over the sum of all magnitudes.
    layers : tuple of float
        Underflow of the last epoch in each layer, from the input to the output.
    """

    accuracy: tuple[float, ...]
    first_accuracy: tuple[float, ...]
    loss: tuple[float, ...]
    train_loss: tuple[float, ...]
    underflow: tuple[float, ...]
    lost: tuple[float, ...]
    layers: tuple[float, ...]


def _side_by_side(
    inputs: NDArray[np.float32], labels: NDArray[np.int64], heads: int, rng: np.random.Generator
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Images in a random order, beside each other in other random orders, and their labels."""
    orders = [rng.permutation(len(labels)) for _ in range(heads)]
    return (
        np.concatenate([inputs[order] for order in orders], axis=1),
        np.stack([labels[order] for order in orders], axis=1),
    )


def run_trial(trial: Trial, data: Dataset | None = None) -> Curves:
    """Train a network.

    Parameters
    ----------
    trial : Trial
    data : Dataset, optional
        Instead of the data set that the setting names.
    """
    setting = trial.setting
    data = DATASETS[setting.data]() if data is None else data
    heads = len(setting.weights)
    numbers = trial.numbers()
    sizes = (heads * data.train_inputs.shape[1], *setting.hidden, heads * data.classes)
    state = initial_state(sizes, trial.seed)
    rng = np.random.default_rng((trial.seed, 1))
    # The same test whatever the seed.
    test = _side_by_side(data.test_inputs, data.test_labels, heads, np.random.default_rng(0))
    curves: dict[str, list[float]] = {
        name: []
        for name in ("accuracy", "first_accuracy", "loss", "train_loss", "underflow", "lost")
    }
    layers = [Underflow()] * len(state.layers)
    for _ in range(setting.epochs):
        losses = []
        layers = [Underflow()] * len(state.layers)
        inputs, labels = _side_by_side(data.train_inputs, data.train_labels, heads, rng)
        for start in range(0, len(labels) - setting.batch + 1, setting.batch):
            chosen = slice(start, start + setting.batch)
            step = training_step(
                state,
                inputs[chosen],
                labels[chosen],
                numbers=numbers,
                optimiser=setting.optimiser,
                weights=setting.weights,
            )
            state = step.state
            losses.append(step.loss)
            layers = [total + new for total, new in zip(layers, step.underflow, strict=True)]
        measures = evaluate_heads(state, *test, numbers=numbers)
        together = sum(layers, Underflow())
        curves["accuracy"].append(measures[-1].accuracy)
        curves["first_accuracy"].append(measures[0].accuracy)
        curves["loss"].append(measures[-1].loss)
        curves["train_loss"].append(float(np.mean(losses)))
        curves["underflow"].append(together.ratio)
        curves["lost"].append(together.lost_share)
    found = {name: tuple(values) for name, values in curves.items()}
    return Curves(**found, layers=tuple(layer.ratio for layer in layers))


def _source_digest() -> str:
    """Digest of all that a training's result hangs on in this repository."""
    data = Path(str(digits.__file__)).parent
    folders = (Path(mx.__file__).parent, Path(__file__).parent, data)
    names = ("codec/*.py", "model/*.py", "formats.py", "network.py", "data.py", "comparison.py")
    digest = hashlib.sha256()
    for folder in folders:
        for pattern in (*names, "*.npz"):
            for path in sorted(folder.glob(pattern)):
                digest.update(path.read_bytes())
    return digest.hexdigest()


def _kept(trial: Trial, source: str) -> Path:
    """File in which the result of a training is kept, so that what was interrupted goes on."""
    key = json.dumps([asdict(trial), source, np.__version__], sort_keys=True)
    digest = hashlib.sha256(key.encode()).hexdigest()[:16]
    return SCRATCH / "training" / f"{digest}.json"


def _read_curves(record: Mapping[str, Any]) -> Curves:
    return Curves(**{name: tuple(values) for name, values in record.items()})


def compare(planned: Sequence[Trial], *, jobs: int) -> Iterator[tuple[Trial, Curves]]:
    """Run trainings in processes of one thread each, and give their results as they come.

    Parameters
    ----------
    planned : sequence of Trial
    jobs : int
        Processes.

    Yields
    ------
    Trial, Curves
        Each trial once; those kept from an interrupted run of the same code first.
    """
    source = _source_digest()
    files = {trial: _kept(trial, source) for trial in planned}
    for trial, path in files.items():
        if path.exists():
            yield trial, _read_curves(json.loads(path.read_text()))
    missing = [trial for trial, path in files.items() if not path.exists()]
    if not missing:
        return
    next(iter(files.values())).parent.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("spawn")
    with (
        mock.patch.dict(os.environ, _SINGLE_THREAD),
        ProcessPoolExecutor(jobs, mp_context=context) as pool,
    ):
        running = {pool.submit(run_trial, trial): trial for trial in missing}
        try:
            for future in as_completed(running):
                trial, curves = running[future], future.result()
                write_atomically(files[trial], json.dumps(asdict(curves)))
                yield trial, curves
        finally:
            pool.shutdown(cancel_futures=True)


def _rounded(values: Sequence[float]) -> list[float]:
    return [float(f"{value:.6g}") for value in values]


def record(experiments: Sequence[Experiment], found: Mapping[Trial, Curves]) -> dict[str, Any]:
    """Results as JSON has them, all numbers with six digits.

    Parameters
    ----------
    experiments : sequence of Experiment
    found : mapping of Trial to Curves
        Curves of all their trials.
    """
    written = []
    for experiment in experiments:
        setting = asdict(experiment.setting)
        setting["optimiser"] = {
            "name": type(experiment.setting.optimiser).__name__,
            **setting["optimiser"],
        }
        runs = []
        for trial in experiment.trials():
            curves = {name: _rounded(values) for name, values in asdict(found[trial]).items()}
            kind = {"format": trial.format, "arithmetic": trial.arithmetic, "seed": trial.seed}
            runs.append({**kind, **curves})
        written.append({"title": experiment.title, "setting": setting, "runs": runs})
    return {"numpy": np.__version__, "experiments": written}


def as_text(record: Mapping[str, Any]) -> str:
    """JSON with a line for each run."""
    experiments = []
    for experiment in record["experiments"]:
        head = json.dumps({"title": experiment["title"], "setting": experiment["setting"]})
        runs = ",\n".join(json.dumps(run, separators=(",", ":")) for run in experiment["runs"])
        experiments.append(f'{head[:-1]}, "runs": [\n{runs}\n]}}')
    joined = ",\n".join(experiments)
    return f'{{"numpy": {json.dumps(record["numpy"])}, "experiments": [\n{joined}\n]}}\n'
