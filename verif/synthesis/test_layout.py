"""Layouts: LEF and DEF are read right, wires are traced and measured, a tool's failure is one."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mxsafe.synthesis.cases import Case
from mxsafe.synthesis.gates import Instance
from mxsafe.synthesis.layout import (
    KINDS,
    PlaceAndRoute,
    connections,
    metals,
    placed,
    placement_input,
    placement_parameters,
    wire_capacitance,
)
from mxsafe.synthesis.lef_def import (
    Layout,
    LayoutError,
    Placed,
    read_cells,
    read_def,
    read_layers,
    write_def,
)
from mxsafe.synthesis.parasitics import extract, near_nets, read_loads, write_spef
from mxsafe.synthesis.power import Stimulus
from mxsafe.synthesis.run import lay_out
from mxsafe.synthesis.technologies import TECHNOLOGIES, Design, SynthesisError, check_log
from verif.support.tests import raises
from verif.synthesis.cells import LEF

CELLS = """\
MACRO INV
  SIZE 0.6 BY 2 ;
  PIN A
    PORT
      LAYER metal1 ;
        RECT 0.1 0.5 0.2 0.7 ;
    END
  END A
  PIN ZN
    PORT
      LAYER metal1 ;
        POLYGON 0.4 0.4 0.5 0.4 0.5 1 0.3 1 0.3 0.8 0.4 0.8 ;
    END
  END ZN
END INV
"""
LAYERS = read_layers(LEF, 2)
MACROS = read_cells(CELLS)
NETS = {
    "in": [("PIN", "in"), ("first", "A")],
    "middle[0]": [("first", "ZN"), ("second", "A")],
    "out[1]": [("second", "ZN"), ("PIN", "out[1]")],
}
LAYOUT = Layout(
    top="unit",
    width=6000,
    height=5600,
    cells={"first": Placed("INV", 600, 800), "second": Placed("INV", 3600, 800, "FN")},
    pins={"in": Placed("metal1", 300, 2000), "out[1]": Placed("metal2", 3900, 5400)},
    nets=NETS,
)
VIAS = """\
VIAS 1 ;
- Via1Array-1_0
+ RECT via1 ( -100 -100 ) ( 100 100 )
+ RECT metal1 ( -100 -140 ) ( 100 140 )
+ RECT metal2 ( -100 -140 ) ( 100 140 ) ;
END VIAS
"""
# From the output of the first inverter up, right on metal 1 with a stub, and down to the second.
ROUTE = """
+ ROUTED metal1 ( 1500 2000 ) Via1Array-1_0
  NEW metal2 ( 1500 2000 ) ( * 3000 ) Via1Array-1_0
  NEW metal1 ( 1500 3000 ) ( 4500 * ) Via1Array-1_0
  NEW metal2 ( 4500 3000 ) ( * 2000 ) Via1Array-1_0
  NEW metal1 ( 3000 3000 ) Via1Array-1_0
  NEW metal2 ( 3000 3000 ) ( * 3400 ) ;"""


def routed(route: str = ROUTE, net: str = "middle[0]") -> str:
    """The layout with wires for one of its nets."""
    head, nets = write_def(LAYOUT, LAYERS).split("\nNETS ")
    name, _, rest = nets.partition(f"- {net}\n")
    pins, _, rest = rest.partition("\n;")
    return f"{head}\n{VIAS}NETS {name}- {net}\n{pins}{route}{rest}"


def test_layers_of_a_lef() -> None:
    first, second = LAYERS
    assert (first.name, first.horizontal, second.horizontal) == ("metal1", True, False)
    assert (first.pitch, first.width, first.spacing) == (400, 200, 130)
    assert (second.pitch, second.width, second.spacing) == (600, 200, 140)
    assert (first.via_resistance, second.via_resistance) == (5.0, 0.0)
    assert first.ohms == pytest.approx(4.0)
    assert first.femtofarads == pytest.approx(0.08 * 0.1 + 2 * 0.03)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LEF.replace("2000", "1000"), "the LEF has no DATABASE MICRONS 2000"),
        (LEF.replace("  PITCH 0.3 ;\n", ""), "the LEF has no PITCH of metal2"),
        (LEF.replace("  SPACING 0.065 ;\n", ""), "the LEF has no spacing of metal1"),
        (LEF[: LEF.index("LAYER metal2")], "the LEF must have 2 routing layers, not 1"),
    ],
)
def test_a_lef_that_lacks_something_is_refused(text: str, message: str) -> None:
    with raises(LayoutError, message):
        read_layers(text, 2)


def test_cells_of_a_lef() -> None:
    cell = MACROS["INV"]
    assert (cell.width, cell.height) == (1200, 4000)
    assert cell.pins["A"] == [("metal1", ((200, 1000), (400, 1000), (400, 1400), (200, 1400)))]
    assert len(cell.pins["ZN"][0][1]) == 6


def test_cells_are_turned() -> None:
    corner = [(200, 1000)]
    places = {
        orientation: Placed("INV", 10, 20, orientation).on_chip(corner, MACROS["INV"])
        for orientation in ("N", "FN", "FS", "S")
    }
    assert places == {
        "N": [(210, 1020)],
        "FN": [(1010, 1020)],
        "FS": [(210, 3020)],
        "S": [(1010, 3020)],
    }


def test_a_def_is_read_as_it_was_written() -> None:
    text = write_def(LAYOUT, LAYERS)
    assert read_def(text) == LAYOUT
    with raises(LayoutError, "the DEF has no DESIGN"):
        read_def("")
    assert "TRACKS Y 200 DO 14 STEP 400 LAYER metal1 ;" in text
    assert "TRACKS X 300 DO 10 STEP 600 LAYER metal2 ;" in text


def test_wires_of_a_def() -> None:
    wires = read_def(routed()).wires
    assert list(wires) == ["middle[0]"]
    assert wires["middle[0]"].segments == [
        (("metal2", 1500, 2000), ("metal2", 1500, 3000)),
        (("metal1", 1500, 3000), ("metal1", 4500, 3000)),
        (("metal2", 4500, 3000), ("metal2", 4500, 2000)),
        (("metal2", 3000, 3000), ("metal2", 3000, 3400)),
    ]
    assert len(wires["middle[0]"].vias) == 5


@pytest.mark.parametrize(
    ("route", "message"),
    [
        (
            "+ ROUTED metal1 ( 0 0 ) ( 400 400 ) ;",
            "wires must be horizontal or vertical, not ('metal1', 0, 0) to ('metal1', 400, 400)",
        ),
        ("+ ROUTED metal1 ( 0 0 ) M1_M2 ;", "M1_M2 must be a via behind a point"),
        (
            "+ ROUTED metal1 ( 0 0 ) via2_0 ;",
            "via2_0 must start on a layer that it connects, not on metal1",
        ),
    ],
)
def test_a_route_that_is_not_understood_is_refused(route: str, message: str) -> None:
    with raises(LayoutError, message):
        read_def(routed(f"\n{route}"))


def test_wires_have_resistance_and_capacitance() -> None:
    found = extract(read_def(routed()), "middle[0]", MACROS, LAYERS)
    assert found.lengths == pytest.approx({"metal1": 1.5, "metal2": 1.2})
    low, high = (layer.femtofarads for layer in LAYERS)
    assert found.capacitance == pytest.approx(1.5 * low + 1.2 * high)
    # The stub parts the wire on metal 1 in two; it has a via and itself.
    ohms = sorted(ohms for _, _, ohms in found.resistors)
    assert ohms == pytest.approx([0.4, 1.0, 1.0, 3.0, 3.0, *[5.0] * 5])
    assert found.reaches(NETS["middle[0]"])
    assert sorted(found.pins) == [("first", "ZN"), ("second", "A")]


def test_a_net_without_wires_reaches_nothing() -> None:
    found = extract(read_def(routed()), "in", MACROS, LAYERS)
    assert not found.reaches(NETS["in"])
    assert found.capacitance == 0.0


@pytest.mark.parametrize(("end", "closed"), [(4100, False), (4200, True)])
def test_an_open_route_is_seen_and_a_narrow_gap_told(end: int, closed: bool) -> None:
    # Between the metal of two vias is a wire's width of 200 units, or half of that.
    short = ROUTE.replace("( 1500 3000 ) ( 4500 * )", f"( 1500 3000 ) ( {end} * )")
    layout = read_def(routed(short))
    for across_gaps, reached in ((False, False), (True, closed)):
        found = extract(layout, "middle[0]", MACROS, LAYERS, across_gaps=across_gaps)
        assert found.reaches(NETS["middle[0]"]) == reached


def test_a_via_in_the_middle_of_a_pin_touches_it() -> None:
    whole = ("metal1", ((0, 0), (1200, 0), (1200, 4000), (0, 4000)))
    macros = {"INV": replace(MACROS["INV"], pins={**MACROS["INV"].pins, "A": [whole]})}
    assert extract(read_def(routed()), "middle[0]", macros, LAYERS).reaches(NETS["middle[0]"])


def test_a_via_of_unknown_size_is_refused() -> None:
    layout = replace(read_def(routed()), pads={})
    with raises(LayoutError, "the DEF must say how large Via1Array-1_0 is"):
        extract(layout, "middle[0]", MACROS, LAYERS)


@pytest.mark.parametrize(("distance", "counts"), [(200, (1, 1)), (329, (0, 1)), (330, (0, 0))])
def test_nets_that_are_too_near_are_counted(distance: int, counts: tuple[int, int]) -> None:
    layout = read_def(routed())
    y = 3000 + distance
    above = read_def(routed(f"\n+ ROUTED metal1 ( 1900 {y} ) ( 2600 {y} ) ;", "in"))
    both = replace(layout, wires={**layout.wires, **above.wires})
    found = tuple(len(near_nets(both, LAYERS, touching=touching)) for touching in (True, False))
    assert found == counts


def test_spef_has_the_networks() -> None:
    layout = read_def(routed())
    networks = {net: extract(layout, net, MACROS, LAYERS) for net in NETS}
    spef = write_spef(layout, networks, {"in": "I", "out[1]": "O"})
    assert "*1 in\n*2 middle\\[0\\]\n*3 out[1]\n" in spef
    assert "*I first:ZN B\n*I second:A B\n*CAP\n" in spef
    loads = read_loads(spef)
    assert list(loads) == list(NETS)
    assert loads["middle[0]"] == pytest.approx(networks["middle[0]"].capacitance, abs=1e-5)


def test_metals_for_each_kind_of_wires() -> None:
    library = """\
  wire_load("long") { capacitance : 9.0; }
  wire_load("usual") {
    capacitance : 1.774000e-01;
  }
  default_wire_load : "usual" ;
"""
    found = metals(LAYERS, library)
    assert list(found) == list(KINDS)
    assert found["alone"] == LAYERS
    assert [layer.femtofarads for layer in found["dense"]] == pytest.approx([0.1774] * 2)
    assert [layer.ohms for layer in found["dense"]] == [layer.ohms for layer in LAYERS]
    assert {(one.femtofarads, one.ohms, one.via_resistance) for one in found["none"]} == {(0, 0, 0)}
    with raises(LayoutError, "the library must have a default model of wires"):
        wire_capacitance(library.replace("default_", ""))


def test_connections_of_a_netlist() -> None:
    instances = [
        Instance("first", "INV", {"A": "in", "ZN": "\\middle[0]"}),
        Instance("\\second", "INV", {"A": "\\middle[0]", "ZN": "out[1]"}),
        Instance("third", "INV", {"A": "1'h0", "ZN": "unused"}),
    ]
    found = connections(instances, ["in", "out[1]", "open"])
    assert {net: set(ends) for net, ends in found.items()} == {
        net: set(ends) for net, ends in NETS.items()
    }


POSITIONS = """\
c0 -700 -300 500 3700 0 1
c1 500 -300 1700 3700 2 1
twpin_p0 -1500 480 -1400 520 7 -1
twpin_p1 600 5000 700 5100 3 -4
"""


def test_a_placement_is_moved_to_the_tracks() -> None:
    cells = dict.fromkeys(("first", "second"), "INV")
    layers = [*LAYERS, replace(LAYERS[0], name="metal3")]
    text = placement_input(cells, NETS, MACROS, layers)
    assert "cell 1 c1\nleft -600 right 600 bottom -2000 top 2000\n" in text
    assert "pin name A signal n1 layer 1 -300 -800" in text
    assert "pad 2 name twpin_p1" in text
    assert "spacing metal2 metal2 400" in placement_parameters(layers)
    found = placed(POSITIONS, "unit", cells, NETS, layers)
    assert found.cells == {
        "first": Placed("INV", 6000, 4000),
        "second": Placed("INV", 7200, 4000, "FN"),
    }
    assert (found.width, found.height) == (2400 + 12000, 4000 + 8000)
    assert found.pins == {
        "in": Placed("metal3", 300, 5000),
        "out[1]": Placed("metal2", 7500, 11800),
    }
    crowded = POSITIONS.replace("-1500 480 -1400 520 7 -1", "620 5000 720 5100 3 -4")
    found = placed(crowded, "unit", cells, NETS, layers)
    assert (found.pins["in"].x, found.pins["out[1]"].x) == (7500, 6300)


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        (
            POSITIONS.replace("c1 500", "c1 501"),
            "graywolf put second beside the tracks, at 501, -300",
        ),
        (POSITIONS[POSITIONS.index("c1") :], "graywolf gave first no place"),
    ],
)
def test_a_placement_that_is_none_is_refused(positions: str, message: str) -> None:
    with raises(LayoutError, message):
        placed(positions, "unit", dict.fromkeys(("first", "second"), "INV"), NETS, LAYERS)


def test_missing_programs_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "qrouter" else name)
    with raises(
        SynthesisError,
        "layout needs the program qrouter for routing: install the Debian package qrouter",
    ):
        PlaceAndRoute.check()


DESIGN = Design(top="unit", sources={}, clocked=True, inputs={"a": 2}, outputs={"y": 1})


def test_failed_nets_are_no_layout() -> None:
    texts = {"layout.json": json.dumps({"wires": {"failed_nets": 3}})}
    with raises(SynthesisError, "3 nets of unit have no wires to all their pins"):
        PlaceAndRoute("").read(DESIGN, texts)
    with raises(SynthesisError, "no layout of unit in: '{}'"):
        PlaceAndRoute("").read(DESIGN, {"layout.json": "{}"})


def test_a_netlist_with_parts_is_refused() -> None:
    with raises(ValueError, "unit must be flat and without memories, not have inner"):
        PlaceAndRoute("").recipe(replace(DESIGN, kept=("inner",)))


def test_wires_of_unknown_nets_are_errors() -> None:
    line = "Warning: alone.spef line 9, net x not found."
    assert check_log("sta", f"OpenSTA\n{line}\n") == line


@pytest.mark.yosys
def test_a_small_unit_is_laid_out(tmp_path: Path) -> None:
    for program in ("graywolf", "qrouter"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    if TECHNOLOGIES["nangate45"].library() is None:
        pytest.skip("the library of NanGate 45 nm is not installed")
    case = Case(name="one lane", unit="safe_mac_exact", options={"lanes": 1, "pipeline": 1})
    unit = case.build()
    rng = np.random.default_rng(1)
    rows = {
        name: rng.integers(0, 256, (40, -(-len(signal) // 8)), np.uint8)
        for name, _, signal in unit.port_signals()
        if name in ("a", "w", "en")
    }
    stimuli = {unit.module_name: Stimulus(rows=rows, skipped=4)}
    lines: list[str] = []
    (found,) = lay_out([case], stimuli=stimuli, scratch=tmp_path, progress=lines.append).values()
    numbers, delays = found.layout, [found.layout[kind]["delay_ns"] for kind in KINDS]
    assert delays == sorted(delays)
    assert len(set(delays)) == len(KINDS)
    energies = [found.power[kind]["clock"]["total_pj"] for kind in KINDS]
    assert energies == sorted(energies)
    assert numbers["area"]["cells"] == found.netlist["cells"]
    layout = read_def(found.cells_and_wires)
    assert len(layout.cells) == found.netlist["cells"]
    assert len(layout.wires) == numbers["wires"]["nets"]
    again: list[str] = []
    lay_out([case], stimuli=stimuli, scratch=tmp_path, progress=again.append)
    assert again == ["1 of 1 jobs done before"] * 2 + ["3 of 3 jobs done before"]
