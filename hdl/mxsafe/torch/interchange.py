"""Quantised tensors in the state dicts of other libraries.

``compressed-tensors``
    ``NAME_packed`` and ``NAME_scale``: of MXFP4 bytes of E8M0, of NVFP4 E4M3 beside
    ``NAME_global_scale``, the reciprocal of the scale of the tensor. Of MXFP8 ``NAME`` itself is
    E4M3, and ``NAME_scale`` bytes of E8M0.
``gpt-oss``
    ``NAME_blocks`` (..., blocks, 16) and ``NAME_scales`` (..., blocks) of MXFP4; ``NAME.blocks``
    and ``NAME.scales`` are read too.
``torchao``
    ``NAME`` is an ``MXTensor`` or an ``NVFP4Tensor``.

In all of them the first of two codes of four bits is in the low half of its byte. What is no part
of a quantised tensor passes as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
import torch

import mxsafe
from mxsafe.formats import BLOCK_FORMATS
from mxsafe.torch._packing import packed, unpacked
from mxsafe.torch.tensors import QuantizedTensor
from mxsafe.validation import checked, one_of, shown

Layout = Literal["compressed-tensors", "gpt-oss", "torchao"]
State = dict[str, Any]

_E8M0, _E4M3, _E5M2 = torch.float8_e8m0fnu, torch.float8_e4m3fn, torch.float8_e5m2
_FP4 = torch.float4_e2m1fn_x2
_TORCHAO = {_E4M3: "mxfp8_e4m3", _E5M2: "mxfp8_e5m2", _FP4: "mxfp4_e2m1"}


@checked
def from_state(state: Mapping[str, Any], layout: Layout) -> dict[str, Any]:
    """Quantised tensors of a state dict in the layout of another library.

    Parameters
    ----------
    state : mapping of str to Tensor
        The state dict, as ``safetensors.torch.load_file`` or ``torch.load`` gives it.
    layout : {"compressed-tensors", "gpt-oss", "torchao"}
        Whose it is, see the module.

    Returns
    -------
    dict
        `QuantizedTensor` by name, and all other tensors as they are.

    Raises
    ------
    TypeError, ValueError
        If parts of a tensor are missing, or do not belong together.
    """
    found = _READERS[layout](dict(state))
    if not any(isinstance(one, QuantizedTensor) for one in found.values()):
        raise ValueError(f"state must have quantised tensors of {layout}, not none")
    return found


@checked
def to_state(tensors: Mapping[str, Any], layout: Layout) -> dict[str, Any]:
    """A state dict in the layout of another library.

    Parameters
    ----------
    tensors : mapping of str to QuantizedTensor or Tensor
        Those that are quantised must be of a format of that library, in its 1-D blocks along the
        last axis.
    layout : {"compressed-tensors", "gpt-oss", "torchao"}
        Whose it is, see the module.

    Returns
    -------
    dict of str to Tensor

    Raises
    ------
    TypeError, ValueError
        If a tensor is none that the library holds; the message names it.
    ImportError
        If `layout` is ``torchao``, which is not installed.
    """
    made: State = {}
    for name, q in tensors.items():
        if not isinstance(q, QuantizedTensor):
            _add(made, name, {name: q})
            continue
        known = _FORMATS[layout]
        if q.format.name not in known or BLOCK_FORMATS.get(q.format.name) != q.format:
            where = f" for {layout}"
            raise ValueError(f"format of {name} must be {one_of(known, q.format.name, where)}")
        if (q.block, q.axis) != (q.format.block, -1) or q.shape[-1] % q.format.block:
            raise ValueError(
                f"{name} must be in whole blocks of {q.format.block} along the last axis for "
                f"{layout}, not in {q.block} along {q.axis} of shape {tuple(q.shape)}"
            )
        _add(made, name, _WRITERS[layout](name, q))
    return made


def _add(made: State, name: str, parts: State) -> None:
    """Put the parts of a tensor into a state dict, none in the place of another."""
    for key in parts:
        if key in made:
            raise ValueError(f"tensors must not have {key!r} twice, a part of {name!r} among them")
    made |= parts


def _tensor(name: str, fmt: str, codes: Any, scales: Any, shared: Any = None) -> QuantizedTensor:
    """A quantised tensor of its parts, or an error that names it."""
    for part in (codes, scales):
        _require_bytes(name, part)
    format = BLOCK_FORMATS[fmt]
    if codes.device != scales.device:
        raise ValueError(f"{name} must have scales on {codes.device}, not {scales.device}")
    codes, scales = codes.detach().view(torch.uint8), scales.detach().view(torch.uint8)
    if format.tensor_scale:
        scales = torch.where(scales == 0x80, 0, scales)  # a scale of -0 is 0
    if format.width == 4:
        codes = unpacked(codes, 4, 2 * codes.shape[-1])
    try:
        mxsafe.QuantizedTensor(
            codes.cpu().numpy(), scales.cpu().numpy(), format, format.block, -1, shared
        )
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    factor = None if shared is None else torch.tensor(shared, device=codes.device)
    return QuantizedTensor(codes, scales, format, format.block, -1, factor)


def _require_bytes(name: str, part: Any) -> None:
    kinds = torch.uint8, _E4M3, _E5M2, _E8M0, _FP4
    if not isinstance(part, torch.Tensor) or part.dtype not in kinds or not part.ndim:
        found = shown(part)
        if isinstance(part, torch.Tensor):
            found = str(part.dtype) if part.ndim else "a scalar"
        raise TypeError(f"{name} must have codes and scales of bytes, not {found}")
    if part.layout != torch.strided or part.device.type == "meta":
        found = str(part.layout) if part.layout != torch.strided else "on the device meta"
        raise TypeError(f"{name} must have codes and scales in memory, dense, not {found}")


def _number(name: str, given: Any) -> np.float32:
    """The one number of a tensor."""
    if not isinstance(given, torch.Tensor) or given.numel() != 1 or not given.is_floating_point():
        found = f"shape {tuple(given.shape)}" if torch.is_tensor(given) else shown(given)
        raise TypeError(f"{name} must be a tensor of one float, not {found}")
    return np.float32(given.item())


def _missing(name: str, part: str) -> ValueError:
    return ValueError(f"state must have {part} beside {name}, not none")


# compressed-tensors


def _from_compressed(state: State) -> State:
    made: State = {}
    for key in [key for key in state if key.endswith("_packed")]:
        name = key.removesuffix("_packed")
        codes, scales = state.pop(key), state.pop(f"{name}_scale", None)
        if scales is None:
            raise _missing(key, f"{name}_scale")
        inverse = state.pop(f"{name}_global_scale", None)
        if inverse is None:
            made[name] = _tensor(name, "mxfp4_e2m1", codes, scales)
            continue
        with np.errstate(divide="ignore", over="ignore"):
            shared = np.float32(1) / _number(f"{name}_global_scale", inverse)
        made[name] = _tensor(name, "nvfp4", codes, scales, shared)
    for name in [key for key, t in state.items() if getattr(t, "dtype", None) == _E4M3]:
        scales = state.get(f"{name}_scale")
        if scales is not None and getattr(scales, "dtype", None) == torch.uint8:
            made[name] = _tensor(name, "mxfp8_e4m3", state.pop(name), state.pop(f"{name}_scale"))
    return state | made


def _to_compressed(name: str, q: QuantizedTensor) -> State:
    if q.format.width == 8:
        return {name: q.codes.view(_E4M3), f"{name}_scale": q.scales}
    codes = {f"{name}_packed": packed(q.codes, 4)}
    if q.tensor_scale is None:
        return codes | {f"{name}_scale": q.scales}
    inverse = q.tensor_scale.reciprocal().reshape(1)
    if not inverse.isfinite():
        raise ValueError(
            f"tensor_scale of {name} must have a reciprocal in float32 for compressed-tensors, not "
            f"be {q.tensor_scale.item()}"
        )
    return codes | {f"{name}_scale": q.scales.view(_E4M3), f"{name}_global_scale": inverse}


# gpt-oss


def _from_gpt_oss(state: State) -> State:
    made: State = {}
    for key in [key for key in state if key.endswith(("_blocks", ".blocks"))]:
        name, between = key[:-7], key[-7]
        codes, scales = state.pop(key), state.pop(f"{name}{between}scales", None)
        if scales is None:
            raise _missing(key, f"{name}{between}scales")
        _require_bytes(key, codes)
        if codes.ndim < 2 or codes.shape[-1] != 16:
            raise ValueError(f"{key} must have 16 bytes a block, not shape {tuple(codes.shape)}")
        made[name] = _tensor(name, "mxfp4_e2m1", codes.flatten(-2), scales)
    return state | made


def _to_gpt_oss(name: str, q: QuantizedTensor) -> State:
    codes = packed(q.codes, 4).unflatten(-1, (-1, 16))
    return {f"{name}_blocks": codes, f"{name}_scales": q.scales}


# torchao


def _from_torchao(state: State) -> State:
    made: State = {}
    for name, t in state.items():
        kind = type(t).__name__
        if not type(t).__module__.startswith("torchao.") or kind not in ("MXTensor", "NVFP4Tensor"):
            continue
        if t.is_swizzled_scales:
            raise ValueError(f"{name} must have scales in the order of blocks, not swizzled")
        shared = None
        if kind == "MXTensor":
            fmt = _TORCHAO.get(t.elem_dtype, "")
            if not fmt:
                raise ValueError(f"{name} must be of E4M3, E5M2 or E2M1, not {t.elem_dtype}")
        else:
            fmt = "nvfp4"
            shared = np.float32(1)
            if t.per_tensor_scale is not None:
                shared = _number(f"{name}.per_tensor_scale", t.per_tensor_scale)
        if t.block_size != BLOCK_FORMATS[fmt].block:
            raise ValueError(
                f"{name} must have blocks of {BLOCK_FORMATS[fmt].block}, not {t.block_size}"
            )
        made[name] = _tensor(name, fmt, t.qdata, t.scale, shared).to(t.orig_dtype)
    return state | made


def _to_torchao(name: str, q: QuantizedTensor) -> State:
    try:
        from torchao.prototype.mx_formats.mx_tensor import MXTensor
        from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor
        from torchao.quantization.quantize_.common import KernelPreference
    except ImportError as error:
        raise ImportError(f"layout 'torchao' needs torchao: {error}") from None
    if q.tensor_scale is not None:
        scales = q.scales.view(_E4M3)
        return {name: NVFP4Tensor(packed(q.codes, 4), scales, 16, q.dtype, q.tensor_scale)}
    dtype = next(dtype for dtype, fmt in _TORCHAO.items() if fmt == q.format.name)
    codes = packed(q.codes, 4) if dtype == _FP4 else q.codes.view(dtype)
    preference = KernelPreference.EMULATED
    scales = q.scales.view(_E8M0)
    return {name: MXTensor(codes, scales, dtype, 32, q.dtype, preference, None, False)}


_READERS: Mapping[str, Callable[[State], State]] = {
    "compressed-tensors": _from_compressed,
    "gpt-oss": _from_gpt_oss,
    "torchao": _from_torchao,
}
_WRITERS: Mapping[str, Callable[[str, QuantizedTensor], State]] = {
    "compressed-tensors": _to_compressed,
    "gpt-oss": _to_gpt_oss,
    "torchao": _to_torchao,
}
_FORMATS = {
    "compressed-tensors": ("mxfp4_e2m1", "mxfp8_e4m3", "nvfp4"),
    "gpt-oss": ("mxfp4_e2m1",),
    "torchao": ("mxfp8_e4m3", "mxfp8_e5m2", "mxfp4_e2m1", "nvfp4"),
}
