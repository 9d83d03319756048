"""Model of the machine's GEMM descriptors, bit for bit."""

import numpy as np
from numpy.typing import NDArray

from mxsafe.codec import QuantizedTensor
from mxsafe.formats import MXFormat, mx_format
from mxsafe.machine.assembler import Instruction
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.model.gemm import matmul
from mxsafe.model.machine_buffers import Buffers, OperandBuffer, require_within


def _operand(
    instruction: Instruction, side: str, buffer: OperandBuffer, fmt: MXFormat
) -> QuantizedTensor:
    """All strips of one side as a matrix, each row with scales of its own."""
    i = instruction
    lanes = buffer.codes.shape[2]
    strips = np.arange(i[f"strips_{side}"])[:, None]
    entries = -(-i["beats"] // i["block"])
    beats = i[f"{side}_codes"] + strips * i[f"{side}_stride"] + np.arange(i["beats"])
    places = i[f"{side}_scales"] + strips * i[f"{side}_scale_stride"] + np.arange(entries)
    require_within(f"operand beat of {side}", beats, len(buffer.codes))
    require_within(f"scale entry of {side}", places, len(buffer.scales))
    codes = buffer.codes[beats].swapaxes(1, 2)  # strips, rows, beats, lanes
    scales = buffer.scales[places].swapaxes(1, 2)
    return QuantizedTensor(
        # The array looks at no more bits than an element has.
        codes.reshape(-1, codes.shape[2] * lanes) & np.uint8((1 << fmt.element.width) - 1),
        np.ascontiguousarray(scales).reshape(-1, entries),
        fmt,
        i["block"] * lanes,
        -1,
    )


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
    a = _operand(i, "a", buffers.operand("a"), mx_format(configuration.format_a))
    w = _operand(i, "w", buffers.operand("w"), mx_format(configuration.format_w))
    product = matmul(
        a,
        w.T,
        arithmetic=configuration.arithmetic,
        lanes=configuration.lanes,
        start=None if i["clear"] else previous,
    )
    rows = configuration.rows
    tiles = product.reshape(i["strips_a"], rows, i["strips_w"], rows)
    if i["write"]:
        tall = np.arange(i["strips_w"])[:, None, None] * i["result_stride_w"]
        wide = np.arange(i["strips_a"])[:, None] * i["result_stride_a"]
        places = (i["result"] + tall + wide + np.arange(rows)).reshape(i["strips_w"], -1)
        kept = np.arange(i["strips_a"] * rows) < (i["strips_a"] - 1) * rows + i["last_rows"]
        places = places[:, kept]
        require_within("vector beat of the result", places, len(buffers.vector))
        beats = tiles.transpose(2, 0, 1, 3).reshape(i["strips_w"], -1, rows)[:, kept]
        buffers.vector[places.reshape(-1)] = (
            np.ascontiguousarray(beats).view(np.uint32).reshape(-1, rows)
        )
    return np.ascontiguousarray(tiles[-1, :, -1])
