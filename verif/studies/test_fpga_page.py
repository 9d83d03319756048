"""The page of FPGA figures: fresh, and complete."""

import json
import re
from xml.etree import ElementTree

import pytest

from mxsafe.synthesis.cases import FPGA
from mxsafe.synthesis.floor_plan import PARTS
from mxsafe.verilog.units import FPGA_UNITS
from studies import fpga_page
from studies.fpga_page import DOCS, draw, merged

FIGURES = json.loads((DOCS / "fpga.json").read_text())


def test_the_committed_page_is_fresh() -> None:
    committed = (DOCS / "fpga_figures.md").read_text()
    assert committed == fpga_page.page(FIGURES), "run `python -m studies.fpga_page`"
    for link in re.findall(r"\]\(([^)#:]+)\)", committed):
        assert (DOCS / link).exists(), link


def test_units_are_measured() -> None:
    found = {(result["configuration"], result["technology"]) for result in FIGURES["results"]}
    cases = {(case.name, technology) for case in FPGA for technology in case.technologies}
    assert found == cases
    assert set(FPGA_UNITS) <= {case.unit for case in FPGA}
    for rows in (fpga_page.placed_rows, fpga_page.other_rows, fpga_page.peer_rows):
        table = rows(FIGURES)
        assert len(table) > 3
        assert {len(row) for row in table} == {len(table[0])}


def test_rates_are_products_times_the_clock() -> None:
    head, *rows = fpga_page.placed_rows(FIGURES)
    (row,) = [dict(zip(head, row, strict=True)) for row in rows if row[0] == "`safe_mac_exact`"]
    rate = 4 * int(row["MHz, median"]) * 1e6
    assert abs(float(row["10^9 products/s"]) * 1e9 / rate - 1) < 0.01
    luts = int(row["LUT4s"].replace(",", ""))
    assert abs(float(row["10^6 a LUT4"]) * luts * 1e6 / rate - 1) < 0.01
    dsps = int(row["DSPs"])
    assert abs(int(row["10^6 a DSP"]) * dsps * 1e6 / rate - 1) < 0.01


@pytest.mark.parametrize("unit", fpga_page.PLANS)
def test_the_floor_plan_has_every_part_in_place(unit: str) -> None:
    planned = (result for result in FIGURES["results"] if "floor_plan" in result)
    (plan,) = (result["floor_plan"] for result in planned if result["unit"] == unit)
    svg = draw(plan)
    assert (DOCS / fpga_page.PLANS[unit]).read_text() == svg
    ElementTree.fromstring(svg)
    for letter in plan["cells"]:
        assert PARTS[letter][0] in svg
    drawn = sum(int(run) for run in re.findall(r"h(\d+)v1", svg))
    tiles = sum(len(row) - row.count(" ") for row in plan["parts"])
    assert drawn == tiles > 1000


def test_others_that_were_not_measured_again_stay() -> None:
    old, new = {"name": "a", "products": 1}, {"name": "b", "products": 2}
    earlier = {"results": [1], "peers": [old, {"name": "b", "products": 3}]}
    assert merged({"results": [2]}, [new], earlier) == {"results": [2], "peers": [new, old]}
