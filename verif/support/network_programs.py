"""Programs of products, transformers and vectors for the simulated machine."""

from functools import cache

import numpy as np

import mxsafe as mx
from mxsafe.machine.compiler.emitter import Emitter, Pass
from mxsafe.machine.compiler.products import Products
from mxsafe.machine.compiler.transformer_shape import TransformerShape
from mxsafe.machine.compiler.transformers import Transformer
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.layout import NumberLayout
from verif.support.accelerator_checks import Program
from verif.support.transformer_reference import random_transformer, transformer_memory

__all__ = ["large_product_program", "product_program", "transformer_program", "vector_program"]


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
        matrix.write(memory, mx.quantize(x, matrix.format, block=64))
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
        matrix.write(memory, mx.quantize(x, matrix.format, block=64))
    return Program.of(products.emitter, memory)


@cache
def transformer_program(shape: TransformerShape, configuration: MachineConfiguration) -> Program:
    """A transformer with random weights."""
    transformer = Transformer(shape, configuration)
    weights = random_transformer(transformer, seed=1)
    return Program.of(transformer.emitter, transformer_memory(transformer, weights))


@cache
def vector_program(configuration: MachineConfiguration) -> Program:
    """Softmax of long rows that are loaded and stored, and no product."""
    emitter = Emitter(configuration)
    layout = NumberLayout(configuration=configuration, rows=100, columns=configuration.vector_lanes)
    given, found = emitter.vectors("given", layout), emitter.vectors("found", layout)
    rows = emitter.rows(layout.rows, 1, "rows")
    emitter.load_rows(given, range(1), rows)
    emitter.compute(rows, Pass(reduction="softmax", parameter=1.0), d=rows)
    emitter.store_rows(found, range(1), rows)
    memory = np.zeros(emitter.memory.used, np.uint8)
    x = np.random.default_rng(5).standard_normal((layout.rows, layout.columns))
    given.write(memory, x.astype(np.float32))
    return Program.of(emitter, memory)
