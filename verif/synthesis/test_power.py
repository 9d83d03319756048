"""Power: changes are counted and paid for as they should be, and a failure is never a number."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxsafe.synthesis import power, switching
from mxsafe.synthesis import run as synthesis
from mxsafe.synthesis.cases import Case
from mxsafe.synthesis.gates import read_instances
from mxsafe.synthesis.liberty import read_cells
from mxsafe.synthesis.power import Power, Stimulus, compare_outputs, read_stimuli, usual_netlist
from mxsafe.synthesis.run import synthesise
from mxsafe.synthesis.switching import Changes, Circuit, PowerError, read_changes, sum_energies
from mxsafe.synthesis.technologies import TECHNOLOGIES, Design, Nangate45, Recipe, SynthesisError
from mxsafe.synthesis.vectorless import ACTIVITIES
from studies.activity import stimulus
from verif.support.tests import raises
from verif.synthesis.cells import LIBRARY, NETLIST

ONE_LANE = Case(
    name="one lane",
    unit="safe_mac_exact",
    options={"lanes": 1, "pipeline": 1},
    technologies=("nangate45",),
)

# Of Icarus Verilog, shortened: two outputs, and what is inside; period 2 ns, edges at 2, 4...
VCD = """\
$timescale
	1ps
$end
$scope module bench $end
$scope module unit $end
$scope module _1_ $end
$var wire 1 ! ZN $end
$upscope $end
$scope module _2_ $end
$var wire 1 ! D $end
$var wire 1 " Q $end
$var reg 1 # IQ $end
$upscope $end
$var wire 2 $ y [1:0] $end
$upscope $end
$upscope $end
$enddefinitions $end
#1990
$dumpvars
0"
x!
x#
b0x $
$end
#1992
1!
#2090
1"
1#
b01 $
#2200
0!
#2300
1!
#3500
0!
#4090
0"
#4200
x!
#4300
1!
#4400
0!
#6000
"""


WANTED = [("_2_", "Q"), ("_1_", "ZN")]


def changes(text: str = VCD, *, wanted: list[tuple[str, str]] = WANTED) -> Changes:
    lines = iter(text.splitlines(keepends=True))
    return read_changes(lines, wanted, period=2.0, skipped=1, clocks=3)


def test_changes_are_counted_clock_by_clock() -> None:
    found = changes()
    assert found.names == [("_1_", "ZN"), ("_2_", "Q")]
    # A glitch is two changes; from x to 1 is none.
    assert found.rises.tolist() == [[1, 1], [0, 0]]
    assert found.falls.tolist() == [[2, 0], [1, 1]]
    assert found.before_rise.tolist() == [[True, False], [False, True]]
    assert found.before_fall.tolist() == [[True, True], [False, False]]


@pytest.mark.parametrize(
    ("text", "more", "message"),
    [
        (VCD, [("_3_", "Q")], "changes of 2 of 3 outputs of cells were recorded"),
        (VCD.replace("1!", "x!"), [], "1 of 2 nets have no value, the first of them at _1_.ZN"),
        (VCD.split("$enddef")[0], [], "the record of changes has no end of its declarations"),
        ("", [], "the record of changes has no end of its declarations"),
    ],
)
def test_a_record_that_says_too_little_is_refused(
    text: str, more: list[tuple[str, str]], message: str
) -> None:
    with raises(PowerError, message):
        changes(text, wanted=WANTED + more)


def test_energies_by_hand() -> None:
    """Two cycles of a NAND before a register behind a clock gate, energies from `LIBRARY`."""
    instances = read_instances(NETLIST)
    cells = read_cells(LIBRARY, ["NAND2_X1", "DFF_X1", "CLKGATE_X1"])
    found = Changes(
        [("_1_", "ZN"), ("_2_", "GCK"), ("_4_", "Q")],
        rises=np.array([[2, 1, 1], [0, 0, 0]]),
        falls=np.array([[1, 1, 0], [0, 0, 0]]),
        before_rise=np.array([[1, 0, 0], [1, 0, 1]], bool),
        before_fall=np.array([[1, 1, 1], [1, 0, 1]], bool),
    )
    inputs = {"a": np.zeros((3, 2), bool)}
    slews = {"_1_/A1": (0.5, 0.5), "_1_/A2": (0.0, 0.0), "_4_/CK": (0.25, 0.25)}
    circuit = Circuit(instances=instances, cells=cells, slews=slews, outputs=["y"], load=4.0)
    sums = sum_energies(circuit, found, inputs)
    logic, registers = sums["combinational"], sums["sequential"]
    # The NAND drives D with 1 fF: rise (0.5: 3.2 at A1, 3 at A2), fall (0.5 at A1, 0 at A2).
    assert logic.internal == pytest.approx([2 * (3.2 + 3.0) / 2 + 1 * (0.5 + 0.0) / 2, 0.0])
    assert logic.switching == pytest.approx([0.5 * 1.0 * 1.21 * 3, 0.0])
    assert logic.leakage == 10.0
    # Q rises once: 5. CK falls once with D and Q high: 7. In the second cycle the gate is shut.
    assert registers.internal == pytest.approx([5.0 + 7.0, 0.0])
    # GCK drives 2 fF, Q nothing, the clock the 3 fF of the gate.
    assert registers.switching == pytest.approx([(0.5 * 2.0 * 2 + 3.0) * 1.21, 3.0 * 1.21])
    assert registers.leakage == 130.0


def test_what_leaves_a_unit_has_a_load() -> None:
    instances = read_instances(NETLIST.replace("assign y = \\held.q[3] ;\n", ""))
    cells = read_cells(LIBRARY, ["NAND2_X1", "DFF_X1", "CLKGATE_X1"])
    found = Changes(
        [("_1_", "ZN"), ("_2_", "GCK"), ("_4_", "Q")],
        *(np.array([[0, 0, 1]]) for _ in "rf"),
        *(np.zeros((1, 3), bool) for _ in "rf"),
    )
    inputs = {"a": np.zeros((2, 2), bool)}
    loads = []
    for load in (0.0, 4.0):
        circuit = Circuit(
            instances=instances, cells=cells, slews={}, outputs=["\\held.q[3]"], load=load
        )
        sums = sum_energies(circuit, found, inputs)
        (switched,) = sums["sequential"].switching
        loads.append(switched)
    assert loads[1] - loads[0] == pytest.approx(0.5 * 4.0 * 1.21 * 2)


def test_wires_are_loads() -> None:
    instances = read_instances(NETLIST)
    cells = read_cells(LIBRARY, ["NAND2_X1", "DFF_X1", "CLKGATE_X1"])
    found = Changes(
        [("_1_", "ZN"), ("_2_", "GCK"), ("_4_", "Q")],
        rises=np.array([[2, 0, 1]]),
        falls=np.array([[1, 0, 0]]),
        before_rise=np.zeros((1, 3), bool),
        before_fall=np.zeros((1, 3), bool),
    )
    inputs = {"a": np.zeros((2, 2), bool)}
    bare = Circuit(instances=instances, cells=cells, slews={}, outputs=["y"], load=4.0)
    wired = replace(bare, wires={"_0_": 3.0, "clk": 5.0, "unknown": 9.0})
    pair = [sum_energies(circuit, found, inputs) for circuit in (bare, wired)]
    logic, registers = (
        pair[1][part].switching - pair[0][part].switching
        for part in ("combinational", "sequential")
    )
    # Three changes behind the NAND, and the clock charges its wire once.
    assert logic == pytest.approx([0.5 * 3.0 * 1.21 * 3])
    assert registers == pytest.approx([5.0 * 1.21])


OUTPUTS = {"dot": 2, "done": 1}


def test_outputs_are_compared_after_the_clocks_skipped() -> None:
    assert compare_outputs("xxx\n010\n111\n", "0x1\n010\n111\n", OUTPUTS, 1) == 2


@pytest.mark.parametrize(
    ("verilog", "netlist", "message"),
    [
        ("000\n010\n", "000\n000\n", "dot[0] of the netlist differs from that of the Verilog in "),
        ("000\n010\n", "000\n01x\n", "done[0] of the netlist has no value in "),
        ("000\nx10\n", "000\n010\n", "dot[1] of the Verilog has no value in "),
    ],
)
def test_outputs_that_differ_are_an_error(verilog: str, netlist: str, message: str) -> None:
    with raises(PowerError, message + "cycle 1"):
        compare_outputs(verilog, netlist, OUTPUTS, 1)
    with raises(PowerError, "the netlist put out 1 rows, the Verilog 2"):
        compare_outputs(verilog, "000\n", OUTPUTS, 1)


def test_the_smallest_netlist_that_is_fast_enough_is_taken() -> None:
    area, timing = {"ge": 10.0, "delay_ns": 2.0}, {"ge": 20.0, "delay_ns": 1.0}
    assert usual_netlist({"area": area, "timing": timing}) == "area"
    assert usual_netlist({"area": {**area, "delay_ns": 2.1}, "timing": timing}) == "timing"
    slow = {"area": {**area, "delay_ns": 4.0}, "timing": {**timing, "delay_ns": 3.0}}
    assert usual_netlist(slow) == "timing"


def test_a_slow_netlist_gets_a_longer_clock() -> None:
    given = Stimulus(rows={}, skipped=2)
    periods = {delay: Power("", given, delay).period for delay in (0.5, 1.95, 1.96, 3.3)}
    assert periods == {0.5: 2.0, 1.95: 2.0, 1.96: 2.05, 3.3: 3.35}


DESIGN = Design(top="unit", sources={}, clocked=True, inputs={"a": 9}, outputs={"y": 1})


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ({"b": (8, 2)}, {}, "stimulus must be for ['a'], not ['b']"),
        ({"a": (8, 1)}, {}, "stimulus must have 2 bytes a row for a, not 1"),
        ({"a": (8, 2)}, {"skipped": 1}, "skipped must be from 2 to fewer than the 8 cycles, not 1"),
        ({"a": (8, 2)}, {"skipped": 7}, "skipped must be from 2 to fewer than the 8 cycles, not 7"),
        (
            {"a": (8, 2)},
            {"windows": 7},
            "windows must be from 2 to the 6 cycles that are counted, not 7",
        ),
        (
            {"a": (8, 2)},
            {"windows": 1},
            "windows must be from 2 to the 6 cycles that are counted, not 1",
        ),
    ],
)
def test_a_stimulus_has_to_fit(
    rows: dict[str, tuple[int, int]], options: dict[str, int], message: str
) -> None:
    arrays = {name: np.zeros(shape, np.uint8) for name, shape in rows.items()}
    with raises(ValueError, message):
        power.check_stimulus(Stimulus(rows=arrays, **{"skipped": 2, **options}), DESIGN.inputs)


def test_a_stimulus_for_another_unit_is_refused_before_anything_runs(tmp_path: Path) -> None:
    wrong = Stimulus(rows={"a": np.zeros((9, 1), np.uint8)}, skipped=2)
    configuration = replace(ONE_LANE, technologies=("ice40",))
    name = configuration.build().module_name
    with raises(ValueError, f"{name}: stimulus must be for ['a', 'en', 'w'], not ['a']"):
        synthesise([configuration], scratch=tmp_path, stimuli={name: wrong})
    with raises(ValueError, f"stimuli must be for one of {name}, not for other alone"):
        synthesise([configuration], scratch=tmp_path, stimuli={"other": wrong})
    fitting = Stimulus(
        rows={port: np.zeros((9, 1), np.uint8) for port in ("a", "en", "w")}, skipped=2
    )
    with raises(ValueError, "stimuli are for nangate45, not for ice40"):
        synthesise([configuration], scratch=tmp_path, stimuli={name: fitting})
    assert not list(tmp_path.iterdir())


def test_stimuli_are_files(tmp_path: Path) -> None:
    with raises(ValueError, f"{tmp_path} must hold stimuli, but there is no .npz file"):
        read_stimuli(tmp_path)
    rows = np.arange(6, dtype=np.uint8).reshape(3, 2)
    np.savez(tmp_path / "unit.npz", skipped=np.array(2), a=rows)
    found = read_stimuli(tmp_path)
    assert list(found) == ["unit"]
    assert found["unit"].skipped == 2
    assert found["unit"].rows["a"].tolist() == rows.tolist()
    np.savez(tmp_path / "unit.npz", skipped=np.array(2), a=rows.astype(np.int16))
    with pytest.raises(ValueError) as error:
        read_stimuli(tmp_path)
    path = tmp_path / "unit.npz"
    assert str(error.value) == f"{path} must be a stimulus: rows of bytes for every input"
    path.write_text("text")
    with pytest.raises(ValueError, match="must be a stimulus: "):
        read_stimuli(tmp_path)


PART = {"internal": 1.0, "switching": 0.5, "leakage": 0.25}
FOUND: dict[str, Any] = {
    "sums": {"sequential": PART, "combinational": PART},
    "of_clocks": [3.0] * 48 + [4.0] * 48,
    "nets": 10,
    "changes_per_net": 0.5,
    "outputs_compared": 96,
    "vectorless": {"vectorless": {"0.1": 1.23456}, "vectorless_gates_open": {"0.1": 2}},
}


def test_the_report_is_read() -> None:
    flow = Power("", Stimulus(rows={}, skipped=2), 1.0)
    numbers = flow.read(DESIGN, {"power.json": json.dumps(FOUND)})
    assert numbers["clock"]["total_pj"] == 3.5
    assert numbers["clock"]["clocks"] == 96
    assert numbers["clock"]["standard_error"] == round(1 / 12**0.5 / 3.5, 6)  # of 3, 3, 4 and 4
    assert numbers["sequential"] == {"internal_pj": 1.0, "switching_pj": 0.5, "leakage_pj": 0.25}
    assert numbers["vectorless"] == {"0.1": 1.2346}
    assert numbers["vectorless_gates_open"] == {"0.1": 2.0}
    for text, message in {
        "": "no energies of unit in: ''",
        "{}": "no energies of unit in: '{}'",
        json.dumps({**FOUND, "changes_per_net": 0.0}): "no net of unit changed in the 96 cycles "
        "counted",
        json.dumps({**FOUND, "sums": {"sequential": dict.fromkeys(PART, 0.0)}}): "unit must take "
        "some energy, not 0.0 pJ a cycle",
    }.items():
        with raises(SynthesisError, message):
            flow.read(DESIGN, {"power.json": text})


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with raises(
        SynthesisError,
        "power needs the program iverilog: install Icarus Verilog (the Debian package iverilog)",
    ):
        Power.check()


@pytest.fixture
def tools() -> None:
    """Skip where the library, OpenSTA or the simulator is not installed."""
    try:
        TECHNOLOGIES["nangate45"].check()
        Power.check()
    except SynthesisError as error:
        pytest.skip(str(error))


@pytest.mark.full
@pytest.mark.usefixtures("tools")
def test_clock_gates_save_energy_and_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"rows": 2, "columns": 2, "lanes": 1, "accumulators": 1}
    unit = Case(name="unit", unit="pu_exact", options=options, technologies=("nangate45",))
    given = stimulus(unit)
    assert given is not None
    stimuli = {unit.build().module_name: given}
    before = Nangate45.recipe

    def recipe(gated: bool, self: Nangate45, design: Design) -> Recipe:
        found = before(self, design)
        script = found.files["prepare.ys"].splitlines(keepends=True)
        kept = [line for line in script if gated or not line.startswith("clockgate")]
        assert (len(kept) == len(script)) == gated
        return replace(found, files={**found.files, "prepare.ys": "".join(kept)})

    energies = []
    for gated in (False, True):
        monkeypatch.setattr(
            Nangate45,
            "recipe",
            lambda self, design, gated=gated: recipe(gated, self, design),
        )
        (result,) = synthesise([unit], scratch=tmp_path, stimuli=stimuli)["results"]
        energies.append(result["power"]["mac_pj"])
        reports = [json.loads(path.read_text()) for path in tmp_path.glob("nangate45-*.json")]
        netlists = [r["report"]["timing.v"] for r in reports if "timing.v" in r["report"]]
        assert any("CLKGATE" in netlist for netlist in netlists) == gated
    assert energies[1] < 0.95 * energies[0]


@pytest.mark.full
@pytest.mark.usefixtures("tools")
def test_power_of_a_real_unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = stimulus(ONE_LANE)
    assert given is not None
    name = ONE_LANE.build().module_name
    lines: list[str] = []

    def run(rows: Stimulus) -> dict[str, Any]:
        found = synthesise(
            [ONE_LANE], jobs=1, scratch=tmp_path, stimuli={name: rows}, progress=lines.append
        )
        (result,) = found["results"]
        assert found["tools"]["iverilog"]
        return result

    busy = run(given)
    assert [line.split("  ")[-1] for line in lines] == [
        "one lane on nangate45",
        "one lane on nangate45, power of area",
    ]
    figures = busy["power"]
    assert figures["netlist"] == "area"
    assert figures["mac_pj"] == figures["multiply_pj"] == figures["clock"]["total_pj"]
    assert 0.2 < figures["mac_pj"] < 5.0
    parts = [
        figures[part][f"{kind}_pj"] for part in ("sequential", "combinational") for kind in PART
    ]
    assert figures["mac_pj"] == pytest.approx(sum(parts), abs=1e-3)
    assert figures["clock"]["outputs_compared"] == len(given.rows["a"]) - given.skipped
    # Without operands and glitches it takes less, and more the more changes are supposed.
    for supposed in ("vectorless", "vectorless_gates_open"):
        least, more = (figures[supposed][str(activity)] for activity in ACTIVITIES)
        assert 0.0 < least < more < figures["mac_pj"]
    lines.clear()
    assert run(given) == busy
    assert lines == ["1 of 1 jobs done before"] * 2

    # Operands that hardly ever change cost the clock and the leakage, and little else.
    start = given.skipped + 4
    held = {port: np.repeat(rows[:1], len(rows), axis=0) for port, rows in given.rows.items()}
    held["a"][start:] ^= 1
    idle = run(Stimulus(rows=held, skipped=given.skipped))["power"]
    assert idle["combinational"]["switching_pj"] < 0.01 * figures["combinational"]["switching_pj"]
    assert 0.0 < idle["sequential"]["internal_pj"] < figures["sequential"]["internal_pj"]
    for part in ("sequential", "combinational"):
        assert idle[part]["leakage_pj"] == figures[part]["leakage_pj"]
    held["a"][start:] ^= 1
    with pytest.raises(SynthesisError) as error:
        run(Stimulus(rows=held, skipped=given.skipped))
    assert str(error.value).startswith(f"no net of {name} changed in the ")

    # A netlist that is not the Verilog's is an error, not a number.
    before = synthesis._power_jobs

    def broken(jobs: Any, reports: Any, *others: Any) -> Any:
        spoilt = [
            {**report, "area.v": report["area.v"].replace("  NAND2_X1 ", "  NOR2_X1 ")}
            for report in reports
        ]
        return before(jobs, spoilt, *others)

    monkeypatch.setattr(synthesis, "_power_jobs", broken)
    with pytest.raises(SynthesisError) as error:
        run(given)
    first, *tail = str(error.value).splitlines()
    assert first.startswith("one lane on nangate45, power of area: python ended with code 1, log ")
    assert tail[-1].startswith("power: dot[")
    assert " of the netlist differs from that of the Verilog in cycle " in tail[-1]
    assert switching.SETTLED < 0.05


REPLAY = Case(
    name="rows",
    unit="row_replay",
    options={"beat_bits": 32, "depth": 64, "summary_bits": 1},
    technologies=("nangate45",),
)


@pytest.mark.full
@pytest.mark.usefixtures("tools")
def test_power_beside_a_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inputs of a memory are compared, its outputs are present, and neither costs power."""
    given = stimulus(REPLAY)
    assert given is not None
    name = REPLAY.build().module_name
    stimuli = {name: given}
    (result,) = synthesise([REPLAY], jobs=1, scratch=tmp_path, stimuli=stimuli)["results"]
    figures = result["power"]
    assert result["macs"] is None
    assert "mac_pj" not in figures
    clock, each = figures["clock"], figures["result"]
    assert (
        clock["outputs_compared"]
        == clock["clocks"]
        == len(given.rows["s_axis_tlast"]) - (given.skipped)
    )
    assert each["count"] == given.results == clock["clocks"] // 2
    assert each["total_pj"] == pytest.approx(2 * clock["total_pj"], abs=1e-3)
    # 32 bits of 64 beats would be two thousand registers.
    assert clock["nets"] < 1000

    before = synthesis._power_jobs

    def elsewhere(jobs: Any, reports: Any, *others: Any) -> Any:
        """The memory is read at another address than the Verilog says."""
        spoilt = []
        for report in reports:
            (macro,) = json.loads(report["macros.json"])
            address = f"{macro['name']}_read_address"
            netlist = report["area.v"].replace(f"({address}[0])", "(swapped)")
            netlist = netlist.replace(f"({address}[1])", f"({address}[0])")
            spoilt.append({**report, "area.v": netlist.replace("(swapped)", f"({address}[1])")})
        return before(jobs, spoilt, *others)

    monkeypatch.setattr(synthesis, "_power_jobs", elsewhere)
    with pytest.raises(SynthesisError) as error:
        synthesise([REPLAY], jobs=1, scratch=tmp_path, stimuli=stimuli)
    assert "memory_read_address[" in str(error.value)


ADDER = Case(
    name="adder",
    unit="vector_arithmetic",
    options={"operations": "add", "lanes": 1},
    technologies=("nangate45",),
)


@pytest.mark.full
@pytest.mark.usefixtures("tools")
def test_power_of_parts_that_are_synthesised_once(tmp_path: Path) -> None:
    (design,) = synthesis._designs([ADDER.build()], None)
    assert len(design.kept) == 1
    given = stimulus(ADDER)
    assert given is not None
    stimuli = {ADDER.build().module_name: given}
    (result,) = synthesise([ADDER], jobs=1, scratch=tmp_path, stimuli=stimuli)["results"]
    clock = result["power"]["clock"]
    assert clock["outputs_compared"] == clock["clocks"] == given.results > 50
    assert clock["nets"] > 0.9 * result["numbers"][result["power"]["netlist"]]["cells"]
