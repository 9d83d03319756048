"""Quantised models in safetensors files.

A file holds the state dict of a model: of a weight NAME the tensors ``NAME.codes`` and
``NAME.scales`` as `mxsafe.save` writes them, so `mxsafe.load_all` reads them too, and every other
tensor under its own name. Two texts of JSON are in the metadata: ``mxsafe`` as there, and
``mxsafe.model``, which says how each module quantises activations and multiplies, of which dtype
the numbers of a weight are, and which names are of tensors that stand under another name too.
Nothing in such a file is code.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from mxsafe.atomic import write_atomically
from mxsafe.codec.storage import safetensors_for
from mxsafe.formats import BLOCK_FORMATS, mx_format
from mxsafe.torch._engines import KINDS as NAMES
from mxsafe.torch.modules import (
    KINDS,
    Quantised,
    QuantizedWeight,
    become,
    require_arithmetic,
    require_states,
)
from mxsafe.torch.recipes import ARITHMETICS, Quantiser
from mxsafe.validation import checked, require_one_of, shown

_TENSORS, _MODEL = "mxsafe", "mxsafe.model"
_STATE = "._extra_state"
_DTYPES = {name: dtype for dtype, name in NAMES.items()}


def _path(path: str | Path) -> Path:
    path = Path(path)
    if path.suffix != ".safetensors":
        raise ValueError(f"path must end in .safetensors, not {shown(path.name)}")
    return path


def _quantised(model: torch.nn.Module) -> dict[str, Quantised]:
    return {name: m for name, m in model.named_modules() if isinstance(m, Quantised)}


@checked
def save_model(path: str | Path, model: torch.nn.Module) -> None:
    """Write the parameters and buffers of a quantised model to a file, whole or not at all.

    Parameters
    ----------
    path : str or Path
        File to write, ``.safetensors``.
    model : torch.nn.Module
        A model after `quantize_`.

    Raises
    ------
    ValueError
        If `path` has another suffix, the model no quantised module, a format that is not in the
        catalogue, or a state that is no tensor. A tensor of ``get_extra_state`` is kept, if there
        is a ``set_extra_state``.
    OSError
        If the file cannot be written.
    ImportError
        If safetensors is not installed.
    """
    path, modules = _path(path), _quantised(model)
    if not modules:
        raise ValueError("model must have quantised modules, not none: see quantize_")
    about: dict[str, Any] = {}
    activations: dict[str, Any] = {}
    arithmetics: dict[str, str] = {}
    dtypes: dict[str, str] = {}
    for name, module in modules.items():
        own = module.about()
        activations[name], arithmetics[name] = own["activations"], own["arithmetic"]
        for place, weight in module.weights():
            if BLOCK_FORMATS.get(weight.format.name) != weight.format:
                raise ValueError(
                    f"format must be in the catalogue to be saved, not {weight.format.name}"
                )
            key = f"{name}.{place}" if name else place
            about[key] = own["weights"][place]
            dtypes[key] = NAMES[weight.dtype]
            if weight.tensor_scale is not None:
                about[key]["tensor_scale"] = float(weight.tensor_scale).hex()
    tensors: dict[str, torch.Tensor] = {}
    same: dict[str, str] = {}
    places: dict[Any, str] = {}
    for name, t in model.state_dict().items():
        if not _is_state(name) or name[: -len(_STATE)] not in modules:
            _require_kept(model, name, t)
            memory = (t.device, t.data_ptr(), t.shape, t.stride(), t.dtype)
            if t.numel() and memory in places:
                same[name] = places[memory]
                continue
            places[memory], tensors[name] = name, t.detach().cpu().contiguous()
    # What shares memory otherwise is written apart.
    owners: set[int] = set()
    for name, t in tensors.items():
        owner = t.untyped_storage().data_ptr()
        tensors[name] = t.clone() if owner in owners else t
        owners.add(owner)
    of_model = {
        "activations": activations,
        "arithmetic": arithmetics,
        "dtypes": dtypes,
        "same": same,
    }
    # A weight that stands under two names is described once.
    described = {name: one for name, one in about.items() if f"{name}.codes" not in same}
    texts = {_TENSORS: json.dumps(described), _MODEL: json.dumps(of_model)}
    data = safetensors_for("torch").torch.save(tensors, metadata=texts)
    write_atomically(path, data)


@checked
def load_model(path: str | Path, model: torch.nn.Module) -> None:
    """Read a file of `save_model` into a model, in place.

    Parameters
    ----------
    path : str or Path
        File to read.
    model : torch.nn.Module
        The model as it was before `quantize_`, with any numbers of the same dtypes, or on the
        device ``meta``. Its modules become what the file says; they give the numbers of the model
        that was saved, bit for bit.

    Raises
    ------
    ValueError
        If the file is damaged or another one, or does not fit the model, which is as it was then.
    OSError
        If it cannot be read.
    ImportError
        If safetensors is not installed.
    """
    tensors, about, of_model = _read(_path(path))
    try:
        same, activations = dict(of_model["same"]), dict(of_model["activations"])
        arithmetics = {name: of_model["arithmetic"][name] for name in activations}
        for arithmetic in arithmetics.values():
            require_one_of("arithmetic", arithmetic, ARITHMETICS)
        for name, first in same.items():
            tensors[name] = tensors[first]
            if name.endswith(".codes"):
                about[name[:-6]] = about[first[:-6]]
        weights = _weights(tensors, about, of_model["dtypes"], same)
        quantisers = {name: _quantiser(one) for name, one in activations.items()}
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else error
        raise ValueError(f"{path} does not hold a model of save_model: {reason}") from None
    plan = _planned(path, model, weights, quantisers, arithmetics)
    rest = {n: t for n, t in tensors.items() if not _is_of(n, weights)}
    own = {n: t for n, t in model.state_dict().items() if n not in weights}
    for word, of in (("shape ", _shape_of), ("", _dtype_of)):
        for name in sorted(own.keys() | rest.keys()):
            wanted, found = of(rest.get(name)), of(own.get(name))
            if wanted != found and not (_is_state(name) and name in own and name in rest):
                raise ValueError(
                    f"model must have {name} of {word}{wanted} for {path}, not {found}"
                )
    for module, *parts in plan:
        become(module, *parts)
    model.register_load_state_dict_pre_hook(require_states)
    on_meta = any(p.device.type == "meta" for p in model.parameters())
    model.load_state_dict(rest, strict=False, assign=on_meta)


def _shape_of(t: Any) -> str:
    return "none" if t is None else str(tuple(t.shape)) if torch.is_tensor(t) else shown(t)


def _dtype_of(t: Any) -> str:
    return "none" if t is None else str(getattr(t, "dtype", None)).removeprefix("torch.")


def _is_state(name: str) -> bool:
    return f".{name}".endswith(_STATE)


def _require_kept(model: torch.nn.Module, name: str, t: Any) -> None:
    """Refuse what a module says of itself, unless it is a tensor that the module takes again."""
    if isinstance(t, torch.Tensor) and t.layout != torch.strided:
        kind = str(t.layout).removeprefix("torch.")
        raise ValueError(f"model must have dense tensors to be saved, not {name} as {kind}")
    if isinstance(t, torch.Tensor) and not _is_state(name):
        return
    owner = name.rpartition(".")[0]
    if not _is_state(name) or not isinstance(t, torch.Tensor):
        raise ValueError(f"model must have tensors to be saved, not {shown(t)} as {name}")
    module = type(model.get_submodule(owner))
    if module.set_extra_state is torch.nn.Module.set_extra_state:
        raise ValueError(
            f"model must have a set_extra_state to be saved beside {name}, not a {module.__name__} "
            "without"
        )


def _read(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any], dict[str, Any]]:
    """Tensors and both texts of a file, or a clear error."""
    path.open("rb").close()  # what cannot be read is an OSError here too
    safetensors = safetensors_for("torch")
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            texts = file.metadata() or {}
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        about, of_model = (json.loads(texts[key]) for key in (_TENSORS, _MODEL))
        if not isinstance(about, dict) or not isinstance(of_model, dict):
            raise ValueError("its texts are no mappings")
    except KeyError as error:
        raise ValueError(f"{path} does not hold a model of save_model: it has no {error}") from None
    except (RecursionError, ValueError, safetensors.SafetensorError) as error:
        raise ValueError(f"{path} does not hold a model of save_model: {error}") from None
    return tensors, about, of_model


def _is_of(name: str, weights: Mapping[str, QuantizedWeight]) -> bool:
    """Whether a tensor is part of a quantised weight."""
    owner, _, part = name.rpartition(".")
    return owner in weights and part in ("codes", "scales", "tensor_scale")


def _weights(
    tensors: Mapping[str, torch.Tensor],
    about: Mapping[str, Any],
    dtypes: Mapping[str, str],
    same: Mapping[str, str],
) -> dict[str, QuantizedWeight]:
    """Weights by name, of which some may be the same; or an error."""
    made: dict[str, QuantizedWeight] = {}
    for name in sorted(about, key=lambda name: f"{name}.codes" in same):
        first = same.get(f"{name}.codes")
        if first is not None:
            made[name] = made[first[:-6]]
            continue
        text: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value
            for key, value in about[name].items()
        }
        made[name] = QuantizedWeight.of_parts(
            mx_format(text["format"]),
            text["shape"],
            (text["block"], text["axis"]),
            (tensors[f"{name}.codes"], tensors[f"{name}.scales"]),
            tensors.get(f"{name}.tensor_scale"),
            _DTYPES[require_one_of("dtype", dtypes[name], tuple(_DTYPES))],
        )
    return made


def _quantiser(about: Any) -> Quantiser | None:
    if about is None:
        return None
    block = about["block"]
    return Quantiser(
        about["format"],
        tuple(block) if isinstance(block, list) else block,
        about["rounding"],
        about["scale_mode"],
    )


def _planned(
    path: str | Path,
    model: torch.nn.Module,
    weights: Mapping[str, QuantizedWeight],
    quantisers: Mapping[str, Quantiser | None],
    arithmetics: Mapping[str, Any],
) -> list[Any]:
    """Modules with what they become; or an error, if the model is another one."""
    modules, plan, left = dict(model.named_modules()), [], set(weights)
    for name, quantiser in quantisers.items():
        module = modules.get(name)
        kind = KINDS.get(type(module)) if module is not None else None
        if module is None or kind is None:
            found = "none" if module is None else f"a {type(module).__name__}"
            raise ValueError(
                f"model must have a module {name!r} to quantise for {path}, not {found}"
            )
        held = {}
        for place in kind.places:
            key = f"{name}.{place}" if name else place
            parameter = module._parameters.get(place)
            if (parameter is None) != (key not in weights):
                found = "none" if parameter is None else "one"
                raise ValueError(f"model must have the weights of {path}, not {found} as {key}")
            if parameter is None:
                continue
            shape = tuple(kind.stored(module, parameter.to("meta")).shape)
            if shape != tuple(weights[key].shape):
                raise ValueError(
                    f"model must have {key} of shape {tuple(weights[key].shape)} for {path}, not "
                    f"{shape}"
                )
            weight = weights[key]
            if parameter.device.type != "meta":
                weight.to(parameter.device)
            if parameter.dtype != weight.dtype:
                raise ValueError(
                    f"model must have {key} of {_dtype_of(weight)} for {path}, not "
                    f"{_dtype_of(parameter)}"
                )
            held[place] = weight
            left.discard(key)
        require_arithmetic(kind, held.values(), quantiser, arithmetics[name])
        plan.append((module, held, quantiser, arithmetics[name]))
    if left:
        raise ValueError(f"model must have a module for {min(left)!r} of {path}, not none")
    return plan
