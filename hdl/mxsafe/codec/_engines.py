"""The engine that does the arithmetic of a tensor, and how cores share its parts.

An engine is a module with `quantize_part`, `dequantize_part` and `PART`, the elements they are best
given at a time, as `mxsafe.codec.numpy_engine`.
"""

import os
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Literal

from mxsafe.codec import numpy_engine
from mxsafe.codec._parts import Region
from mxsafe.formats import MXFormat
from mxsafe.validation import require_one_of

Engine = Literal["auto", "numpy", "numba"]
ENGINES = ("auto", "numpy", "numba")

WORTH_COMPILING = 1 << 22
"""Elements of a tensor for which loading compiled code pays, which takes half a second."""

WORTH_CALLING = 1 << 9
"""Elements for which it pays once it is loaded."""


def choose_engine(name: Engine, fmt: MXFormat, size: int) -> ModuleType:
    """Engine for a tensor of `size` elements: the compiled one where there is one and it pays.

    Raises
    ------
    ValueError
        If `name` is unknown, or the engine asked for cannot do the format.
    ImportError
        If the engine asked for is not installed.
    """
    require_one_of("engine", name, ENGINES)
    enough = WORTH_CALLING if "mxsafe.codec.numba_engine" in sys.modules else WORTH_COMPILING
    if name == "numpy" or (name == "auto" and size < enough):
        return numpy_engine
    try:
        from mxsafe.codec import numba_engine
    except ImportError as error:
        if name == "auto":
            return numpy_engine
        raise ImportError(
            f"engine 'numba' needs the extra fast, pip install '.[fast]': {error}"
        ) from None
    if numba_engine.supports(fmt):
        return numba_engine
    if name == "numba":
        raise ValueError(
            f"engine must be 'numpy' for {fmt.name}, whose binades or scales the compiled "
            "code cannot do"
        )
    return numpy_engine


def run(engine: ModuleType, work: Callable[[Region], None], regions: Iterable[Region]) -> None:
    """Do the work on every region, on all cores where that helps."""
    regions = list(regions)
    if engine is numpy_engine or len(regions) == 1:  # a thread takes longer to start
        for region in regions:
            work(region)
        return
    with ThreadPoolExecutor(cores()) as threads:
        for _ in threads.map(work, regions):
            pass  # an exception of a thread is raised here


def cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
