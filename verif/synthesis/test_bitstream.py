"""Bitstreams: constraints, reports of nextpnr, and that a clock that is missed leaves nothing."""

import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mxsafe.rtl.board.ulx3s import PINS, Ulx3sConfiguration
from mxsafe.synthesis import bitstream
from mxsafe.synthesis.bitstream import (
    ALONE,
    IN_BLOCKS,
    Bitstream,
    Clock,
    constraints,
    in_block_ram,
    make_bitstream,
    mapped_alone,
    read_report,
)
from mxsafe.synthesis.technologies import SynthesisError
from mxsafe.verilog.parameters import without_parameters
from verif.cli.command import run_in
from verif.host.copying_machine import copying_machines
from verif.host.host_programs import SMALL
from verif.support.manifest import Module
from verif.support.tests import raises

# No other test generates a machine of this configuration.
BOARD = Ulx3sConfiguration(machine=replace(SMALL, queue_depth=9), memory_bytes=4096, clock_mhz=25)
CELLS = {"TRELLIS_COMB": 1395, "TRELLIS_FF": 804, "DP16KD": 65, "MULT18X18D": 0}


def report(reached: float = 71.2, wanted: float = 50.0) -> str:
    return json.dumps(
        {
            "fmax": {"$glbnet$clk": {"achieved": reached, "constraint": wanted}},
            "utilization": {kind: {"used": n, "available": 90_000} for kind, n in CELLS.items()},
        }
    )


def test_constraints() -> None:
    lines = constraints().splitlines()
    assert 'LOCATE COMP "ftdi_txd" SITE "M1";' in lines
    assert 'LOCATE COMP "led[7]" SITE "H3";' in lines
    assert 'IOBUF PORT "fire1" IO_TYPE=LVCMOS33 PULLMODE=DOWN;' in lines
    assert 'FREQUENCY PORT "clk_25mhz" 25 MHZ;' in lines
    assert sum(line.startswith("LOCATE") for line in lines) == sum(len(p.sites) for p in PINS)


def test_reports() -> None:
    found = read_report(report(), 25)
    assert found["clocks"] == (Clock("$glbnet$clk", 71.2, 50.0),)
    assert (found["luts"], found["memories"]) == ((1395, 90_000), (65, 90_000))
    for text in ("", "[]", "{}", json.dumps({"fmax": {}, "utilization": {}})):
        with raises(SynthesisError, f"nextpnr wrote no report: {text!r}"):
            read_report(text, 25)
    with raises(SynthesisError, "nextpnr reported no clock"):
        read_report(json.dumps(json.loads(report()) | {"fmax": {}}), 25)


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[str]]:
    """Tools that write what they would; returns what is run when nextpnr reports a text."""

    def prepare(text: str) -> list[str]:
        ran: list[str] = []

        def run(folder: Path, tool: str, arguments: tuple[str, ...], progress: object) -> None:
            ran.append(" ".join([tool, *arguments]))
            if tool == "nextpnr-ecp5":
                (folder / "report.json").write_text(text)
            if tool == "ecppack":
                (folder / arguments[-1]).write_bytes(b"bits")

        monkeypatch.setattr(bitstream, "_run", run)
        monkeypatch.setattr(
            bitstream, "call_first", lambda tools, call: ran.append(" ".join(["first", *tools]))
        )
        monkeypatch.setattr(bitstream, "check_wheel", lambda technology, tool: None)
        return ran

    return prepare


def test_what_is_mapped_alone(modules: dict[str, Module]) -> None:
    """Every part of a name in the list is one of a module of the default machine on its board."""
    sources = [path.name for path in modules["mxsf_accelerator_fpga"].sources]
    alone = mapped_alone([*sources, "serial_bridge.v"])
    assert [part for part in ALONE if not any(part in name for name in alone)] == []
    assert 0 < len(alone) < len(sources) // 2


def test_what_is_in_block_ram(modules: dict[str, Module], tmp_path: Path) -> None:
    """Memories of arrays and of buffers of operands, none of descriptors."""
    files = modules["mxsf_accelerator_fpga"].sources
    texts = without_parameters({path.stem: path.read_text() for path in files})
    for name, text in texts.items():
        (tmp_path / f"{name}.v").write_text(text)
    inside = {
        f"{name}.v": re.findall(r"^ *(mxsafe_beat_memory\w*) ", text, re.MULTILINE)
        for name, text in texts.items()
    }
    assert {f"{memory}.v" for own in inside.values() for memory in own} <= inside.keys()
    found = in_block_ram(tmp_path, inside)
    for part in (*IN_BLOCKS, "descriptor_queue", "fetch_"):
        own = {memory for name, those in inside.items() if part in name for memory in those}
        assert own
        assert own & set(found) == (own if part in IN_BLOCKS else set())


def test_a_bitstream(tools: Callable[[str], list[str]], tmp_path: Path) -> None:
    ran = tools(report())
    lines: list[str] = []
    with copying_machines():
        made = make_bitstream(BOARD, tmp_path / "new", seed=3, progress=lines.append)
    assert made.path.read_bytes() == b"bits"
    assert ran.pop(0) == "first yosys nextpnr-ecp5 ecppack"
    assert [line.split()[0] for line in ran] == [
        "yosys",
        "python",
        "python",
        "nextpnr-ecp5",
        "python",
        "nextpnr-ecp5",
        "ecppack",
    ]
    assert ran[1].split()[2:6] == [
        "mxsafe.synthesis.copies",
        "ulx3s.json",
        "ulx3s.json",
        "copies.json",
    ]
    assert ran[2].split()[2:] == ["mxsafe.synthesis.dsp_places", "ulx3s.json"]
    for line in (ran[3], ran[5]):
        assert "--85k" in line
        assert "--seed 3" in line
    # The first placement gives places to memories and multipliers, which the second one takes.
    assert "--placer static --no-route --write placed.json" in ran[3]
    assert ran[4].split()[2:] == ["mxsafe.synthesis.spread_blocks", "placed.json", "ulx3s.json"]
    assert "--router router2" in ran[5]
    assert lines[:2] == ["preparing tools", "generating Verilog"]
    script = (tmp_path / "new" / "ulx3s.ys").read_text()
    assert 'setattr -set ICP_CURRENT "12" t:EHXPLLL' in script
    alone = "setattr -mod -set keep_hierarchy 1 serial_bridge"
    assert script.index(alone) < script.index("synth_ecp5") < script.index("flatten")
    read = script.splitlines()[0].split()[1:]
    assert all((tmp_path / "new" / name).exists() for name in read)
    assert (tmp_path / "new" / "ulx3s.lpf").read_text() == constraints()
    assert made.text.splitlines() == [
        str(made.path),
        "   1,395 of 90,000 LUT4s",
        "     804 of 90,000 flip-flops",
        "      65 of 90,000 block RAMs of 18 kbit",
        "       0 of 90,000 multipliers of 18x18",
        "    71.2 MHz reached of 50.0 wanted: $glbnet$clk",
    ]


def test_nothing_is_left_of_a_clock_that_is_missed(
    tools: Callable[[str], list[str]], tmp_path: Path
) -> None:
    (tmp_path / "ulx3s.bit").write_bytes(b"an earlier one")
    ran = tools(report(reached=49.99))
    with (
        copying_machines(),
        raises(
            SynthesisError,
            "the timing is not met: $glbnet$clk reaches 49.99 of 50.00 MHz. There is no bitstream: "
            f"take a lower clock or another seed; paths are in {tmp_path / 'nextpnr-ecp5.log'}",
        ),
    ):
        make_bitstream(BOARD, tmp_path)
    assert [line.split()[0] for line in ran] == [
        "first",
        "yosys",
        "python",
        "python",
        "nextpnr-ecp5",
        "python",
        "nextpnr-ecp5",
    ]
    assert not list(tmp_path.glob("*.bit"))


def test_a_clock_that_nextpnr_was_content_with(
    tools: Callable[[str], list[str]], tmp_path: Path
) -> None:
    """The machine's own clock has to be reached, whatever the report says is wanted."""
    tools(report(reached=24.99, wanted=12.0))
    with copying_machines(), pytest.raises(SynthesisError, match=r"reaches 24.99 of 25.00 MHz"):
        make_bitstream(BOARD, tmp_path)
    assert not list(tmp_path.glob("*.bit"))


def test_nothing_is_left_of_a_bitstream_that_fails(
    tools: Callable[[str], list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools(report())
    run = bitstream._run

    def fail(folder: Path, tool: str, arguments: tuple[str, ...], progress: object) -> None:
        run(folder, tool, arguments, progress)
        if tool == "ecppack":
            raise SynthesisError("ecppack ended with code 1")

    monkeypatch.setattr(bitstream, "_run", fail)
    with copying_machines(), pytest.raises(SynthesisError):
        make_bitstream(BOARD, tmp_path)
    known = {".v", ".f", ".sdc", ".lpf", ".ys", ".json"}
    assert {path.suffix for path in tmp_path.rglob("*") if path.is_file()} <= known


def test_what_is_refused_before_tools_start(
    tools: Callable[[str], list[str]], tmp_path: Path
) -> None:
    """Verilog of other designs stays as it was."""
    ran = tools(report())
    manifest = {"tops": ["mxsf_mac", "ulx3s"], "modules": {"mxsf_mac": {}}}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    (tmp_path / "mxsf_mac.v").write_text("module mxsf_mac; endmodule\n")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for seed, message in (
        (
            1,
            f"folder must have Verilog of ulx3s alone, but {tmp_path} has that of mxsf_mac: "
            "take another",
        ),
        (-1, "seed must be a non-negative integer, not -1"),
    ):
        with raises(ValueError, message):
            make_bitstream(BOARD, tmp_path, seed=seed)
    assert ran == []
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_tool_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import sys; print('no room'); sys.exit(3)"
    monkeypatch.setattr(bitstream, "command", lambda tool: [sys.executable, "-c", code])
    lines: list[str] = []
    with pytest.raises(SynthesisError) as error:
        bitstream._run(tmp_path, "nextpnr-ecp5", (), lines.append)
    log = tmp_path / "nextpnr-ecp5.log"
    assert str(error.value) == f"nextpnr-ecp5 ended with code 3, log {log}\nno room\n"
    assert lines == ["nextpnr-ecp5 begins"]


@pytest.mark.parametrize(("rounds", "code"), [(200, 0), (201, 1)])
def test_wires_that_are_not_routed(
    rounds: int, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A router that goes on for ever is ended; it would say so in a minute here."""
    said = "print(f'Info:     iter={n} wires=592536 overused=23 overuse=23 archfail=NA')"
    waits = f"time.sleep({60 * code})"
    words = f"import time\nfor n in range(1, {rounds} + 1): {said}\n"
    script = tmp_path / "router.py"
    script.write_text(f"{words}import sys; sys.stdout.flush(); {waits}\n")
    monkeypatch.setattr(bitstream, "command", lambda tool: [sys.executable, str(script)])
    if not code:
        bitstream._run(tmp_path, "nextpnr-ecp5", (), lambda line: None)
        return
    with raises(
        SynthesisError,
        "nextpnr-ecp5 must route all wires in 200 rounds, but 23 are still used twice: take "
        f"another seed or a smaller machine, log {tmp_path / 'nextpnr-ecp5.log'}",
    ):
        bitstream._run(tmp_path, "nextpnr-ecp5", (), lambda line: None)


def test_the_default_board_of_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made: list[tuple[Ulx3sConfiguration, Path, int]] = []

    def make(
        configuration: Ulx3sConfiguration, folder: Path, *, seed: int, progress: object
    ) -> Bitstream:
        made.append((configuration, folder, seed))
        pairs = dict.fromkeys(("luts", "ffs", "memories", "dsps"), (1, 2))
        return Bitstream(path=folder / "ulx3s.bit", clocks=(), **pairs)

    monkeypatch.setattr(bitstream, "make_bitstream", make)
    assert run_in(tmp_path, "bitstream") == 0
    assert made == [(Ulx3sConfiguration(), Path("build/ulx3s"), 1)]
    assert capsys.readouterr().out.startswith("build/ulx3s/ulx3s.bit\n")


def test_a_folder_of_another_design(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = {"tops": ["mxsf_mac"], "modules": {}}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    assert run_in(tmp_path, "bitstream", "--out", ".") == 1
    assert capsys.readouterr().err.startswith("mxsafe: folder must have Verilog of ulx3s alone, ")
