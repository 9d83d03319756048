"""Places of the elements of a tensor in lanes of vector beats."""

from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from mxsafe.machine.compiler.emitter import Emitter
from mxsafe.machine.compiler.ordering import Access
from mxsafe.machine.compiler.tensors import Rows
from mxsafe.machine.description import LOAD_BUFFERS

Indices = NDArray[np.int32]
Addresses = NDArray[np.int64]
Key = tuple[tuple[int, ...], bytes]

_MOST_STRIDE = (1 << 20) - 1
_MOST_WORDS = (1 << 12) - 1
_MOST_TURNS = (1 << 10) - 1


@dataclass(frozen=True, eq=False)
class Placement:
    """Matrices of elements: rows are lanes, in strips, and columns are vector beats.

    Attributes
    ----------
    index : ndarray of int32, shape (matrices, lanes, beats)
        Number of the element; -1 where anything may stand.
    """

    index: Indices

    @cached_property
    def key(self) -> Key:
        """Equal for equal placements."""
        data = np.ascontiguousarray(self.index)
        return data.shape, sha256(data.data).digest()

    @property
    def matrices(self) -> int:
        """Number of matrices."""
        return self.index.shape[0]

    @property
    def lanes(self) -> int:
        """Lanes of all strips of a matrix."""
        return self.index.shape[1]

    @property
    def beats(self) -> int:
        """Vector beats of a strip."""
        return self.index.shape[2]

    def of(self, table: Indices) -> "Placement":
        """The same places of elements that a table names."""
        return Placement(np.where(self.index >= 0, table.reshape(-1)[self.index], np.int32(-1)))

    def turned(self) -> "Placement":
        """Lanes as beats and beats as lanes."""
        return Placement(self.index.swapaxes(1, 2))

    def part(self, matrix: int, strips: range, beats: range, lanes: int) -> Indices:
        """Some beats of some strips, shape (strips, lanes, beats)."""
        own = self.index[
            matrix, strips.start * lanes : strips.stop * lanes, beats.start : beats.stop
        ]
        whole = np.full((len(strips) * lanes, len(beats)), -1, np.int32)
        whole[: len(own)] = own
        return whole.reshape(len(strips), lanes, len(beats))

    def rows(self, length: int) -> Indices | None:
        """Row of so many elements in each lane, -1 for none; None if rows are not whole."""
        if self.beats != length:
            return None
        found = np.where(self.index[:, :, 0] >= 0, self.index[:, :, 0] // length, -1)
        whole = np.where(found[..., None] >= 0, found[..., None] * length + np.arange(length), -1)
        return found if np.array_equal(whole, self.index) else None


class Beats:
    """Beat and lane of each element of a stored placement.

    Parameters
    ----------
    placement : Placement
    size : int
        Elements of the tensor.
    lanes : int
        Of a beat.
    """

    def __init__(self, placement: Placement, size: int, lanes: int) -> None:
        p = placement
        strips = -(-p.lanes // lanes)
        self._beat, self._lane = np.full((2, size), -1, np.int64)
        index = p.index.reshape(-1)
        matrix, lane, beat = np.unravel_index(np.arange(index.size), p.index.shape)
        filled = index >= 0
        number = (matrix * strips + lane // lanes) * p.beats + beat
        self._beat[index[filled]] = number[filled]
        self._lane[index[filled]] = (lane % lanes)[filled]

    def find(self, index: Indices) -> Addresses | None:
        """Numbers of beats, shape (strips, beats), -1 for those without elements.

        Parameters
        ----------
        index : ndarray of int32, shape (strips, lanes, beats)

        Returns
        -------
        ndarray of int64, or None
            None if there is no beat with such elements in such lanes.
        """
        filled = index >= 0
        beat = np.where(filled, self._beat[index], -1)
        found: Addresses = beat.max(axis=1)
        own = np.arange(index.shape[1])[:, None]
        right = (beat == found[:, None]) & (self._lane[index] == own) & (beat >= 0)
        return found if (right | ~filled).all() else None


def load_beats(e: Emitter, addresses: Addresses, rows: Rows) -> None:
    """Load beats from anywhere in memory.

    Parameters
    ----------
    e : Emitter
    addresses : ndarray of int64, shape (rows, beats)
        First bytes.
    rows : Rows
    """
    size = e.configuration.vector_beat_bytes
    steps = np.unique(np.diff(addresses[0]))
    if len(addresses) == 1 and len(steps) == 1 and steps[0] > size:
        # Beats that stand apart by the same distance, as those of a row that was stored as lanes.
        apart = Rows(rows.start, 1, addresses.shape[1], stride=1)
        _load_runs(e, addresses.T, range(apart.count), range(1), apart)
        return
    for beats in _alike(addresses, size):
        own = addresses[:, beats.start]
        steps = np.diff(own)
        regular = len(set(steps.tolist())) <= 1 and (not len(steps) or steps[0] >= 0)
        if len(own) == 1 or regular:
            _load_runs(e, addresses, range(len(own)), beats, rows)
        else:
            for row in range(len(own)):
                _load_runs(e, addresses, range(row, row + 1), beats, rows)


def _alike(addresses: Addresses, size: int) -> list[range]:
    """Ranges of beats that follow one another in memory in all rows."""
    follow = (np.diff(addresses, axis=1) == size).all(axis=0)
    starts = [0, *(np.flatnonzero(~follow) + 1).tolist(), addresses.shape[1]]
    most = _MOST_WORDS // 2
    runs = []
    for start, stop in pairwise(starts):
        runs += [range(at, min(at + most, stop)) for at in range(start, stop, most)]
    return runs


def _load_runs(e: Emitter, addresses: Addresses, own: range, beats: range, rows: Rows) -> None:
    """A run of beats of some rows, whose addresses are a stride apart."""
    c = e.configuration
    first = int(addresses[own.start, beats.start])
    stride = int(addresses[own.start + 1, beats.start]) - first if len(own) > 1 else 0
    if stride // c.word_bytes > _MOST_STRIDE or len(own) > _MOST_TURNS:
        half = len(own) // 2
        for part in (own[:half], own[half:]):
            _load_runs(e, addresses, part, beats, rows)
        return
    place = rows.start + own.start * rows.stride + beats.start
    fields = {
        "buffer": LOAD_BUFFERS["vector"],
        "address": first,
        "count_0": 2 * len(beats),
        "count_1": len(own),
        "count_2": 1,
        "count_3": 1,
        "stride_1": stride // c.word_bytes,
        "to": 2 * place,
        "step_0": 1,
        "step_1": 2 * rows.stride if len(own) > 1 else 0,
    }
    e.emit(
        "load",
        fields,
        [
            Access.rows("vector", place, len(beats), len(own), rows.stride, writes=True),
            Access.rows(
                "memory", first, len(beats) * c.vector_beat_bytes, len(own), stride, writes=False
            ),
        ],
    )
