"""Programs of products, transformers and vectors for the simulated machine."""

from dataclasses import replace
from functools import cache

import numpy as np

import mxsafe as mx
from mxsafe.machine.compiler.emitter import Emitter, Pass
from mxsafe.machine.compiler.products import Products
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.layout import Float32Layout
from verif.machine.compiler.graphs import Shape, layer, weights
from verif.machine.compiler.moves import load_rows, store_rows
from verif.machine.compiler.transformer_graphs import llama, vit
from verif.rtl.machine.accelerator_checks import Program

_BLOCK = 64
"""Numbers that share a scale."""


@cache
def product_program(configuration: MachineConfiguration) -> Program:
    """A product that is converted, and one of the result in bfloat16, both ragged."""
    products = Products(configuration)
    rng = np.random.default_rng(3)
    shapes = {"a": (21, 75), "w": (187, 75), "v": (10, 187)}
    matrices = {name: products.matrix(name, *shape) for name, shape in shapes.items()}
    hidden = products.converted(matrices["a"], matrices["w"].T)
    products.product(hidden, matrices["v"].T, "bfloat16")
    memory = np.zeros(products.emitter.memory.used, np.uint8)
    for matrix in matrices.values():
        x = rng.standard_normal(matrix.shape).astype(np.float32)
        matrix.write(memory, mx.quantize(x, matrix.format, block=_BLOCK))
    return Program.of(products.emitter, memory)


@cache
def tiles_program(configuration: MachineConfiguration) -> Program:
    """Two matrices in tiles that are loaded, multiplied, converted, stored and loaded again."""
    products, tiles = Products(configuration), (8, 8)
    turns = configuration.rows == 16
    a, w = products.matrix("a", 40, 150, tiles), products.matrix("w", 280, 150, tiles)
    hidden = products.converted(a, w.T)
    products.product(hidden.T, hidden) if turns else products.product(hidden, hidden.T)
    rng = np.random.default_rng(6)
    memory = np.zeros(products.emitter.memory.used, np.uint8)
    for matrix in (a, w):
        x = rng.standard_normal(matrix.shape).astype(np.float32)
        matrix.write(memory, mx.quantize(x, matrix.format, block=tiles))
    return Program.of(products.emitter, memory)


@cache
def large_product_program(configuration: MachineConfiguration) -> Program:
    """A product whose operands do not fit into the buffers."""
    products = Products(configuration)
    rng = np.random.default_rng(4)
    a, w = products.matrix("a", 384, 512), products.matrix("w", 512, 512)
    products.product(a, w.T)
    memory = np.zeros(products.emitter.memory.used, np.uint8)
    for matrix in (a, w):
        x = rng.standard_normal(matrix.shape).astype(np.float32)
        matrix.write(memory, mx.quantize(x, matrix.format, block=_BLOCK))
    return Program.of(products.emitter, memory)


@cache
def graph_program(configuration: MachineConfiguration) -> Program:
    """A layer of a transformer, compiled from a graph, with random weights."""
    shape = Shape(tokens=11, features=20, width=9, hidden=33)
    return Program.of_graph(layer(shape, weights(shape)), configuration)


@cache
def vision_program(
    sizes: tuple[int, int, int, int, int], configuration: MachineConfiguration
) -> Program:
    """A transformer with norms before its layers: tokens, features, heads, hidden, blocks."""
    return Program.of_graph(vit(*sizes), configuration)


@cache
def decoder_program(
    sizes: tuple[int, int, int, int, int, int], configuration: MachineConfiguration
) -> Program:
    """A decoder: tokens, features, heads, heads of keys, hidden, blocks."""
    return Program.of_graph(llama(*sizes), configuration)


@cache
def vector_program(configuration: MachineConfiguration) -> Program:
    """Softmax of long rows that are loaded and stored, and no product."""
    emitter = Emitter(configuration)
    layout = Float32Layout(
        configuration=configuration, rows=100, columns=configuration.vector_lanes
    )
    given, found = emitter.vectors("given", layout), emitter.vectors("found", layout)
    rows = emitter.rows(layout.rows, 1, "rows")
    load_rows(emitter, given, range(1), rows)
    emitter.compute(rows, Pass(reduction="softmax", parameter=1.0), d=rows)
    store_rows(emitter, found, range(1), rows)
    memory = np.zeros(emitter.memory.used, np.uint8)
    x = np.random.default_rng(5).standard_normal((layout.rows, layout.columns))
    given.write(memory, x.astype(np.float32))
    return Program.of(emitter, memory)


@cache
def converted_program(configuration: MachineConfiguration) -> Program:
    """Rows of all magnitudes that are converted into both buffers, block by block, and multiplied.

    A word of scales takes two blocks, whose scales differ. In each buffer each of them is once the
    last to be written, so that neither may change the other.
    """
    emitter, size = Emitter(configuration), configuration.rows
    strips, beats = 3, 2 * _BLOCK
    count = strips * size
    layout = Float32Layout(configuration=configuration, rows=beats, columns=count)
    sums = Float32Layout(configuration=configuration, rows=count, columns=count)
    given = emitter.vectors("given", layout)
    rows, result = emitter.rows(beats, strips, "rows"), emitter.rows(count, strips, "sums")
    load_rows(emitter, given, range(strips), rows)
    like = emitter.operand("converted", emitter.layout(count, beats))
    placed = {side: emitter.place(side, like, strips) for side in ("a", "w")}
    for order in ((0, 1), (1, 0)):
        for side, out in placed.items():
            for half in order if side == "a" else order[::-1]:
                begin = half * _BLOCK
                x = replace(rows, start=rows.start + begin, beats=_BLOCK)
                codes, scales = out.codes + begin // configuration.lanes, out.scales + half
                emitter.compute(x, Pass(), out=replace(out, codes=codes, scales=scales))
        emitter.multiply(
            placed["a"], placed["w"], result.start, stride_a=size, stride_w=result.stride
        )
        store_rows(emitter, emitter.vectors(f"found {order}", sums), range(strips), result)
    memory = np.zeros(emitter.memory.used, np.uint8)
    rng = np.random.default_rng(6)
    exponents = rng.integers(-40, 40, (2, count))
    exponents[1] = exponents[0] + rng.choice([-8, -7, -6, 6, 7, 8], count)
    values = rng.uniform(-4, 4, (beats, count)) * np.exp2(np.repeat(exponents, _BLOCK, axis=0))
    given.write(memory, values.astype(np.float32))
    return Program.of(emitter, memory)
