"""Numbers of a network whose products run on the simulated array and transposer."""

from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

import mxsafe as mx
from mxsafe.formats import MXFormat
from studies.training.array import Hardware, StoredTensor, multiply, store, transpose
from studies.training.network import Microscaling, Stored, Underflow


@dataclass(frozen=True)
class Operand:
    """A stored tensor as it goes into a product.

    Attributes
    ----------
    stored : StoredTensor
    through_transposer : bool
        It goes through the transposer on its way.
    """

    stored: StoredTensor
    through_transposer: bool = False

    @property
    def T(self) -> "Operand":
        """The transposed matrix, of the same bytes."""
        return replace(self, through_transposer=not self.through_transposer)


@dataclass(eq=False)
class _Matrix:
    """A matrix that is quantised and stored when a product first needs it."""

    quantised: Stored
    numbers: "ArrayNumbers"
    operand: Operand | None = None

    def along(self, axis: int) -> Operand:
        if self.operand is None:
            self.operand = Operand(store(self.quantised.along(axis)))
            self.numbers.stored.append(self.operand.stored)
        return self.operand

    @property
    def underflow(self) -> Underflow:
        return self.quantised.underflow


@dataclass(eq=False)
class ArrayNumbers:
    """Matrices in square tiles, quantised and stored once, and multiplied by the hardware.

    Parameters
    ----------
    hardware : Hardware
        Array and transposer; the size of the transposer is that of the tiles.
    format : str or MXFormat
        Format of the array.

    Attributes
    ----------
    stored : list of StoredTensor
        Everything that was stored, in order.
    array_cycles, transposer_cycles : int
        Cycles so far, of the products and of the transposed operands.
    """

    hardware: Hardware
    format: str | MXFormat = "mxsf"
    stored: list[StoredTensor] = field(default_factory=list, init=False)
    array_cycles: int = field(default=0, init=False)
    transposer_cycles: int = field(default=0, init=False)

    def store(self, x: NDArray[np.float32]) -> _Matrix:
        """Keep a matrix, to be quantised when a product first needs it."""
        size = cast(int, self.hardware.transposer.parameters["size"])
        return _Matrix(Microscaling(format=self.format, block=(size, size)).store(x), self)

    def product(self, a: Operand, w: Operand, /) -> NDArray[np.float32]:
        """A product on the simulated array; operands that are transposed go to the transposer."""
        (result,), cycles = multiply(self.hardware, [(self._tensor(a), self._tensor(w))])
        self.array_cycles += cycles
        return result

    def _tensor(self, operand: Operand) -> mx.QuantizedTensor:
        stored = operand.stored
        if operand.through_transposer:
            transposed = transpose(self.hardware, [stored])
            self.transposer_cycles += transposed.cycles
            (stored,) = transposed.tensors
        return stored.tensor()
