"""The page on formats: what its prose claims is so."""

import numpy as np
import pytest

from mxsafe.analysis.errors import draw_tensor
from studies.pages import formats
from studies.pages.formats import Results, columns_of, order, paper_columns


@pytest.fixture(scope="module")
def results() -> Results:
    return formats.measure()


def test_orders(results: Results) -> None:
    default = ("mxfp8_e2m5", "mxsf", "mxint8", "mxfp8_e4m3")
    other = ("mxfp8_e2m5", "mxint8", "mxsf", "mxfp8_e4m3")
    paper = {title: order(column) for title, column in paper_columns().items()}
    assert paper.pop("ResNet-18 activations") == other
    assert set(paper.values()) == {default}
    assert len(paper) == 5
    columns = columns_of(results.tensors)
    assert order(columns["MiniLM activations, 1x64"]) == default
    assert order(columns["MiniLM activations, 8x8"]) == default
    assert order(columns["MiniLM weights, 1x64"]) == other
    assert order(columns["MiniLM weights, 8x8"]) == other


def test_claims_on_gaps(results: Results) -> None:
    mean = {error.format: error.mean for error in results.gaps}
    mxsf, e2m5, mxint8 = mean["mxsf"], mean["mxfp8_e2m5"], mean["mxint8"]
    assert mxsf[:3] == e2m5[:3]
    assert mxsf[3] > e2m5[3]
    assert mxsf[4] > e2m5[4]
    assert mxsf[5] == e2m5[5]
    assert all(mxsf[gap] < e2m5[gap] for gap in range(6, 13))
    assert [gap for gap in range(20) if mxint8[gap] < mxsf[gap]] == [0, 3]
    for name in ("mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e3m2", "mxfp6_e2m3", "mxfp4_e2m1"):
        assert mean[name][0] > mean[name][1] * 1.05
    gaps = {title: errors[0].mean_gap for title, errors in results.tensors.items()}
    assert min(gaps, key=lambda title: gaps[title]) == "MiniLM weights"


def test_claims_on_four_bits(results: Results) -> None:
    (nvfp4,) = (error for error in results.gaps if error.format == "nvfp4")
    (mxfp4,) = (error for error in results.gaps if error.format == "mxfp4_e2m1")
    assert nvfp4.largest[0] <= 1 / 17 < nvfp4.largest[1]  # half a step of E4M3
    assert nvfp4.mean[0] < mxfp4.mean[0] / 5
    bits = [formats.bits_of(*which) for which in formats.FOUR_BITS]
    assert bits == [4.25, 4.5, 4.5]
    assert set(results.four_bits) == set(results.tensors)
    for default, short, scaled in results.four_bits.values():
        assert [(e.format, e.block) for e in (default, short, scaled)] == list(formats.FOUR_BITS)
        assert short.underflow_ratio < default.underflow_ratio
        assert abs(short.relative_error / default.relative_error - 1) < 0.05
        assert scaled.relative_error < 0.85 * min(short.relative_error, default.relative_error)


def test_claims_on_what_decides_between_mxint8_and_mxsf(results: Results) -> None:
    activations, weights = results.shares["MiniLM activations"], results.shares["MiniLM weights"]
    for shares, errors in zip(
        (activations, weights),
        (results.tensors["MiniLM activations"], results.tensors["MiniLM weights"]),
        strict=True,
    ):
        mse = {error.format: error.mse for error in errors if error.block == 64}
        assert 1 + sum(shares) == pytest.approx(mse["mxint8"] / mse["mxsf"], rel=1e-12)
        assert shares[1] == pytest.approx(0, abs=1e-3)
        assert shares[4] == pytest.approx(0, abs=1e-3)
        assert shares[0] + shares[3] == pytest.approx(-0.53, abs=0.02)
    assert activations[5] > 8 * weights[5] > 0


def test_claims_on_gradients_hold_for_every_width_and_seed(results: Results) -> None:
    orders = set()
    for seeds in results.widths.values():
        for errors in seeds:
            mse = {name: error.mse for name, error in errors.items()}
            lost = {name: error.underflow_ratio for name, error in errors.items()}
            assert order(mse)[-1] == "mxfp8_e4m3"
            assert order(lost) == ("mxfp8_e4m3", "mxsf", "mxfp8_e2m5", "mxint8")
            orders.add(order(mse))
    assert len(orders) > 2
    mxsf_lost = [seeds[0]["mxsf"].underflow_ratio for seeds in results.widths.values()]
    assert mxsf_lost == sorted(mxsf_lost)
    assert mxsf_lost[-1] > 100 * mxsf_lost[0]


def test_the_default_width_is_the_named_distribution() -> None:
    given = draw_tensor("gradient", (64, 1024), seed=1)
    np.testing.assert_allclose(formats.gradient(3, 1), given, rtol=1e-5)
