"""Whole programs on the interpreter: what needs all queues, against models put together by hand."""

from typing import Any

import numpy as np
import pytest

import mxsafe as mx
from mxsafe import model
from mxsafe.codec import QuantizedTensor
from mxsafe.machine.assembler import Assembler, Instruction
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.layout import Float32Layout, OperandLayout
from mxsafe.model.machine import Machine
from mxsafe.model.softmax import softmax_factor
from verif.machine.machine_image import Image

Floats = np.ndarray[Any, np.dtype[np.float32]]

TOKENS, WIDTH, HEAD = 24, 32, 16


def normal(*shape: int, seed: int) -> Floats:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def put_operand(
    image: Image, side: str, q: QuantizedTensor, beat: int, entry: int
) -> list[Instruction]:
    """Loads of an operand to a place in a buffer, its strips one after the other."""
    configuration = image.configuration
    assembler, size = Assembler(configuration), configuration.word_bytes
    layout = OperandLayout(
        configuration=configuration, rows=q.shape[0], columns=q.shape[1], block=q.block
    )
    places = {"codes": 2 * beat, "scales": entry // 2}
    return [
        assembler.load(
            buffer=f"{side}_{part}",
            address=image.put(data),
            count_0=len(data) // size,
            to=places[part],
        )
        for part, data in zip(places, layout.packed(q), strict=True)
    ]


def attention(x: Floats, weights: dict[str, Floats], arithmetic: Any) -> Floats:
    """The context of one head, transposed: features by tokens."""

    def product(a: QuantizedTensor, w: QuantizedTensor) -> Floats:
        return mx.matmul(a, w.T, arithmetic=arithmetic)

    def strips(values: Floats) -> QuantizedTensor:
        return mx.quantize(np.ascontiguousarray(values))

    own, by_head = strips(x), {name: strips(w) for name, w in weights.items()}
    queries, keys = (strips(product(by_head[name], own).T) for name in ("queries", "keys"))
    values = strips(product(own, by_head["values"]).T)
    scores = product(keys, queries)  # keys by queries
    chances = model.softmax(scores, axis=0, scale=0.25)
    return product(values, strips(chances.T))


@pytest.mark.parametrize("arithmetic", ["fp12", "exact"])
def test_attention(arithmetic: Any) -> None:
    configuration = MachineConfiguration(arithmetic=arithmetic)
    assembler, image = Assembler(configuration), Image(configuration)
    x = normal(TOKENS, WIDTH, seed=1)
    names = ("queries", "keys", "values")
    weights = {name: normal(HEAD, WIDTH, seed=2 + at) for at, name in enumerate(names)}
    # Buffer a: weights of queries and keys, then tokens; w: tokens, then weights of values.
    loads = [
        *put_operand(image, "a", mx.quantize(weights["queries"]), 0, 0),
        *put_operand(image, "a", mx.quantize(weights["keys"]), 8, 2),
        *put_operand(image, "a", mx.quantize(x), 16, 4),
        *put_operand(image, "w", mx.quantize(x), 0, 0),
        *put_operand(image, "w", mx.quantize(weights["values"]), 16, 4),
    ]
    result = Float32Layout(configuration=configuration, rows=HEAD, columns=TOKENS)
    address = image.room(result.strips * result.strip_bytes)
    last = {name: value for name, value in loads.pop().values.items() if name != "opcode"}
    head: dict[str, Any] = {"beats": 8, "block": 16, "signal": "vector"}
    by_tokens: dict[str, Any] = {"w_stride": 8, "w_scale_stride": 2, "strips_w": 2}
    convert: dict[str, Any] = {"convert": "blocks", "rows": 2, "wait": "gemm", "signal": "gemm"}
    program = [
        *loads,
        Instruction("load", {**last, "signal": 0b10}),
        # Queries and keys, features by tokens, become strips of tokens.
        assembler.gemm(wait="load", **head, **by_tokens, result_stride_w=16),
        assembler.vector(**convert, x_stride=16, beats=16, target="w", out=100, out_stride=4,
                         out_scales=50, out_scale_stride=1),
        assembler.gemm(wait="vector", **head, **by_tokens, a_codes=8, a_scales=2, result=100,
                       result_stride_w=16),
        assembler.vector(**convert, x=100, x_stride=16, beats=16, target="a", out=100,
                         out_stride=4, out_scales=50, out_scale_stride=1),
        # Values, tokens by features, become strips of features.
        assembler.gemm(wait="vector", **head, a_codes=16, a_scales=4, a_stride=8, strips_a=2,
                       a_scale_stride=2, w_codes=16, w_scales=4, last_rows=8, result=200,
                       result_stride_a=16),
        assembler.vector(**{**convert, "rows": 1}, x=200, beats=TOKENS, target="a", out=120,
                         out_scales=60),
        # Scores, keys by queries; softmax along the keys; strips of queries.
        assembler.gemm(wait="vector", **{**head, "beats": 4}, a_codes=100, a_stride=4,
                       a_scales=50, a_scale_stride=1, w_codes=100, w_stride=4, w_scales=50,
                       w_scale_stride=1, strips_a=2, strips_w=2, last_rows=8, result=300,
                       result_stride_a=16, result_stride_w=TOKENS),
        assembler.vector(**convert, x=300, x_stride=TOKENS, beats=TOKENS, reduction="softmax",
                         parameter=float(softmax_factor(0.25)), target="w", out=120,
                         out_stride=6, out_scales=60, out_scale_stride=1),
        assembler.gemm(wait="vector", **{**head, "beats": 6, "signal": "store"}, a_codes=120,
                       a_scales=60, w_codes=120, w_stride=6, w_scales=60, w_scale_stride=1,
                       strips_w=2, result=400, result_stride_w=16),
        assembler.store(wait="gemm", buffer="vector", address=address, count_0=64,
                        **{"from": 800}),
    ]  # fmt: skip
    memory = image.memory
    outcome = Machine(configuration).run(assembler.assemble(program), memory)
    assert outcome.error == "none", outcome
    found = result.unpacked(memory[address:])
    expected = attention(x, weights, arithmetic)
    assert found.shape == (HEAD, TOKENS)
    assert np.array_equal(found.view(np.uint32), expected.view(np.uint32))
    # Judged by float64 as well.
    queries, keys, values = (x.astype(np.float64) @ weights[name].T for name in names)
    chances = np.exp(0.25 * queries @ keys.T)
    context = chances / chances.sum(axis=1, keepdims=True) @ values
    assert np.linalg.norm(found.T - context) < 0.1 * np.linalg.norm(context)


@pytest.mark.parametrize("arithmetic", ["fp12", "exact"])
def test_a_training_pass_from_tiles_that_are_stored_once(arithmetic: Any) -> None:
    """Y = X W, dX = dY W^T and dW = X^T dY; X^T and W^T are made by LOAD."""
    configuration = MachineConfiguration(arithmetic=arithmetic)
    batch, inputs, outputs = 32, 48, 16
    x, w, dy = (
        mx.quantize(normal(*shape, seed=at), block=(8, 8))
        for at, shape in enumerate([(batch, inputs), (inputs, outputs), (batch, outputs)])
    )
    expected = model.training_pass(x, w, dy, arithmetic=arithmetic)
    image = Image(configuration)
    stored = {"x": x, "w": w, "dy": dy}
    places = {name: [image.put(p) for p in _packed(configuration, q)] for name, q in stored.items()}
    results, memory_of = {}, {}
    for name, shape in (
        ("y", (batch, outputs)),
        ("dx", (batch, inputs)),
        ("dw", (inputs, outputs)),
    ):
        results[name] = Float32Layout(configuration=configuration, rows=shape[0], columns=shape[1])
        memory_of[name] = image.room(results[name].strips * results[name].strip_bytes)
    memory = image.memory
    sides = {"y": ("x", "w^T"), "dx": ("dy", "w"), "dw": ("x^T", "dy^T")}
    for name, (left, right) in sides.items():
        program = _product(configuration, stored, places, (left, right), memory_of[name])
        assert Machine(configuration).run(program, memory).error == "none"
        layout = results[name]
        size = layout.strips * layout.strip_bytes
        found = layout.unpacked(memory[memory_of[name] : memory_of[name] + size])
        one = getattr(expected, name)
        assert np.array_equal(found.view(np.uint32), one.view(np.uint32)), name


def _packed(configuration: MachineConfiguration, q: QuantizedTensor) -> tuple[Any, Any]:
    layout = OperandLayout(
        configuration=configuration, rows=q.shape[0], columns=q.shape[1], block=(8, 8)
    )
    return layout.packed(q)


def _loads(
    configuration: MachineConfiguration, side: str, shape: tuple[int, int], places: list[int],
    turned: bool,
) -> list[Instruction]:  # fmt: skip
    """Loads of a stored operand, or of its transpose; all lengths are multiples of 16."""
    assembler = Assembler(configuration)
    rows, columns = shape
    beats, entries = columns // 4, columns // 8
    if not turned:
        return [
            assembler.load(
                buffer=f"{side}_codes", address=places[0], count_0=rows // 16 * beats * 2
            ),
            assembler.load(
                buffer=f"{side}_scales",
                packing="tiles",
                address=places[1],
                count_0=entries // 2,
                count_1=rows // 16,
                stride_1=-(-entries // 16),
                step_1=entries // 2,
            ),
        ]
    codes = [
        assembler.load(
            buffer=f"{side}_codes", transpose=1, address=places[0] + 128 * parity, to=parity,
            count_0=4, step_0=2, count_1=entries // 2, stride_1=8, step_1=rows // 2,
            count_2=rows // 16, stride_2=2 * beats, step_2=8,
        )
        for parity in (0, 1)
    ]  # fmt: skip
    scales = assembler.load(
        buffer=f"{side}_scales", transpose=1, packing="tiles", address=places[1],
        count_0=entries // 2, step_0=rows // 16, count_1=rows // 16, stride_1=-(-entries // 16),
        step_1=1,
    )  # fmt: skip
    return [*codes, scales]


def _product(
    configuration: MachineConfiguration,
    stored: dict[str, QuantizedTensor],
    places: dict[str, list[int]],
    names: tuple[str, str],
    address: int,
) -> bytes:
    """A program of the product of two stored operands, rows of the second as columns."""
    assembler = Assembler(configuration)
    loads: list[Instruction] = []
    shapes = []
    for side, name in zip("aw", names, strict=True):
        own, _, turn = name.partition("^")
        shape = stored[own].shape
        loads += _loads(configuration, side, (shape[0], shape[1]), places[own], turn == "T")
        shapes.append(shape[::-1] if turn else shape)
    (tall, inner), (wide, _) = shapes
    last = {name: value for name, value in loads.pop().values.items() if name != "opcode"}
    beats, entries = inner // 4, inner // 8
    return assembler.assemble(
        [
            *loads,
            Instruction("load", {**last, "signal": 0b10}),
            assembler.gemm(
                wait="load", signal="store", strips_a=tall // 16, strips_w=wide // 16, beats=beats,
                block=2, a_stride=beats, w_stride=beats, a_scale_stride=entries,
                w_scale_stride=entries, result_stride_a=16, result_stride_w=tall,
            ),
            assembler.store(
                wait="gemm", buffer="vector", address=address, count_0=tall * wide // 16 * 2
            ),
        ]
    )  # fmt: skip
