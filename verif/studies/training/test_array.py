"""Training passes on hardware: every bit, where its bytes come from, and what is broken."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import mxsafe as mx
from mxsafe.codec import numpy_engine
from mxsafe.model.gemm import Arithmetic
from studies.training import array
from studies.training.array import Hardware, StoredTensor, Transposed, run_passes, store, transpose
from studies.training.checks import check_passes, random_layer, stored
from verif.rtl.array.array_checks import small_array
from verif.rtl.array.array_job import Job, Product, Result
from verif.rtl.stream.transposer_checks import transposer
from verif.support.checkers import assert_equal
from verif.support.manifest import Module
from verif.support.quantized import assert_same
from verif.support.simulators import SIMULATORS
from verif.support.tests import Volume, available, raises, some, typical
from verif.support.units import mutated

ARITHMETICS: tuple[Arithmetic, ...] = ("fp12", "exact")
SHAPES = {"x": (10, 20, 13), "w": (3, 1, 9), "dy": (18, 9, 5), "": (11, 17, 10)}
"""Batch, inputs and outputs, ragged in tiles of 8 and arrays of 4 and 16: by what has a NaN scale.

The last layer has extreme scales instead.
"""
SPOILT = {"x": {"y", "dw"}, "w": {"y", "dx"}, "dy": {"dx", "dw"}}


@pytest.mark.parametrize("simulator", some(SIMULATORS))
@pytest.mark.parametrize("arithmetic", typical(ARITHMETICS[::-1]))
def test_passes(
    simulator: str, arithmetic: Arithmetic, modules: dict[str, Module], volume: Volume
) -> None:
    available(simulator)
    module = {
        "icarus": lambda: small_array(arithmetic),
        "verilator": lambda: modules["mxsf_sta" if arithmetic == "fp12" else "mxsf_sta_exact"],
    }[simulator]()
    shapes = dict(list(SHAPES.items())[-volume(2, len(SHAPES)) :])
    rng = np.random.default_rng(21)
    layers = [
        random_layer(rng, *shape, nan=nan, extreme=0 if nan else 0.4)
        for nan, shape in shapes.items()
    ]
    scales = np.concatenate([tensor.scales.ravel() for tensor in layers[-1]])
    assert (scales < 8).any()
    assert (scales > 246).any()
    hardware = Hardware(simulator, module, modules["transposer"], stall=0.15)
    run, compared = check_passes(hardware, layers)
    assert compared == sum(b * o + b * i + i * o for b, i, o in shapes.values())
    for nan, one in zip(shapes, run.passes, strict=True):
        products = {name: getattr(one, name) for name in ("y", "dx", "dw")}
        if nan:
            assert {n for n, values in products.items() if np.isnan(values).any()} == SPOILT[nan]
        assert any(np.isfinite(values[values != 0]).any() for values in products.values())


@pytest.mark.parametrize("shape", [(10, 20), (8, 8), (3, 1)])
@pytest.mark.parametrize("fmt", ["mxsf", "mxfp6_e3m2", "mxfp4_e2m1"])
def test_stored_bytes(shape: tuple[int, int], fmt: str) -> None:
    """They mean the tensor, cannot be written to, and lie where the layout says."""
    q = mx.quantize(np.random.default_rng(5).standard_normal(shape), fmt, block=(8, 8))
    image = store(q)
    width = q.format.element.width
    assert image.tiles.shape == (image.grid[0] * image.grid[1], 1 + 8 * width)
    again = image.tensor()
    assert_same(again, q)
    row, column = shape[0] - 1, shape[1] - 1
    tile = image.tiles[-1]
    beat = int.from_bytes(bytes(tile[1 + row % 8 * width :][:width]), "little")
    assert tile[0] == q.scales[-1, -1]
    assert beat >> column % 8 * width & ((1 << width) - 1) == q.codes[row, column]
    with pytest.raises(ValueError, match="read-only"):
        image.image[0] = 0


def check_transposed(simulator: str, module: Module, sta: Module, fmt: str) -> int:
    """The bytes of transposed matrices are those of the matrices, transposed; returns how many."""
    rng = np.random.default_rng(6)
    tensors = [
        mx.quantize(rng.standard_normal(shape), fmt, block=(8, 8)) for shape in ((20, 10), (8, 40))
    ]
    hardware = Hardware(simulator, sta, module, stall=0.2)
    transposed = transpose(hardware, [store(q) for q in tensors])
    compared = 0
    for q, one in zip(tensors, transposed.tensors, strict=True):
        assert one.shape == q.T.shape
        compared += assert_equal("image", one.image, store(q.T).image)
    return compared


def test_transposed_bytes(simulator: str, modules: dict[str, Module]) -> None:
    check_transposed(simulator, modules["transposer"], modules["mxsf_sta"], "mxsf")


def test_transposed_codes_of_six_bits(modules: dict[str, Module]) -> None:
    """Four codes are three bytes, and a row of a tile is six."""
    module = transposer(size=8, element_bits=6)
    check_transposed(available("icarus"), module, modules["mxsf_sta"], "mxfp6_e3m2")


def software(
    simulator: str, module: Module, products: Sequence[Product], **options: object
) -> Result:
    """`run_products` without a simulation."""
    parameters = module.parameters
    results = [
        mx.matmul(a, w, arithmetic=parameters["arithmetic"], lanes=parameters["lanes"])
        for a, w in products
    ]
    none = np.zeros(1, np.bool_)
    return Result(results, tiles=1, cycles=1, ideal=1, out_of_step=none, overlong=none)


def turned(hardware: Hardware, tensors: Sequence[StoredTensor]) -> Transposed:
    """`transpose` without a simulation."""
    return Transposed([store(one.tensor().T) for one in tensors], cycles=1)


@pytest.fixture
def simulated_by_numpy(modules: dict[str, Module], monkeypatch: pytest.MonkeyPatch) -> Hardware:
    """Hardware of which the model takes the place."""
    monkeypatch.setattr(array, "run_products", software)
    monkeypatch.setattr(array, "transpose", turned)
    return Hardware("icarus", modules["mxsf_sta"], modules["transposer"])


def test_nothing_is_quantised_again(
    simulated_by_numpy: Hardware, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One quantisation a tensor, before the pass."""
    calls = []
    quantize_part = numpy_engine.quantize_part

    def counted(*arguments: object) -> None:
        calls.append(arguments)
        quantize_part(*arguments)

    monkeypatch.setattr(numpy_engine, "quantize_part", counted)
    layer = random_layer(np.random.default_rng(23), 10, 20, 13)
    assert len(calls) == 3
    check_passes(simulated_by_numpy, [layer])
    assert len(calls) == 3


class Captured(Exception):  # noqa: N818
    """The job is known; there is no need to run it."""


@dataclass(frozen=True)
class Lines:
    """Rows or columns of a stored tensor, as an operand has them: a byte by line and k."""

    stored: StoredTensor
    are_rows: bool

    @property
    def shape(self) -> tuple[int, int]:
        """Lines, and values of k."""
        return self.stored.shape if self.are_rows else self.stored.shape[::-1]

    def _place(self, line: int, k: int) -> tuple[int, int]:
        """Where the tile of an element starts, and the element itself."""
        row, column = (line, k) if self.are_rows else (k, line)
        tile = (row // 8 * self.stored.grid[1] + column // 8) * 65
        return tile, tile + 1 + row % 8 * 8 + column % 8

    def code(self, line: int, k: int) -> int:
        """Zero outside of the tensor."""
        inside = line < self.shape[0] and k < self.shape[1]
        return int(self.stored.image[self._place(line, k)[1]]) if inside else 0

    def scale(self, line: int, k: int) -> int:
        """127 for lines outside of the tensor."""
        inside = line < self.shape[0]
        return int(self.stored.image[self._place(line, k)[0]]) if inside else 127


def test_every_beat_comes_from_the_stored_bytes(modules: dict[str, Module]) -> None:
    """Codes and scales of all operand beats against the bytes of X, W and dY at their addresses."""
    layer = stored(random_layer(np.random.default_rng(24), 21, 12, 19))
    jobs: list[Job] = []

    def capture(job: Job) -> None:
        jobs.append(job)
        raise Captured

    hardware = Hardware(
        available("icarus"), modules["mxsf_sta"], modules["transposer"], alter=capture
    )
    with pytest.raises(Captured):
        run_passes(hardware, [layer])
    sides = {
        side: hardware.array.ports[f"s_axis_{side}_tdata"].split(jobs[0][side])
        for side in ("a", "w")
    }
    expected: dict[str, list[list[int]]] = {"a": [], "w": []}
    for a, w in (
        (Lines(layer.x, True), Lines(layer.w, False)),
        (Lines(layer.dy, True), Lines(layer.w, True)),
        (Lines(layer.x, False), Lines(layer.dy, False)),
    ):
        assert a.shape[1] == w.shape[1]
        tiles = [range(0, lines.shape[0], 16) for lines in (a, w)]
        for starts in product(*tiles):
            for k in range(0, a.shape[1], 4):
                for side, lines, start in zip("aw", (a, w), starts, strict=True):
                    beat = range(start, start + 16)
                    codes = [lines.code(line, k + lane) for line in beat for lane in range(4)]
                    expected[side].append(codes + [lines.scale(line, k) for line in beat])
    for side, beats in expected.items():
        assert_equal(f"beats of {side}", sides[side], np.array(beats))


Transpose = Callable[[Hardware, Sequence[StoredTensor]], Transposed]


def _changed(
    one: StoredTensor, change: Callable[[NDArray[np.uint8], NDArray[np.uint8]], None]
) -> StoredTensor:
    """The transposed tensor, after `change` of its tiles, given those that went in too."""
    order = np.arange(len(one.tiles)).reshape(one.grid).T.ravel()
    tiles = store(one.tensor().T).tiles.copy()
    change(tiles, one.tiles[order])
    return StoredTensor(tiles.ravel(), one.format, one.shape[::-1], one.size)


def transposer_skipped(hardware: Hardware, tensors: Sequence[StoredTensor]) -> Transposed:
    """Tiles in the order of the transposed matrix, each as it was."""

    def as_it_was(tiles: NDArray[np.uint8], entered: NDArray[np.uint8]) -> None:
        tiles[:] = entered

    return Transposed([_changed(one, as_it_was) for one in tensors], cycles=1)


def scales_of_the_next_tiles(hardware: Hardware, tensors: Sequence[StoredTensor]) -> Transposed:
    def moved(tiles: NDArray[np.uint8], entered: NDArray[np.uint8]) -> None:
        tiles[:, 0] = np.roll(entered[:, 0], 1)

    return Transposed([_changed(one, moved) for one in tensors], cycles=1)


def input_of_the_next_layer(hardware: Hardware, tensors: Sequence[StoredTensor]) -> Transposed:
    results = turned(hardware, tensors).tensors
    return Transposed([results[i] for i in (0, 3, 2, 1)], cycles=1)


@pytest.mark.parametrize(
    "broken", [transposer_skipped, scales_of_the_next_tiles, input_of_the_next_layer]
)
def test_wrong_driver_is_found(
    broken: Transpose, simulated_by_numpy: Hardware, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(25)
    layers = [random_layer(rng, 24, 16, 8, extreme=0) for _ in range(2)]
    check_passes(simulated_by_numpy, layers)
    monkeypatch.setattr(array, "transpose", broken)
    with pytest.raises(AssertionError, match=r"^(dx|dw): \d+ of \d+ differ"):
        check_passes(simulated_by_numpy, layers)


TRANSPOSERS = {
    "tiles leave as they came": ("= ~ is_downwards", "= is_downwards", "(dx|dw): .* differ"),
    "the last tile stays": (
        "assign packet_ends = is_padding | ",
        "assign packet_ends = is_padding & ",
        "packets end after beats",
    ),
}


@pytest.mark.parametrize("mutation", TRANSPOSERS)
def test_wrong_transposer_is_found(
    mutation: str, modules: dict[str, Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    right, wrong, message = TRANSPOSERS[mutation]
    module = mutated(modules["transposer"], right, wrong)
    monkeypatch.setattr(array, "run_products", software)
    hardware = Hardware(available("icarus"), modules["mxsf_sta"], module)
    layer = random_layer(np.random.default_rng(26), 24, 16, 8, extreme=0)
    with pytest.raises(AssertionError, match=message):
        check_passes(hardware, [layer])


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("out_of_step", "the operand streams were out of step"),
        ("overlong", "a block was longer than the array's sums hold"),
    ],
)
def test_flagged_results_are_no_results(
    flag: str, message: str, simulated_by_numpy: Hardware, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flagged(*arguments: Any, **options: Any) -> Result:
        return replace(software(*arguments, **options), **{flag: np.array([False, True])})

    monkeypatch.setattr(array, "run_products", flagged)
    layer = random_layer(np.random.default_rng(29), 8, 8, 8)
    with pytest.raises(AssertionError, match=message):
        run_passes(simulated_by_numpy, [stored(layer)])


def test_tiles_of_another_size(modules: dict[str, Module]) -> None:
    hardware = Hardware("icarus", modules["mxsf_sta"], modules["transposer"])
    tiles = store(mx.quantize(np.ones((8, 8)), block=(4, 4)))
    with raises(ValueError, "transposer must be for tiles of 4x4 codes of 8 bits, not of 8x8 of 8"):
        transpose(hardware, [tiles])


def test_what_cannot_be_stored() -> None:
    with raises(
        ValueError, "w must have square tiles, which serve both orientations, not tiles of (8, 4)"
    ):
        store(mx.quantize(np.ones((8, 8)), block=(8, 4)), "w")


def test_layers_that_do_not_fit(modules: dict[str, Module]) -> None:
    x, w, _ = random_layer(np.random.default_rng(28), 8, 16, 8)
    hardware = Hardware("icarus", modules["mxsf_sta"], modules["transposer"])
    with raises(ValueError, "dy must have the 8 columns of w, not 16"):
        run_passes(hardware, [stored((x, w, x))])
