"""Compiled transformers on the interpreter, against the same networks in NumPy and in float64."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import mxsafe as mx
from mxsafe.machine.assembler import Assembler
from mxsafe.machine.compiler.places import CompileError
from mxsafe.machine.compiler.timing import predict
from mxsafe.machine.compiler.transformer_shape import TransformerShape, rotary_tables
from mxsafe.machine.compiler.transformers import Transformer
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.description import DESCRIPTORS, STORE_BUFFERS
from verif.machine.compiler.transformer_reference import (
    random_transformer,
    transformer_float64,
    transformer_keys,
    transformer_memory,
    transformer_output,
)
from verif.machine.machine_schedules import run_in_any_order
from verif.rtl.machine.power_up import powered_up
from verif.support.tests import by_turns, raises, refused, some

DEIT_TINY = TransformerShape(tokens=197, features=192, heads=3, hidden=768, blocks=1)
VISION = TransformerShape(tokens=21, features=64, heads=2, hidden=96, blocks=2)
DECODER = TransformerShape.decoder(
    tokens=37, features=64, heads=4, key_heads=2, hidden=96, blocks=2
)
DEFAULT = MachineConfiguration()
SMALL = MachineConfiguration(a_beats=512, w_beats=1024, vector_banks=2, bank_beats=512)
TIGHT = MachineConfiguration(a_beats=84, w_beats=224, vector_banks=2, bank_beats=256)
"""Attention takes a strip of queries at a time, and weights are loaded again and again."""
SHORT = MachineConfiguration(a_beats=512, w_beats=400, vector_banks=2, bank_beats=256)
"""Sums of seven strips do not stay in the vector buffer, nor hidden ones in that of operand w."""
EIGHT = replace(SMALL, rows=8, unit_rows=2, arithmetic="fp12", affine=False, w_beats=2048)


def _check(shape: TransformerShape, configuration: MachineConfiguration) -> float:
    """Bits of the models must come out; return the distance from float64."""
    transformer = Transformer(shape, configuration)
    weights = random_transformer(transformer, seed=3)
    memory = transformer_memory(transformer, weights)
    program = Assembler(configuration).assemble(transformer.emitter.program())
    outcome = powered_up(configuration, seed=1).run(program, memory)
    assert outcome.error == "none", outcome.reason
    found = transformer.outputs.read(memory).T
    expected = transformer_output(transformer, weights)
    assert expected.shape == (shape.tokens, shape.features)
    packed = transformer.outputs.layout.packed(expected.T)  # with +0 for tokens that there are not
    assert np.array_equal(memory[transformer.outputs.address :][: len(packed)], packed)
    predicted = predict(transformer.emitter)
    assert outcome.words_read == predicted.words_read
    assert outcome.words_written == predicted.words_written
    exact = transformer_float64(shape, weights)
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))


def test_block_of_deit_tiny() -> None:
    """197 tokens are no whole number of strips."""
    error = _check(DEIT_TINY, DEFAULT)
    assert 0.002 < error < 0.03, error


@pytest.mark.parametrize(
    ("shape", "configuration", "sums"),
    [
        pytest.param(DECODER, TIGHT, 1, id="queries in parts"),
        pytest.param(replace(VISION, tokens=110, hidden=192), SHORT, 4, id="all in parts"),
        pytest.param(
            replace(DECODER, tokens=110, heads=2, key_heads=1, hidden=192, blocks=1),
            SHORT,
            2,
            id="decoder in parts",
            marks=pytest.mark.full,
        ),
    ],
)
def test_small_buffers(
    shape: TransformerShape, configuration: MachineConfiguration, sums: int
) -> None:
    """Sums are stored so often as they must, and softmax has a row at a time."""
    assert 0.001 < _check(shape, configuration) < 0.06
    transformer = Transformer(shape, configuration)
    steps = [(step.kind, step.fields) for step in transformer.emitter.steps]
    outputs = transformer.outputs
    stored = [
        f["count_0"] * f["count_1"]
        for kind, f in steps
        if kind == "store" and f["buffer"] == STORE_BUFFERS["vector"]
    ]
    assert sum(stored) == sums * outputs.layout.strips * outputs.strip_words
    reductions = DESCRIPTORS["vector"].field("reduction").enumeration
    assert reductions is not None
    softmax = [
        f["rows"]
        for kind, f in steps
        if kind == "vector" and f["reduction"] == reductions["softmax"]
    ]
    assert softmax == [1] * (shape.blocks * shape.heads * outputs.layout.strips)


SHAPES = {
    "vision": VISION,
    "decoder": DECODER,
    "one head": replace(DECODER, heads=1, key_heads=1, blocks=1),
    "one token, wide head": replace(
        DECODER, tokens=1, features=128, heads=1, key_heads=1, blocks=1
    ),
    "biased decoder": replace(DECODER, biased=True, rotary=False, blocks=1),
    "rotated": replace(VISION, causal=True, rotary=True, tokens=32, blocks=1),
}
MACHINES = {"16 rows": SMALL, "8 rows, fp12": EIGHT}


@pytest.mark.parametrize("case", some(by_turns(SHAPES, list(MACHINES))), ids="-".join)
def test_transformer_equals_numpy(case: tuple[str, str]) -> None:
    shape, machine = case
    error = _check(SHAPES[shape], MACHINES[machine])
    assert 0.001 < error < 0.06, error


def test_keys_and_values_are_in_memory() -> None:
    """Of every block, byte for byte as the host would write them: other programs can read them."""
    transformer = Transformer(DECODER, SMALL)
    weights = random_transformer(transformer, seed=4)
    memory = transformer_memory(transformer, weights)
    program = Assembler(SMALL).assemble(transformer.emitter.program())
    assert powered_up(SMALL, seed=1).run(program, memory).error == "none"
    compared = 0
    for block, (keys, values) in zip(
        transformer.blocks, transformer_keys(transformer, weights), strict=True
    ):
        assert len(block.keys) == len(keys) == DECODER.shared_heads
        for operand, matrix in zip([*block.keys, block.values], [*keys, values], strict=True):
            expected = mx.quantize(np.ascontiguousarray(matrix), block=64)
            codes, scales = operand.layout.packed(expected)
            assert np.array_equal(memory[operand.codes :][: len(codes)], codes)
            assert np.array_equal(memory[operand.scales :][: len(scales)], scales)
            compared += expected.codes.size
    assert compared == 2 * 2 * DECODER.tokens * DECODER.shared_heads * DECODER.width


@pytest.mark.parametrize(
    "shape", some([VISION, replace(DECODER, tokens=37)]), ids=["vision", "decoder"]
)
def test_tokens_order_a_transformer(shape: TransformerShape) -> None:
    transformer = Transformer(shape, SMALL)
    before = transformer_memory(transformer, random_transformer(transformer, seed=2))
    images = [before.copy() for _ in range(3)]
    for seed, image in enumerate(images):
        run_in_any_order(transformer.emitter.program(), image, SMALL, seed)
    assert not np.array_equal(images[0], before)
    assert all(np.array_equal(image, images[0]) for image in images[1:])


def test_tables_rotate_pairs() -> None:
    """Feature i and feature i + width / 2 are a complex number, turned by the position."""
    tokens, width, first = 50, 32, 7
    cosines, sines = rotary_tables(tokens, width, base=500.0, first=first)
    x = np.random.default_rng(1).standard_normal((width, tokens))
    half = width // 2
    found = x * cosines + np.roll(x, half, axis=0) * sines
    turns = np.exp(1j * np.outer(500.0 ** (-np.arange(half) / half), first + np.arange(tokens)))
    turned = (x[:half] + 1j * x[half:]) * turns
    assert np.allclose(found[:half], turned.real, atol=1e-6)
    assert np.allclose(found[half:], turned.imag, atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"heads": 8},
            "features of a head must be a multiple of 16 and divide a block of 64 or be a multiple "
            "of it, not 8",
        ),
        (
            {"tokens": 600},
            "tokens and features must be at most 512, the longest row that is reduced, not 600",
        ),
        (
            {"tokens": 500, "features": 256, "heads": 4},
            "32 strips of tokens must fit into 1024 free places of buffer w (1024 in all), "
            "not 2048",
        ),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, int], message: str) -> None:
    with raises(CompileError, message):
        Transformer(replace(DECODER, **changes), SMALL)


def test_functions_must_be_there() -> None:
    with raises(CompileError, "functions of the machine must have silu, not only ('gelu',)"):
        Transformer(DECODER, replace(SMALL, functions=("gelu",)))


test_heads_must_share_evenly = refused(
    partial(replace, DECODER),
    [
        ({"heads": 3}, "heads must divide the 64 features, not 3"),
        ({"key_heads": 3}, "key_heads must divide 4 heads, not 3"),
    ],
)
