"""Sums that go around layers, where they are between these: in the vector buffer or in memory."""

from functools import partial

from mxsafe.machine.compiler.emitter import Emitter, Pass
from mxsafe.machine.compiler.tensors import Rows, Vectors
from mxsafe.machine.compiler.units import Unit, groups


class HeldSums:
    """Sums that stay in the vector buffer.

    Parameters
    ----------
    e : Emitter
    inputs : Vectors
        What they are at first: a strip for each strip of tokens.
    """

    def __init__(self, e: Emitter, inputs: Vectors) -> None:
        self._e, self._inputs = e, inputs
        layout = inputs.layout
        self._rows = e.rows(layout.rows, layout.strips, "sums of a layer", keep=True)

    def parts(self, strips: range) -> list[range]:
        """Strips of them that are worked on together."""
        return [strips]

    def first(self, strips: range) -> Rows:
        """Some strips of the inputs."""
        rows = self._rows.some(strips)
        self._e.load_rows(self._inputs, strips, rows)
        return rows

    def taken(self, strips: range) -> Rows:
        """Some strips; a layer is added to them."""
        return self._rows.some(strips)

    def left(self, strips: range, rows: Rows, *, needed: bool) -> None:
        """Strips have been normalised; a later layer may need them as they are."""

    def biased(self, strips: range, bias: Rows | None) -> list[Unit]:
        """Units that add numbers of features to some strips."""
        return _biased(self._e, self._rows.some(strips), bias)


class StoredSums:
    """Sums that are in memory, and come into the vector buffer in groups of strips.

    Parameters
    ----------
    e : Emitter
    inputs : Vectors
    memory : Vectors
        Where they go; inputs stay as they are.
    """

    def __init__(self, e: Emitter, inputs: Vectors, memory: Vectors) -> None:
        self._e, self._inputs, self._memory = e, inputs, memory
        self._stored: set[int] = set()
        self._bias: Rows | None = None
        self._taken: Rows | None = None

    def parts(self, strips: range) -> list[range]:
        """Strips of them that are worked on together."""
        # While a part is normalised, the next one and results of a layer have room beside it.
        most = 2 * self._e.vector.size // (5 * self._inputs.layout.rows)
        return groups(len(strips), most, strips.start)

    def first(self, strips: range) -> Rows:
        """Some strips of the inputs; only normalised ones are needed of them."""
        return self._loaded(self._inputs, strips)

    def taken(self, strips: range) -> Rows:
        """Some strips; a layer is added to them."""
        source = self._memory if strips.start in self._stored else self._inputs
        # If they can, they leave the places of those before, which may not be normalised yet.
        if self._e.vector.largest_gap < len(strips) * source.layout.rows:
            self._free()
        rows = self._loaded(source, strips)
        self._free()
        self._taken = rows
        for unit in _biased(self._e, rows, self._bias):
            unit()
        return rows

    def left(self, strips: range, rows: Rows, *, needed: bool) -> None:
        """Strips have been normalised; a later layer may need them as they are."""
        if self._taken is None:
            self._e.vector.free(rows.start)
            return
        if needed:
            self._e.store_rows(self._memory, strips, rows)
            self._stored |= set(strips)
        if strips.stop == self._inputs.layout.strips:
            self._free()

    def _loaded(self, source: Vectors, strips: range) -> Rows:
        rows = self._e.rows(source.layout.rows, len(strips), "sums of a layer")
        self._e.load_rows(source, strips, rows)
        return rows

    def _free(self) -> None:
        if self._taken is not None:
            self._e.vector.free(self._taken.start)
        self._taken = None

    def biased(self, strips: range, bias: Rows | None) -> list[Unit]:
        """Strips get numbers of features when they are taken."""
        self._bias = bias
        return []


Sums = HeldSums | StoredSums


def _biased(e: Emitter, rows: Rows, bias: Rows | None) -> list[Unit]:
    """Units that add numbers of features to rows."""
    if bias is None:
        return []
    work = Pass(arithmetic="add", y=Rows(bias.start, bias.beats), y_mode="numbers")
    parts = [rows.some(part) for part in groups(rows.count, 2)]
    return [partial(e.compute, part, work, d=part) for part in parts]
