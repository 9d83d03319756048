"""Buffers of the machine, and how it stops with an error."""

from collections import Counter
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mxsafe.machine.configuration import MachineConfiguration

Indices = NDArray[np.int64]
VECTOR_WORDS = 2
"""Words of a beat of the vector buffer."""
ENTRIES = 2
"""Scale entries of a word."""


class MachineStop(Exception):  # noqa: N818 - it is an event of the machine, not one of Python
    """A descriptor cannot go on.

    Parameters
    ----------
    error : str
        Name of the error in `mxsafe.machine.description.ERRORS`.
    reason : str
        What happened.
    """

    def __init__(self, error: str, reason: str) -> None:
        super().__init__(reason)
        self.error = error


def require_within(name: str, indices: Indices, size: int) -> None:
    """Stop if one of the places in a buffer is past its end."""
    if indices.size and (most := int(indices.max())) >= size:
        raise MachineStop("address", f"{name} must be below {size}, not {most}")


class OperandBuffer:
    """Codes and scales of one side of the array, or of results.

    Parameters
    ----------
    name : str
    beats : int
        Operand beats that it holds.
    configuration : MachineConfiguration

    Attributes
    ----------
    codes : ndarray of uint8 or uint16, shape (beats, rows, lanes)
    scales : ndarray of uint8, shape (entries, rows)
    """

    def __init__(self, name: str, beats: int, configuration: MachineConfiguration) -> None:
        self.name = name
        shape = beats, configuration.rows, configuration.lanes
        self.codes: NDArray[Any] = np.zeros(shape, f"<u{configuration.code_bytes}")
        self.scales = np.zeros((configuration.entries(beats, 2), configuration.rows), np.uint8)


class Buffers:
    """All buffers of a machine; what they hold at first is 0.

    Attributes
    ----------
    operands : dict of str to OperandBuffer
        By `a`, `w` and `out`.
    vector : ndarray of uint32, shape (beats, lanes)
        Bits of binary32 numbers.
    accesses : Counter of str
        Accesses and work since the program began, by names of
        `mxsafe.machine.description.ACCESSES`: as the hardware makes them, which may read what is
        read here once as often as it needs it.
    """

    def __init__(self, configuration: MachineConfiguration) -> None:
        self.accesses: Counter[str] = Counter()
        self._word_bytes = configuration.word_bytes
        self._operand_words = configuration.beat_words
        sizes = {
            "a": configuration.a_beats,
            "w": configuration.w_beats,
            "out": configuration.out_beats,
        }
        self.operands = {
            name: OperandBuffer(name, beats, configuration) for name, beats in sizes.items()
        }
        self.vector = np.zeros((configuration.vector_beats, configuration.vector_lanes), "<u4")

    def words(self, name: str) -> NDArray[np.uint8]:
        """A buffer by its name in a descriptor, as an array of words that shares its memory."""
        if name == "vector":
            return self.vector.view(np.uint8).reshape(-1, self._word_bytes)
        owner, _, part = name.partition("_")
        array: NDArray[np.uint8] = getattr(self.operands[owner], part)
        return array.reshape(-1).view(np.uint8).reshape(-1, self._word_bytes)

    def count_words(self, name: str, beats: Indices | int) -> None:
        """Count accesses of whole beats of operands: of as many words as they have."""
        count = beats if isinstance(beats, int) else beats.size
        self.accesses[name] += count * self._operand_words

    def count_vectors(self, name: str, beats: Indices | int) -> None:
        """Count accesses of whole beats of the vector buffer."""
        count = beats if isinstance(beats, int) else beats.size
        self.accesses[name] += count * VECTOR_WORDS

    def operand(self, target: Literal["a", "w", "out"] | str) -> OperandBuffer:
        """A buffer of codes and scales."""
        return self.operands[target]
