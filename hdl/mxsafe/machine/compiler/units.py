"""Numbers in groups."""

from itertools import pairwise


def groups(count: int, most: int, first: int = 0) -> list[range]:
    """As few groups of at most so many as there can be, of nearly the same size."""
    number = -(-count // max(most, 1))
    bounds = [first + count * index // number for index in range(number)] + [first + count]
    return [range(start, stop) for start, stop in pairwise(bounds)]


def cut(count: int, most: int) -> list[range]:
    """Groups that follow one another, all of so many but the last."""
    return [range(at, min(at + most, count)) for at in range(0, count, most)]
