"""Compiled networks on the interpreter, against the same network in NumPy."""

import numpy as np
import pytest

from mxsafe.machine.assembler import Assembler, Instruction
from mxsafe.machine.compiler.networks import Encoder, EncoderShape
from mxsafe.machine.compiler.places import CompileError
from mxsafe.machine.compiler.timing import predict
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.description import QUEUES
from verif.codec.encoder_reference import encoder_memory, encoder_output, random_encoder
from verif.machine.machine_schedules import run_in_any_order
from verif.rtl.machine.power_up import powered_up
from verif.support.tests import by_turns, raises, some

SMALL = EncoderShape(tokens=21, features=64, heads=2, hidden=96, blocks=2)
LONG = EncoderShape(tokens=50, features=32, heads=2, hidden=72, blocks=2)
"""Of four strips of tokens, or seven."""
MACHINES = {
    "16 rows": MachineConfiguration(a_beats=512, w_beats=512, vector_banks=2, bank_beats=256),
    "8 rows, fp12": MachineConfiguration(
        rows=8,
        arithmetic="fp12",
        affine=False,
        a_beats=512,
        w_beats=512,
        vector_banks=2,
        bank_beats=256,
    ),
}


SHAPES = {
    "short": SMALL,
    "long": LONG,
    "one token": EncoderShape(tokens=1, features=48, heads=3, hidden=40, blocks=1),
    "wide head": EncoderShape(
        tokens=16, features=128, heads=1, hidden=64, blocks=1, function="silu"
    ),
    "whole blocks": EncoderShape(tokens=8, features=192, heads=3, hidden=64, blocks=1),
}


@pytest.mark.parametrize("case", some(by_turns(SHAPES, list(MACHINES))), ids="-".join)
def test_encoder_equals_numpy(case: tuple[str, str]) -> None:
    shape, configuration = SHAPES[case[0]], MACHINES[case[1]]
    encoder = Encoder(shape, configuration)
    weights = random_encoder(encoder, seed=1)
    memory = encoder_memory(encoder, weights)
    program = Assembler(configuration).assemble(encoder.emitter.program())
    outcome = powered_up(configuration, seed=1).run(program, memory)
    assert outcome.error == "none", outcome.reason
    expected = encoder_output(encoder, weights)
    assert expected.shape == (shape.tokens, shape.features)
    packed = encoder.outputs.layout.packed(expected.T)  # with +0 for tokens that there are not
    assert np.array_equal(memory[encoder.outputs.address :][: len(packed)], packed)
    prediction = predict(encoder.emitter)
    assert (outcome.words_read, outcome.words_written) == (
        prediction.words_read,
        prediction.words_written,
    )


@pytest.mark.parametrize("shape", some([SMALL, LONG]))
def test_tokens_order_all_that_must_be_ordered(shape: EncoderShape) -> None:
    configuration = MACHINES["16 rows"]
    encoder = Encoder(shape, configuration)
    before = encoder_memory(encoder, random_encoder(encoder, seed=2))
    program = encoder.emitter.program()
    images = []
    for seed in range(2):
        images.append(before.copy())
        run_in_any_order(program, images[-1], configuration, seed)
    data = Assembler(configuration).assemble(program)
    for order in (QUEUES, QUEUES[::-1], ("vector", "load", "gemm", "store")):
        images.append(before.copy())
        outcome = powered_up(configuration, seed=1).run(data, images[-1], order=list(order))
        assert outcome.error == "none", outcome.reason
    assert not np.array_equal(images[0], before)
    for image in images[1:]:
        assert np.array_equal(image, images[0])


def test_blocks_of_minilm_keep_the_array_busy() -> None:
    """Each tensor is moved once, and a second block leaves few cycles without a beat."""
    configuration = MachineConfiguration()
    found = []
    for blocks in (1, 2):
        shape = EncoderShape(tokens=128, features=384, heads=12, hidden=1536, blocks=blocks)
        encoder = Encoder(shape, configuration)
        found.append(predict(encoder.emitter))
        idle = found[-1].idle()
        assert sum(idle.values()) == found[-1].cycles - found[-1].array_busy
        assert idle["tiles"] == blocks * 12 * 8 * 8 * (16 - 8)  # scores end in 8 beats
    vectors = [encoder.inputs, encoder.outputs, *encoder.embedding.values()]
    tensors = 0
    for block in encoder.blocks:
        vectors += block.numbers.values()
        for operand in block.operands.values():
            tensors += operand.layout.strips * (operand.code_words + operand.scale_words)
    tensors += sum(one.layout.strips * one.strip_words for one in vectors)
    one, two = found
    assert two.words_read + two.words_written == tensors
    assert one.array_busy > 0.86 * one.cycles
    assert two.array_busy - one.array_busy > 0.92 * (two.cycles - one.cycles)


def test_a_token_too_few_is_found() -> None:
    """Of the check above: without tokens from loads to products, something else comes out."""
    configuration = MACHINES["16 rows"]
    encoder = Encoder(SMALL, configuration)
    before = encoder_memory(encoder, random_encoder(encoder, seed=2))
    program = encoder.emitter.program()
    broken = []
    for instruction in program:
        values = {name: value for name, value in instruction.values.items() if name != "opcode"}
        if instruction.kind == "load":
            values["signal"] &= ~2
        if instruction.kind == "gemm":
            values["wait"] &= ~1
        broken.append(Instruction(instruction.kind, values))
    right, wrong = before.copy(), before.copy()
    run_in_any_order(program, right, configuration, 0)
    run_in_any_order(broken, wrong, configuration, 0)
    assert not np.array_equal(right, wrong)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (
            EncoderShape(tokens=21, features=60, heads=2, hidden=96, blocks=1),
            "features of a head must be a multiple of 16 and divide a block of 64 or be a "
            "multiple of it, not 30",
        ),
        (
            EncoderShape(tokens=400, features=64, heads=2, hidden=96, blocks=1),
            "sums of a layer must fit into 512 free places of the vector buffer (512 in all), "
            "not 1600",
        ),
    ],
)
def test_what_does_not_fit_is_refused(shape: EncoderShape, message: str) -> None:
    with raises(CompileError, message):
        Encoder(shape, MACHINES["16 rows"])
