"""The unit of delay of the comparison page."""

import re

import pytest

from mxsafe.synthesis.technologies import TECHNOLOGIES, Nangate45, Osu018, SynthesisError
from studies.fan_out_of_four import FO4_PS, chain, measure


@pytest.mark.parametrize("technology", FO4_PS)
def test_every_inverter_drives_four(technology: str) -> None:
    driven = re.findall(r"\.A\((\w+)\)", chain(technology))
    assert {driven.count(net) for net in driven if net not in ("a", "y")} == {4}
    assert (driven.count("a"), driven.count("y")) == (1, 3)


@pytest.mark.parametrize("technology", FO4_PS)
def test_the_figures_of_the_pages_are_measured(technology: str) -> None:
    try:
        TECHNOLOGIES[technology].check()
    except SynthesisError as error:
        pytest.skip(str(error))
    assert round(measure(technology), 1) == FO4_PS[technology]


def test_libraries_are_compared_at_as_many_of_these_delays() -> None:
    delays = FO4_PS["osu018"] / FO4_PS["nangate45"]
    assert Osu018.cells.period == round(Nangate45.cells.period * delays, 1)
