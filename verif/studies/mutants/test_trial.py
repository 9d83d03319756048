"""The trial of a module: what tests drive is recorded and replayed, and the tests run again."""

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from studies.mutants import __main__ as program
from studies.mutants import designs, record, trial
from studies.mutants.designs import Design, Pins, Run
from studies.mutants.mutation import Mutant, Mutants, mutate
from studies.mutants.replay import Replayed, _by_turns, build, replay
from studies.proofs import all_proofs
from verif.studies.counting_stream import counting_stream
from verif.support import recording, simulators
from verif.support.manifest import Module, Words, made_from
from verif.support.simulators import run_lockstep
from verif.support.tests import available


def _stimulus(module: Module, clocks: int) -> dict[str, Words]:
    rng = np.random.default_rng(1)
    ends = np.arange(clocks) >= clocks - 8
    values = {
        "rst": np.arange(clocks) % 1500 < 2,
        "s_axis_tdata": rng.integers(0, 256, clocks),
        "s_axis_tvalid": (rng.random(clocks) < 0.7) & ~ends,
        "m_axis_tready": (rng.random(clocks) < 0.7) | ends,
    }
    return {name: module.ports[name].words(column) for name, column in values.items()}


def _recorded(
    folder: Path, monkeypatch: pytest.MonkeyPatch, simulator: str, clocks: int
) -> tuple[Module, Design, dict[str, Words]]:
    """A unit, as a test simulates it, and what its inputs carried."""
    module = counting_stream(folder)
    stimulus = _stimulus(module, clocks)
    monkeypatch.setenv("MXSAFE_RECORD", str(folder / "records"))
    run_lockstep(available(simulator), module, stimulus, unsettled=clocks)
    monkeypatch.delenv("MXSAFE_RECORD")
    (design,) = designs.load(folder / "records")
    return module, design, stimulus


def test_inputs_are_recorded(
    simulator: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In every rising edge of the clock, those of the two cycles of reset first."""
    module, design, stimulus = _recorded(tmp_path, monkeypatch, simulator, 60)
    (run,) = design.runs
    assert (design.top, run.in_lockstep, run.watched) == (module.name, True, ())
    assert run.test.endswith(f"::test_inputs_are_recorded[{simulator}]")
    assert designs.designs_with([design], module.sources[0]) == [design]
    rows = designs.rows(run, design.pins, 1000)
    assert design.pins.of("input") == [(name, module.ports[name].width) for name in stimulus]
    for column, words in enumerate(stimulus.values()):
        assert rows[2:, column].tolist() == words[:, 0].tolist()


def test_unknown_bits_hide_no_others(tmp_path: Path) -> None:
    """A reset is recorded beside data that nobody drives yet."""
    available("icarus")
    unit, bench = tmp_path / "unit.v", tmp_path / "bench.v"
    unit.write_text("module unit(input clk, input [4:0] data, input rst);\nendmodule\n")
    bench.write_text(
        "module bench;\n  reg clk = 0, rst = 1;\n  reg [4:0] data;\n  unit unit(clk, data, rst);\n"
        "  initial begin #1 clk = 1; #1 clk = 0; data = 5'b10x01; #1 clk = 1; #1 $finish; end\n"
        "endmodule\n"
    )
    (tmp_path / "recorder").mkdir()
    sources = recording.recorded("unit", [unit, bench], tmp_path / "recorder")
    for words in (
        ["iverilog", "-s", "bench", "-o", "run", *map(str, sources)],
        ["vvp", "-n", "run"],
    ):
        subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / recording.PINS).read_text().split() == ["01", "23"]


def test_a_mutant_takes_the_place_of_its_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = counting_stream(tmp_path)
    wrong = tmp_path / "wrong" / module.sources[0].name
    wrong.parent.mkdir()
    wrong.write_text(module.sources[0].read_text().replace("beats + 1'h1", "beats + 2'h2"))
    stimulus = _stimulus(module, 60)
    right = run_lockstep(available("icarus"), module, stimulus, unsettled=60)
    monkeypatch.setenv("MXSAFE_MUTANT", str(wrong.parent))
    broken = run_lockstep("icarus", module, stimulus, unsettled=60)
    assert (right["m_axis_tdata"][:, 0] == broken["m_axis_tdata"][:, 0]).all()
    assert (right["m_axis_tdata"][:, 1] != broken["m_axis_tdata"][:, 1]).any()


def test_ports_of_modules() -> None:
    text = "module one(a, b);\n  input [3:0] a;\n  output b;\n  wire b;\nendmodule\n"
    assert recording.top_ports(text, "one") == {"a": ("input", 4), "b": ("output", 1)}
    text = "module two(input clk, input [3:0] a,\n  output reg [1:0] b\n);\nendmodule\n"
    ports = {"clk": ("input", 1), "a": ("input", 4), "b": ("output", 2)}
    assert recording.top_ports(text, "two") == ports
    assert recording.top_ports(text, "one") is None
    assert (
        recording.top_ports("module three #(parameter W = 1)(input a);\nendmodule", "three") is None
    )


@pytest.mark.full
def test_a_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In lockstep all is compared; else a payload while it is valid, and control is for later."""
    module, design, _ = _recorded(tmp_path, monkeypatch, "icarus", 2000)
    (run,) = design.runs
    found = trial.put_to_trial(
        module, [design], tmp_path / "lockstep", count=24, seed=1, quick=True
    )
    assert found is not None
    assert found["killed"] == 24
    assert not found["equivalent"] + found["alive"] + found["later"]
    stream = Design(
        design.top,
        design.sources,
        10**6,  # so that benches are for later
        design.pins,
        (Run(run.pins, "test", in_lockstep=False, in_beats=False, watched=()),),
    )
    loose = trial.put_to_trial(module, [stream], tmp_path / "stream", count=24, seed=1, quick=True)
    assert loose is not None
    assert len(loose["later"]) > 0
    assert found["killed"] >= loose["killed"] + len(loose["later"])
    monkeypatch.setattr(trial, "reason", lambda *_: "nobody sees it")
    monkeypatch.setattr(trial, "is_equivalent", lambda *_, **__: pytest.fail("a proof"))
    excused = trial.put_to_trial(
        module, [stream], tmp_path / "excused", count=24, seed=1, quick=False
    )
    assert excused is not None
    assert (excused["killed"], excused["later"]) == (loose["killed"], [])
    assert len(excused["alive"]) == len(loose["alive"]) + len(loose["later"])


_ROWS, _BENCH = ("first rows", "all rows"), ("a bench",)
_ORDERS = {
    "small": ({}, [*_ROWS, "a proof", *_ROWS, "a refutation"]),
    "waits": (
        {"waits": True},
        [*_ROWS, *_BENCH, "a proof", *_ROWS, *_BENCH, "a refutation"],
    ),
    "waits_before_programs": (
        {"waits": True, "programs": True},
        [*_ROWS, *_BENCH, "a proof", "first rows", *_BENCH, "all rows", *_BENCH, "a refutation"],
    ),
    "programs_first": (
        {"programs": True, "turned": True},
        ["first rows", "a proof", "all rows", *_ROWS, "a refutation"],
    ),
    "killed": ({"killed": [1]}, [*_ROWS, *_ROWS, "a refutation", "a proof"]),
    "refuted": (
        {"killed": [1], "refutes": True},
        [*_ROWS, *_ROWS, "a refutation", "a refutation"],  # and once without the mutant
    ),
    "alive": ({"alive": [1]}, [*_ROWS, *_ROWS, "a proof", "a refutation"]),
    "excused": ({"excused": True}, ["first rows"]),
    "specified": ({"specified": True}, [*_ROWS, *["a specification"] * 2]),  # one without it
    "quick": ({"quick": True}, [*_ROWS, "a proof", *_ROWS]),
    "quick_large": ({"quick": True, "size": 10**6}, [*_ROWS, "a proof"]),
    "quick_programs": (
        {"quick": True, "programs": True, "turned": True},
        ["first rows", "a proof", *_ROWS],
    ),
    "quick_waits": (
        {"quick": True, "waits": True},
        [*_ROWS, *_BENCH, "a proof", *_ROWS, *_BENCH],
    ),
    "quick_large_waits": ({"quick": True, "waits": True, "size": 10**6}, [*_ROWS]),
    "proved": ({"proved": [1]}, []),
}


@pytest.mark.parametrize("case", _ORDERS)
def test_order_of_a_trial(
    case: str, tmp_path: Path, modules: dict[str, Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mutants that nothing kills in two designs: cheap steps come first."""
    known, expected = _ORDERS[case]
    options: dict[str, Any] = dict(known)
    size, waits = options.pop("size", 1), options.pop("waits", False)
    excused, programs = options.pop("excused", False), options.pop("programs", False)
    refutes, specified = options.pop("refutes", False), options.pop("specified", False)
    turned = options.pop("turned", False)
    mutant = Mutant(1, "inv", "a[0]", 1, of_clock=False, is_idle=False)
    run = Run(tmp_path / "pins", "test", in_lockstep=True, in_beats=False, watched=())
    design = Design("top", (), size, Pins(()), (run,))
    two = [design, replace(design, runs=(replace(run, job={} if programs else None),))]
    two = two[::-1] if turned else two
    steps: list[str] = []

    def replayed(*_: object, most_rows: int, **__: object) -> Replayed:
        steps.append("all rows" if most_rows == 10**6 else "first rows")
        return Replayed(frozenset(), {1: ("test",)} if waits else {})

    def proved(*_: object) -> tuple[int, str]:
        steps.append("a refutation")
        return (1, "proof did fail") if refutes and steps.count(steps[-1]) == 1 else (0, "")

    def failing(step: str) -> Callable[..., object]:
        def does_not(*_: object, **__: object) -> object:
            steps.append(step)
            return False

        return does_not

    for name, stands_in in {
        "tried_in": lambda *_: two,
        "mutate": lambda *_, **__: Mutants("mxsf_decoder", (mutant,), "wire [0:0] mutant;"),
        "build": lambda *_: None,
        "replay": replayed,
        "unread": lambda *_, **__: frozenset(),
        "_choose": lambda *_: None,
        "_killed_by_benches": failing("a bench"),
        "is_equivalent": failing("a proof"),
        "proofs_of": lambda _: ["test"],
        "is_specified": lambda _: specified,
        "prove_datapath": lambda *_, **__: steps.append("a specification"),
        "_run": proved,
        "reason": lambda *_: "nobody sees it" if excused else "",
    }.items():
        monkeypatch.setattr(trial, name, stands_in)
    found = trial.put_to_trial(
        modules["mxsf_decoder"],
        [],
        tmp_path,
        count=1,
        seed=1,
        most_rows=10**6,
        **{"quick": False, **options},
    )
    assert found is not None
    assert steps == expected
    fates = {"proved": "equivalent", "refuted": "killed", "specified": "equivalent"}
    fate = "later" if known.get("quick") else fates.get(case, "alive")
    assert found[fate] == 1 if fate == "killed" else len(found[fate]) == 1


def test_claims(
    tmp_path: Path, modules: dict[str, Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proof that fails kills a mutant, if it succeeds without one; each is tried once."""
    module, mutants = modules["mxsf_decoder"], Mutants("mxsf_decoder", (), "wire [1:0] mutant;")
    path = tmp_path / "alone" / "mxsf_decoder.v"
    without, found, none, endless = (mutants.alone(number) for number in range(4))
    says = {
        found: (1, "Called with -verify and proof did fail!"),
        none: (0, "1 passed"),
        endless: (1, "no proof did end within 60 seconds"),
        without: (0, "1 passed"),
    }
    tried: list[str] = []

    def proved(*_: object) -> tuple[int, str]:
        assert made_from(path) == "mxsafe.rtl.mac.decoder"
        lines = path.read_text().splitlines(keepends=True)
        tried.append("".join(line for line in lines if not line.startswith("//")))
        return says[tried[-1]]

    monkeypatch.setattr(trial, "_run", proved)
    monkeypatch.setattr(trial, "is_specified", lambda _: False)
    monkeypatch.setattr(trial, "proofs_of", lambda _: ["test"])
    claims = trial._Claims(module, mutants, tmp_path)
    for _ in range(2):
        assert [claims.fate(number) for number in (1, 2, 3)] == ["killed", None, None]
    assert tried == [found, without, none, endless]
    says[without] = says[endless]
    with pytest.raises(AssertionError, match="fail without a mutant"):
        trial._Claims(module, mutants, tmp_path).fate(1)
    monkeypatch.setattr(trial, "proofs_of", lambda _: [])
    assert trial._Claims(module, mutants, tmp_path).fate(1) is None


@pytest.mark.parametrize(
    ("unit", "error", "fate"),
    [
        ("mxsf_decoder", "", "equivalent"),
        ("mxsf_decoder", "proof did fail: y", "killed"),
        ("mxsf_decoder", "no end", None),
        ("tag_queue", "", "equivalent"),
        ("tag_queue", "proof did fail: y", "killed"),
        # Registers of the unit may differ where no result does.
        ("tag_queue", "proof did fail: inside", None),
        ("row_replay", "proof did fail: y", None),
        ("safe_mac", "", None),
    ],
)
def test_specifications_tell_mutants(
    unit: str,
    error: str,
    fate: str | None,
    tmp_path: Path,
    modules: dict[str, Module],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """But none that are of the clock."""
    module = modules[unit]
    some = [Mutant(1, "inv", "a[0]", 1, of_clock=of, is_idle=False) for of in (False, True)]
    mutants = Mutants(module.name, tuple(some), "wire [1:0] mutant;")
    fails = {mutants.alone(1)}

    def proved(module: Module, _: Path, *, seconds: int) -> None:
        assert seconds > 0
        lines = module.sources[0].read_text().splitlines(keepends=True)
        if error and "".join(line for line in lines if not line.startswith("//")) in fails:
            raise AssertionError(error)

    monkeypatch.setattr(trial, "prove_datapath", proved)
    monkeypatch.setattr(trial, "is_wrong_at_ports", lambda *_, **__: error.endswith("y"))
    monkeypatch.setattr(trial, "proofs_of", lambda _: [])
    claims = trial._Claims(module, mutants, tmp_path)
    assert [claims.fate(number) for number in (1, 2)] == [fate, None]
    fails.add(mutants.alone(0))
    if fate == "killed":
        with pytest.raises(AssertionError, match="breaks its specification by itself"):
            trial._Claims(module, mutants, tmp_path).fate(1)


def test_what_is_proved_of_modules(modules: dict[str, Module]) -> None:
    """There are tests of these names, and a proof without a reset does not tell all."""
    page = trial._TESTS / "test_proofs.py"
    assert "\ndef test_all_of_the_page_is_proved(" in page.read_text()
    known = all_proofs(modules)
    for name, kind in [
        ("float32_adder_fpga", "pipelines"),
        ("safe_mac", "datapaths"),
        ("function_lane_pipeline8", "frames"),
    ]:
        assert (kind, name) in known
        test = f"{page}::test_all_of_the_page_is_proved[{kind}-{name}]"
        assert test in trial.proofs_of(modules[name])
    specified = {name for name, module in modules.items() if trial.is_specified(module)}
    assert {"relu", "tag_queue"} <= specified
    assert not {"safe_mac", "mxsf_pu", "function_lane_pipeline8", "beat_memory"} & specified


@pytest.mark.full
def test_beats_tell_more_than_handshakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit that is slower is right; one that drops beats, or stands still, is not."""
    module, design, _ = _recorded(tmp_path, monkeypatch, "verilator", 300)
    slow, drops, stands = 1, 2, 3
    text = module.sources[0].read_text()
    for right, mutants in (
        (
            "  assign s_axis_tready = moves & ~ rst;",
            "  wire [2:0] mutant;\n  reg odd;\n  always @(posedge clk) odd <= ~ odd & ~ rst;\n"
            f"  assign s_axis_tready = (moves | mutant == {drops}) & ~ rst"
            f" & ~ (mutant == {slow} & odd) & ~ (mutant == {stands} & beats > 90);",
        ),
        ("m_axis_tvalid <= s_axis_tvalid;", "m_axis_tvalid <= s_axis_tvalid & s_axis_tready;"),
    ):
        assert text.count(right) == 1
        text = text.replace(right, mutants)
    program = build([Mutants(module.name, (), text)], design, tmp_path / "beats")
    for in_beats, killed in ((False, set()), (True, {drops, stands})):
        run = replace(design.runs[0], in_lockstep=False, in_beats=in_beats)
        seen = replay(
            program,
            module.name,
            (slow, drops, stands),
            replace(design, runs=(run,)),
            tmp_path / "rows",
            most_rows=1000,
            seconds=60.0,
        )
        assert seen.killed == killed
        assert seen.other.keys() == {slow, drops, stands} - killed


@pytest.mark.full
def test_a_design_that_differs_from_itself_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it begins with what happens to be in memory, for instance: it would kill mutants."""
    module, design, _ = _recorded(tmp_path, monkeypatch, "verilator", 300)
    text = module.sources[0].read_text()
    ready, beats = "  assign s_axis_tready = ", "{ beats, s_axis_tdata }"
    assert text.count(ready) == text.count(beats) == 1
    opened = (
        '  import "DPI-C" function int dup(input int file);\n  wire [2:0] mutant;\n'
        "  integer opened;\n  initial opened = dup(1);\n"  # one more at each call
    )
    text = text.replace(ready, opened + ready).replace(beats, f"opened ^ {beats}")
    program = build([Mutants(module.name, (), text)], design, tmp_path / "any")
    with pytest.raises(
        AssertionError, match=rf"^{design.top} differs from itself in cycle \d+ of "
    ):
        replay(program, module.name, [1], design, tmp_path / "rows", most_rows=1000, seconds=60.0)


@pytest.mark.full
def test_outputs_that_nobody_watches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, design, _ = _recorded(tmp_path, monkeypatch, "icarus", 500)
    (run,) = design.runs
    mutants = mutate(module, tmp_path / "drawn", count=24, seed=1)
    program = build([mutants], design, tmp_path / "watched")
    killed = {}
    for watched in ((), ("s_axis_tready",)):
        one = Run(run.pins, run.test, in_lockstep=True, in_beats=False, watched=watched)
        seen = Design(design.top, design.sources, design.size, design.pins, (one,))
        found = replay(
            program,
            module.name,
            range(1, 25),
            seen,
            tmp_path / "rows",
            most_rows=1000,
            seconds=60.0,
        )
        killed[watched] = found.killed
    assert killed[("s_axis_tready",)] < killed[()]


@pytest.mark.parametrize(
    "bad",
    [
        "raise KeyboardInterrupt",
        pytest.param("def test_it() -> None: assert False", marks=pytest.mark.variant),
    ],
    ids=["stop", "fail"],
)
def test_recordings_that_are_interrupted_or_fail(bad: str, tmp_path: Path) -> None:
    """They are recorded the next time; others, after them too, are kept."""
    option = 'def pytest_addoption(parser): parser.addoption("--variants", action="store_true")'
    (tmp_path / "conftest.py").write_text(option)
    good = "def test_it() -> None: pass"
    texts = {"bad": bad, "good": good, "other": good}
    files = {name: tmp_path / f"test_{name}.py" for name in texts}
    for name, file in files.items():
        file.write_text(texts[name])
    folder = tmp_path / "records"
    with pytest.raises(AssertionError, match=r"bad\.py was not recorded"):
        list(designs.record(folder, [*files.values()]))
    files["bad"].write_text(good)
    again = [file for file, _, _ in designs.record(folder, [*files.values()], jobs=2)]
    assert again == [files["bad"]]
    assert list(designs.record(folder, [*files.values()])) == []


SAMPLE = {
    "largest_exponent_count8": "stream/test_largest_exponent.py",
    "mxsf_decoder": "mac/test_decoder.py",
    "mxsf_operand_packer": "stream/test_operand_packer.py",
    "tile_transposer": "machine/dma/test_tile_transposer.py",
    "transposer": "stream/test_transposer.py",
}
"""Modules of some rooms, and tests that kill their mutants."""


@pytest.mark.full
@pytest.mark.parametrize("name", SAMPLE)
def test_modules_of_gen_are_tried(name: str, tmp_path: Path, modules: dict[str, Module]) -> None:
    """From their tests to their score, which is the published one or better."""
    tests = [Path(__file__).parents[2] / "rtl" / SAMPLE[name]]
    assert [file for file, _, _ in designs.record(tmp_path / "records", tests)] == tests
    found = trial.put_to_trial(
        modules[name],
        designs.load(tmp_path / "records"),
        tmp_path / "work",
        count=record.COUNT,
        seed=record.SEED,
        quick=False,
    )
    assert found is not None
    assert json.loads(json.dumps(found)) == found
    published = record.read()["modules"][name]
    assert (found["mutants"], found["later"]) == (published["mutants"], [])
    numbers = {mutant["number"] for mutant in published["alive"]}
    assert {mutant["number"] for mutant in found["alive"]} <= numbers
    assert found["killed"] >= published["killed"]


def _run_of(test: str) -> Run:
    return Run(Path(), test, in_lockstep=False, in_beats=False, watched=())


def test_programs_of_each_test_come_before_more_of_them() -> None:
    names = ["a[1]", "a[2]", "b", "a[3]", "b", "c"]
    found = [run.test for run in _by_turns(list(map(_run_of, names)))]
    assert found == ["a[1]", "b", "c", "a[2]", "b", "a[3]"]


@pytest.mark.parametrize(
    ("is_large", "fails_on", "fails_without", "order"),
    [
        (False, "", "none", ["", "without"]),
        (True, "verilator", "none", ["verilator", "without verilator"]),
        (True, "", "none", ["verilator", "", "without"]),
        (True, "none", "none", ["verilator", ""]),
        (True, "", "verilator", ["verilator", "without verilator", "", "without"]),
    ],
    ids=["small", "large", "by_its_own_simulator_alone", "alive", "not_for_verilator"],
)
def test_simulators_of_benches(
    is_large: bool,
    fails_on: str,
    fails_without: str,
    order: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Large designs are compiled first; what that does not kill the simulator of the test may."""
    seen = []

    def run(_: object, variables: Mapping[str, str]) -> tuple[int, str]:
        simulator, chosen = variables["MXSAFE_SIMULATOR"], variables["MXSAFE_ARGUMENTS"]
        seen.append(simulator if chosen else f"without {simulator}".strip())
        fails = simulator == fails_without or (bool(chosen) and simulator == fails_on)
        return int(fails), ""

    monkeypatch.setattr(trial, "_run", run)
    mutants = Mutants("mxsf_decoder", (), "")
    benches = [trial._Bench("test_of_it", tmp_path, is_large)]
    for _ in range(2):  # that a bench passes without a mutant is seen once
        assert trial._killed_by_benches(mutants, 1, benches) == (fails_on != "none")
    again = [s for s in order if s != "without" and s != f"without {fails_on}"]
    assert seen == order + again


@pytest.mark.parametrize(("asked_for", "taken"), [("verilator", "verilator"), ("", "icarus")])
def test_the_simulator_that_was_asked_for(
    asked_for: str, taken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = counting_stream(tmp_path)
    monkeypatch.setenv("MXSAFE_SIMULATOR", asked_for)
    monkeypatch.setattr(simulators, "_build", lambda simulator, *_: pytest.fail(simulator))
    with pytest.raises(pytest.fail.Exception, match=f"^{taken}$"):
        run_lockstep("icarus", module, _stimulus(module, 60), unsettled=60)


def test_pins_of_a_clocked_design() -> None:
    pins = Pins((("clk", "input", 1), ("a", "input", 40), ("b", "output", 2)))
    assert pins.clocked
    assert pins.of("input") == [("a", 40)]


def test_modules_that_are_due(modules: dict[str, Module], monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules without a result, or changed since; then those with survivors."""
    name, other = "mxsf_decoder", "transposer"
    known = {name: modules[name], other: modules[other]}
    lives = {"mode": "inv", "place": "a[0]"}
    found = {"digest": modules[name].digest, "alive": [lives], "later": []}
    monkeypatch.setattr(program, "reason", lambda *_: "nobody sees it")
    for words, due in (
        ([], [other]),
        (["--again"], [other]),
        (["--again", "--reasons"], [name, other]),
        (["--anew", name], [name]),
        ([name], []),
    ):
        options = program._parser().parse_args(words)
        assert program._due(options.names, known, {name: found}, options) == due
    options = program._parser().parse_args([])
    assert program._due([], known, {name: {**found, "digest": ""}}, options) == [name, other]
    monkeypatch.setattr(program, "reason", lambda *_: "")
    options = program._parser().parse_args(["--again"])
    assert program._due([], known, {name: found}, options) == [name, other]


def test_what_is_tried_anew_goes_on_after_an_interrupt(tmp_path: Path) -> None:
    anew = program._Anew(tmp_path / "work" / "anew")
    assert "decoder" not in anew
    anew.add("decoder")
    anew.add("encoder")
    later = program._Anew(tmp_path / "work" / "anew")
    assert "decoder" in later
    assert "coder" not in later
    later.forget()
    assert "encoder" not in anew
    anew.forget()


def test_modules_side_by_side_are_of_different_designs() -> None:
    run = Run(Path("one/pins"), "test", in_lockstep=True, in_beats=False, watched=())
    one = Design("top", (), 1, Pins(()), (run,))
    other = replace(one, runs=(replace(run, pins=Path("other/pins")),))
    places = {"first": [one], "second": [one, other], "third": [other, one]}
    assert program._next(["first", "second", "third"], [], places) == "first"
    assert program._next(["second", "third"], ["first"], places) == "third"
    assert program._next(["second"], ["first", "third"], places) == "second"


def test_one_of_the_modules_side_by_side_is_large() -> None:
    places = {
        name: [Design(name, (), size, Pins(()), (replace(_run_of(""), pins=Path(name) / "pins"),))]
        for size, name in enumerate("abcde")
    }
    left, running, taken = list("abcde"), [], []
    while left:
        name = program._next(left, running, places)
        left.remove(name)
        running.append(name)
        taken.append(name)
        if len(running) == 2:
            running.remove(min(running))  # small ones end soon
    assert "".join(taken) == "aebcd"


def test_tests_of_a_file(
    tmp_path: Path,
    modules: dict[str, Module],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """They are recorded alone, and do not tell which modules no test simulates."""
    first, other = "mxsf_decoder", "transposer"
    design = Design("top", (), 1, Pins(()), (_run_of(""),))
    recorded, written, tried = [], [], []

    def records(_: Path, files: Sequence[Path], *, jobs: int) -> list[tuple[Path, int, int]]:
        recorded.extend(files)
        return []

    def tries(due: Sequence[str], *_: object) -> Iterator[str]:
        tried.extend(due)
        return iter(due)

    known = {name: modules[name] for name in (first, other)}
    results: dict[str, Any] = {"modules": {}, "unseen": ["another"]}
    monkeypatch.setattr(program, "FOLDER", tmp_path)
    monkeypatch.setattr(program.manifest, "generated", lambda: known)
    monkeypatch.setattr(program.record, "read", lambda: results)
    monkeypatch.setattr(program, "record_tests", records)
    monkeypatch.setattr(
        program, "tried_in", lambda module, _: [design] if module.name == known[first].name else []
    )
    monkeypatch.setattr(program, "_try_all", tries)
    monkeypatch.setattr(program, "_write", written.append)
    assert program.main([first, "--tests", __file__]) == 0
    assert recorded == [Path(__file__)]
    assert tried == [first]
    assert written == [results]
    assert results["unseen"] == ["another"]
    assert program.main(["*", "--recorded"]) == 0
    assert len(written) == 2
    for name, words in (
        (other, [first, other, "--recorded"]),
        ("trans*", ["trans*", "--tests", __file__]),
    ):
        with pytest.raises(SystemExit):
            program.main(words)
        message = f"MODULE must be one that a recorded test simulates, not {name!r}\n"
        assert capsys.readouterr().err.endswith(message)
    assert len(written) == 2

    def interrupted(*_: object) -> Iterator[str]:
        raise KeyboardInterrupt

    monkeypatch.setattr(program, "_try_all", interrupted)
    with pytest.raises(KeyboardInterrupt):
        program.main([first, "--recorded"])
    assert len(written) == 3


_THREE = ("mxsf_decoder", "safe_mac", "transposer")


@pytest.mark.parametrize(
    ("words", "before", "failing", "tried", "after"),
    [
        (["--anew"], _THREE[1:2], (), _THREE[::2], None),
        (["--anew"], _THREE[1:2], _THREE[2:], _THREE[::2], _THREE[1::-1]),
        (["--anew"], _THREE, (), (), None),
        (["--anew", "safe_mac"], _THREE[1:2], (), _THREE[1:2], _THREE[1:2]),
        ([], _THREE[1:2], (), (), _THREE[1:2]),
    ],
    ids=["interrupted", "one_fails", "interrupted_at_the_end", "one_module", "not_anew"],
)
def test_the_list_of_what_is_tried_anew(
    words: list[str],
    before: tuple[str, ...],
    failing: tuple[str, ...],
    tried: tuple[str, ...],
    after: tuple[str, ...] | None,
    tmp_path: Path,
    modules: dict[str, Module],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It holds modules of a whole trial that have a result, until all of them have one."""
    known = {name: modules[name] for name in _THREE}
    found = {name: {"digest": one.digest, "alive": [], "later": []} for name, one in known.items()}
    run = Run(Path("pins"), "test", in_lockstep=True, in_beats=False, watched=())
    design = Design("top", (), 1, Pins(()), (run,))
    names: list[str] = []

    def tries(due: Sequence[str], *_: object) -> Iterator[str]:
        names.extend(due)
        return (name for name in due if name not in failing)

    monkeypatch.setattr(program, "FOLDER", tmp_path)
    monkeypatch.setattr(program.manifest, "generated", lambda: known)
    monkeypatch.setattr(program.record, "read", lambda: {"modules": found})
    monkeypatch.setattr(program, "load", lambda _: [])
    monkeypatch.setattr(program, "tried_in", lambda *_: [design])
    monkeypatch.setattr(program, "_try_all", tries)
    monkeypatch.setattr(program, "_write", lambda _: None)
    kept = tmp_path / "anew"
    kept.write_text("".join(f"{name}\n" for name in before))
    assert program.main(["--recorded", *words]) == 0
    assert sorted(names) == list(tried)
    assert (tuple(kept.read_text().split()) if kept.exists() else None) == after
