"""``python -m studies.learning``: a vision transformer learns by the machine's operations.

Fashion-MNIST, step by step by `mxsafe.torch.compile_step` with models of all operations, beside
float32 and `mxsafe.torch.microscaling` from the same weights, with the same batches. All trainings
go on together, some steps at a time; what was done is kept in ``sim_build/learning``, and the next
call goes on from there. Writes ``learning.json`` and the page that is made of it.

With ``--replay`` it does a training of MXSF instead, steps 1, 2 and every 50th of which are done by
the compiled program too, on the interpreter; all that it leaves is compared bit by bit. To compile
it takes minutes, by the size of the batch.
"""

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

import mxsafe.torch as mxt
from mxsafe.analysis import figures
from mxsafe.atomic import write_atomically, write_together
from mxsafe.cli.arguments import UserError, parse_positive
from studies import pages
from studies.pages import learning
from studies.prose import as_help
from studies.training.data import FASHION_MNIST, Dataset, load_fashion_mnist
from verif.support.simulators import SCRATCH

Arrays = dict[str, NDArray[Any]]

FORMATS = ("mxsf", "mxfp8_e4m3", "mxfp8_e2m5", "mxint8", "mxfp4_e2m1")
"""Those of eight bits, and one of four that must do worse."""
TILE = (8, 8)
WIDTH, DEPTH, HEADS, HIDDEN, PATCH, LEARNT = 48, 2, 3, 96, 14, 4
BATCH, RATE = 64, 2e-3
TOGETHER = 20
"""Steps of a training before the next one goes on."""


class Block(nn.Module):
    """Attention of heads of 16 features, and a perceptron, each behind a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Tokens of shape (images, tokens, features)."""
        heads = self.qkv(self.norm1(x)).unflatten(-1, (3, HEADS, -1))
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        y: torch.Tensor = x + self.down(nn.functional.gelu(self.up(self.norm2(x))))
        return y


class Vit(nn.Module):
    """A vision transformer of a class token, more learnt tokens, and four patches of an image.

    They are eight tokens: a whole tile.
    """

    def __init__(self) -> None:
        super().__init__()
        tokens = LEARNT + (28 // PATCH) ** 2
        self.patches = nn.Conv2d(1, WIDTH, PATCH, PATCH)
        self.learnt = nn.Parameter(0.02 * torch.randn(1, LEARNT, WIDTH))
        self.position = nn.Parameter(0.02 * torch.randn(1, tokens, WIDTH))
        self.blocks = nn.ModuleList(Block() for _ in range(DEPTH))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of images of shape (images, 1, 28, 28)."""
        patches = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.learnt.expand(len(x), -1, -1), patches], 1) + self.position
        for block in self.blocks:
            x = block(x)
        logits: torch.Tensor = self.head(self.norm(x)[:, 0])
        return logits


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One training.

    Attributes
    ----------
    engine : {"model", "microscaling", "float32"}
        The models of the machine's operations; PyTorch with quantised products; PyTorch alone.
    format : str
        ``float32`` without a format.
    seed : int
        Of weights, and of the order of the images.
    """

    engine: str
    format: str
    seed: int

    @property
    def name(self) -> str:
        """Of its file."""
        return f"{self.engine}-{self.format}-{self.seed}"


class Learner(Protocol):
    """What takes steps."""

    model: Vit

    def step(self, x: torch.Tensor, target: torch.Tensor) -> float:
        """Take a step, and return its loss."""

    def state(self) -> Arrays:
        """All that it needs to go on."""

    def load(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go on from a state."""


class Machine:
    """Steps with the machine's bits.

    Parameters
    ----------
    model : Vit
    format : str
    batch, parts : int
        Images of a step, and into how many parts they are divided.
    """

    def __init__(self, model: Vit, format: str, batch: int, parts: int) -> None:
        self.model = model
        examples = torch.zeros(batch, 1, 28, 28), torch.zeros(batch, dtype=torch.int64)
        optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
        self.own = mxt.compile_step(
            model,
            nn.CrossEntropyLoss(),
            optimizer,
            examples,
            format=format,
            parts=parts,
            engine="model",
        )

    def step(self, x: torch.Tensor, target: torch.Tensor) -> float:
        """Take a step, and return its loss."""
        return self.own(x, target)

    def state(self) -> Arrays:
        """Weights and moments; the weights go into the model, too."""
        self.own.write_back()
        return {"steps": np.array(self.own.steps), **self.own.state}

    def load(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go on from a state."""
        tensors = {name: torch.from_numpy(array) for name, array in state.items()}
        steps = int(tensors.pop("steps"))
        self.own.load_state_dict({"steps": steps, "state": tensors})
        self.own.write_back()


class PyTorch:
    """Steps of PyTorch, in float32 or with products of a format.

    Parameters
    ----------
    model : Vit
    format : str or None
        None is float32.
    """

    def __init__(self, model: Vit, format: str | None) -> None:
        self.model, self._format = model, format
        self._optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)

    def step(self, x: torch.Tensor, target: torch.Tensor) -> float:
        """Take a step, and return its loss."""
        self._optimizer.zero_grad()
        with mxt.microscaling(self._format, block=TILE):
            loss = nn.functional.cross_entropy(self.model(x), target)
            loss.backward()
        self._optimizer.step()
        return float(loss.detach())

    def state(self) -> Arrays:
        """Weights and moments."""
        found = {name: p.detach().numpy() for name, p in self.model.named_parameters()}
        for number, kept in self._optimizer.state_dict()["state"].items():
            found |= {f"{number} {name}": tensor.numpy() for name, tensor in kept.items()}
        return found

    def load(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go on from a state."""
        moments: dict[int, dict[str, torch.Tensor]] = {}
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                parameter.copy_(torch.from_numpy(state[name]))
        for name, array in state.items():
            number, _, moment = name.partition(" ")
            if moment:
                moments.setdefault(int(number), {})[moment] = torch.from_numpy(array.copy())
        whole = self._optimizer.state_dict()
        self._optimizer.load_state_dict({**whole, "state": moments})


class Training:
    """A training, as far as it is.

    Parameters
    ----------
    trial : Trial
    data : Dataset
    folder : Path
        Where its state is kept; what is there is gone on with.
    batch, parts : int
        Images of a step; into how many parts the machine divides them.

    Attributes
    ----------
    losses : list of float
        Of all steps, each before its update.
    replays : list of int
        Steps that the program has done too, with the same bits.
    """

    def __init__(self, trial: Trial, data: Dataset, folder: Path, batch: int, parts: int) -> None:
        self.trial, self.data, self._batch = trial, data, batch
        self._sizes = np.array([batch, parts])
        self._path = folder / f"{trial.name}.npz"
        self.losses: list[float] = []
        self.replays: list[int] = []
        torch.manual_seed(trial.seed)
        model = Vit()
        self.learner: Learner = (
            Machine(model, trial.format, batch, parts)
            if trial.engine == "model"
            else PyTorch(model, None if trial.engine == "float32" else trial.format)
        )
        if self._path.exists():
            with np.load(BytesIO(self._path.read_bytes()), allow_pickle=False) as file:
                state = {name: file[name] for name in file.files}
            made = state.pop("sizes")
            if not np.array_equal(made, self._sizes):
                wanted = f"must be of batches and parts {self._sizes}, not {made}"
                raise UserError(f"{self._path} {wanted}: remove it")
            self.losses = state.pop("losses").tolist()
            self.replays = state.pop("replays").tolist()
            self.learner.load(state)

    def advance(self, steps: int) -> None:
        """Go on until so many steps are done, and keep the state."""
        if len(self.losses) >= steps:
            return
        while len(self.losses) < steps:
            self.losses.append(self.learner.step(*self._images(len(self.losses))))
        self._keep()

    def replay(self) -> int:
        """Do the next step, and the same by the program; return how many numbers were compared.

        Raises
        ------
        AssertionError
            If a bit differs.
        """
        assert isinstance(self.learner, Machine)
        step, images = self.learner.own, self._images(len(self.losses))
        found = step.replay(step.inputs(*images))
        self.losses.append(step(*images))
        assert step.output is not None
        wanted = {"output": step.output, **step.state}
        for name, array in wanted.items():
            same = np.array_equal(found[name].view(np.uint32), array.view(np.uint32))
            assert same, f"{self.trial.name}, step {len(self.losses)}: {name} differs"
        self.replays.append(len(self.losses))
        self._keep()
        return sum(array.size for array in wanted.values())

    def _keep(self) -> None:
        out = BytesIO()
        state: Arrays = self.learner.state()
        state["losses"], state["sizes"] = np.array(self.losses), self._sizes
        state["replays"] = np.array(self.replays, np.int64)
        np.savez(out, **state)
        write_atomically(self._path, out.getvalue())

    def _images(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Those of a step, counted from 0: an order of all images after the other."""
        each = len(self.data.train_labels) // self._batch
        rng = np.random.default_rng((self.trial.seed, step // each))
        start = step % each * self._batch
        chosen = rng.permutation(len(self.data.train_labels))[start : start + self._batch]
        images = self.data.train_inputs[chosen].reshape(-1, 1, 28, 28)
        return torch.from_numpy(images), torch.from_numpy(self.data.train_labels[chosen])

    def accuracy(self) -> float:
        """Share of the test images that are judged right, forward as `microscaling` has it."""
        self.learner.state()
        images = torch.from_numpy(self.data.test_inputs.reshape(-1, 1, 28, 28))
        format = None if self.trial.engine == "float32" else self.trial.format
        with torch.no_grad(), mxt.microscaling(format, block=TILE):
            found = torch.cat([self.learner.model(some).argmax(1) for some in images.split(500)])
        return float((found.numpy() == self.data.test_labels).mean())


def planned(seeds: int, formats: Sequence[str] = FORMATS) -> list[Trial]:
    """All trainings, those of one seed after the other."""
    return [
        Trial(engine=engine, format=format, seed=seed)
        for seed in range(seeds)
        for engine, format in (
            ("float32", "float32"),
            ("microscaling", formats[0]),
            *(("model", format) for format in formats),
        )
    ]


def run(
    trials: Sequence[Trial], steps: int, data: Dataset, folder: Path, *, batch: int, parts: int
) -> list[Training]:
    """Advance all trainings, some steps at a time, with a count on stderr."""
    folder.mkdir(parents=True, exist_ok=True)
    trainings = [Training(trial, data, folder, batch, parts) for trial in trials]
    start = time.monotonic()
    for until in (*range(TOGETHER, steps, TOGETHER), steps):
        for training in trainings:
            training.advance(until)
            state = f"{training.trial.name}: {until} of {steps}, {time.monotonic() - start:.0f} s "
            print(f"\r{state:<60}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return trainings


def record(trainings: Sequence[Training], steps: int, *, batch: int, parts: int) -> dict[str, Any]:
    """Results as JSON has them."""
    sizes = {"width": WIDTH, "depth": DEPTH, "heads": HEADS, "hidden": HIDDEN, "patch": PATCH}
    setting = {**sizes, "learnt": LEARNT, "batch": batch, "parts": parts, "rate": RATE}
    setting["steps"] = steps
    setting["test"] = len(trainings[0].data.test_labels)
    runs = []
    for training in trainings:
        if len(training.losses) != steps:
            raise UserError(
                f"--steps must be {len(training.losses)} or more, which {training.trial.name} has "
                f"done, not {steps}"
            )
        losses = [float(f"{loss:.5g}") for loss in training.losses]
        accuracy = round(training.accuracy(), 4)
        runs.append({**asdict(training.trial), "accuracy": accuracy, "losses": losses})
    return {"setting": setting, "runs": runs, "replay": None}


def as_text(results: Mapping[str, Any]) -> str:
    """JSON with a line for each training."""
    runs = ",\n".join(json.dumps(one, separators=(",", ":")) for one in results["runs"])
    setting, own = json.dumps(results["setting"]), json.dumps(results["replay"])
    return f'{{"setting": {setting}, "replay": {own}, "runs": [\n{runs}\n]}}\n'


def replay(
    trial: Trial, steps: int, data: Dataset, folder: Path, *, batch: int, every: int
) -> dict[str, Any]:
    """Train, an image in a part, with some of the steps done by the compiled program, too.

    Raises
    ------
    AssertionError
        If a bit differs.
    """
    folder.mkdir(parents=True, exist_ok=True)
    training = Training(trial, data, folder, batch, batch)
    for number in replayed(steps, every):
        training.advance(number - 1)
        if len(training.losses) < number:
            print(
                f"{trial.name}: {training.replay()} numbers the same in step {number}", flush=True
            )
    training.advance(steps)
    numbers = sum(array.size for array in training.learner.state().values()) - 1 + 10 * batch
    done = training.replays
    known = {"format": trial.format, "batch": batch, "steps": done}
    return {**known, "numbers": numbers * len(done)}


def replayed(steps: int, every: int) -> list[int]:
    """Which steps are done by the program, too: 1, 2, and every so many."""
    return sorted({1, 2, *range(every, steps + 1, every)} & set(range(1, steps + 1)))


def main(argv: Sequence[str] | None = None) -> int:
    """Train, then write the page, its picture and its numbers; returns the exit code.

    0 is success, 1 work that failed, 2 a wrong command line.
    """
    parser = argparse.ArgumentParser(
        prog="python -m studies.learning", description=as_help(__doc__)
    )
    add = parser.add_argument
    add("--steps", type=parse_positive, default=628, metavar="N", help="(default: %(default)s)")
    add("--seeds", type=parse_positive, default=5, metavar="N", help="(default: %(default)s)")
    add("--batch", type=parse_positive, metavar="N", help=f"(default: {BATCH}, of replays 8)")
    add("--parts", type=parse_positive, metavar="N", help="of a batch (default: its images)")
    add("--replay", action="store_true", help="compare a training with the program's")
    add("--quick", action="store_true", help="four steps of eight images, of float32 and MXSF")
    add("--data", type=Path, default=FASHION_MNIST, metavar="FOLDER", help="of Fashion-MNIST")
    add("--work", type=Path, default=SCRATCH / "learning", metavar="FOLDER", help="what is kept")
    add("--out", type=Path, default=pages.DOCS, metavar="FOLDER", help="(default: docs)")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    if not args.quick:
        with suppress(ImportError):  # once it is loaded it quantises small tensors, too
            import mxsafe.codec.numba_engine  # noqa: F401
    try:
        figures.new_figure(1, 1)
        results = _results(args)
        page = pages.text("learning", learning.values(results))
        files = {"learning.json": as_text(results).encode(), "learning.md": page.encode()}
        write_together(args.out, files | learning.pictures(results))
    except (UserError, ModuleNotFoundError, OSError) as error:
        print(f"learning: {error}", file=sys.stderr)
        return 1
    return 0


def _results(args: argparse.Namespace) -> dict[str, Any]:
    """What the page is made of: of what is not measured now, what is there."""
    data, path = load_fashion_mnist(args.data), args.out / "learning.json"
    before: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"replay": None}
    if args.replay:
        if "runs" not in before:
            raise UserError(f"{path} must be there before replays are added to it")
        trial = Trial(engine="model", format="mxsf", seed=0)
        batch, folder = args.batch or 8, args.work / "replay"
        found = replay(trial, args.steps, data, folder, batch=batch, every=50)
        return {**before, "replay": found}
    if args.quick:
        trials, steps, batch = planned(1, ("mxsf",)), 4, 8
    else:
        trials, steps, batch = planned(args.seeds), args.steps, args.batch or BATCH
    parts = args.parts or batch
    trainings = run(trials, steps, data, args.work, batch=batch, parts=parts)
    results = record(trainings, steps, batch=batch, parts=parts)
    return {**results, "replay": before["replay"]}


if __name__ == "__main__":
    sys.exit(main())
