"""A training step of a perceptron, in tiles of 8x8 that serve both gradients."""

import math
from dataclasses import dataclass
from typing import Literal

from mxsafe.machine.compiler.emitter import Emitter, Pass
from mxsafe.machine.compiler.places import CompileError
from mxsafe.machine.compiler.tensors import Operand, Placed, Rows, Vectors
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.layout import Float32Layout, OperandLayout
from mxsafe.model.softmax import softmax_factor
from mxsafe.validation import PositiveInteger, checked, shown

_TILE = 8


@checked
@dataclass(frozen=True)
class PerceptronShape:
    """Sizes of a perceptron and of its step.

    Attributes
    ----------
    batch : int
        Samples.
    features : tuple of int
        Of the input, of each hidden layer, of the output. Layers have no bias: an input that is
        always 1 stands for it.
    rate : float
        Learning rate.
    function : {"relu", "gelu", "silu", "tanh"}
        Activation of hidden layers.

    Raises
    ------
    TypeError, ValueError
        If a size is not a positive integer, there is no layer, the rate is not finite or there is
        no such function.
    """

    batch: PositiveInteger
    features: tuple[PositiveInteger, ...]
    rate: float
    function: Literal["relu", "gelu", "silu", "tanh"] = "relu"

    def __post_init__(self) -> None:
        if len(self.features) < 2:
            raise ValueError(
                f"features must be those of the input and of at least one layer, not "
                f"{shown(self.features)}"
            )
        if not math.isfinite(self.rate):
            raise ValueError(f"rate must be finite, not {shown(self.rate)}")

    @property
    def layers(self) -> int:
        """Layers of weights."""
        return len(self.features) - 1


class PerceptronStep:
    """Forward pass, loss, both gradients and the update of weights, from bytes stored once.

    Every tensor is converted once, to tiles, and read in both orientations: transposed, its tiles
    are transposed on their way into a buffer. The loss is the cross-entropy of softmax.

    Attributes
    ----------
    shape : PerceptronShape
    emitter : Emitter
        The program.
    inputs : list of Operand
        What goes into each layer, samples by features; the first is the host's.
    weights : list of Operand
        Features out by features in; the step makes them new.
    masters : list of Vectors
        The same weights in binary32, features in by features out.
    targets : Vectors
        ``-t / batch`` with the probabilities t that are wanted, features by samples.
    probabilities : Vectors
        What softmax made, features by samples.

    Raises
    ------
    CompileError
        If it does not fit; the message has the numbers.
    """

    def __init__(self, shape: PerceptronShape, configuration: MachineConfiguration) -> None:
        for size in (shape.batch, *shape.features):
            if size % _TILE:
                raise CompileError(f"batch and features must be multiples of {_TILE}, not {size}")
        if shape.features[-1] > configuration.reduction_beats:
            raise CompileError(
                f"features of the output must be at most {configuration.reduction_beats}, the "
                f"longest row that is reduced, not {shape.features[-1]}"
            )
        self.shape = shape
        self.emitter = Emitter(configuration)
        f, batch = shape.features, shape.batch
        layers = range(shape.layers)
        self.inputs = [self._operand(f"inputs {i}", batch, f[i]) for i in layers]
        self.weights = [self._operand(f"weights {i}", f[i + 1], f[i]) for i in layers]
        self.masters = [self._numbers(f"masters {i}", f[i], f[i + 1]) for i in layers]
        self.targets = self._numbers("targets", f[-1], batch)
        self.probabilities = self._numbers("probabilities", f[-1], batch)
        self._sums = [self._numbers(f"sums {i}", f[i + 1], batch) for i in layers[:-1]]
        self._gradients = [self._operand(f"gradients {i}", batch, f[i + 1]) for i in layers]
        for layer in layers:
            self._forward(layer)
        for layer in reversed(layers):
            if layer:
                self._backward(layer)
            self._update(layer)

    def _operand(self, name: str, rows: int, columns: int) -> Operand:
        layout = OperandLayout(
            configuration=self.emitter.configuration,
            rows=rows,
            columns=columns,
            block=(_TILE, _TILE),
        )
        return self.emitter.operand(name, layout)

    def _numbers(self, name: str, rows: int, columns: int) -> Vectors:
        layout = Float32Layout(configuration=self.emitter.configuration, rows=rows, columns=columns)
        return self.emitter.vectors(name, layout)

    def _forward(self, layer: int) -> None:
        """Sums of a layer; then its activation as the next layer's input, or the loss."""
        e, weights, inputs = self.emitter, self.weights[layer], self.inputs[layer]
        last = layer + 1 == self.shape.layers
        for strip in range(inputs.layout.strips):
            x = e.load(inputs, range(strip, strip + 1), "w")
            row = e.rows(weights.layout.rows, 1, f"sums of layer {layer}")
            for part in range(weights.layout.strips):
                placed = e.load(weights, range(part, part + 1), "a")
                self._multiply(placed, x, row, part)
                e.free(placed)
            e.free(x)
            if last:
                self._loss(strip, row)
            else:
                e.store_rows(self._sums[layer], range(strip, strip + 1), row)
                work = Pass(function=self.shape.function)
                self._convert(row, work, self.inputs[layer + 1], strip)
            e.vector.free(row.start)

    def _loss(self, strip: int, row: Rows) -> None:
        """Gradient of the last sums: ``(softmax - target) / batch``."""
        e, strips = self.emitter, range(strip, strip + 1)
        lanes = self._lanes(self.targets, strip)
        work = Pass(reduction="softmax", parameter=float(softmax_factor()))
        e.compute(row, work, d=row, lanes=lanes)
        e.store_rows(self.probabilities, strips, row)
        target = e.rows(row.beats, 1, "targets")
        e.load_rows(self.targets, strips, target)
        work = Pass(arithmetic="axpy", parameter=1 / self.shape.batch, y=target)
        self._convert(row, work, self._gradients[-1], strip)
        e.vector.free(target.start)

    def _backward(self, layer: int) -> None:
        """Gradient of the sums of the layer before."""
        e, weights, gradients = self.emitter, self.weights[layer], self._gradients[layer]
        columns = -(-weights.layout.columns // e.configuration.rows)
        for strip in range(gradients.layout.strips):
            strips = range(strip, strip + 1)
            g = e.load(gradients, strips, "w")
            row = e.rows(weights.layout.columns, 1, f"gradients of layer {layer - 1}")
            for part in range(columns):
                placed = e.load_transposed(weights, range(part, part + 1), "a")
                self._multiply(placed, g, row, part)
                e.free(placed)
            e.free(g)
            slope = e.rows(row.beats, 1, f"sums of layer {layer - 1}")
            e.load_rows(self._sums[layer - 1], strips, slope)
            e.compute(slope, Pass(function=f"{self.shape.function}_derivative"), d=slope)
            work = Pass(arithmetic="multiply", y=slope)
            self._convert(row, work, self._gradients[layer - 1], strip)
            for rows in (row, slope):
                e.vector.free(rows.start)

    def _update(self, layer: int) -> None:
        """Gradient of the weights, and the weights after the step."""
        e, inputs, gradients = self.emitter, self.inputs[layer], self._gradients[layer]
        masters = self.masters[layer]
        parts = -(-inputs.layout.columns // e.configuration.rows)
        for strip in range(masters.layout.strips):
            strips = range(strip, strip + 1)
            g = e.load_transposed(gradients, strips, "w")
            row = e.rows(inputs.layout.columns, 1, f"gradients of weights {layer}")
            for part in range(parts):
                x = e.load_transposed(inputs, range(part, part + 1), "a")
                self._multiply(x, g, row, part)
                e.free(x)
            e.free(g)
            master = e.rows(row.beats, 1, masters.name)
            e.load_rows(masters, strips, master)
            work = Pass(arithmetic="axpy", parameter=-self.shape.rate, y=master)
            self._convert(row, work, self.weights[layer], strip, kept=True)
            e.store_rows(masters, strips, row)
            for rows in (row, master):
                e.vector.free(rows.start)

    def _multiply(self, a: Placed, w: Placed, row: Rows, part: int) -> None:
        """One tile of results into a row."""
        size = self.emitter.configuration.rows
        self.emitter.multiply(a, w, row.start + part * size, stride_a=0, stride_w=0)

    def _lanes(self, like: Vectors, strip: int) -> int:
        lanes = self.emitter.configuration.vector_lanes
        return min(lanes, like.layout.columns - strip * lanes)

    def _convert(
        self, row: Rows, work: Pass, operand: Operand, strip: int, *, kept: bool = False
    ) -> None:
        """A row to a strip of an operand in memory; perhaps it also stays where it is."""
        e, rows = self.emitter, self.emitter.configuration.rows
        out = e.place("out", operand, 1)
        lanes = min(rows, operand.layout.rows - strip * rows)
        e.compute(row, work, d=row if kept else None, out=out, lanes=lanes)
        e.store(out, operand, range(strip, strip + 1))
        e.free(out)
