"""Allocators of memory and of buffers, used while a program is compiled."""

from bisect import insort
from typing import Any


class CompileError(ValueError):
    """Error of a program that does not fit on the machine; the message has the numbers."""


class LayoutError(CompileError):
    """Error of values that the machine does not lay out as they are used.

    Attributes
    ----------
    values : list
        Values of the graph that others could have if the host had them in between.
    """

    def __init__(self, message: str, values: list[Any]) -> None:
        super().__init__(message)
        self.values = values


class Allocator:
    """Allocator of a buffer's places, in the order of the program.

    A part gets the next free places after the last allocation, around the end of the buffer: so
    places that have just been freed are used again last, and a descriptor that writes a place
    seldom waits for one that still reads it.

    Parameters
    ----------
    name : str
        The buffer, for messages.
    size : int
        Its places.
    multiple : int
        What the first place of every part is a multiple of.
    """

    def __init__(self, name: str, size: int, *, multiple: int = 1) -> None:
        self.name = name
        self.size = size
        self._multiple = multiple
        self._used: list[tuple[int, int]] = []
        self._next = 0

    def alloc(self, count: int, purpose: str) -> int:
        """Allocate so many places and return the first; raise CompileError without such a gap."""
        length = -(-count // self._multiple) * self._multiple
        gaps = self._gaps()
        after = [(max(start, self._next), stop) for start, stop in gaps if stop > self._next]
        for start, stop in [*after, *gaps]:
            if stop - start >= length:
                insort(self._used, (start, start + length))
                self._next = start + length
                return start
        free = max((stop - start for start, stop in gaps), default=0)
        raise CompileError(
            f"{purpose} must fit into {free} free places of {self.name} ({self.size} in all), "
            f"not {length}"
        )

    def free(self, start: int) -> None:
        """Free the part that begins here."""
        self._used.remove(next(part for part in self._used if part[0] == start))

    def _gaps(self) -> list[tuple[int, int]]:
        stops = [0, *(stop for _, stop in self._used)]
        starts = [*(start for start, _ in self._used), self.size]
        return [(stop, start) for stop, start in zip(stops, starts, strict=True) if start > stop]


class Memory:
    """Allocator of tensors in memory, one after the other.

    Parameters
    ----------
    word_bytes : int
        Every address is a multiple of it.
    """

    def __init__(self, word_bytes: int) -> None:
        self._word_bytes = word_bytes
        self.used = 0

    def alloc(self, words: int) -> int:
        """Allocate so many words and return their address."""
        address = self.used
        self.used += words * self._word_bytes
        if self.used > 1 << 32:
            raise CompileError(f"tensors must fit into 2^32 bytes of memory, not {self.used}")
        return address
