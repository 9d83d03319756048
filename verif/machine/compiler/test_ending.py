"""Compiled programs of any shape end: in the check, in processes of its own, in the prediction."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from mxsafe.machine.assembler import Assembler
from mxsafe.machine.compiler.emitter import Emitter, Pass
from mxsafe.machine.compiler.lowering import lowered
from mxsafe.machine.compiler.places import CompileError
from mxsafe.machine.compiler.products import Products
from mxsafe.machine.compiler.timing import predict
from mxsafe.machine.configuration import SMALL_MACHINE, MachineConfiguration
from mxsafe.machine.description import MOST_TOKENS
from mxsafe.model.machine import Machine
from verif.machine.compiler.training_graphs import perceptron_step
from verif.machine.compiler.transformer_graphs import bert, llama
from verif.rtl.machine.control.queue_checks import Program, expected
from verif.support.tests import some

DEFAULT = MachineConfiguration()
MACHINES = (DEFAULT, SMALL_MACHINE)


def _training(rng: np.random.Generator, machine: MachineConfiguration) -> Emitter:
    sizes = rng.integers(1, 257, int(rng.integers(2, 5)))
    graph = perceptron_step(int(rng.integers(1, 129)), sizes.tolist())
    return lowered(graph, machine, (8, 8)).emitter


def _encoder(rng: np.random.Generator, machine: MachineConfiguration) -> Emitter:
    heads = int(rng.integers(1, 7))
    features = heads * int(rng.integers(1, 65))
    tokens, hidden, blocks = (int(rng.integers(1, most)) for most in (200, 800, 3))
    return lowered(bert(tokens, features, heads, hidden, blocks), machine).emitter


def _decoder(rng: np.random.Generator, machine: MachineConfiguration) -> Emitter:
    keys, shared = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    features = keys * shared * 2 * int(rng.integers(1, 33))
    tokens, hidden, blocks = (int(rng.integers(1, most)) for most in (300, 800, 3))
    graph = llama(tokens, features, keys * shared, keys, hidden, blocks)
    return lowered(graph, machine).emitter


def _products(rng: np.random.Generator, machine: MachineConfiguration) -> Emitter:
    products = Products(machine)
    for number in range(int(rng.integers(1, 4))):
        m, k, n = map(int, rng.integers(1, rng.choice([100, 400]), 3))
        block = machine.block_beats * machine.lanes
        products.product(
            products.matrix(f"a{number}", m, k, block), products.matrix(f"w{number}", n, k, block).T
        )
    return products.emitter


BUILDERS: dict[str, Callable[[np.random.Generator, MachineConfiguration], Emitter]] = {
    "training": _training,
    "encoder": _encoder,
    "decoder": _decoder,
    "products": _products,
}


def _programs(builder: str, count: int) -> Iterator[Emitter]:
    """Of random shapes, those that fit on a machine."""
    rng = np.random.default_rng(6)
    tries = 0
    while count:
        tries += 1
        assert tries < 1000, "hardly a shape fits"
        try:
            made = BUILDERS[builder](rng, MACHINES[tries % 2])
        except CompileError:
            continue
        count -= 1
        yield made


@pytest.mark.parametrize("count", [4, pytest.param(150, marks=pytest.mark.full)])
@pytest.mark.parametrize("builder", BUILDERS)
def test_programs_of_any_shape_end(builder: str, count: int) -> None:
    checked = signals = 0
    for emitter in _programs(builder, count):
        headers = emitter.headers()
        columns = map(list, zip(*headers, strict=True))
        program = Program(*columns, payload=[0] * len(headers))  # type: ignore[misc]
        depth = emitter.configuration.queue_depth
        found = expected(program, depth=depth, most_tokens=MOST_TOKENS)
        assert found.error == 0
        assert sum(map(len, found.started)) == len(headers) == len(predict(emitter).runs)
        checked += 1
        signals += sum(header.signal.bit_count() for header in headers)
    assert checked == count
    assert signals > 10 * count


@pytest.mark.parametrize("features", some([(784, 64, 16), (784, 256, 16)]))
def test_more_panels_than_a_counter_holds(features: tuple[int, ...]) -> None:
    """All fit into a buffer before any of their places is used again."""
    emitter = lowered(perceptron_step(64, features), DEFAULT, (8, 8)).emitter
    program = Assembler(DEFAULT).assemble(emitter.program())
    outcome = Machine().run(program, np.zeros(emitter.memory.used, np.uint8))
    assert (outcome.error, outcome.reason) == ("none", "")
    predicted = predict(emitter)
    assert (outcome.words_read, outcome.words_written) == (
        predicted.words_read,
        predicted.words_written,
    )


def test_an_emitter_refuses_a_program_that_never_ends() -> None:
    """A signal that is lost: the emitter, the prediction and the assembler say where."""
    emitter = Emitter(DEFAULT)
    rows = emitter.rows(4, 1, "rows")
    emitter.compute(rows, Pass(), d=rows)
    emitter.compute(rows, Pass(function="relu"), d=rows)
    program = emitter.program()
    emitter.ordering.waits[1] = 1
    message = r"^descriptor 1: it waits for a token of load for ever$"
    for make in (emitter.program, lambda: predict(emitter)):
        with pytest.raises(CompileError, match=message):
            make()
    waits = Assembler(DEFAULT).vector(to_vector=1, wait="load")
    with pytest.raises(ValueError, match=message):
        Assembler(DEFAULT).assemble([program[0], waits])
