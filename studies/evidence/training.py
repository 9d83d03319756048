"""Training from scratch in a format: the paper's Table III and its Figs. 1 and 2, on Fashion-MNIST.

ResNet-18, MobileNetV2 and a DeiT learn in float32 and with all products, forward and backward, in
each format: weights, activations and gradients, in 8 x 8 tiles, as the paper has it, with its
optimiser (AdamW, 1e-3, cosine decay). Runs of one seed start from the same weights and see the same
images in the same order, so formats are compared in pairs. Networks are tested in the format they
are trained in.

The float32 runs also tell, after each epoch, what the formats would make of the gradients of every
layer (`GradientProbe`): how many would become 0, and how large the error would be. Their last
weights are kept, for `trained`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it

import mxsafe.torch as mxt
from mxsafe.atomic import write_atomically
from mxsafe.cli.arguments import UserError
from studies.evidence import fashion_mnist
from studies.evidence.networks import ARCHITECTURES, network
from studies.evidence.runs import Run

FORMATS = ("float32", "mxint8", "mxfp8_e4m3", "mxfp8_e2m5", "mxsf")
TILE = (8, 8)
RATE = 1e-3
PROBED = 256
"""Images whose gradients are probed: as many as a batch or two."""

KEPT: dict[str, Any] = {
    "size": "small",
    "images": 10_000,
    "epochs": 4,
    "batch": 64,
    "tests": 10_000,
}
LARGE: dict[str, Any] = {
    "size": "paper",
    "images": 60_000,
    "epochs": 20,
    "batch": 128,
    "tests": 10_000,
}
"""Where there is a GPU."""
QUICK: dict[str, Any] = {"size": "tiny", "images": 512, "epochs": 2, "batch": 16, "tests": 500}
_COST = {"resnet18": 0.7, "mobilenetv2": 1.8, "deit": 2.0}  # milliseconds an image, with tests


Function = Callable[[torch.Tensor], torch.Tensor]
Summary = dict[str, dict[str, list[float]]]
"""By format and layer, two ratios: of underflow, and of the error."""


def require() -> None:
    """Refuse if the images are not there."""
    try:
        fashion_mnist.folder()
    except FileNotFoundError as error:
        raise UserError(str(error)) from None


def load_compiled() -> None:
    """Load the compiled engine where it is installed: small tensors alone would not."""
    with suppress(ImportError):
        importlib.import_module("mxsafe.codec.numba_engine")


def training_run(architecture: str, fmt: str, seed: int, *, quick: bool = False) -> Run:
    """One training, by its name."""
    choices = QUICK if quick else LARGE if torch.cuda.is_available() else KEPT
    parameters = {"architecture": architecture, "format": fmt, "seed": seed, **choices}
    cost = _COST[architecture] * choices["epochs"] * choices["images"] / 1000
    return Run(
        f"training/{architecture}/{fmt}/{seed}{'/quick' if quick else ''}",
        "studies.evidence.training:measure",
        parameters,
        cost / 2 if fmt == "float32" else cost,
    )


def runs(*, quick: bool, seeds: int) -> list[Run]:
    """All trainings, those of one seed after those of another."""
    if quick:
        return [training_run("resnet18", fmt, 0, quick=True) for fmt in ("float32", "mxsf")]
    return [
        training_run(architecture, fmt, seed)
        for seed in range(seeds)
        for architecture in ARCHITECTURES
        for fmt in FORMATS
    ]


class _Gradient(torch.autograd.Function):
    """A tensor as it is, whose gradient goes through a function."""

    @staticmethod
    def forward(ctx: Any, t: torch.Tensor, function: Function) -> torch.Tensor:
        ctx.function = function
        return t.view_as(t)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return ctx.function(gradients[0]), None


@contextmanager
def products(
    model: torch.nn.Module, fmt: str | None, gradients: mxt.Quantiser | None = None
) -> Iterator[None]:
    """Within, all products of a model go through a format.

    Tiles of a convolution with groups are of images and all channels, as microxcaling has blocks,
    which the paper's software is made of: within the group of a depthwise convolution, each weight
    would have a scale of its own.

    Parameters
    ----------
    model : torch.nn.Module
        What is called within.
    fmt : str or None
        Format of weights and activations, and of gradients that have none of their own; None for
        floating point.
    gradients : Quantiser, optional
        What is done to gradients instead.
    """
    of_gradients = gradients or mxt.Quantiser(fmt, TILE)
    grouped = [
        module
        for module in model.modules()
        if isinstance(module, torch.nn.Conv2d) and module.groups > 1
    ]

    def tiles(t: torch.Tensor, values: Function) -> torch.Tensor:
        return values(t.movedim((0, 1), (-2, -1))).movedim((-2, -1), (0, 1))

    def quantised(t: torch.Tensor) -> torch.Tensor:
        return t if fmt is None else mxt.fake_quantize(t, fmt, block=TILE)

    def forward(module: torch.nn.Conv2d, x: torch.Tensor) -> torch.Tensor:
        result = module._conv_forward(tiles(x, quantised), tiles(module.weight, quantised), None)
        return _Gradient.apply(result, lambda g: tiles(g, lambda t: of_gradients.values(t, -1)))

    for module in grouped:
        module.forward = partial(forward, module)
    try:
        with mxt.microscaling(fmt, block=TILE, gradients=of_gradients, exclude=grouped):
            yield
    finally:
        for module in grouped:
            del module.forward


def context(model: torch.nn.Module, fmt: str) -> AbstractContextManager[None]:
    """All products of a model in a format, or as they are."""
    return nullcontext() if fmt == "float32" else products(model, fmt)


@dataclass(frozen=True)
class GradientProbe(mxt.Quantiser):
    """Notes what formats would make of gradients, where products quantise them, and passes them on.

    Attributes
    ----------
    formats : tuple of str
        Formats that are tried.
    layer : list of str
        The layer whose gradient is next, alone.
    found : dict
        By layer and format: elements that are not 0, those of them that become 0, and the sums of
        squares of errors and of numbers.
    """

    formats: tuple[str, ...] = FORMATS[1:]
    layer: list[str] = field(default_factory=list, compare=False)
    found: dict[str, dict[str, list[float]]] = field(default_factory=dict, compare=False)

    def values(self, t: torch.Tensor, axis: int) -> torch.Tensor:
        """The tensor itself."""
        self.note(self.layer[0], t)
        return t

    def note(self, layer: str, t: torch.Tensor) -> None:
        """Add what formats make of a tensor, in tiles of its last two axes."""
        nonzero = t != 0
        count = float(nonzero.sum())
        power = float(t.double().square().sum())
        sums = self.found.setdefault(layer, {fmt: [0.0] * 4 for fmt in self.formats})
        for fmt in self.formats:
            values = mxt.fake_quantize(t, fmt, block=self.block)
            lost = float((nonzero & (values == 0)).sum())
            noise = float((values - t).double().square().sum())
            sums[fmt] = [a + b for a, b in zip(sums[fmt], (count, lost, noise, power), strict=True)]

    def summary(self) -> Summary:
        """By format and layer: the underflow ratio, and the error relative to the gradient."""
        table: Summary = {fmt: {} for fmt in self.formats}
        for layer, by_format in self.found.items():
            for fmt, (count, lost, noise, power) in by_format.items():
                ratios = lost / max(count, 1.0), (noise / power) ** 0.5 if power else 0.0
                table[fmt][layer] = [float(f"{ratio:.4g}") for ratio in ratios]
        return table


def probed(model: torch.nn.Module, loss: Callable[[], torch.Tensor]) -> tuple[Summary, Summary]:
    """Summarise a loss's gradients in formats: by each layer's result, and by its weights.

    The model is left as it was.

    Parameters
    ----------
    model : torch.nn.Module
        What the loss calls.
    loss : callable
        Without arguments.
    """
    probe, of_weights = GradientProbe("mxsf", TILE), GradientProbe("mxsf", TILE)
    layers = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear | torch.nn.Conv2d)
    }

    def enter(name: str) -> Callable[..., None]:
        def hook(*_: Any) -> None:
            probe.layer[:] = [name]

        return hook

    hooks = [m.register_full_backward_pre_hook(enter(name)) for name, m in layers.items()]
    state = {name: value.clone() for name, value in model.state_dict().items()}
    model.train()
    model.zero_grad()
    with products(model, None, probe):
        result = loss()
    result.backward()
    for hook in hooks:
        hook.remove()
    for name, module in layers.items():
        gradient = module.weight.grad
        matrix = gradient if gradient.ndim == 2 else gradient.movedim((0, 1), (-2, -1))
        of_weights.note(name, matrix)
    model.zero_grad()
    model.load_state_dict(state)  # averages of batch normalisation
    return probe.summary(), of_weights.summary()


def medians(summary: Summary) -> dict[str, list[float]]:
    """By format, the medians of both ratios over the layers."""
    return {
        fmt: [float(f"{value:.4g}") for value in map(median, zip(*layers.values(), strict=True))]
        for fmt, layers in summary.items()
    }


def tested(
    model: torch.nn.Module, fmt: str, images: torch.Tensor, labels: torch.Tensor
) -> tuple[float, float]:
    """Accuracy and mean loss of a model in a format."""
    model.eval()
    right, loss = 0, 0.0
    with torch.no_grad(), context(model, fmt):
        for some, wanted in zip(images.split(500), labels.split(500), strict=True):
            scores = model(some)
            right += int((scores.argmax(1) == wanted).sum())
            loss += float(F.cross_entropy(scores, wanted, reduction="sum"))
    return right / len(labels), loss / len(labels)


def batches(count: int, batch: int, seed: int, epoch: int) -> Iterator[torch.Tensor]:
    """Numbers of the images of an epoch, batch by batch; what is left over waits for the next."""
    generator = torch.Generator().manual_seed(1000 * seed + epoch)
    order = torch.randperm(count, generator=generator)
    yield from order[: count // batch * batch].split(batch)


def measure(
    *,
    architecture: str,
    format: str,
    seed: int,
    size: str,
    images: int,
    epochs: int,
    batch: int,
    tests: int,
    folder: Path,
) -> dict[str, Any]:
    """Train a network, and test it after every epoch.

    Parameters
    ----------
    architecture, size : str
        See `studies.evidence.networks.network`.
    format : str
        Format of all products, or float32.
    seed : int
        Of weights and of the order of images.
    images, tests : int
        How many images of Fashion-MNIST are for training and for testing, the first ones.
    epochs, batch : int
        How often each image is seen, and how many at a time.
    folder : Path
        Where the state after an epoch is kept, from which an interrupted run goes on.

    Returns
    -------
    dict
        By epoch: `accuracy` and `loss` on the test images, and `training_loss`. For float32 also
        what `probed` gives of gradients: `medians` by epoch, and after the last one `layers` and
        `weights`.
    """
    choices = {
        "architecture": architecture,
        "format": format,
        "seed": seed,
        "size": size,
        "images": images,
        "epochs": epochs,
        "batch": batch,
        "tests": tests,
    }
    load_compiled()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _measured(
            network_of(architecture, size, seed).to(device),
            choices,
            _images("train", images, device),
            _images("test", tests, device),
            folder,
        )
    finally:
        torch.set_num_threads(threads)


def network_of(architecture: str, size: str, seed: int) -> torch.nn.Module:
    """A network with the weights of a seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return network(architecture, size)


def _images(part: str, count: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    images, labels = fashion_mnist.read(part, count)
    return torch.from_numpy(images).to(device), torch.from_numpy(labels).to(device)


def _measured(
    model: torch.nn.Module,
    choices: dict[str, Any],
    training: tuple[torch.Tensor, torch.Tensor],
    testing: tuple[torch.Tensor, torch.Tensor],
    folder: Path,
) -> dict[str, Any]:
    fmt, seed, epochs, batch = (choices[key] for key in ("format", "seed", "epochs", "batch"))
    images, labels = training
    optimiser = torch.optim.AdamW(model.parameters(), RATE)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(
        optimiser, epochs * max(len(images) // batch, 1)
    )
    parts = {"model": model, "optimiser": optimiser, "decay": decay}
    numbers: dict[str, Any] = {"accuracy": [], "loss": [], "training_loss": []}
    if fmt == "float32":
        numbers["medians"] = []
    checkpoint = folder / "state.pt"
    if checkpoint.is_file():
        state = torch.load(checkpoint, weights_only=True, map_location=images.device)
        if state.get("choices") == choices:  # else it is of a run of other parameters
            numbers = state["numbers"]
            for name, part in parts.items():
                part.load_state_dict(state[name])
    for epoch in range(len(numbers["loss"]), epochs):
        model.train()
        losses = []
        for chosen in batches(len(images), batch, seed, epoch):
            chosen = chosen.to(images.device)
            with context(model, fmt):
                loss = F.cross_entropy(model(images[chosen]), labels[chosen])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            decay.step()
            losses.append(float(loss.detach()))
        accuracy, test_loss = tested(model, fmt, *testing)
        numbers["accuracy"].append(accuracy)
        numbers["loss"].append(round(test_loss, 5))
        numbers["training_loss"].append(round(fmean(losses), 5))
        if fmt == "float32":
            layers, weights = probed(model, partial(_loss, model, images, labels))
            numbers["medians"].append(medians(layers))
            numbers["layers"], numbers["weights"] = layers, weights
        states = {name: part.state_dict() for name, part in parts.items()}
        _save({**states, "choices": choices, "numbers": numbers}, checkpoint)
    if fmt == "float32":
        _save(model.state_dict(), folder / "model.pt")
    return numbers


def _loss(model: torch.nn.Module, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The loss whose gradients are probed.

    It has a gradient by the images too: else hooks of the first layer come late.
    """
    chosen = images[:PROBED].clone().requires_grad_()
    return F.cross_entropy(model(chosen), labels[:PROBED])


def _save(state: dict[str, Any], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, lambda file: torch.save(state, file))


def trained(architecture: str, out: Path) -> torch.nn.Module:
    """The network that was trained in float32, for direct casts.

    Parameters
    ----------
    architecture : str
        See `studies.evidence.networks.ARCHITECTURES`.
    out : Path
        Folder of results in which its run was made.

    Raises
    ------
    FileNotFoundError
        If it has not been made there.
    """
    run = training_run(architecture, "float32", 0)
    path = out / run.name / "model.pt"
    if not path.is_file():
        raise FileNotFoundError(f"out must hold {run.name}/model.pt, not {out}")
    model = network(architecture, run.parameters["size"])
    model.load_state_dict(torch.load(path, weights_only=True, map_location="cpu"))
    return model.eval()
