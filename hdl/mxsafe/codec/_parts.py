"""Places of the blocks of a tensor, and parts that are worked on one by one."""

import math
from collections.abc import Iterator, Sequence

Region = tuple[slice, ...]
"""A part of a tensor: one slice an axis, with explicit start and stop and step 1."""


def block_lengths(shape: tuple[int, ...], axes: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """Length of a block along every axis, from pairs (axis counted from the end, length).

    It is 1 along an axis that is not blocked, and never more than the axis is long.
    """
    lengths = dict(axes)
    return tuple(
        min(lengths.get(axis - len(shape), 1), max(size, 1)) for axis, size in enumerate(shape)
    )


def blocks_shape(shape: tuple[int, ...], lengths: tuple[int, ...]) -> tuple[int, ...]:
    """Numbers of blocks along every axis."""
    return tuple(-(-size // length) for size, length in zip(shape, lengths, strict=True))


def blocks_of(region: Region, lengths: tuple[int, ...]) -> Region:
    """Places of the scales of a part."""
    return tuple(
        slice(part.start // length, -(-part.stop // length))
        for part, length in zip(region, lengths, strict=True)
    )


def moved(part: Region, slab: Region) -> Region:
    """Place in a tensor of a part of one of its slabs."""
    return tuple(
        slice(outer.start + inner.start, outer.start + inner.stop)
        for inner, outer in zip(part, slab, strict=True)
    )


def three_axes(
    shape: tuple[int, ...], lengths: tuple[int, ...]
) -> tuple[tuple[int, int, int], tuple[int, int]]:
    """Shape (outer, rows, columns), and rows and columns of a tile, that stand for any blocking."""
    along = [axis for axis, length in enumerate(lengths[:-1]) if length > 1]
    if not along:
        return (1, math.prod(shape[:-1]), shape[-1]), (1, lengths[-1])
    axis = along[0]  # the only one: tiles have their second length at the end
    outer, inner = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    return (outer, shape[axis], inner), (lengths[axis], lengths[-1])


def parts(
    shape: tuple[int, ...], lengths: tuple[int, ...], limit: int, *, in_order: bool = False
) -> Iterator[Region]:
    """Cut a tensor along block boundaries into parts of at most `limit` elements, if it can be.

    A single larger block stays whole. With `in_order`, the parts one after another are the elements
    in C order, which can take larger ones too.
    """
    axis = next((i for i, size in enumerate(shape) if size > lengths[i]), len(shape))
    out_of_order = in_order and math.prod(shape[:axis]) > 1
    if axis == len(shape) or math.prod(shape) <= limit or out_of_order:
        yield tuple(slice(0, size) for size in shape)
        return
    slab = math.prod(shape) // shape[axis] * lengths[axis]
    step = max(limit // slab, 1) * lengths[axis]
    for start in range(0, shape[axis], step):
        here = slice(start, min(start + step, shape[axis]))
        part = (*shape[:axis], here.stop - start, *shape[axis + 1 :])
        for region in parts(part, lengths, limit, in_order=in_order):
            yield (*region[:axis], here, *region[axis + 1 :])
