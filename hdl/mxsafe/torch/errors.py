"""By how much the layers of a quantised model moved: SQNR, as a table or a picture."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from mxsafe.torch.models import aligned, html_table
from mxsafe.torch.modules import Quantised


@dataclass(frozen=True)
class LayerError:
    """Signal to quantisation noise of the output of a layer.

    Attributes
    ----------
    name, weights : str
        Name in the model, and format of its weights.
    alone : float
        In dB, where the layer gets the inputs that it has in the reference; NaN if it did not run.
    within : float
        In dB, in the quantised model, where its inputs moved too.
    """

    name: str
    weights: str
    alone: float
    within: float


@dataclass(frozen=True)
class LayerErrors:
    """SQNR of all quantised layers; a table when printed.

    Attributes
    ----------
    layers : tuple of LayerError
        In the order of the model.
    """

    layers: tuple[LayerError, ...]

    def _rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = [("module", "weights", "alone, dB", "within, dB")]
        for one in self.layers:
            rows.append((one.name or "-", one.weights, f"{one.alone:.1f}", f"{one.within:.1f}"))
        return rows

    def __str__(self) -> str:
        return aligned(self._rows())

    def _repr_html_(self) -> str:
        return html_table(self._rows())

    def save_figure(self, path: str | Path) -> None:
        """Draw both, layer by layer, to an SVG or PNG file; needs the extra ``figures``."""
        from mxsafe.analysis.figures import new_figure, save

        figure = new_figure(8, 1 + 0.22 * len(self.layers))
        axes = figure.add_subplot()
        names = [one.name or "-" for one in self.layers]
        for title, marker in (("alone", "o"), ("within", "D")):
            axes.plot([getattr(one, title) for one in self.layers], names, marker, label=title)
        axes.set_xlabel("SQNR of the layer's output, dB")
        axes.invert_yaxis()
        axes.grid(axis="x", alpha=0.3)
        axes.legend()
        save(figure, Path(path))


class _Ratio:
    """Sums of squares of signals and of noise."""

    def __init__(self) -> None:
        self.signal = self.noise = 0.0
        self.ran = False

    def add(self, reference: Any, other: Any) -> None:
        reference, other = (_first(t).detach().double() for t in (reference, other))
        self.ran = True
        self.signal += float(reference.square().sum())
        self.noise += float((other - reference).square().sum())

    @property
    def decibels(self) -> float:
        if not self.ran:
            return math.nan
        if self.noise == 0:
            return math.inf
        return 10 * math.log10(self.signal / self.noise) if self.signal else -math.inf


def _first(result: Any) -> torch.Tensor:
    """The output of a module: attention gives weights beside it."""
    return result[0] if isinstance(result, tuple) else result


def layer_errors(
    reference: torch.nn.Module, quantised: torch.nn.Module, *inputs: Any, **named: Any
) -> LayerErrors:
    """Compare the layers of a quantised model with those of the model before `quantize_`.

    Parameters
    ----------
    reference : torch.nn.Module
        The model before, such as a `copy.deepcopy` of it.
    quantised : torch.nn.Module
        The same model after `quantize_`.
    *inputs, **named
        Arguments of both. The outputs of all layers are kept in memory meanwhile.

    Returns
    -------
    LayerErrors

    Raises
    ------
    ValueError
        If `quantised` has no quantised module, `reference` lacks one of them, or one is called more
        or less often than in the reference.

    Notes
    -----
    Both models run as in ``eval``, without gradients, and are then in the modes that they were in.
    """
    layers = {n: m for n, m in quantised.named_modules() if isinstance(m, Quantised)}
    # Attention does not call its own: their errors are in its output.
    inner = {id(m.out_proj) for m in layers.values() if isinstance(m, torch.nn.MultiheadAttention)}
    layers = {n: m for n, m in layers.items() if id(m) not in inner}
    if not layers:
        raise ValueError("quantised must have quantised modules, not none: see quantize_")
    originals = dict(reference.named_modules())
    for name in layers:
        if name not in originals:
            raise ValueError(f"reference must have a module {name!r}, not none")
    alone, within = ({name: _Ratio() for name in layers} for _ in range(2))
    outputs: dict[str, list[Any]] = {name: [] for name in layers}

    def of_reference(name: str) -> Any:
        def hook(module: Any, args: Any, kwargs: Any, result: Any) -> None:
            outputs[name].append(_first(result).detach())
            alone[name].add(result, layers[name](*args, **kwargs))

        return hook

    def of_quantised(name: str) -> Any:
        def hook(module: Any, args: Any, result: Any) -> None:
            if not outputs[name]:
                raise ValueError(f"quantised must call {name!r} as often as reference, not more")
            within[name].add(outputs[name].pop(0), result)

        return hook

    with torch.no_grad(), _evaluated(reference), _evaluated(quantised):
        hooks = [
            originals[name].register_forward_hook(of_reference(name), with_kwargs=True)
            for name in layers
        ]
        _run(hooks, reference, inputs, named)
        hooks = [layer.register_forward_hook(of_quantised(name)) for name, layer in layers.items()]
        _run(hooks, quantised, inputs, named)
    for name, left in outputs.items():
        if left:
            raise ValueError(f"quantised must call {name!r} as often as reference, not less")
    return LayerErrors(
        tuple(
            LayerError(
                name,
                next(layer.weights())[1].format.name,
                alone[name].decibels,
                within[name].decibels,
            )
            for name, layer in layers.items()
        )
    )


@contextmanager
def _evaluated(model: torch.nn.Module) -> Iterator[None]:
    """A model in ``eval``, and its modules in their own modes again."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def _run(hooks: list[Any], model: torch.nn.Module, inputs: Any, named: Any) -> None:
    """Run a model with hooks, which are removed whatever happens."""
    try:
        model(*inputs, **named)
    finally:
        for hook in hooks:
            hook.remove()
