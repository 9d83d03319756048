"""Engines of tensors: which one takes a tensor, and the way into the project's compiled code."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
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


def choose_engine(
    name: str, fmt: MXFormat, t: torch.Tensor, dtype: torch.dtype
) -> tuple[str, torch.Tensor | None]:
    """The engine of a tensor, and memory for results of a dtype if it is the compiled code.

    Raises
    ------
    ValueError
        If `name` is unknown, or the engine asked for cannot do the format or the tensor.
    ImportError
        If the engine asked for is not installed.
    RuntimeError
        If `torch.jit.trace` records what is done.
    """
    if name == "auto":
        results = memory_for(t, dtype) if is_ready(fmt, t) else None
        if results is not None:
            return "numba", results
        require_not_traced()
        return "torch" if torch_is_exact(fmt, t) else "numpy", None
    require_one_of("engine", name, ENGINES)
    require_not_traced()
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
    if name != "numba":
        return name, None
    if t.device.type != "cpu":
        raise ValueError(f"engine must be 'torch' for a tensor on {t.device}, not 'numba'")
    _engines.choose_engine("numba", fmt, t.numel())
    results = None if torch.compiler.is_compiling() else memory_for(t, dtype)
    if results is None:
        raise ValueError(
            "engine must be 'torch' for a tensor whose numbers are not in memory, not 'numba'"
        )
    return name, results


def require_not_traced() -> None:
    """Refuse to be recorded by `torch.jit.trace`: it keeps the numbers of its example.

    Raises
    ------
    RuntimeError
        If it is recording.
    """
    if torch.jit.is_tracing():
        raise RuntimeError(
            "functions of mxsafe.torch must be traced by torch.export, not by torch.jit.trace"
        )


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
    if torch.compiler.is_compiling() or t.numel() < _SHARED:
        return True
    if memory_for(t.detach(), torch.uint8) is None:
        return True
    with subnormals():
        probe = torch.full((_SHARED * torch.get_num_threads(),), torch.finfo(torch.float32).tiny)
        return bool((probe * 0.5).view(torch.int32).amin() > 0)


def is_ready(fmt: MXFormat, t: torch.Tensor) -> bool:
    """Whether compiled code is loaded for a format, or it pays to load it for a tensor."""
    if torch.compiler.is_compiling():
        return False
    if "mxsafe.codec.numba_engine" not in sys.modules and t.numel() < WORTH_LOADING:
        return False
    return is_compiled(fmt)


def memory_for(t: torch.Tensor, dtype: torch.dtype) -> torch.Tensor | None:
    """Memory for what compiled code makes of a tensor of numbers, or of codes, else None.

    Axes lie in the order of the tensor, but those of codes in their own. No subclass of tensors is
    taken, and no tensor without numbers: fake ones, and what operations give within `torch.func`.
    """
    if not t.is_cpu or type(t) not in _OF_PYTORCH:
        return None
    count = t.numel()
    if type(count) is not int:  # a trace has a tensor for it, which is sooner seen than asked for
        require_not_traced()
    if count > _LEAST_PART:
        order = range(t.ndim) if dtype == torch.uint8 else in_memory_order(t)
        alike = empty([t.shape[axis] for axis in order], dtype).permute(np.argsort(order).tolist())
    elif dtype == t.dtype:
        alike = torch.empty_like(t)
    elif dtype == torch.uint8:
        alike = torch.empty_like(t, dtype=dtype, memory_format=torch.contiguous_format)
    else:
        alike = torch.empty_like(t, dtype=dtype)
    try:
        has_numbers = (t.data_ptr() and alike.data_ptr()) or not t.numel()
    except RuntimeError:
        return None
    return alike if has_numbers else None


def in_memory_order(t: torch.Tensor) -> list[int]:
    """Axes of a tensor, those of the longest strides first."""
    return sorted(range(t.ndim), key=t.stride, reverse=True)


@lru_cache(maxsize=64)
def is_compiled(fmt: MXFormat) -> bool:
    """Whether there is compiled code for a format."""
    try:
        compiled_code()
    except ImportError:
        return False
    return _arithmetic.supports(fmt)


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


def empty(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """A tensor in memory of NumPy's, which has larger pages and so is sooner written to."""
    tensor = torch.from_numpy(np.empty(shape, _IN_NUMPY[dtype]))
    return tensor.view(dtype) if dtype == torch.bfloat16 else tensor


_IN_NUMPY: dict[torch.dtype, np.dtype[Any]] = {
    torch.uint8: np.dtype(np.uint8),
    torch.float64: np.dtype(np.float64),
    torch.float32: np.dtype(np.float32),
    torch.float16: np.dtype(np.float16),
    torch.bfloat16: np.dtype(np.int16),
}
"""By dtype that of NumPy with numbers, or bits, of as many bytes."""


class Compiled:
    """Compiled code for tensors of a shape in the memory of the CPU.

    Parameters
    ----------
    make : callable
        Takes the shape of a part of them, `lengths` and `task`, and returns what takes the address
        of that part of each tensor.
    shape, lengths : tuple of int
        Of the tensors, and of a block along each axis.
    *task
        The rest.
    """

    def __init__(
        self,
        make: Callable[..., Callable[..., None]],
        shape: tuple[int, ...],
        lengths: tuple[int, ...],
        *task: Any,
    ) -> None:
        self._make, self._shape, self._lengths, self._task = make, shape, lengths, task
        self._whole = make(shape, lengths, *task) if math.prod(shape) <= _LEAST_PART else None

    def run(self, *tensors: torch.Tensor | None) -> None:
        """Do the work.

        Parameters
        ----------
        *tensors : Tensor, optional
            Of the shape, or with a number for each block. What is written to is contiguous, if its
            axes are taken in the order of the last tensor. The address of none is 0.
        """
        if subnormals_are_flushed():  # which compiled code would heed
            with subnormals():
                self.run(*tensors)
            return
        addresses = [
            0 if t is None else t.data_ptr() or _nowhere(t)
            for t in tensors
            if t is None or t.is_contiguous()
        ]
        if self._whole is None or len(addresses) < len(tensors):
            self._run_in_parts(tensors)
        else:
            self._whole(*addresses)

    def _run_in_parts(self, tensors: Sequence[torch.Tensor | None]) -> None:
        last = tensors[-1]
        assert last is not None
        order = in_memory_order(last)
        ordered = [t if t is None else t.detach().permute(order).contiguous() for t in tensors]
        shape, lengths = (
            tuple([sizes[axis] for axis in order]) for sizes in (self._shape, self._lengths)
        )

        def work(here: Region) -> None:
            call = self._make(tuple([one.stop - one.start for one in here]), lengths, *self._task)
            blocks = blocks_of(here, lengths)
            of_parts = [
                t if t is None else t[here if t.shape == shape else blocks] for t in ordered
            ]
            call(*[0 if t is None else t.data_ptr() or _nowhere(t) for t in of_parts])

        size = math.prod(shape)
        part = max(min(math.ceil(size / _engines.cores()), 2 * _LEAST_PART), _LEAST_PART)
        _engines.run(compiled_code(), work, parts(shape, lengths, part, in_order=True))


def _nowhere(t: torch.Tensor) -> int:
    """The address of a tensor without memory: it must not have numbers."""
    if t.numel():
        raise ValueError(
            f"codes and scales must have their numbers in memory, not {type(t).__name__} of shape "
            f"{tuple(t.shape)} without any"
        )
    return 0


KINDS = {dtype: str(dtype).removeprefix("torch.") for dtype in DTYPES}
"""Names of dtypes."""

_LEAST_PART = 1 << 18
"""Elements that a core works on at a time, at least: codes of so many lie in its cache."""
