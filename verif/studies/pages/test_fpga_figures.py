"""FPGA figures: complete, and their floor plans."""

import re
from xml.etree import ElementTree

import pytest

from mxsafe.synthesis.cases import FPGA
from mxsafe.synthesis.floor_plan import PARTS
from mxsafe.verilog.presets import FPGA_UNITS
from studies.pages.fpga_figures import PLANS, draw
from studies.synthesised import load

FIGURES = load("fpga")


def test_units_are_measured() -> None:
    found = {(result["configuration"], result["technology"]) for result in FIGURES["results"]}
    cases = {(case.name, technology) for case in FPGA for technology in case.technologies}
    assert found == cases
    assert set(FPGA_UNITS) <= {case.unit for case in FPGA}


@pytest.mark.parametrize("unit", PLANS)
def test_the_floor_plan_has_every_part_in_place(unit: str) -> None:
    planned = (result for result in FIGURES["results"] if "floor_plan" in result)
    (plan,) = (result["floor_plan"] for result in planned if result["unit"] == unit)
    svg = draw(plan)
    ElementTree.fromstring(svg)
    for letter in plan["cells"]:
        assert PARTS[letter][0] in svg
    drawn = sum(int(run) for run in re.findall(r"h(\d+)v1", svg))
    tiles = sum(len(row) - row.count(" ") for row in plan["parts"])
    assert drawn == tiles > 1000
