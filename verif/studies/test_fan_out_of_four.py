"""The unit of delay of the comparison page."""

import re

import pytest

from mxsafe.synthesis.technologies import Nangate45, SynthesisError
from studies.fan_out_of_four import FO4_PS, chain, measure


def test_every_inverter_drives_four() -> None:
    driven = re.findall(r"\.A\((\w+)\)", chain())
    assert {driven.count(net) for net in driven if net not in ("a", "y")} == {4}
    assert (driven.count("a"), driven.count("y")) == (1, 3)


def test_the_figure_of_the_pages_is_measured() -> None:
    try:
        Nangate45().check()
    except SynthesisError as error:
        pytest.skip(str(error))
    assert round(measure(), 1) == FO4_PS
