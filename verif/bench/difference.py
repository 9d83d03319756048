"""First difference of two values in a line, for benches without NumPy and for tests."""

from collections.abc import Mapping, Sequence
from typing import Any

_MOST = 80
"""Characters of a value that are shown."""


def shown(value: Any) -> str:
    """A value in a few characters; integers of two digits or more in hexadecimal, too."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    text = " ".join((value.hex() if isinstance(value, bytes) else str(value)).split())
    if is_number and abs(value) > 9:
        text += f" ({value:#x})"
    return text if len(text) <= _MOST else f"{text[: _MOST - 3]}..."


def difference(got: Any, expected: Any, place: str = "") -> str:
    """The first difference of sequences in sequences or mappings; nothing where they are equal.

    Parameters
    ----------
    got, expected : object
        Lists and tuples are the same.
    place : str
        What they are; the place of the difference follows.
    """
    if isinstance(expected, Mapping) and isinstance(got, Mapping):
        if got.keys() != expected.keys():
            return f"{place} has {shown(sorted(got))}, expected {shown(sorted(expected))}"
        pairs = ((f"[{key!r}]", got[key], right) for key, right in expected.items())
    elif all(isinstance(one, Sequence) and not isinstance(one, str) for one in (got, expected)):
        both = zip(got, expected, strict=False)
        pairs = ((f"[{at}]", one, right) for at, (one, right) in enumerate(both))
    elif got == expected:
        return ""
    elif isinstance(got, str) and isinstance(expected, str) and len(got) == len(expected) > 32:
        return f"{place} differs, expected and then got: {changed_bits('bits', expected, got)}"
    else:
        return f"{place} is {shown(got)}, expected {shown(expected)}".strip()
    for key, one, right in pairs:
        if one != right and (found := difference(one, right, place + key)):
            return found
    if len(got) == len(expected):
        return ""
    return f"{place} has {len(got)} items, expected {len(expected)}, equal up to there".strip()


def changed_bits(name: str, before: str, now: str) -> str:
    """Text of the bits of a pin that have changed, the highest first."""
    pairs = zip(before[::-1], now[::-1], strict=True)
    low = next(at for at, (one, other) in enumerate(pairs) if one != other)
    end = len(before) - low
    start = max(0, end - 32)
    return f"{name}[{len(before) - start - 1}:{low}] from {before[start:end]} to {now[start:end]}"
