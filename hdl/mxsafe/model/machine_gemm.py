"""Model of the machine's GEMM descriptors, bit for bit."""

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from mxsafe.codec import QuantizedTensor, quantize
from mxsafe.formats import MXFormat
from mxsafe.machine.assembler import Instruction
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.layout import narrowed
from mxsafe.model.bf16 import bf16_matmul
from mxsafe.model.gemm import ProductArithmetic, matmul
from mxsafe.model.machine_buffers import Buffers, OperandBuffer, require_within


def _codes(instruction: Instruction, side: str, buffer: OperandBuffer) -> NDArray[Any]:
    """All strips of one side as a matrix."""
    i = instruction
    strips = np.arange(i[f"strips_{side}"])[:, None]
    beats = i[f"{side}_codes"] + strips * i[f"{side}_stride"] + np.arange(i["beats"])
    require_within(f"operand beat of {side}", beats, len(buffer.codes))
    codes = buffer.codes[beats].swapaxes(1, 2)  # strips, rows, beats, lanes
    return codes.reshape(-1, codes.shape[2] * codes.shape[3])


def _operand(
    instruction: Instruction, side: str, buffer: OperandBuffer, fmt: MXFormat
) -> QuantizedTensor:
    """The same with scales, each row with those of its own."""
    i = instruction
    codes = _codes(i, side, buffer)
    strips = np.arange(i[f"strips_{side}"])[:, None]
    entries = -(-i["beats"] // i["block"])
    places = i[f"{side}_scales"] + strips * i[f"{side}_scale_stride"] + np.arange(entries)
    require_within(f"scale entry of {side}", places, len(buffer.scales))
    scales = buffer.scales[places].swapaxes(1, 2)
    return QuantizedTensor(
        # The array looks at no more bits than an element has.
        codes & np.uint8((1 << fmt.element.width) - 1),
        np.ascontiguousarray(scales).reshape(-1, entries),
        fmt,
        i["block"] * buffer.codes.shape[2],
        -1,
    )


def _product(
    instruction: Instruction,
    buffers: Buffers,
    configuration: MachineConfiguration,
    start: NDArray[np.float32] | None,
) -> NDArray[np.float32]:
    """Products of all strips of a with all of w."""
    a, w = buffers.operand("a"), buffers.operand("w")
    if not configuration.scaled:
        left, right = _codes(instruction, "a", a), _codes(instruction, "w", w)
        return bf16_matmul(left, right.T, lanes=configuration.lanes, start=start)
    return matmul(
        _operand(instruction, "a", a, cast(MXFormat, configuration.format_a)),
        _operand(instruction, "w", w, cast(MXFormat, configuration.format_w)).T,
        arithmetic=_arithmetic(configuration),
        lanes=configuration.lanes,
        start=start,
    )


def converted_product(
    a: NDArray[np.float32],
    w: NDArray[np.float32],
    configuration: MachineConfiguration,
    block: int | tuple[int, int],
) -> NDArray[np.float32]:
    """Product of what matrices are converted to, as the array computes it in one piece.

    Parameters
    ----------
    a : ndarray of float32, shape (M, K)
    w : ndarray of float32, shape (K, N)
    configuration : MachineConfiguration
        Of which arithmetic, formats and lanes count.
    block : int or tuple of int
        Of both operands: a length along the sum, or tiles. Numbers without scales have none.
    """
    lanes = configuration.lanes
    if not configuration.scaled:
        left, right = (narrowed(np.ascontiguousarray(x).view(np.uint32)) for x in (a, w))
        return bf16_matmul(left, right, lanes=lanes)
    fmt, axes = configuration.conversion_format, (-1, -1 if isinstance(block, tuple) else -2)
    q, r = (quantize(x, fmt, block=block, axis=at) for x, at in zip((a, w), axes, strict=True))
    return matmul(q, r, arithmetic=_arithmetic(configuration), lanes=lanes)


def _arithmetic(configuration: MachineConfiguration) -> ProductArithmetic:
    return cast(ProductArithmetic, configuration.arithmetic)


def gemm(
    instruction: Instruction,
    buffers: Buffers,
    configuration: MachineConfiguration,
    previous: NDArray[np.float32],
) -> NDArray[np.float32]:
    """Multiply strips and write the tiles; what the array holds afterwards is the last tile.

    Parameters
    ----------
    instruction : Instruction
    buffers : Buffers
    configuration : MachineConfiguration
    previous : ndarray of float32, shape (rows, columns)
        What the array held before.

    Raises
    ------
    MachineStop
        If an address is past the end of a buffer.
    """
    i = instruction
    product = _product(i, buffers, configuration, None if i["clear"] else previous)
    rows = configuration.rows
    tiles = product.reshape(i["strips_a"], rows, i["strips_w"], rows)
    # Each tile reads both strips again, their scales once a block and for anchors once more.
    pairs = i["strips_a"] * i["strips_w"]
    scales = configuration.entries(i["beats"], i["block"]) * (1 + configuration.anchored)
    for side in ("a", "w"):
        buffers.count_words(f"{side}_codes_read", pairs * i["beats"])
        buffers.accesses[f"{side}_scales_read"] += pairs * scales
    if i["write"]:
        tall = np.arange(i["strips_w"])[:, None, None] * i["result_stride_w"]
        wide = np.arange(i["strips_a"])[:, None] * i["result_stride_a"]
        places = (i["result"] + tall + wide + np.arange(rows)).reshape(i["strips_w"], -1)
        kept = np.arange(i["strips_a"] * rows) < (i["strips_a"] - 1) * rows + i["last_rows"]
        places = places[:, kept]
        require_within("vector beat of the result", places, len(buffers.vector))
        buffers.count_vectors("vector_written_gemm", places)
        beats = tiles.transpose(2, 0, 1, 3).reshape(i["strips_w"], -1, rows)[:, kept]
        buffers.vector[places.reshape(-1)] = (
            np.ascontiguousarray(beats).view(np.uint32).reshape(-1, rows)
        )
    return np.ascontiguousarray(tiles[-1, :, -1])
