"""Products of weights with tokens in the buffers, and what follows them."""

from dataclasses import replace

from mxsafe.machine.compiler.emitter import Emitter, Pass
from mxsafe.machine.compiler.tensors import Numbers, Operand, Placed, Rows

__all__ = ["add_bias", "from_k", "loaded", "multiply_features", "parts_of"]


def loaded(e: Emitter, numbers: Numbers) -> Rows:
    """A number for each feature into the vector buffer, C of them a beat."""
    rows = e.rows(numbers.layout.rows, 1, numbers.name, keep=True)
    e.load_rows(numbers, range(1), rows)
    return rows


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
    for at in range(first, stop, most):
        panel = range(at, min(at + most, stop))
        placed = e.load(weights, panel, "a")
        e.multiply(
            placed,
            x,
            rows.start + at * size - features.start,
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
    most = max(1, e.vector.free // (2 * beats))
    return [range(at, min(at + most, strips)) for at in range(0, strips, most)]


def from_k(placed: Placed, k: int, lanes: int) -> Placed:
    """The same strips from a later k on, a whole number of blocks."""
    beats = k // lanes
    return replace(
        placed,
        codes=placed.codes + beats,
        scales=placed.scales + beats // placed.block_beats,
    )
