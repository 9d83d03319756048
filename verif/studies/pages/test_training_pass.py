"""The training pass: its hardware again, and what the prose of its page claims is so."""

from dataclasses import asdict

import numpy as np
import pytest

import mxsafe as mx
from mxsafe import model
from mxsafe.model.gemm import Arithmetic
from studies import training_pass as study
from studies.pages import training_pass
from studies.pages.training_pass import CASES, layer_traffic, relative_errors
from studies.training.array import store
from studies.training_pass import ARRAYS, measure_layer, measure_step, training_layer
from verif.support.tests import available, raises


@pytest.mark.full
@pytest.mark.parametrize("arithmetic", ARRAYS)
def test_what_was_simulated(arithmetic: Arithmetic) -> None:
    """Layer and step again, bit for bit, in the cycles that the page gives."""
    available("verilator")
    run = training_pass.load()[arithmetic]
    assert asdict(measure_layer(arithmetic)) == run["layer"]
    assert asdict(measure_step(arithmetic)) == run["step"]


def test_claims_on_bytes() -> None:
    """The bytes counted as written are those stored, and the operands of a gradient are kept."""
    x, w, dy = (store(mx.quantize(values, block=(8, 8))) for values in training_layer("fp12"))
    tiles = layer_traffic()["8x8"]
    assert x.tiles.shape[1] == w.tiles.shape[1] == dy.tiles.shape[1] == 65
    assert tiles.written == x.image.size + w.image.size + dy.image.size
    assert tiles.kept == x.image.size + w.image.size
    for title, cost in layer_traffic().items():
        assert cost.quantisations == (3 if title == "8x8" else 6)
        assert title == "8x8" or cost.moved > 1.2 * tiles.moved
        assert cost.kept >= tiles.kept
    assert list(CASES)[-1] == "8x8"


def test_claims_on_cycles() -> None:
    runs = training_pass.load()
    layer = runs["fp12"]["layer"]
    assert layer["transposer_cycles"] == 8 * (960 + 2)
    array = sum(layer["cycles"].values())
    assert array < layer["transposer_cycles"] < 2 * array
    # X of both layers and W of the second: 4 x 8, 4 x 4 and 4 x 2 tiles.
    for run in runs.values():
        assert run["step"]["transposer_cycles"] == 8 * (32 + 16 + 8 + 3)


@pytest.mark.parametrize("arithmetic", ARRAYS)
def test_claims_on_errors(arithmetic: Arithmetic) -> None:
    tiled, rowed = (relative_errors(arithmetic, block) for block in ((8, 8), 64))
    assert tiled["y"] < rowed["y"]
    assert tiled["dx"] > rowed["dx"]
    assert tiled["dw"] > rowed["dw"]
    x, w, dy = (mx.quantize(values, block=(8, 8)) for values in training_layer(arithmetic))
    products = model.training_pass(x, w, dy, arithmetic=arithmetic)
    plain = dict(zip(("x", "w", "dy"), training_layer(arithmetic), strict=True))
    reference = plain["x"].T.astype(np.float64) @ plain["dy"].astype(np.float64)
    error = np.linalg.norm(products.dw - reference) / np.linalg.norm(reference)
    assert error == pytest.approx(tiled["dw"], rel=1e-12)


def test_a_wrong_bit_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(module: object, a: mx.QuantizedTensor, w: mx.QuantizedTensor, label: str) -> object:
        product = mx.matmul(a, w)
        product.view(np.uint32)[3, 5] ^= 1
        return type("Result", (), {"products": [product]})()

    monkeypatch.setattr(study, "run_with_progress", wrong)
    with raises(SystemExit, "mxsf_sta: y is not what the model says"):
        measure_layer("fp12")
