"""Model of graphs: each operation of `mxsafe.machine.graph` by the hardware's models."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxsafe.codec import quantize
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.graph import Graph, Value
from mxsafe.machine.stages import computed
from mxsafe.model.functions import FUNCTIONS
from mxsafe.model.gemm import matmul
from mxsafe.model.normalisation import normalise
from mxsafe.model.softmax import softmax
from mxsafe.model.vector_arithmetic import add, half_sums, multiply
from mxsafe.validation import checked

__all__ = ["evaluate_graph"]

Array = NDArray[Any]


@checked
def evaluate_graph(
    graph: Graph,
    inputs: Mapping[str, Array],
    configuration: MachineConfiguration | None = None,
    block: int | tuple[int, int] = 64,
) -> dict[str, Array]:
    """Outputs of a graph as the machine has them, bit for bit: the reference of compiled graphs.

    Parameters
    ----------
    graph : Graph
    inputs : Mapping of str to ndarray
        By the names of the graph's inputs.
    configuration : MachineConfiguration, optional
        Of which format, arithmetic, lanes and grade count.
    block : int or tuple of int
        Of operands: 64 along the sum, or tiles of ``(8, 8)``.

    Returns
    -------
    dict of str to ndarray
        By the names of the outputs.

    Raises
    ------
    ValueError
        If an input is missing, or has another shape.
    """
    c = configuration or MachineConfiguration()
    known: dict[int, Array] = {}
    for value in graph.values:
        if value.op == "input":
            if value.name not in inputs:
                raise ValueError(f"inputs must have {value.name}, not only {sorted(inputs)}")
            given = inputs[value.name]
            if given.shape != value.shape:
                raise ValueError(
                    f"inputs: {value.name} must have shape {value.shape}, not {given.shape}"
                )
            known[id(value)] = given
        else:
            of = [known[id(one)] for one in value.inputs]
            by_host = value.host or value.dtype != "float32"
            made = computed(value, of) if by_host else _evaluated(value, of, c, block)
            known[id(value)] = made
    return {name: known[id(value)] for name, value in graph.outputs.items()}


def _evaluated(
    value: Value,
    given: list[Array],
    c: MachineConfiguration,
    block: int | tuple[int, int],
) -> Array:
    if value.op == "constant":
        assert value.data is not None
        return value.data
    if value.op == "product":
        return np.stack([_product(a, b, c, block) for a, b in zip(*given, strict=True)])
    if value.op == "gather":
        assert value.data is not None
        flat = np.concatenate([one.reshape(-1) for one in given])
        # What a place of -1 has does not count.
        return np.where(value.data < 0, np.float32(0), flat[value.data])
    if value.op == "arithmetic":
        if value.detail == "scale":
            return multiply(np.float32(value.parameter), given[0])
        return {"add": add, "multiply": multiply}[value.detail](*given)
    if value.op == "function":
        return FUNCTIONS[value.detail](given[0], c.grade)
    if value.op == "sum":
        return half_sums(given[0])
    if value.op == "softmax":
        rows = given[0]
        mask = np.broadcast_to(np.tri(*rows.shape[-2:], dtype=np.bool_), rows.shape)
        causal = mask if value.detail == "causal" else None
        return softmax(rows, mask=causal, scale=value.parameter, grade=c.grade)
    assert value.data is not None
    gain, bias = value.data
    rows = given[0].reshape(-1, value.shape[-1])
    centre = value.op == "layer_norm"
    made = normalise(rows, gain, bias, value.parameter, centre=centre, grade=c.grade)
    return made.result.reshape(value.shape)


def _product(a: Array, b: Array, c: MachineConfiguration, block: int | tuple[int, int]) -> Array:
    left, right = a, np.ascontiguousarray(b.T)
    if isinstance(block, tuple):
        q, r = (quantize(one, c.conversion_format, block=block) for one in (left, right))
    else:
        q = quantize(left, c.conversion_format, block=block, axis=-1)
        r = quantize(right, c.conversion_format, block=block, axis=-2)
    return matmul(q, r, arithmetic=c.arithmetic, lanes=c.lanes)
