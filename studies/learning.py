"""``python -m studies.learning``: a vision transformer learns by the machine's operations.

Fashion-MNIST (`studies.evidence.fashion_mnist`), step by step by `mxsafe.torch.compile_step` with
models of all operations, beside float32 and `mxsafe.torch.microscaling` from the same weights, with
the same batches. All trainings go on together, some steps at a time; what was done is kept in
``sim_build/learning``, and the next call goes on from there. Writes ``learning.json`` and the page
that is made of it.

With ``--replay`` it does a training in each format instead, steps 1, 2 and every 50th of which are
done by the compiled program too, on the interpreter; all that it leaves is compared bit by bit. To
compile it takes minutes, by the size of the batch. With ``--verilog`` the first three steps of MXSF
are done by the simulated Verilog, and all of memory is compared with the interpreter's. With
``--apart`` the settings in which formats may part are learnt in, by `microscaling`.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
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
from studies.evidence import fashion_mnist
from studies.pages import learning
from studies.prose import as_help
from studies.step_figures import Compared, same
from verif.support.simulators import SCRATCH

Arrays = dict[str, NDArray[Any]]
Data = Mapping[str, fashion_mnist.Images]
"""Images and labels by part, ``train`` and ``test``."""

FORMATS = ("mxsf", "mxfp8_e4m3", "mxfp8_e2m5", "mxint8", "mxfp4_e2m1")
"""Those of eight bits, and one of four that must do worse."""
TILE = (8, 8)
WIDTH, DEPTH, HEADS, HIDDEN, PATCH, LEARNT = 48, 2, 3, 96, 14, 4
BATCH, RATE = 64, 2e-3
TOGETHER = 20
"""Steps of a training before the next one goes on."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A network, and how it learns.

    Attributes
    ----------
    depth : int
        Blocks.
    norms : bool
        Whether there are norms.
    rate : float
        Of AdamW.
    beside : float
        Weight in the loss of a second question, whether it is footwear, whose two logits are beside
        those of the classes; 0 if there is none.
    images : int or None
        How many there are to learn from; None is all.
    steps : int
        After how many formats are compared; those of the usual setting the command says.
    """

    depth: int = field(default_factory=lambda: DEPTH)
    norms: bool = True
    rate: float = RATE
    beside: float = 0.0
    images: int | None = None
    steps: int = 628


class Block(nn.Module):
    """Attention of heads of 16 features, and a perceptron, each behind a norm.

    Parameters
    ----------
    norms : bool
    """

    def __init__(self, norms: bool = True) -> None:
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(WIDTH) if norms else nn.Identity() for _ in "12")
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

    Parameters
    ----------
    setting : Setting
    """

    def __init__(self, setting: Setting) -> None:
        super().__init__()
        tokens = LEARNT + (28 // PATCH) ** 2
        self.patches = nn.Conv2d(1, WIDTH, PATCH, PATCH)
        self.learnt = nn.Parameter(0.02 * torch.randn(1, LEARNT, WIDTH))
        self.position = nn.Parameter(0.02 * torch.randn(1, tokens, WIDTH))
        self.blocks = nn.ModuleList(Block(setting.norms) for _ in range(setting.depth))
        self.norm = nn.LayerNorm(WIDTH) if setting.norms else nn.Identity()
        self.head = nn.Linear(WIDTH, 12 if setting.beside else 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of images of shape (images, 1, 28, 28)."""
        patches = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.learnt.expand(len(x), -1, -1), patches], 1) + self.position
        for block in self.blocks:
            x = block(x)
        logits: torch.Tensor = self.head(self.norm(x)[:, 0])
        return logits


SETTINGS: Mapping[str, Callable[[], Setting]] = {
    "usual": Setting,
    "beside": lambda: Setting(beside=2.0**-14, steps=150),
    "far": lambda: Setting(beside=2.0**-16, steps=100),
    "few": lambda: Setting(images=512, steps=300),
    "fast": lambda: Setting(rate=1e-2, steps=150),
    "deep": lambda: Setting(depth=6, norms=False, steps=100),
}
"""By name: the one of the page's curves, and those in which formats may part."""


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
    setting : str
        Name of one of `SETTINGS`; the models have the first.
    """

    engine: str
    format: str
    seed: int
    setting: str = "usual"

    @property
    def name(self) -> str:
        """Of its file."""
        own = f"{self.engine}-{self.format}-{self.seed}"
        return own if self.setting == "usual" else f"{self.setting}-{own}"


def footwear(labels: torch.Tensor) -> torch.Tensor:
    """1 for sandals, sneakers and boots, else 0."""
    return ((labels == 5) | (labels == 7) | (labels == 9)).long()


class Learner(Protocol):
    """What takes steps."""

    @property
    def model(self) -> Vit:
        """With the weights as they are."""

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
    compiled : Compiled
        The step, which trainings of a format take in turn.
    """

    def __init__(self, model: Vit, compiled: "Compiled") -> None:
        self._compiled = compiled
        kept = compiled.step.state_dict()["state"]
        first = {name: p.detach().clone() for name, p in model.named_parameters()}
        state = {
            name: first[name].reshape(old.shape) if name in first else torch.zeros_like(old)
            for name, old in kept.items()
        }
        self._kept: dict[str, Any] = {"steps": 0, "state": state}

    @property
    def own(self) -> mxt.TrainingStep:
        """The step, with the state of this training."""
        shared = self._compiled
        if shared.user is not self:
            if shared.user is not None:
                shared.user._kept = shared.step.state_dict()
            shared.step.load_state_dict(self._kept)
            shared.user = self
        return shared.step

    @property
    def model(self) -> Vit:
        """With the weights of this training, until another one goes on."""
        self.own.write_back()
        return self._compiled.model

    def step(self, x: torch.Tensor, target: torch.Tensor) -> float:
        """Take a step, and return its loss."""
        return self.own(x, target)

    def state(self) -> Arrays:
        """Weights and moments."""
        return {"steps": np.array(self.own.steps), **self.own.state}

    def load(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go on from a state."""
        tensors = {name: torch.from_numpy(array) for name, array in state.items()}
        steps = int(tensors.pop("steps"))
        self.own.load_state_dict({"steps": steps, "state": tensors})


def made_step(model: Vit, format: str, batch: int, parts: int, engine: Any) -> mxt.TrainingStep:
    """A step of the usual setting, whatever runs it."""
    examples = torch.zeros(batch, 1, 28, 28), torch.zeros(batch, dtype=torch.int64)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    return mxt.compile_step(
        model,
        nn.CrossEntropyLoss(),
        optimizer,
        examples,
        format=format,
        parts=parts,
        engine=engine,
    )


class Compiled:
    """A step of a format, and the training that takes it now.

    To make its graph takes seconds, so all trainings of a format have one.

    Parameters
    ----------
    format : str
    batch, parts : int
        Images of a step, and into how many parts they are divided.
    """

    def __init__(self, format: str, batch: int, parts: int) -> None:
        self.model = Vit(Setting())
        self.step = made_step(self.model, format, batch, parts, "model")
        self.user: Machine | None = None


class PyTorch:
    """Steps of PyTorch, in float32 or with products of a format.

    Parameters
    ----------
    model : Vit
    format : str or None
        None is float32.
    setting : Setting
    """

    def __init__(self, model: Vit, format: str | None, setting: Setting) -> None:
        self.model, self._format, self._setting = model, format, setting
        self._optimizer = torch.optim.AdamW(model.parameters(), lr=setting.rate)

    def step(self, x: torch.Tensor, target: torch.Tensor) -> float:
        """Take a step, and return its loss."""
        self._optimizer.zero_grad()
        with mxt.microscaling(self._format, block=TILE):
            logits, second = self.model(x).split([10, self.model.head.out_features - 10], 1)
            loss = nn.functional.cross_entropy(logits, target)
            whole = loss
            if self._setting.beside:
                other = nn.functional.cross_entropy(second, footwear(target))
                whole = loss + self._setting.beside * other
            whole.backward()
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
    data : Data
    folder : Path
        Where its state is kept; what is there is gone on with.
    batch, parts : int
        Images of a step; into how many parts the machine divides them.
    compiled : dict of str to Compiled, optional
        Steps of the machine by their format, which is added to.

    Attributes
    ----------
    losses : list of float
        Of all steps, each before its update.
    replays : list of int
        Steps that the program has done too, with the same bits.
    """

    def __init__(
        self,
        trial: Trial,
        data: Data,
        folder: Path,
        batch: int,
        parts: int,
        compiled: dict[str, Compiled] | None = None,
    ) -> None:
        self.trial, self.data, self._batch = trial, data, batch
        self._setting = SETTINGS[trial.setting]()
        self._sizes = np.array([batch, parts])
        self._path = folder / f"{trial.name}.npz"
        self.losses: list[float] = []
        self.replays: list[int] = []
        torch.manual_seed(trial.seed)
        model = Vit(self._setting)
        self._format = None if trial.engine == "float32" else trial.format
        if trial.engine == "model":
            known = {} if compiled is None else compiled
            if trial.format not in known:
                known[trial.format] = Compiled(trial.format, batch, parts)
            self.learner: Learner = Machine(model, known[trial.format])
        else:
            self.learner = PyTorch(model, self._format, self._setting)
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
            self.losses.append(self.learner.step(*self.images(len(self.losses))))
        self._keep()

    def replay(self) -> int:
        """Do the next step, and the same by the program; return how many numbers were compared.

        Raises
        ------
        AssertionError
            If a bit differs.
        """
        assert isinstance(self.learner, Machine)
        step, images = self.learner.own, self.images(len(self.losses))
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

    def images(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Those of a step, counted from 0: an order of all images after the other."""
        pixels, labels = self.data["train"]
        count = self._setting.images or len(labels)
        each = count // self._batch
        rng = np.random.default_rng((self.trial.seed, step // each))
        start = step % each * self._batch
        chosen = rng.permutation(count)[start : start + self._batch]
        return torch.from_numpy(pixels[chosen]), torch.from_numpy(labels[chosen])

    def accuracy(self) -> tuple[float, float | None]:
        """Share of the test images that are judged right, forward as `microscaling` has it.

        The second number is the loss of the second question on these images, if there is one.
        """
        model = self.learner.model
        images, labels = map(torch.from_numpy, self.data["test"])
        with torch.no_grad(), mxt.microscaling(self._format, block=TILE):
            found = torch.cat([model(some) for some in images.split(500)])
        first = round(int((found[:, :10].argmax(1) == labels).sum()) / len(labels), 4)
        if not self._setting.beside:
            return first, None
        loss = nn.functional.cross_entropy(found[:, 10:], footwear(labels))
        return first, round(float(loss), 4)


def planned(seeds: int, formats: Sequence[str] = FORMATS) -> list[Trial]:
    """All trainings, those of one seed after the other."""
    return [
        Trial(engine=engine, format=format, seed=seed)
        for seed in range(seeds)
        for engine, format in (
            ("float32", "float32"),
            *((engine, format) for engine in ("microscaling", "model") for format in formats),
        )
    ]


def run(
    trials: Sequence[Trial],
    steps: int | None,
    data: Data,
    folder: Path,
    *,
    batch: int,
    parts: int,
) -> list[Training]:
    """Advance all trainings, some steps at a time, with a count on stderr.

    Without a number of steps each has those of its setting.
    """
    folder.mkdir(parents=True, exist_ok=True)
    made: dict[str, Compiled] = {}
    trainings = [Training(trial, data, folder, batch, parts, made) for trial in trials]
    most = {
        training.trial: steps or SETTINGS[training.trial.setting]().steps for training in trainings
    }
    start = time.monotonic()
    for until in range(TOGETHER, max(most.values()) + TOGETHER, TOGETHER):
        for training in trainings:
            training.advance(min(until, most[training.trial]))
            done, name = len(training.losses), training.trial.name
            state = f"{name}: {done} of {most[training.trial]}, {time.monotonic() - start:.0f} s"
            print(f"\r{state:<60}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return trainings


def record(trainings: Sequence[Training], steps: int, *, batch: int, parts: int) -> dict[str, Any]:
    """Results as JSON has them."""
    sizes = {"width": WIDTH, "depth": DEPTH, "heads": HEADS, "hidden": HIDDEN, "patch": PATCH}
    setting = {**sizes, "learnt": LEARNT, "batch": batch, "parts": parts, "rate": RATE}
    setting["steps"] = steps
    setting["test"] = len(trainings[0].data["test"][1])
    runs = []
    for training in trainings:
        if len(training.losses) != steps:
            raise UserError(
                f"--steps must be {len(training.losses)} or more, which {training.trial.name} has "
                f"done, not {steps}"
            )
        losses = [float(f"{loss:.5g}") for loss in training.losses]
        runs.append(
            {**_named(training.trial), "accuracy": training.accuracy()[0], "losses": losses}
        )
    return {"setting": setting, "runs": runs}


def _named(trial: Trial) -> dict[str, Any]:
    found = asdict(trial)
    del found["setting"]
    return found


def replay(
    trial: Trial, steps: int, data: Data, folder: Path, *, batch: int, every: int
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
    numbers = sum(array.size for array in training.learner.state().values()) - 1 + 10 * batch
    done = training.replays
    known = {"format": trial.format, "batch": batch, "steps": done}
    assert isinstance(training.learner, Machine)
    parts = training.learner.own.compiled.parts
    length = sum(part.program.length for part in parts)
    return {**known, "numbers": numbers * len(done), "descriptors": length}


def replayed(steps: int, every: int) -> list[int]:
    """Which steps are done by the program, too: 1, 2, and every so many."""
    return sorted({1, 2, *range(every, steps + 1, every)} & set(range(1, steps + 1)))


def on_verilog(trial: Trial, steps: int, data: Data, folder: Path, *, batch: int) -> dict[str, Any]:
    """The first steps, by the simulated Verilog of the default machine, beside the models.

    Raises
    ------
    RuntimeError
        If a byte of memory is another than the interpreter's, or a number than the models'.
    """
    folder.mkdir(parents=True, exist_ok=True)
    compared = Compared()
    by_model = Training(trial, data, folder, batch, batch)
    torch.manual_seed(trial.seed)
    step = made_step(Vit(Setting()), trial.format, batch, batch, compared)
    assert isinstance(by_model.learner, Machine)
    numbers, found = 0, []
    for number in range(steps):
        numbers += same(step, by_model.learner.own, by_model.images(number))
        found.append(compared.counters["cycles"])
        print(f"{trial.name}: step {number + 1}, {found[-1]} cycles", flush=True)
    sizes = {"numbers": numbers, "bytes": compared.bytes, "cycles": found}
    return {"format": trial.format, "batch": batch, **sizes}


def apart(
    seeds: int, formats: Sequence[str], data: Data, folder: Path, *, batch: int
) -> list[dict[str, Any]]:
    """What is left of losses and accuracy in the other settings."""
    kinds = [("float32", "float32"), *(("microscaling", format) for format in formats)]
    trials = [
        Trial(engine=engine, format=format, seed=seed, setting=setting)
        for setting in SETTINGS
        if setting != "usual"
        for seed in range(seeds)
        for engine, format in kinds
    ]
    found = []
    for training in run(trials, None, data, folder, batch=batch, parts=batch):
        first, second = training.accuracy()
        loss = float(np.mean(training.losses[len(training.losses) // 2 :]))
        more = {"steps": len(training.losses), "loss": round(loss, 5)}
        found.append({**asdict(training.trial), **more, "accuracy": first, "second": second})
    return found


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
    add("--batch", type=parse_positive, metavar="N", help=f"(default: {BATCH}, of Verilog 4)")
    add("--parts", type=parse_positive, metavar="N", help="of a batch (default: its images)")
    add("--format", choices=FORMATS, action="append", help="of replays; more than once (all)")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--replay", action="store_true", help="compare trainings with the program's")
    kind.add_argument("--verilog", action="store_true", help="compare three steps with Verilog's")
    kind.add_argument("--apart", action="store_true", help="where formats may part")
    add("--quick", action="store_true", help="four steps of eight images, of float32 and MXSF")
    add("--work", type=Path, default=SCRATCH / "learning", metavar="FOLDER", help="what is kept")
    add("--out", type=Path, default=pages.DOCS, metavar="FOLDER", help="(default: docs)")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    if not args.quick:
        with suppress(ImportError):  # once it is loaded it quantises small tensors, too
            import mxsafe.codec.numba_engine  # noqa: F401
    try:
        figures.new_figure(1, 1)
        for results in _results(args):
            page = pages.text("learning", learning.values(results))
            files = {"learning.json": pages.as_text(results).encode(), "learning.md": page.encode()}
            write_together(args.out, files | learning.pictures(results))
    except (UserError, ModuleNotFoundError, OSError) as error:
        print(f"learning: {error}", file=sys.stderr)
        return 1
    return 0


_NOTHING: Mapping[str, Any] = {"replays": [], "verilog": [], "apart": []}


def _results(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """What the page is made of, again whenever there is more: what is not measured now is kept."""
    path = args.out / "learning.json"
    data = {part: fashion_mnist.pixels(part) for part in fashion_mnist.IMAGES}
    known: dict[str, Any] = {**_NOTHING, **(json.loads(path.read_text()) if path.exists() else {})}
    batch = args.batch or BATCH
    if (args.replay or args.verilog or args.apart) and "runs" not in known:
        raise UserError(f"{path} must be there before more is added to it")
    if args.replay:
        for format in args.format or FORMATS:
            trial = Trial(engine="model", format=format, seed=0)
            made = replay(
                trial, args.steps, data, args.work / f"replay-{batch}", batch=batch, every=50
            )
            known["replays"] = [*(old for old in known["replays"] if _other(old, made)), made]
            yield known
    elif args.verilog:
        trial = Trial(engine="model", format="mxsf", seed=0)
        known["verilog"] = [
            on_verilog(trial, 3, data, args.work / "verilog", batch=args.batch or 4)
        ]
        yield known
    elif args.apart:
        known["apart"] = apart(args.seeds, FORMATS, data, args.work / "apart", batch=batch)
        yield known
    else:
        if args.quick:
            trials, steps, batch = planned(1, ("mxsf",)), 4, 8
        else:
            trials, steps = planned(args.seeds), args.steps
        parts = args.parts or batch
        trainings = run(trials, steps, data, args.work, batch=batch, parts=parts)
        yield {**known, **record(trainings, steps, batch=batch, parts=parts)}


def _other(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    return any(old[name] != new[name] for name in ("format", "batch"))


if __name__ == "__main__":
    sys.exit(main())
