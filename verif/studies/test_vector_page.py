"""The page of vector units: fresh, and what it measures."""

import re

import numpy as np
import pytest

from studies import vector_page
from studies.vector_page import CURVES, DOCS, Measured, measured


@pytest.fixture(scope="module")
def found() -> list[Measured]:
    return measured()


def test_the_committed_page_is_fresh(found: list[Measured]) -> None:
    committed = (DOCS / "vector.md").read_text()
    assert committed == vector_page.page(found), "run `python -m studies.vector_page`"
    for link in re.findall(r"\]\(([^)#:]+)\)", committed):
        assert (DOCS / link).exists(), link


def test_real_inputs_stay_within_the_bounds(found: list[Measured]) -> None:
    bounds = {"softmax": 2.0**-15, "layer_norm": 2.0**-14, "rms_norm": 2.0**-14}
    assert len(found) == 5
    for each in found:
        assert 0 < each.largest <= bounds.get(each.name, 2.0**-16), each
        assert each.codes < each.values / 300, each


@pytest.mark.parametrize("name", CURVES)
def test_curves_stay_below_their_bounds_and_those_of_others_do_not(name: str) -> None:
    curve = CURVES[name]
    x = curve.points(300)
    assert len(x) == 300
    assert 0 < curve.own(x).max() <= curve.bound
    for other in (curve.others or {}).values():
        assert np.nanmax(curve.errors(x, other(x))) > curve.bound
