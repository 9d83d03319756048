"""Products of every orientation, block and result on the interpreter, against `mx.matmul`."""

from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal, cast

import numpy as np
import pytest

import mxsafe as mx
from mxsafe.formats import MXFormat
from mxsafe.machine.assembler import Assembler
from mxsafe.machine.compiler.emitter import Emitter
from mxsafe.machine.compiler.places import CompileError
from mxsafe.machine.compiler.products import Matrix, Products
from mxsafe.machine.compiler.timing import predict
from mxsafe.machine.configuration import WINDOW_MACHINE, MachineConfiguration
from mxsafe.machine.layout import narrowed
from mxsafe.model.machine import Machine
from mxsafe.model.vector_arithmetic import add
from verif.machine.machine_schedules import run_in_any_order
from verif.machine.machine_sizes import machine_of
from verif.rtl.machine.power_up import powered_up
from verif.support.quantized import assert_same
from verif.support.tests import Volume, raises, some

TILES = (8, 8)
SMALL_SIZES = {
    "a_beats": 256,
    "w_beats": 512,
    "out_beats": 64,
    "vector_banks": 2,
    "bank_beats": 128,
}
MACHINE = MachineConfiguration(**SMALL_SIZES)
EIGHT = replace(MACHINE, rows=8, unit_rows=2)
WINDOWS = replace(MACHINE, arithmetic="window")
# Which of both operands is stored as its transpose: with tiles all four are possible.
ORIENTATIONS = {"X W": (False, False), "dY W^T": (False, True), "X^T dY": (True, False)}
ORIENTATIONS["X^T W^T"] = (True, True)
SHAPES = [(16, 64, 16), (37, 83, 50), (1, 1, 1), (5, 130, 300), (150, 20, 13)]
LONG = (19, 1500, 21)
"""k does not fit into the buffers."""


def _quantised(
    rng: np.random.Generator, rows: int, columns: int, block: Any, format: Any = "mxsf"
) -> Any:
    x = rng.standard_normal((rows, columns)) * 2.0 ** rng.integers(-6, 6, (rows, 1))
    return mx.quantize(x.astype(np.float32), format, block=block)


def _operands(
    products: Products, shape: tuple[int, int, int], block: Any, stored: tuple[bool, bool]
) -> tuple[tuple[Matrix, Any], tuple[Matrix, Any]]:
    """A and W, as they are multiplied, each with its numbers."""
    rng = np.random.default_rng(sum(shape))
    m, k, n = shape
    pairs = []
    formats = products.emitter.configuration.formats
    for name, size, turned, fmt in (
        ("a", (m, k), stored[0], formats.w),
        ("w", (k, n), stored[1], formats.a),
    ):
        rows, columns = size[::-1] if turned else size
        matrix, q = (
            products.matrix(name, rows, columns, block, cast(MXFormat, fmt)),
            _quantised(rng, rows, columns, block, fmt),
        )
        pairs.append((matrix.T, q.T) if turned else (matrix, q))
    return pairs[0], pairs[1]


def _run(products: Products, written: list[tuple[Matrix, Any]]) -> Any:
    """Memory after the program, which must move what was predicted."""
    configuration = products.emitter.configuration
    memory = np.full(products.emitter.memory.used, 0xA5, np.uint8)
    for matrix, q in written:
        matrix.write(memory, q)
    program = Assembler(configuration).assemble(products.emitter.program())
    outcome = powered_up(configuration, seed=1).run(program, memory)
    assert outcome.error == "none", outcome.reason
    predicted = predict(products.emitter)
    assert outcome.words_read == predicted.words_read
    assert outcome.words_written == predicted.words_written
    return memory


def _part(q: Any, axis: int, k: range) -> Any:
    """Whole blocks of k of a matrix."""
    length = q.block if isinstance(q.block, int) else q.block[axis]
    codes = q.codes.take(k, axis)
    scales = q.scales.take(range(k.start // length, -(-k.stop // length)), axis)
    return replace(q, codes=codes, scales=scales)


def _expected(products: Products, a: tuple[Matrix, Any], w: tuple[Matrix, Any]) -> Any:
    """The product; with arithmetic window the sum of those of the parts of k."""
    arithmetic = products.emitter.configuration.arithmetic
    if arithmetic != "window":
        return mx.matmul(a[1], w[1], arithmetic=arithmetic)
    total = None
    for k in products.parts(a[0], w[0]):
        part = mx.matmul(_part(a[1], 1, k), _part(w[1], 0, k), arithmetic=arithmetic)
        total = part if total is None else add(total, part)
    return total


def _check_sums(
    configuration: MachineConfiguration,
    shape: tuple[int, int, int],
    block: Any,
    stored: tuple[bool, bool],
    number: Literal["float32", "bfloat16"],
) -> None:
    products = Products(configuration)
    a, w = _operands(products, shape, block, stored)
    result = products.product(a[0], w[0], number)
    memory = _run(products, [a, w])
    expected = _expected(products, a, w).view(np.uint32)
    assert expected.any()
    if number == "bfloat16":
        expected = narrowed(expected).astype(np.uint32) << np.uint32(16)
    assert np.array_equal(result.read(memory).view(np.uint32), expected)
    # Lanes that are missing in memory are +0.
    place = result.vectors
    size = place.layout.strips * place.layout.strip_bytes
    packed = place.layout.packed(expected.view(np.float32).T)
    assert np.array_equal(memory[place.address : place.address + size], packed)


def _check_converted(
    configuration: MachineConfiguration,
    shape: tuple[int, int, int],
    blocks: tuple[Any, Any],
    stored: tuple[bool, bool],
) -> None:
    products = Products(configuration)
    a, w = _operands(products, shape, blocks[0], stored)
    result = products.converted(a[0], w[0], blocks[1])
    memory = _run(products, [a, w])
    exact = _expected(products, a, w)
    expected = mx.quantize(exact, configuration.conversion_format, block=blocks[1])
    found = result.read(memory)
    assert found.shape == expected.shape == (shape[0], shape[2])
    assert_same(found, expected)
    # What is in memory is what the host would write there, with 0 where there is no number.
    image = memory.copy()
    result.write(image, expected)
    assert np.array_equal(memory, image)


def _stored(block: Any, orientation: str) -> tuple[bool, bool]:
    """Blocks of 64 lie along k: W is stored as its transpose."""
    return ORIENTATIONS[orientation] if block == TILES else (False, True)


CASES = [(TILES, name) for name in ORIENTATIONS] + [(64, "X W")]


@pytest.mark.parametrize("arithmetic", ["exact", "fp12", "window"])
@pytest.mark.parametrize("number", some(["bfloat16", "float32"]))
@pytest.mark.parametrize(("block", "orientation"), CASES)
def test_sums(block: Any, orientation: str, number: Any, arithmetic: Any, volume: Volume) -> None:
    configuration = replace(MACHINE, arithmetic=arithmetic)
    shapes = [*SHAPES, LONG]
    if arithmetic != "exact" and orientation != "X W":  # the default run has them in the other
        shapes = shapes[: volume(3, len(shapes))]
    for shape in shapes:
        _check_sums(configuration, shape, block, _stored(block, orientation), number)


@pytest.mark.parametrize("arithmetic", some(["exact", "fp12", "window"]))
@pytest.mark.parametrize("to", [64, TILES])
@pytest.mark.parametrize(("block", "orientation"), CASES)
def test_converted(block: Any, orientation: str, to: Any, arithmetic: Any) -> None:
    configuration = replace(MACHINE, arithmetic=arithmetic)
    for shape in [*SHAPES, LONG]:
        _check_converted(configuration, shape, (block, to), _stored(block, orientation))


@pytest.mark.parametrize(
    "formats", [("mxfp4_e2m1", "mxfp4_e2m1"), ("mxfp4_e2m1", "mxsf"), ("mxsf", "mxfp4_e2m1")]
)
@pytest.mark.parametrize(("block", "orientation"), CASES)
def test_codes_of_four_bits(block: Any, orientation: str, formats: tuple[str, str]) -> None:
    """On one side or on both, converted to them or not."""
    configuration = replace(MACHINE, format_a=formats[0], format_w=formats[1])
    for shape in [*SHAPES, LONG]:
        stored = _stored(block, orientation)
        _check_sums(configuration, shape, block, stored, "float32")
        _check_converted(configuration, shape, (block, block), stored)


@pytest.mark.parametrize("block", [64, TILES])
@pytest.mark.parametrize(("format", "bits"), [("mxsf", 8), ("mxfp4_e2m1", 4)])
def test_bits_that_an_element_moves(format: str, bits: int, block: Any) -> None:
    """By the counters: a scale for 64 elements, whatever their block is."""
    configuration = MachineConfiguration(format_a=format, format_w=format)
    products, size = Products(configuration), 256
    a, w = _operands(products, (size, size, size), block, (False, True))
    _ = products.converted(a[0], w[0])
    memory = np.zeros(products.emitter.memory.used, np.uint8)
    program = Assembler(configuration).assemble(products.emitter.program())
    outcome = Machine(configuration).run(program, memory)
    word = 8 * configuration.word_bytes
    assert outcome.words_read * word == 2 * size**2 * (bits + 1 / 8)
    assert outcome.words_written * word == size**2 * (bits + 1 / 8)


@pytest.mark.parametrize("block", [64, TILES])
def test_parts_of_k_of_windows(block: Any) -> None:
    """4,096 values of k, or fewer so that a buffer holds two strips."""
    for machine, ends in ((WINDOW_MACHINE, [4096, 8192, 10000]), (WINDOWS, [384, 768, 1152, 1500])):
        products = Products(machine)
        a, w = products.matrix("a", 5, ends[-1], block), products.matrix("w", 5, ends[-1], block)
        found = products.parts(a, w.T)
        assert found == [range(first, stop) for first, stop in pairwise([0, *ends])]


def test_parts_of_tiles_have_room_beside_results() -> None:
    """In a vector buffer of two tiles: results take half of it, and a part of k the other half."""
    machine = replace(WINDOWS, vector_banks=1, bank_beats=32)
    _check_sums(machine, (16, 1500, 40), 64, (False, True), "float32")


def test_products_that_windows_do_not_hold() -> None:
    e = Emitter(replace(WINDOW_MACHINE, a_beats=4096))
    long = e.operand("long", e.layout(16, 4160))
    placed = {side: e.place(side, long, 1) for side in ("a", "w")}
    with raises(
        CompileError, "k of a product must be at most 4096 with arithmetic window, not 4160"
    ):
        e.multiply(placed["a"], placed["w"], 0, stride_a=0, stride_w=0)


@pytest.mark.parametrize("block", [32, 64, TILES])
def test_machines_of_8_rows(block: Any) -> None:
    for shape in SHAPES:
        _check_sums(EIGHT, shape, block, (False, True), "float32")
        _check_converted(EIGHT, shape, (block, 64), (False, True))
        _check_converted(EIGHT, shape, (block, TILES), (False, True))


def test_a_layer_and_its_gradients_from_bytes_stored_once() -> None:
    """Three products of three matrices in one program, two of them read in both orientations."""
    products = Products(MACHINE)
    rng = np.random.default_rng(5)
    sizes = {"x": (40, 27), "w": (27, 20), "dy": (40, 20)}
    matrices = {name: products.matrix(name, *size, TILES) for name, size in sizes.items()}
    q = {name: _quantised(rng, *size, TILES) for name, size in sizes.items()}
    x, w, dy = matrices.values()
    results = [products.product(*pair) for pair in ((x, w), (dy, w.T), (x.T, dy))]
    memory = _run(products, [(matrices[name], q[name]) for name in sizes])
    pairs = (q["x"], q["w"]), (q["dy"], q["w"].T), (q["x"].T, q["dy"])
    for result, pair in zip(results, pairs, strict=True):
        expected = mx.matmul(*pair, arithmetic="exact")
        assert np.array_equal(result.read(memory).view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("block", [64, TILES])
def test_a_converted_product_is_multiplied_again(block: Any) -> None:
    products = Products(MACHINE)
    first, second = _operands(products, (21, 70, 27), block, _stored(block, "X W"))
    hidden = products.converted(first[0], second[0])
    down = products.matrix("down", 11, 27, block)
    q = _quantised(np.random.default_rng(9), 11, 27, block)
    result = products.product(hidden, down.T)
    memory = _run(products, [first, second, (down, q)])
    exact = mx.quantize(mx.matmul(first[1], second[1], arithmetic="exact"), block=block)
    expected = mx.matmul(exact, q.T, arithmetic="exact")
    assert np.array_equal(result.read(memory).view(np.uint32), expected.view(np.uint32))
    if block == TILES:  # and across
        other = Products(MACHINE)
        a, w = _operands(other, (21, 70, 27), block, (False, False))
        gram = other.converted(a[0], w[0])
        result = other.product(gram.T, gram)
        memory = _run(other, [a, w])
        exact = mx.quantize(mx.matmul(a[1], w[1], arithmetic="exact"), block=block)
        expected = mx.matmul(exact.T, exact, arithmetic="exact")
        assert np.array_equal(result.read(memory).view(np.uint32), expected.view(np.uint32))


def _numbers(rng: np.random.Generator, rows: int, columns: int) -> Any:
    x = rng.standard_normal((rows, columns)) * 2.0 ** rng.integers(-6, 6, (rows, 1))
    return narrowed(x.astype(np.float32).view(np.uint32))


@pytest.mark.parametrize("rows", [4, 8, 16])
@pytest.mark.parametrize("orientation", ORIENTATIONS)
@pytest.mark.parametrize("shape", [(37, 83, 50), (1, 1, 1), LONG])
def test_products_of_numbers(rows: int, orientation: str, shape: tuple[int, int, int]) -> None:
    """Of any k, also of one that buffers do not hold, in every orientation that a machine reads."""
    products = Products(machine_of(rows, **SMALL_SIZES, arithmetic="bf16"))
    rng, (m, k, n), pairs = np.random.default_rng(4), shape, []
    for name, size, turned in zip("aw", ((m, k), (k, n)), ORIENTATIONS[orientation], strict=True):
        matrix = products.matrix(name, *(size[::-1] if turned else size))
        q = _numbers(rng, *matrix.shape)
        pairs.append((matrix.T, q.T) if turned else (matrix, q))
    (a, left), (w, right) = pairs
    if rows == 4 and orientation != "dY W^T":
        with pytest.raises(CompileError, match="must have a multiple of 8 columns and strips of 8"):
            products.product(a, w)
        return
    sums, converted = products.product(a, w), products.converted(a, w)
    memory = _run(products, pairs)
    expected = mx.model.bf16_matmul(left, right)
    assert np.array_equal(sums.read(memory).view(np.uint32), expected.view(np.uint32))
    found = converted.read(memory)
    assert np.array_equal(found, narrowed(expected.view(np.uint32)))
    assert (len(products.parts(a, w)) > 1) == (shape == LONG)


def test_a_converted_product_of_numbers_is_multiplied_across() -> None:
    products = Products(machine_of(8, **SMALL_SIZES, arithmetic="bf16"))
    rng = np.random.default_rng(6)
    a, w = products.matrix("a", 21, 70), products.matrix("w", 27, 70)
    given = [(a, _numbers(rng, 21, 70)), (w, _numbers(rng, 27, 70))]
    gram = products.converted(a, w.T)
    result = products.product(gram.T, gram)
    memory = _run(products, given)
    exact = narrowed(mx.model.bf16_matmul(given[0][1], given[1][1].T).view(np.uint32))
    expected = mx.model.bf16_matmul(exact.T, exact)
    assert np.array_equal(result.read(memory).view(np.uint32), expected.view(np.uint32))


def test_numbers_are_refused_where_they_do_not_fit() -> None:
    products = Products(machine_of(8, arithmetic="bf16"))
    a = products.matrix("a", 4, 8)
    memory = np.zeros(products.emitter.memory.used, np.uint8)
    with raises(ValueError, "q must be bf16 of shape (4, 8), not bf16 of shape (8, 4)"):
        a.write(memory, np.zeros((8, 4), np.uint16))
    with raises(ValueError, "q must be bf16 of shape (4, 8), not mxsf of shape (4, 8)"):
        a.write(memory, mx.quantize(np.zeros((4, 8), np.float32)))
    with raises(ValueError, "block must be 4 without scales, not 64"):
        products.matrix("b", 4, 8, 64)


def test_default_machine() -> None:
    """Sides that fit, and that do not, beside converted results of two parts."""
    for shape in ((130, 300, 530), (300, 1030, 70)):
        _check_sums(MachineConfiguration(), shape, 64, (False, True), "float32")
        _check_converted(MachineConfiguration(), shape, (64, 64), (False, True))


@pytest.mark.parametrize("block", [64, TILES])
@pytest.mark.parametrize("shape", [(512, 2048, 512), (512, 512, 2048)])
def test_large_products_keep_the_array_busy(shape: tuple[int, int, int], block: Any) -> None:
    products = Products(MachineConfiguration())
    m, k, n = shape
    a = products.matrix("a", m, k, block)
    w = products.matrix("w", k, n, block) if block == TILES else products.matrix("w", n, k).T
    products.product(a, w)
    predicted = predict(products.emitter)
    assert predicted.array_busy == m * k * n // 16 // 16 // 4
    assert predicted.array_busy > 0.97 * predicted.cycles
    # A tile of results needs both of its strips, and the panels of one side pass once.
    once = (m + n) * k
    assert once < 32 * predicted.words_read < 6 * once


def test_two_formats() -> None:
    """Weights of 4 bits from the right, MXSF from the left."""
    configuration = replace(MACHINE, format_a="mxfp4_e2m1")
    products = Products(configuration)
    a = products.matrix("a", 21, 100)
    w = products.matrix("w", 30, 100, format="mxfp4_e2m1").T
    rng = np.random.default_rng(3)
    qa = _quantised(rng, 21, 100, 64)
    qw = mx.quantize(rng.standard_normal((30, 100)).astype(np.float32), "mxfp4_e2m1", block=64).T
    result = products.product(a, w)
    memory = _run(products, [(a, qa), (w, qw)])
    expected = mx.matmul(qa, qw, arithmetic="exact")
    assert np.array_equal(result.read(memory).view(np.uint32), expected.view(np.uint32))
    with raises(CompileError, "a must be mxsf on this machine, not mxfp4_e2m1"):
        products.product(w.T, a.T)


@pytest.mark.parametrize("converts", [False, True])
def test_tokens_order_a_product(converts: bool) -> None:
    products = Products(MACHINE)
    (a, qa), (w, qw) = _operands(products, (150, 83, 170), TILES, (True, False))
    _ = products.converted(a, w) if converts else products.product(a, w)
    before = np.zeros(products.emitter.memory.used, np.uint8)
    a.write(before, qa)
    w.write(before, qw)
    images = [before.copy() for _ in range(3)]
    for seed, image in enumerate(images):
        run_in_any_order(products.emitter.program(), image, MACHINE, seed)
    assert not np.array_equal(images[0], before)
    assert all(np.array_equal(image, images[0]) for image in images[1:])


@pytest.mark.parametrize(
    ("a", "w", "message"),
    [
        ((20, 30), (40, 10), "w must have the 30 rows that a has columns, not 40"),
        (
            (20, 30),
            (30, 10),
            "w must have tiles of 8x8, a multiple of 8 columns and strips of 16 rows to be "
            "transposed, not blocks of 64, 10 columns and strips of 16",
        ),
    ],
)
def test_what_does_not_fit_is_refused(a: tuple[int, int], w: tuple[int, int], message: str) -> None:
    products = Products(MACHINE)
    with raises(CompileError, message):
        products.product(products.matrix("a", *a), products.matrix("w", *w))


@pytest.mark.parametrize(
    ("machine", "w", "message"),
    [
        (MACHINE, (10, 300, TILES), "w must have blocks of 64 like a, not of (8, 8)"),
        # 128 values of k are the fewest that are loaded together.
        (
            replace(MACHINE, a_beats=16),
            (10, 300),
            "1 strips of w must fit into 16 free places of buffer a (16 in all), not 32",
        ),
    ],
)
def test_blocks_must_be_equal_and_fit(
    machine: MachineConfiguration, w: tuple[Any, ...], message: str
) -> None:
    products = Products(machine)
    with raises(CompileError, message):
        products.product(products.matrix("a", 20, 300), products.matrix("w", *w).T)


@pytest.mark.parametrize("block", [32, TILES])
def test_what_is_not_converted_is_refused(block: Any) -> None:
    products = Products(replace(MACHINE, conversions=("blocks",)))
    a, w = products.matrix("a", 20, 30), products.matrix("w", 10, 30)
    with raises(
        CompileError, f"block of a converted product must be 64 on this machine, not {block}"
    ):
        products.converted(a, w.T, block)


def test_matrices_are_checked() -> None:
    a = Products(MACHINE).matrix("a", 20, 30)
    memory = np.zeros(4096, np.uint8)
    with raises(TypeError, "q must be a QuantizedTensor, not ndarray"):
        a.write(memory, np.zeros((20, 30)))
    q = mx.quantize(np.ones((30, 20), np.float32))
    with raises(ValueError, "q must be mxsf of shape (20, 30), not mxsf of shape (30, 20)"):
        a.write(memory, q)
