"""Pairs of formats: complete, and their errors."""

import numpy as np
import pytest

import mxsafe as mx
from mxsafe.synthesis.cases import PAIRS
from studies.pages.pairs import Pair, pairs, product_errors


@pytest.fixture(scope="module")
def found() -> list[Pair]:
    return pairs()


def test_every_pair_is_there_and_those_synthesised_have_gates(found: list[Pair]) -> None:
    assert len({(pair.a, pair.w) for pair in found}) == len(found) == len(mx.MX_FORMATS) ** 2
    synthesised = {(pair.a, pair.w) for pair in found if pair.ge is not None}
    assert synthesised == {*PAIRS, *((name, name) for name in mx.MX_FORMATS)}


def test_errors_are_those_of_the_product() -> None:
    rng = np.random.default_rng(1)
    a = rng.standard_normal((4, 64)).astype(np.float32)
    w = rng.standard_normal((64, 3)).astype(np.float32)
    errors = product_errors(a, w)
    reference = a.astype(np.float64) @ w.astype(np.float64)
    product = mx.matmul(
        mx.quantize(a, "mxsf", block=32),
        mx.quantize(w, "mxfp4_e2m1", block=32, axis=0),
        arithmetic="exact",
    )
    expected = np.linalg.norm(product - reference) / np.linalg.norm(reference)
    assert errors["mxsf", "mxfp4_e2m1"] == expected
    assert errors["mxsf", "mxfp4_e2m1"] != errors["mxfp4_e2m1", "mxsf"]
