"""Whole models whose weights are held in a format: `quantize_`, and what it did."""

from __future__ import annotations

import fnmatch
import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from mxsafe.codec.blocks import Block, blocked_axes
from mxsafe.torch._engines import DTYPES
from mxsafe.torch.context import AS_FORMAT, Choice, chosen_modules, own_quantiser
from mxsafe.torch.modules import (
    KINDS,
    Quantised,
    QuantizedWeight,
    become,
    quantised_weight,
    require_arithmetic,
    require_states,
)
from mxsafe.torch.recipes import ARITHMETICS, Arithmetic, Quantiser
from mxsafe.validation import require_one_of, shown

Filter = str | Callable[[str, torch.nn.Module], bool]
Pair = tuple[Quantiser | None, Quantiser | None]


@dataclass(frozen=True)
class ModuleReport:
    """Result of `quantize_` for a module.

    Attributes
    ----------
    name, kind : str
        Name in the model, and class before.
    weights, activations : str
        Formats, ``float`` where there is none.
    before, after : int
        Bytes of its own parameters and buffers.
    reason : str
        Why its weights stay in floating point; empty if they do not.
    """

    name: str
    kind: str
    weights: str
    activations: str
    before: int
    after: int
    reason: str


@dataclass(frozen=True)
class Summary:
    """Report of `quantize_` on a model; a table when printed.

    Attributes
    ----------
    modules : tuple of ModuleReport
        All modules with parameters of their own, in the order of the model.
    before, after : int
        Bytes of the model, tensors that modules share counted once.
    """

    modules: tuple[ModuleReport, ...]
    before: int
    after: int

    @property
    def quantised(self) -> tuple[ModuleReport, ...]:
        """Modules whose weights are in a format now."""
        return tuple(one for one in self.modules if not one.reason)

    @property
    def left(self) -> tuple[ModuleReport, ...]:
        """Modules that stay in floating point."""
        return tuple(one for one in self.modules if one.reason)

    def _rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = [
            ("module", "class", "weights", "activations", "bytes", "before", "why not")
        ]
        for one in self.modules:
            sizes = f"{one.after:,}", f"{one.before:,}"
            rows.append(
                (one.name or "-", one.kind, one.weights, one.activations, *sizes, one.reason)
            )
        return rows

    def __str__(self) -> str:
        many = f"{len(self.quantised)} of {len(self.modules)} modules quantised"
        return f"{aligned(self._rows())}\n{many}, {self.after:,} bytes instead of {self.before:,}"

    def _repr_html_(self) -> str:
        return html_table(self._rows())


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows of text as columns, numbers at the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = (
            cell.rjust(width) if cell[:1].isdigit() or cell[:1] == "-" else cell.ljust(width)
            for cell, width in zip(row, widths, strict=True)
        )
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def html_table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of text for notebooks, the first one a heading."""
    lines = []
    for turn, row in enumerate(rows):
        tag = "td" if turn else "th"
        lines.append("".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row))
    return "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def nbytes(model: torch.nn.Module) -> int:
    """Bytes of all parameters and buffers of a model, each memory counted once."""
    tensors = [
        part for t in (*model.parameters(), *model.buffers()) for part in _dense(t) if part.numel()
    ]
    return sum({(t.device, t.data_ptr(), t.nbytes): t.nbytes for t in tensors}.values())


def _dense(t: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The tensors in memory of one: a sparse one has indices and values."""
    if t.layout == torch.strided:
        return (t,)
    if t.layout == torch.sparse_coo:
        return t._indices(), t._values()
    ends = (
        (t.crow_indices(), t.col_indices())
        if t.layout in (torch.sparse_csr, torch.sparse_bsr)
        else (t.ccol_indices(), t.row_indices())
    )
    return *ends, t.values()


def quantize_(
    model: torch.nn.Module,
    format: Choice | Mapping[str, Any] = "mxsf",
    *,
    block: Block | None = None,
    filter: Filter | Iterable[Filter] | None = None,
    weights: Choice = AS_FORMAT,
    activations: Choice = AS_FORMAT,
    arithmetic: Arithmetic = "float",
) -> Summary:
    """Hold the weights of a model in a format, in place, and let their products compute in it.

    Linear layers, convolutions of one to three dimensions, embeddings and the projections of
    `torch.nn.MultiheadAttention` get codes and scales for weights. All of these but embeddings
    compute as the module before does within ``microscaling(..., gradients=None)``, bit for bit, if
    weights are not rounded by ``sr``. An embedding gives the values of its codes, where a context
    leaves it alone. Gradients pass to activations, not to weights; they are those of the values of
    the codes, where a context quantises the weight anew, along what the product of the gradient
    sums over, unless in tiles.

    Parameters
    ----------
    model : torch.nn.Module
        The model; its modules stay the same objects.
    format : str, MXFormat, Quantiser, None or mapping
        Format of weights and activations. Or a mapping of name patterns (with ``*`` and ``?``, as
        `named_modules` takes) to formats, or to dicts of ``weights`` and ``activations``. The first
        pattern that fits a module counts; None leaves it in floating point.
    block : int or tuple of int, optional
        Length of blocks, or shape of tiles, of every format that is not a `Quantiser`; by default
        the default block of each format.
    filter : str, callable or an iterable of these, optional
        Names, with wildcards, or predicates of name and module: what is quantised. By default all.
    weights, activations : str, MXFormat, Quantiser or None
        Formats of each, by default `format`. Activations of None stay in floating point.
    arithmetic : {"float", "float64", "array", "array_fp12", "array_window"}
        How products are made, see `microscaling`. Those of the array are `mxsafe.matmul` of the
        codes, bit for bit what the machine computes; they have no gradients, and take activations
        in a format and blocks of the length of the weights'.

    Returns
    -------
    Summary
        What was quantised, and what was not, with the reason.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not as above; the model is as it was then.

    Examples
    --------
    >>> summary = quantize_(model, "mxsf", block=64)  # doctest: +SKIP
    >>> print(summary)  # doctest: +SKIP
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, not {type(model).__name__}")
    for name, parameter in model.named_parameters():
        if isinstance(parameter, torch.nn.parameter.UninitializedParameter):
            raise ValueError(f"model must have all its parameters, not a lazy module's {name}")
    require_one_of("arithmetic", arithmetic, ARITHMETICS)
    if block is not None:
        blocked_axes(2, block, -1)
    patterns = _patterns(format, block, weights, activations)
    modules = {name: module for name, module in model.named_modules() if _is_one(module)}
    attentions = [m for m in modules.values() if isinstance(m, torch.nn.MultiheadAttention)]
    within = {id(attention.out_proj) for attention in attentions}
    modules = {name: module for name, module in modules.items() if id(module) not in within}
    chosen = set(modules.values()) & _chosen(model, filter)
    for pattern in patterns:
        if not fnmatch.filter(modules, pattern):
            raise ValueError(f"format must have patterns that fit modules, not {pattern!r}")
    before = nbytes(model)
    plans, reasons = _planned(modules, chosen, patterns)
    for plan in plans.values():
        for module, made, of_activations in plan:
            require_arithmetic(KINDS[type(module)], made.values(), of_activations, arithmetic)
    sizes = {name: _own_bytes(module) for name, module in modules.items()}
    for plan in plans.values():
        for module, made, of_activations in plan:
            become(module, made, of_activations, arithmetic)
    model.register_load_state_dict_pre_hook(require_states)
    reports = tuple(
        _report(name, module, sizes[name], reasons.get(name, ""))
        for name, module in modules.items()
    )
    return Summary(reports, before, nbytes(model))


def _chosen(
    model: torch.nn.Module, filter: Filter | Iterable[Filter] | None
) -> set[torch.nn.Module]:
    """What a filter chooses among the modules of a model."""
    if filter is None:
        return set(model.modules())
    which = [filter] if isinstance(filter, str) or callable(filter) else filter
    if not isinstance(which, Iterable):
        raise TypeError(f"filter must be names or callables, not {shown(filter)}")
    return set(chosen_modules("filter", model, *which))


def _is_one(module: torch.nn.Module) -> bool:
    """Whether a module has something of its own that could be quantised."""
    return not isinstance(module, QuantizedWeight) and (
        isinstance(module, Quantised) or any(p is not None for p in module._parameters.values())
    )


def _patterns(
    format: Any, block: Block | None, weights: Choice, activations: Choice
) -> dict[str, Pair]:
    """Quantisers of weights and activations by name pattern."""
    if not isinstance(format, Mapping):
        return {"*": _pair("", format, block, weights, activations)}
    if weights is not AS_FORMAT or activations is not AS_FORMAT:
        raise TypeError("weights and activations must be left out beside a mapping of formats")
    found = {}
    for pattern, value in format.items():
        if not isinstance(pattern, str):
            raise TypeError(f"format must be a mapping of names, not of {shown(pattern)}")
        parts = dict(value) if isinstance(value, Mapping) else {"format": value}
        unknown = set(parts) - {"format", "weights", "activations"}
        if unknown:
            raise ValueError(
                f"format must have weights and activations for {pattern!r}, not {min(unknown)!r}"
            )
        first = parts.pop("format", None)
        either = {"weights": AS_FORMAT, "activations": AS_FORMAT, **parts}
        found[pattern] = _pair(f"{pattern!r}: ", first, block, **either)
    return found


def _pair(
    where: str, format: Choice, block: Block | None, weights: Choice, activations: Choice
) -> Pair:
    default = own_quantiser(f"{where}format", format, block)
    of_weights, of_activations = (
        default if value is AS_FORMAT else own_quantiser(f"{where}{kind}", value, block)
        for kind, value in (("weights", weights), ("activations", activations))
    )
    if of_activations is not None and of_activations.rounding == "sr":
        raise ValueError(f"{where}activations must not be rounded by 'sr' in modules")
    return of_weights, of_activations


def _planned(
    modules: Mapping[str, torch.nn.Module],
    chosen: set[torch.nn.Module],
    patterns: Mapping[str, Pair],
) -> tuple[dict[str, list[Any]], dict[str, str]]:
    """Modules to change with their weights, which may be shared, and why others stay."""
    made: dict[Any, QuantizedWeight] = {}
    plans: dict[str, list[Any]] = {}
    reasons: dict[str, str] = {}
    for name, module in modules.items():
        pattern = next((p for p in patterns if fnmatch.fnmatchcase(name, p)), None)
        of_weights, of_activations = patterns.get(pattern or "", (None, None))
        if isinstance(module, Quantised):
            reasons[name] = "already quantised"
        elif reason := _reason_of(module):
            reasons[name] = reason
        elif module not in chosen:
            reasons[name] = "left out by filter"
        elif pattern is None:
            reasons[name] = "no pattern fits"
        elif of_weights is None:
            reasons[name] = "no format of weights"
        else:
            plans[name] = [
                (part, _held(name, part, of_weights, made), of_activations)
                for part in _parts(module)
            ]
    return plans, reasons


def _parts(module: torch.nn.Module) -> list[torch.nn.Module]:
    return (
        [module, module.out_proj] if isinstance(module, torch.nn.MultiheadAttention) else [module]
    )


def _held(
    name: str, module: torch.nn.Module, quantiser: Quantiser, made: dict[Any, QuantizedWeight]
) -> dict[str, QuantizedWeight]:
    """Weights of a module in a format; one for each parameter, however many modules share it."""
    kind, held = KINDS[type(module)], {}
    for place in kind.places:
        parameter = module._parameters.get(place)
        if parameter is None:
            continue
        stored = kind.stored(module, parameter.detach())
        tiled = Quantiser(
            quantiser.format,
            kind.tile(quantiser.block),
            quantiser.rounding,
            quantiser.scale_mode,
            quantiser.random,
        )
        key = id(parameter), tuple(stored.shape), tiled
        if key not in made:
            if parameter.device.type == "meta":
                raise ValueError(
                    f"model must have its weights in memory, not {name or 'a module'} on meta"
                )
            made[key] = quantised_weight(stored, tiled)
        held[place] = made[key]
    return held


def _reason_of(module: torch.nn.Module) -> str:
    """Why the weights of a module cannot be quantised; empty if they can."""
    kind = KINDS.get(type(module))
    if kind is None:
        base = next((known.__name__ for known in KINDS if isinstance(module, known)), "")
        if base:
            return f"a class of its own, not {base} itself"
        return "of no kind that is quantised"
    for part in _parts(module):
        places = KINDS[type(part)].places
        own = [
            part._parameters[place] for place in places if part._parameters.get(place) is not None
        ]
        if not own:
            return "its weight is no parameter of its own"
        for weight in own:
            if weight.layout != torch.strided:
                return f"weights that are {str(weight.layout).removeprefix('torch.')}"
            if weight.dtype not in DTYPES:
                return f"weights of {str(weight.dtype).removeprefix('torch.')}"
    if isinstance(module, torch.nn.Embedding) and module.max_norm is not None:
        return "max_norm changes its weights"
    return ""


def _own_bytes(module: torch.nn.Module) -> int:
    """Bytes of what a module holds itself, its projections and quantised weights among it."""
    holders: list[torch.nn.Module] = list(_parts(module))
    holders += [
        weight for part in holders if isinstance(part, Quantised) for _, weight in part.weights()
    ]
    return sum(
        part.nbytes
        for holder in holders
        for t in (*holder._parameters.values(), *holder._buffers.values())
        if t is not None
        for part in _dense(t)
    )


def _report(name: str, module: torch.nn.Module, before: int, reason: str) -> ModuleReport:
    kind = type(module).__name__.removeprefix("Quantized")
    formats = ("float", "float")
    if isinstance(module, Quantised):
        about = module.about()
        weights = next(iter(about["weights"].values()))["format"]
        activations = about["activations"]
        formats = weights, "float" if activations is None else activations["format"]
    return ModuleReport(name, kind, *formats, before, _own_bytes(module), reason)
