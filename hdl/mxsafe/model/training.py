"""Memory traffic of the three matrix products of a linear layer in training.

Forward ``Y = X W``, input gradient ``dX = dY W^T`` and weight gradient ``dW = X^T dY`` contract
each of X, W and dY along both of its axes. A 1-D block serves one of them, a square tile both
(paper, section IV-B and Fig. 4).
"""

from dataclasses import dataclass
from typing import Literal

from mxsafe.codec._parts import block_lengths, blocks_shape
from mxsafe.codec.blocks import Block, blocked_axes
from mxsafe.formats import MXFormat, mx_format
from mxsafe.validation import PositiveInteger, checked, require_positive_integer

Source = Literal["bfloat16", "float32"]
_SOURCE_BYTES = {"bfloat16": 2, "float32": 4}


@dataclass(frozen=True, kw_only=True)
class PassTraffic:
    """Memory traffic of a training pass's operands; numbers of bytes, apart from the first.

    Attributes
    ----------
    quantisations : int
        Times that a whole tensor is quantised.
    source_read : int
        High-precision values that the quantiser reads.
    written : int
        Codes and scales that it writes.
    operands_read : int
        Codes and scales that the three products read.
    kept : int
        What of X and W has to stay from the forward product until both gradients are made, so that
        their operands can be had.
    """

    quantisations: int
    source_read: int
    written: int
    operands_read: int
    kept: int

    @property
    def moved(self) -> int:
        """Bytes read and written in all."""
        return self.source_read + self.written + self.operands_read


@checked
def pass_traffic(
    batch: PositiveInteger,
    inputs: PositiveInteger,
    outputs: PositiveInteger,
    *,
    block: Block,
    format: str | MXFormat = "mxsf",
    source: Source = "bfloat16",
    at_once: bool = False,
) -> PassTraffic:
    """Count quantisations and bytes of one training pass of a linear layer.

    Parameters
    ----------
    batch, inputs, outputs : int
        X is batch x inputs, W inputs x outputs, dY batch x outputs.
    block : int or tuple of int
        Length of 1-D blocks, or shape of square tiles.
    format : str or MXFormat
        Name in the catalogue, or a specification.
    source : {"bfloat16", "float32"}
        Type of the high-precision tensors.
    at_once : bool
        1-D blocks only: quantise a tensor along both axes when it is read for the first time.

    Returns
    -------
    PassTraffic

    Raises
    ------
    ValueError
        If a size is no positive integer, tiles are not square, or a parameter is unknown.

    Notes
    -----
    With tiles each of X, W and dY is quantised once; with 1-D blocks twice, along the contraction
    axis of each of its two products: X along inputs and batch, W along inputs and outputs, dY along
    outputs and batch.

    Counted as moved are: for each quantisation all values of the tensor, read once, at 2 bytes
    (bfloat16) or 4; all its codes, packed, and its scale bytes, written once
    (`mxsafe.packing.to_bytes`, planar: ragged blocks are not filled up); and for each of the six
    operands of the three products its codes and scales, read once. With `at_once` the values are
    read once a tensor instead.

    Kept are, with tiles, the codes and scales of X and W. With 1-D blocks the codes of the forward
    product serve no gradient: X and W are kept in high precision for their second quantisation, or
    with `at_once` in the codes and scales of that. dY comes into being in the backward pass, and a
    high-precision W that only the optimiser needs is no part of the pass.

    Not counted are what is the same for all blocks: results, and operands that an array reads
    again for other tiles of a result; and tiles on their way through a transposer between memory
    and array, which writes nothing back.
    """
    sizes = [
        require_positive_integer(name, size)
        for name, size in (("batch", batch), ("inputs", inputs), ("outputs", outputs))
    ]
    fmt = mx_format(format)
    blocked_axes(2, block, -1)
    tiled = isinstance(block, tuple | list)
    if isinstance(block, tuple | list) and block[0] != block[1]:
        raise ValueError(f"block must be a length or a square tile, not {tuple(block)}")
    if tiled and at_once:
        raise ValueError("at_once goes with 1-D blocks, but tiles were given")
    b, i, o = sizes
    shapes = {"x": (b, i), "w": (i, o), "dy": (b, o)}
    elements = {name: m * n * _SOURCE_BYTES[source] for name, (m, n) in shapes.items()}
    # By contraction axis; tiles have one image for both.
    packed = {
        (name, axis): _packed_bytes(shape, fmt, block, axis)
        for name, shape in shapes.items()
        for axis in (-1, -2)
    }
    operands_read = sum(packed.values())
    second = packed["x", -2] + packed["w", -1]
    return PassTraffic(
        quantisations=3 if tiled else 6,
        source_read=sum(elements.values()) * (1 if tiled or at_once else 2),
        written=operands_read // 2 if tiled else operands_read,
        operands_read=operands_read,
        kept=second if tiled or at_once else elements["x"] + elements["w"],
    )


def _packed_bytes(shape: tuple[int, int], fmt: MXFormat, block: Block, axis: int) -> int:
    """Bytes of a packed tensor: its codes, and a scale a block."""
    blocks = blocks_shape(shape, block_lengths(shape, blocked_axes(2, block, axis)))
    return -(-shape[0] * shape[1] * fmt.element.width // 8) + blocks[0] * blocks[1]
