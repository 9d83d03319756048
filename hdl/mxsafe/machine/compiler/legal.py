"""A graph as the machine can take it: what is too long for it in one piece, cut along its length.

Sums by halves, and with arithmetic ``window`` products, have an order that says where they can be
cut; what is cut has the same bits. Rows of other reductions are cut later, into pieces: see
`mxsafe.machine.compiler.pieces`.
"""

from dataclasses import replace

import numpy as np

from mxsafe.machine.compiler.units import cut
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.graph import Graph, Value


def legal(graph: Graph, configuration: MachineConfiguration) -> Graph:
    """The same graph, in which nothing is too long for a machine; itself if nothing is.

    Parameters
    ----------
    graph : Graph
    configuration : MachineConfiguration

    Returns
    -------
    Graph
        With the same inputs and outputs, of the same bits.
    """
    if not any(_too_long(value, configuration) for value in graph.values):
        return graph
    made = Graph(kept=[*graph.kept])
    known: dict[int, Value] = {}
    for value in graph.values:
        own = replace(value, inputs=tuple(known[id(one)] for one in value.inputs))
        if not _too_long(value, configuration):
            made.values.append(own)
        elif value.op == "sum":
            own = _halved(made, own, configuration)
        else:
            own = _added(made, own, configuration)
        known[id(value)] = own
    for name, value in graph.outputs.items():
        made.output(name, known[id(value)])
    return made


def _too_long(value: Value, c: MachineConfiguration) -> bool:
    if value.host or value.op not in ("sum", "product"):
        return False
    length = value.inputs[0].shape[-1]
    if value.op == "product":
        return c.anchored and length > _most_products(c)
    return value.detail != "window" and length > c.vector_beats // 2


def _most_products(c: MachineConfiguration) -> int:
    """Products of which the integer of an output has room."""
    return c.product_beats * c.lanes


def _halved(g: Graph, value: Value, c: MachineConfiguration) -> Value:
    """The sum of a row whose last half is added to its first one beforehand, until it is short."""
    (x,) = value.inputs
    while (length := x.shape[-1]) > c.vector_beats // 2:
        half = -(-length // 2)
        first, last = (g.gather([x], x.places[..., own]) for own in (np.s_[:-half], np.s_[half:]))
        parts = [g.add(first, last, value.name)]
        if length % 2:
            parts.append(g.gather([x], x.places[..., half - 1 : half]))
        x = g.concatenate(parts, -1)
    return g.sum(x, value.name)


def _added(g: Graph, value: Value, c: MachineConfiguration) -> Value:
    """The sum of products of parts of k, in their order."""
    a, b = value.inputs
    total = None
    for part in cut(a.shape[-1], _most_products(c)):
        own = np.s_[..., part.start : part.stop]
        left, right = (g.gather([one], one.places[own]) for one in (a, b))
        product = g.product(left, right, value.name)
        total = product if total is None else g.add(total, product, value.name)
    assert total is not None
    return total
