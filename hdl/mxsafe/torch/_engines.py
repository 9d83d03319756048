"""Engines of tensors: which one takes a tensor, and the way into the project's compiled code."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from types import ModuleType
from typing import Any, Literal

import numpy as np
import torch

from mxsafe.codec import _engines
from mxsafe.codec._inputs import BFLOAT16
from mxsafe.codec._parts import Region, blocks_of, parts
from mxsafe.codec._subnormals import subnormals, subnormals_are_flushed
from mxsafe.formats import MXFormat
from mxsafe.torch import _arithmetic
from mxsafe.validation import require_one_of

Engine = Literal["auto", "torch", "numba", "numpy"]
ENGINES = ("auto", "torch", "numba", "numpy")

DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)

_OF_PYTORCH = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)

WORTH_LOADING = 1 << 18
"""Elements of a tensor for which loading compiled code pays, which then is faster for all sizes."""

_SHARED = 1 << 15
"""Elements of a tensor from which on PyTorch shares an operation among threads."""


def choose_engine(name: str, fmt: MXFormat, t: torch.Tensor) -> Any:
    """The engine of a tensor: see `quantize`.

    Raises
    ------
    ValueError
        If `name` is unknown, or the engine asked for cannot do the format or the device.
    ImportError
        If the engine asked for is not installed.
    """
    if name == "auto":
        if compiled_is_best(fmt, t):
            return "numba"
        return "torch" if torch_is_exact(fmt, t) else "numpy"
    require_one_of("engine", name, ENGINES)
    if name == "torch" and not torch_is_exact(fmt, t):
        if _arithmetic.supports(fmt):
            raise ValueError(
                "engine must be 'numba' or 'numpy' where threads of PyTorch flush subnormal "
                "numbers to zero, not 'torch'"
            )
        raise ValueError(
            f"engine must be 'numpy' for {fmt.name}, whose binades or scales PyTorch's operations "
            "here cannot do"
        )
    if name == "numba":
        if t.device.type != "cpu":
            raise ValueError(f"engine must be 'torch' for a tensor on {t.device}, not 'numba'")
        _engines.choose_engine("numba", fmt, t.numel())
    return name


def subnormals_kept() -> AbstractContextManager[None]:
    """As `mxsafe.codec._subnormals`; compiled code follows the flag of the processor."""
    if torch.compiler.is_compiling() or not subnormals_are_flushed():
        return _AS_THEY_ARE
    return subnormals()


_AS_THEY_ARE = nullcontext()


def torch_is_exact(fmt: MXFormat, t: torch.Tensor) -> bool:
    """Whether PyTorch's operations do a format, and keep subnormal numbers, in all its threads.

    A thread that PyTorch started while the flag was set flushes them for good.
    """
    if not _arithmetic.supports(fmt):
        return False
    if not _is_in_memory(t) or t.numel() < _SHARED:
        return True
    with subnormals():
        probe = torch.full((_SHARED * torch.get_num_threads(),), torch.finfo(torch.float32).tiny)
        return bool((probe * 0.5).view(torch.int32).amin() > 0)


def _is_in_memory(t: torch.Tensor) -> bool:
    """Whether a tensor has numbers that the CPU can read.

    No fake tensor has any, and no tensor that an operation gives within `torch.func`.
    """
    if torch.compiler.is_compiling() or t.device.type != "cpu" or type(t) not in _OF_PYTORCH:
        return False
    try:
        t.detach().data_ptr()
    except RuntimeError:
        return False
    return True


def compiled_is_best(fmt: MXFormat, t: torch.Tensor) -> bool:
    """Whether compiled code takes a tensor of floats in a format, or of its codes."""
    if not _is_in_memory(t):
        return False
    if "mxsafe.codec.numba_engine" not in sys.modules and t.numel() < WORTH_LOADING:
        return False
    return _is_supported(fmt) and has_numba()


_is_supported = lru_cache(maxsize=64)(_arithmetic.supports)


def has_numba() -> bool:
    try:
        compiled_code()
    except ImportError:
        return False
    return True


@lru_cache(maxsize=1)
def compiled_code() -> ModuleType:
    """The project's compiled code; to import it again takes as long as to call it."""
    from mxsafe.codec import numba_engine

    return numba_engine


def names_of(dtypes: tuple[torch.dtype, ...]) -> str:
    return ", ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)


def as_numpy(t: torch.Tensor) -> np.ndarray:
    """An array of the numbers of a tensor; it shares their memory where it can."""
    if t.dtype == torch.bfloat16:
        return t.detach().cpu().view(torch.int16).numpy().view(BFLOAT16)
    return t.numpy(force=True)


def empty(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[torch.Tensor, np.ndarray]:
    """A tensor in memory of NumPy's, which has larger pages and so is sooner written to."""
    array = np.empty(shape, _IN_NUMPY[dtype])
    tensor = torch.from_numpy(array)
    if dtype == torch.bfloat16:
        return tensor.view(dtype), array.view(BFLOAT16)
    return tensor, array


_IN_NUMPY: dict[torch.dtype, np.dtype[Any]] = {
    torch.float64: np.dtype(np.float64),
    torch.float32: np.dtype(np.float32),
    torch.float16: np.dtype(np.float16),
    torch.bfloat16: np.dtype(np.int16),
}
"""By dtype that of NumPy with numbers, or bits, of as many bytes."""


def run_compiled(
    work: Callable[..., None],
    lengths: tuple[int, ...],
    elements: tuple[np.ndarray | None, ...],
    scales: np.ndarray | None = None,
) -> None:
    """Do the work on all parts of a tensor, and on one without another thread.

    Parameters
    ----------
    work : callable
        Takes these parts of `elements`, and those of `scales` if there are any.
    lengths : tuple of int
        Of a block along each axis.
    elements : tuple of ndarray
        Arrays of the tensor's shape, the first at least.
    scales : ndarray, optional
        A scale a block.
    """
    last = () if scales is None else (scales,)
    whole = elements[0]
    assert whole is not None
    if whole.size <= _LEAST_PART:
        work(*elements, *last)
        return

    def work_on(here: Region) -> None:
        own = (None if array is None else array[here] for array in elements)
        work(*own, *(array[blocks_of(here, lengths)] for array in last))

    part = max(min(math.ceil(whole.size / _engines.cores()), 2 * _LEAST_PART), _LEAST_PART)
    regions = list(parts(whole.shape, lengths, part))
    if len(regions) == 1:
        work(*elements, *last)
    else:
        _engines.run(compiled_code(), work_on, regions)


_LEAST_PART = 1 << 18
"""Elements that a core works on at a time, at least: codes of so many lie in its cache."""
