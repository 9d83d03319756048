"""The page on layouts: numbers and a picture for every unit that is named, wires are drawn."""

from itertools import pairwise

from mxsafe.synthesis.layout import KINDS
from mxsafe.synthesis.lef_def import Layout, Macro, Placed, Wires, read_layers
from studies.layout import UNITS_LAID_OUT, drawn, picture_of
from studies.pages import DOCS, kept
from verif.synthesis.cells import LEF

_LARGEST = 500_000
"""Bytes of a picture."""


def test_each_unit_has_numbers_and_a_picture() -> None:
    units = kept("layout")["units"]
    assert tuple(units) == UNITS_LAID_OUT
    for name, numbers in units.items():
        assert numbers["picture"] == picture_of(name)
        assert (DOCS / picture_of(name)).stat().st_size < _LARGEST
        assert numbers["wires"]["failed_nets"] == 0
        lengths = sum(numbers["layers"].values())
        assert abs(lengths - numbers["wires"]["length_um"]) < 0.05 * len(numbers["layers"])
        assert all(numbers[a]["delay_ns"] < numbers[b]["delay_ns"] for a, b in pairwise(KINDS))


def test_wires_are_in_the_picture() -> None:
    line = (("metal2", 500, 500), ("metal2", 500, 3500))
    layout = Layout(
        top="unit",
        width=4000,
        height=4000,
        cells={"one": Placed("DFF_X1", 0, 0)},
        pins={},
        nets={},
        wires={"net": Wires(segments=[line])},
    )
    macros = {"DFF_X1": Macro(width=2000, height=2800, pins={})}
    layers = read_layers(LEF, 2)
    picture = drawn(layout, macros, layers)
    assert picture.startswith(b"\x89PNG")
    layout.wires["net"].segments.clear()
    assert drawn(layout, macros, layers) != picture
