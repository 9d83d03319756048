"""Subnormal numbers count, also where a program has told the processor to flush them to zero."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


def subnormals_are_flushed() -> bool:
    """Whether the processor takes subnormal numbers for zero in this thread."""
    return sys.float_info.min * 0.5 == 0.0


@contextmanager
def subnormals() -> Iterator[None]:
    """Let subnormal numbers count in this thread, and leave the processor's flag as it was.

    Only PyTorch, which usually has set the flag, can take it back: nothing of Python's own does.

    Raises
    ------
    RuntimeError
        If they do not count, and PyTorch is not loaded.
    """
    if not subnormals_are_flushed():
        yield
        return
    set_flag = getattr(sys.modules.get("torch"), "set_flush_denormal", None)
    if set_flag is None or not set_flag(False):
        raise RuntimeError(
            "subnormal numbers must count in this thread, not be flushed to zero: a library has "
            "set the processor's flag for that"
        )
    try:
        yield
    finally:
        set_flag(True)
