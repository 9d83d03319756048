"""Stages that results may pass between an array and the converter.

Tested by `verif/rtl/machine/test_layer.py`.
"""

from collections.abc import Sequence
from typing import Any

from mxsafe.rtl.unit import Unit
from mxsafe.rtl.vector.activation import ActivationConfiguration
from mxsafe.rtl.vector.vector_arithmetic import VectorArithmetic
from mxsafe.rtl.vector.vector_function import VectorFunction

STAGES: tuple[str, ...] = ("bias", "activation", "residual")
"""Kinds of stages, see `mxsafe.rtl.machine.layer.LayerConfiguration`."""


def stage_unit(name: str, *, columns: int, activation: str) -> Unit[Any]:
    """The unit of a stage, for beats of one feature of so many columns.

    Returns
    -------
    Unit
        With a stream of binary32 numbers in, `s_axis`, and one out, `m_axis`, and perhaps one of
        second operands, `s_axis_operand`. Its latency is that of the stage.

    Raises
    ------
    ValueError
        If it is an activation and there is no such function.
    """
    if name == "activation":
        return VectorFunction(lanes=ActivationConfiguration(functions=activation, width=columns))
    if name == "residual":
        return VectorArithmetic(operations=("add",), lanes=columns)
    # A bias belongs to a feature: it is one number for the whole beat, but not for columns that are
    # no samples: these stay zero, or they would count in the scales of tiles.
    return VectorArithmetic(operations=("add",), operand="beat", ragged=True, lanes=columns)


def checked_stages(given: Sequence[str] | str) -> tuple[str, ...]:
    """Names of stages, from a sequence of them or joined by ``+``.

    Raises
    ------
    ValueError
        If one is not of `STAGES`, or is there twice.
    """
    names = tuple(filter(None, given.split("+")) if isinstance(given, str) else given)
    if any(name not in STAGES for name in names) or len(set(names)) < len(names):
        raise ValueError(f"stages must be some of {', '.join(STAGES)}, each once, not {given!r}")
    return names
