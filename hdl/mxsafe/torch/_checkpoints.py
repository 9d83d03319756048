"""Checkpoints compute again in the context of their forward pass.

PyTorch lets nothing but a checkpoint's caller say so: what runs again is found on the stack of the
forward pass. Where it is not found, what `products` saves makes the checkpoint refuse.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache
from types import CodeType, FrameType
from typing import Any, NamedTuple

from torch.utils.checkpoint import CheckpointFunction, checkpoint

_REENTRANT = CheckpointFunction.forward.__code__
"""Code of the forward pass of checkpoints of one kind."""


@cache
def _other() -> CodeType:
    """The same of the other kind; read late, because pages are made without PyTorch."""
    return inspect.unwrap(checkpoint).__code__


class _Again(NamedTuple):
    """The function of a checkpoint, and the context that it runs in again."""

    function: Callable[..., Any]
    context: AbstractContextManager[Any]

    def __call__(self, *args: Any) -> Any:
        with self.context:
            return self.function(*args)


class Running(NamedTuple):
    """The forward pass of a checkpoint whose function has no context yet.

    Attributes
    ----------
    owner, name
        The function is an attribute of an object.
    within, around : list of frame
        What its function called, and what called it.
    """

    owner: Any
    name: str
    within: list[FrameType]
    around: list[FrameType]

    def runs_again_in(self, context: AbstractContextManager[Any]) -> None:
        """Open a context whenever the function runs again."""
        setattr(self.owner, self.name, _Again(getattr(self.owner, self.name), context))


def running() -> list[Running]:
    """Checkpoints that the caller is computed in."""
    frames: list[FrameType] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    found = []
    for place, frame in enumerate(frames):
        owner, name = _function_of(frame)
        if owner is not None and not isinstance(getattr(owner, name), _Again):
            found.append(Running(owner, name, frames[:place], frames[place + 1 :]))
    return found


def _function_of(frame: FrameType) -> tuple[Any, str]:
    """Where the function lies that runs again, of the forward pass of a checkpoint."""
    if frame.f_code is _REENTRANT:
        return frame.f_locals["ctx"], "run_function"
    generator = frame.f_locals.get("gen") if frame.f_code is _other() else None
    if generator is not None and generator.gi_frame is not None:
        kept = generator.gi_frame.f_locals.get("new_frame")
        if hasattr(kept, "recompute_fn"):
            return kept, "recompute_fn"
    return None, ""
