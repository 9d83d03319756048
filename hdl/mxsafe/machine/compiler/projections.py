"""Products of weights with tokens in the buffers, and what follows them."""

from mxsafe.machine.compiler.emitter import Emitter, Pass
from mxsafe.machine.compiler.tensors import Operand, Placed, Rows
from mxsafe.machine.compiler.units import cut

__all__ = ["add_bias", "multiply_features", "parts_of"]


def multiply_features(e: Emitter, weights: Operand, features: range, x: Placed, rows: Rows) -> None:
    """Some features of ``weights @ x`` into rows, one for each strip of x.

    Parameters
    ----------
    e : Emitter
    weights : Operand
    features : range
        Of the weights: whole strips, but for the last one.
    x : Placed
        Operand w.
    rows : Rows
    """
    size = e.configuration.rows
    first, stop = features.start // size, -(-features.stop // size)
    # One panel is loaded while another is multiplied.
    most = min(max(e.rooms["a"].free // (2 * weights.layout.beats), 1), 64 // size)
    for part in cut(stop - first, most):
        panel = range(first + part.start, first + part.stop)
        placed = e.load(weights, panel, "a")
        e.multiply(
            placed,
            x,
            rows.start + panel.start * size - features.start,
            stride_a=size,
            stride_w=rows.stride,
            last_rows=min(size, features.stop - panel[-1] * size),
        )
        e.give_back(placed)


def add_bias(e: Emitter, bias: Rows | None, features: range) -> Pass:
    """A pass that adds the bias of some features, or does nothing."""
    if bias is None:
        return Pass()
    start = bias.start + features.start // e.configuration.vector_lanes
    return Pass(arithmetic="add", y=Rows(start, len(features)), y_mode="numbers")


def parts_of(e: Emitter, strips: int, beats: int) -> list[range]:
    """Strips that are worked on together, so that two parts have room in the vector buffer.

    Parameters
    ----------
    e : Emitter
    strips : int
    beats : int
        Vector beats that each of them takes.
    """
    return cut(strips, max(1, e.vector.free // (2 * beats)))
