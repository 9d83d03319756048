"""Parts of the machine that are synthesised one by one: their gates add up to those of the whole.

The array, which is a unit of its own, and the units of the vector engine are parts; what holds them
together is another, in which they are left out: what they are connected to is an input or output of
it, as for memories.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from mxsafe.rtl.array.systolic_array import SystolicArray
from mxsafe.rtl.machine.accelerator import Accelerator
from mxsafe.rtl.machine.vector.narrow_function import NarrowFunction
from mxsafe.rtl.machine.vector.vector_chain import VectorChainConfiguration
from mxsafe.rtl.machine.vector.vector_engine import VectorEngine
from mxsafe.rtl.stream.block_converter import BlockConverter
from mxsafe.rtl.stream.number_rounder import NumberRounder
from mxsafe.rtl.unit import Unit
from mxsafe.rtl.vector.rows import Rows
from mxsafe.rtl.vector.vector_arithmetic import VectorArithmetic
from mxsafe.rtl.vector.vector_function import VectorFunction

_OF_VECTORS = (
    VectorArithmetic,
    VectorFunction,
    NarrowFunction,
    Rows,
    BlockConverter,
    NumberRounder,
)


@dataclass(frozen=True)
class Part:
    """A part of a machine.

    Attributes
    ----------
    meaning : str
        What it is.
    build : callable
        The unit of a machine.
    without : tuple of type of Unit
        Units in it that are parts of their own.
    """

    meaning: str
    build: Callable[[Accelerator], Unit[Any]]
    without: tuple[type[Unit[Any]], ...] = ()


def _chain(machine: Accelerator) -> VectorChainConfiguration:
    return machine.config.vector.chain


PARTS: Mapping[str, Part] = MappingProxyType(
    {
        "arithmetic": Part(
            "sums and products of 16 binary32 numbers a cycle",
            lambda machine: VectorArithmetic(_chain(machine).arithmetic),
        ),
        "functions": Part(
            "GELU and seven others of 16 numbers a cycle",
            lambda machine: VectorFunction(_chain(machine).function),
        ),
        "powers and roots": Part(
            "`exp`, `sigmoid`, `reciprocal` and `rsqrt` of 4 numbers a cycle",
            lambda machine: NarrowFunction(_chain(machine).narrow),
        ),
        "softmax and norms": Part(
            "softmax, layer and RMS norm, sums of 16 rows side by side; arithmetic applies gain "
            "and bias",
            lambda machine: Rows(_chain(machine).rows),
        ),
        "converter": Part(
            "16 numbers a cycle to codes and scales, by blocks or tiles",
            lambda machine: machine.config.vector.build_converter(),
        ),
        "rest of the vector engine": Part(
            "readers, second operands, packer, writers",
            lambda machine: VectorEngine(machine.config.vector),
            _OF_VECTORS,
        ),
        "rest": Part(
            "registers, fetch, queues, loads, stores, ports of buffers, what feeds the array",
            lambda machine: machine,
            (SystolicArray, VectorEngine),
        ),
    }
)
"""Parts by name; with the array, they are the whole machine without its memories."""
