"""Training passes on the simulated array and transposer, from tensors that are stored once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

import mxsafe as mx
from mxsafe.formats import MXFormat
from mxsafe.model.training import TrainingPass, require_pass, require_square_tiles
from verif.rtl.array.array_job import Job, Product, run_products
from verif.support.manifest import Module
from verif.support.stream_job import run_stream


@dataclass(frozen=True, eq=False)
class StoredTensor:
    """A quantised matrix as it lies in memory, in square tiles.

    Attributes
    ----------
    image : ndarray of uint8, rank 1
        Tile after tile in the C order of the tiles: the scale byte, then the tile's codes row by
        row, packed (`mxsafe.packing`, layout ``inline``). Tiles at an edge are filled up with zero
        codes. Nothing may write to it.
    format : MXFormat
        Format of the codes.
    shape : tuple of int
        Rows and columns of the matrix.
    size : int
        Rows and columns of a tile.
    """

    image: NDArray[np.uint8]
    format: MXFormat
    shape: tuple[int, int]
    size: int

    def __post_init__(self) -> None:
        self.image.flags.writeable = False

    @property
    def grid(self) -> tuple[int, int]:
        """Tiles down and across."""
        return -(-self.shape[0] // self.size), -(-self.shape[1] // self.size)

    @property
    def tiles(self) -> NDArray[np.uint8]:
        """The image, a row a tile: the scale byte, then the codes."""
        return self.image.reshape(self.grid[0] * self.grid[1], -1)

    def tensor(self) -> mx.QuantizedTensor:
        """The matrix that the bytes mean."""
        whole = (self.grid[0] * self.size, self.grid[1] * self.size)
        block = (self.size, self.size)
        q = mx.packing.from_bytes(self.image, self.format, whole, block=block, layout="inline")
        codes = q.codes[: self.shape[0], : self.shape[1]]
        return mx.QuantizedTensor(codes, q.scales, q.format, block, q.axis)


def store(q: mx.QuantizedTensor, name: str = "q") -> StoredTensor:
    """The bytes of a quantised matrix.

    Raises
    ------
    TypeError, ValueError
        If `q` is no quantised matrix of square tiles; the message begins with `name`.
    """
    require_square_tiles(name, q)
    size = cast(tuple[int, int], q.block)[0]
    rows, columns = q.shape
    codes = np.pad(q.codes, ((0, -rows % size), (0, -columns % size)))
    filled = mx.QuantizedTensor(codes, q.scales, q.format, q.block, q.axis)
    return StoredTensor(mx.packing.to_bytes(filled, "inline"), q.format, (rows, columns), size)


@dataclass(frozen=True)
class StoredLayer:
    """The three tensors of a training pass, each stored once.

    Attributes
    ----------
    x, w, dy : StoredTensor
        Input, weights and output gradient of a layer, see `mxsafe.model.training_pass`.
    """

    x: StoredTensor
    w: StoredTensor
    dy: StoredTensor


@dataclass(frozen=True)
class Hardware:
    """Hardware that training passes run on.

    Attributes
    ----------
    simulator : {"icarus", "verilator"}
    array : Module
        A systolic tensor array.
    transposer : Module
        A transposer for tiles of the stored tensors.
    stall : float
        How often each stream pauses, each by itself.
    alter : callable
        Called with each job of the array before it runs, to change it.
    """

    simulator: str
    array: Module
    transposer: Module
    stall: float = 0.0
    alter: Callable[[Job], None] = lambda job: None


@dataclass(frozen=True)
class Transposed:
    """Output of the transposer.

    Attributes
    ----------
    tensors : list of StoredTensor
    cycles : int
        Cycles from the first row of the first tile to the last column of the last.
    """

    tensors: list[StoredTensor]
    cycles: int


def _require_tiles(transposer: Module, stored: StoredTensor) -> None:
    size, bits = transposer.parameters["size"], transposer.parameters["element_bits"]
    width = stored.format.element.width
    if (stored.size, width) != (size, bits):
        raise ValueError(
            f"transposer must be for tiles of {stored.size}x{stored.size} codes of {width} bits, "
            f"not of {size}x{size} of {bits}"
        )


def transpose(hardware: Hardware, tensors: Sequence[StoredTensor]) -> Transposed:
    """Send stored tensors through the simulated transposer, a packet each.

    Tiles are read in the order of the transposed matrix. A row of a tile is whole bytes, the first
    code in the lowest bits, and so a beat as it is. The scale byte of a tile passes by.

    Raises
    ------
    ValueError
        If the transposer is for other tiles.
    AssertionError
        If the simulation fails, or packets of other lengths come out.
    """
    for stored in tensors:
        _require_tiles(hardware.transposer, stored)
    orders = [np.arange(len(s.tiles)).reshape(s.grid).T.ravel() for s in tensors]
    packets = [
        s.tiles[order, 1:].reshape(len(order) * s.size, -1)
        for s, order in zip(tensors, orders, strict=True)
    ]
    ends = np.cumsum([len(packet) for packet in packets])
    last = np.zeros(ends[-1], np.bool_)
    last[ends - 1] = True
    streamed = run_stream(
        hardware.simulator,
        hardware.transposer,
        {
            "s_axis_tdata": np.concatenate(packets),
            "s_axis_tlast": hardware.transposer.ports["s_axis_tlast"].words(last),
        },
        stall_in=hardware.stall,
        stall_out=hardware.stall,
    )
    came = (np.flatnonzero(streamed.words["m_axis_tlast"]) + 1).tolist()
    assert came == ends.tolist(), f"transposed packets end after beats {came}, not {ends.tolist()}"
    results = []
    parts = np.split(streamed.words["m_axis_tdata"], ends[:-1])
    for stored, order, columns in zip(tensors, orders, parts, strict=True):
        image = np.concatenate(
            [stored.tiles[order, :1], columns.reshape(len(order), -1)], axis=1
        ).ravel()
        results.append(StoredTensor(image, stored.format, stored.shape[::-1], stored.size))
    return Transposed(results, int(streamed.left[-1] - streamed.taken[0]) + 1)


@dataclass(frozen=True)
class PassProducts:
    """Operands of the products of a training pass, all from the bytes of X, W and dY.

    Attributes
    ----------
    y, dx, dw : tuple of QuantizedTensor
        ``X W``, ``dY W^T`` and ``X^T dY``.
    """

    y: Product
    dx: Product
    dw: Product


def pass_products(
    hardware: Hardware, layers: Sequence[StoredLayer]
) -> tuple[list[PassProducts], int]:
    """Transpose W and X of layers in the hardware, and give the operands of their products.

    Returns
    -------
    products : list of PassProducts
    cycles : int
        Cycles of the transposer.

    Raises
    ------
    TypeError, ValueError
        If the tensors are not those of a layer, or the hardware is for others.
    """
    parameters = hardware.array.parameters
    tensors = [tuple(s.tensor() for s in (one.x, one.w, one.dy)) for one in layers]
    for x, w, dy in tensors:
        require_pass(x, w, dy, arithmetic=parameters["arithmetic"], lanes=parameters["lanes"])
    turned = transpose(hardware, [s for one in layers for s in (one.w, one.x)])
    w_transposed, x_transposed = ([s.tensor() for s in turned.tensors[i::2]] for i in (0, 1))
    products = [
        PassProducts(y=(x, w), dx=(dy, w_t), dw=(x_t, dy))
        for (x, w, dy), w_t, x_t in zip(tensors, w_transposed, x_transposed, strict=True)
    ]
    return products, turned.cycles


@dataclass(frozen=True, eq=False)
class PassRun:
    """Results of training passes on the hardware.

    Attributes
    ----------
    passes : list of TrainingPass
        One a layer.
    array_cycles : int
        Cycles of the array for all products, one after the other without a pause.
    transposer_cycles : int
        Cycles of the transposer for W and X of all layers.
    """

    passes: list[TrainingPass]
    array_cycles: int
    transposer_cycles: int


def multiply(
    hardware: Hardware, products: Sequence[Product]
) -> tuple[list[NDArray[np.float32]], int]:
    """Products on the simulated array, and its cycles.

    Raises
    ------
    AssertionError
        If the simulation fails, or the array flags its results.
    """
    result = run_products(
        hardware.simulator,
        hardware.array,
        products,
        stall=hardware.stall,
        alter=hardware.alter,
    )
    assert not result.out_of_step.any(), "the operand streams were out of step"
    assert not result.overlong.any(), "a block was longer than the array's sums hold"
    return result.products, result.cycles


def run_passes(hardware: Hardware, layers: Sequence[StoredLayer]) -> PassRun:
    """Forward product and both gradients of linear layers on the simulated hardware.

    Raises
    ------
    TypeError, ValueError
        If the tensors are not those of a layer, or the hardware is for others.
    AssertionError
        If a simulation fails, or the array flags its results.
    """
    operands, transposer_cycles = pass_products(hardware, layers)
    products = [product for one in operands for product in (one.y, one.dx, one.dw)]
    results, array_cycles = multiply(hardware, products)
    passes = [
        TrainingPass(y=y, dx=dx, dw=dw)
        for y, dx, dw in zip(results[::3], results[1::3], results[2::3], strict=True)
    ]
    return PassRun(passes, array_cycles, transposer_cycles)
