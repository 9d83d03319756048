"""The page of vector units: fresh, and what it measures."""

import json
import re

import numpy as np
import pytest

from mxsafe.model.functions import FUNCTIONS
from mxsafe.synthesis.cases import STANDARD
from studies import vector_page
from studies.function_errors import record
from studies.function_errors.errors import BOUNDS
from studies.synthesised import usual_numbers
from studies.vector_page import CURVES, DOCS, SYNTHESISED, Measured, measured

SYNTHESIS = json.loads((DOCS / "synthesis.json").read_text())


@pytest.fixture(scope="module")
def found() -> list[Measured]:
    return measured()


def test_the_committed_page_is_fresh(found: list[Measured]) -> None:
    committed = (DOCS / "vector.md").read_text()
    fresh = vector_page.page(found, SYNTHESIS, record.published())
    assert committed == fresh, "run `python -m studies.vector_page`"
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


def test_vector_units_stand_beside_the_paper() -> None:
    table = vector_page.gate_rows(SYNTHESIS)
    assert {len(row) for row in table} == {len(table[0])}
    rows = {row[0].strip("`"): dict(zip(table[0], row, strict=True)) for row in table[1:]}
    assert list(rows) == list(SYNTHESISED)
    assert set(rows) <= {case.name for case in STANDARD}
    for head, values in (
        ("the paper: GE", {"7.6k", "126k", "26.6k", ""}),
        ("the paper: mW", {"2.61", "24.12", "24.21", ""}),
    ):
        assert {row[head] for row in rows.values()} == values
    for row in rows.values():
        assert float(row["smallest at 500 MHz: GE"].replace(",", "")) > 100
        assert (row["mW"] == "") == (row["pJ"] == "") == (row["clocks, error"] == "")
    simulated = [row for row in rows.values() if row["mW"]]
    assert simulated
    assert all(float(row["mW"]) > 0 and float(row["pJ"]) > 0 for row in simulated)
    for row in simulated:
        clocks, error = row["clocks, error"].split(", ")
        assert int(clocks) >= 64
        assert 0.0 <= float(error.removesuffix("%")) < 3.0


def test_every_norm_has_a_share_of_a_lane_and_a_longest_path() -> None:
    lanes, paths = vector_page.norm_lanes(SYNTHESIS).splitlines()
    norms = [name for name, (_, unit) in SYNTHESISED.items() if unit == "normalisation"]
    assert len(norms) == 4
    for name in norms:
        numbers = usual_numbers(vector_page.find(SYNTHESIS, name))
        assert f"{numbers['ge'] / 16:,.0f} GE for `{name}`" in lanes
        assert f"of `{name}` {numbers['delay_ns']:.2f} ns, from the " in paths


def test_power_is_energy_a_clock_at_500_mhz() -> None:
    name = "activation of four functions, 1 lane"
    result = vector_page.find(SYNTHESIS, name)
    table = vector_page.gate_rows(SYNTHESIS)
    row = next(row for row in table if row[0] == f"`{name}`")
    clock, each = result["power"]["clock"], result["power"]["result"]
    assert row[table[0].index("mW")] == f"{clock['total_pj'] * 1e-12 * 500e6 * 1e3:.2f}"
    joules = clock["total_pj"] * clock["clocks"] / each["count"]
    assert each["total_pj"] == pytest.approx(joules, abs=1e-3)


def test_units_on_fpgas_have_a_row() -> None:
    table = vector_page.lut_rows(SYNTHESIS)
    assert len(table) == 3
    assert {len(row) for row in table} == {len(table[0])}
    assert all(int(row[1].replace(",", "")) > 100 for row in table[1:])


def test_errors_over_all_arguments_stand_on_the_page() -> None:
    rows = vector_page.proved_rows(record.published())
    assert [row[0] for row in rows[1:]] == [f"`{name}`" for name in FUNCTIONS]
    shown = [row for row in rows[1:] if row[1] != "exact"]
    assert len(shown) == len(BOUNDS)
    assert all(0.1 < float(row[3]) < 1 for row in shown)


def test_an_error_just_below_the_bound_is_not_shown_as_the_bound() -> None:
    entry = {"bound": 2.0**-16, "error": 0.99999, "argument": "0xbf800000"}
    row = vector_page.proved_rows({"gelu": entry})[1]
    assert row == (
        "`gelu`",
        "2^-16",
        "result, or argument below 0",
        "0.9999",
        "`0xbf800000`",
        "-1",
    )
