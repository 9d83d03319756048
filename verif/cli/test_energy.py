"""`mxsafe energy`."""

import json
import re
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxsafe.machine.assembler import Assembler
from mxsafe.machine.compiled import Compiled, compile_graph
from mxsafe.machine.compiler.timing import predict
from mxsafe.machine.configuration import (
    FPGA_MACHINE,
    SMALL_MACHINE,
    MachineConfiguration,
    resized,
)
from mxsafe.machine.graph import Graph
from mxsafe.rtl.machine.times import times_of
from verif.cli.command import run_in


def _head_alone() -> bytes:
    """A compiled model by the name of what is in it, which is no array."""
    data = BytesIO()
    with zipfile.ZipFile(data, "w") as file:
        file.writestr("head.npy", "1")
    return data.getvalue()


HEAD_ALONE = _head_alone()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make = Assembler(MachineConfiguration())
    program = make.assemble(
        [
            make.load(buffer="vector", count_0=2, signal="vector"),
            make.vector(beats=1, function="gelu", to_vector=1, d=8, wait="load"),
        ]
    )
    (tmp_path / "program.bin").write_bytes(program)
    return tmp_path


def test_a_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "own.json").write_text('{"dram": {"read": 2, "write": 3}}')
    assert run_in(folder, "energy", "program.bin", "--table", "own.json", "--sram", "45") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[:4]] == [
        ["counted", "pJ", "each", "uJ", "%"],
        ["off", "chip", "0.002048", lines[1].split()[-1]],
        ["DRAM", "read", "512", "bits", "2", "0.001024", lines[2].split()[-1]],
        ["descriptors", "512", "bits", "2", "0.001024", lines[3].split()[-1]],
    ]
    at = lines.index("assumptions:")
    form = r"(\d+) cycles predicted, (\S+) ms at 500 MHz, (\S+) GB/s off chip"
    time = re.fullmatch(form, lines[at - 1])
    assert time is not None
    assert float(time[2]) == pytest.approx(int(time[1]) / 500_000, rel=1e-3)
    assert float(time[3]) == pytest.approx(1024 / 8 / int(time[1]) / 2, rel=1e-3)
    assert lines[at + 1].startswith("  DRAM: 2 pJ a bit read, 3 written (the table given)")
    assert "45 nm" in lines[at + 2]


def test_static_power(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """At half the clock memories leak for twice the time."""
    leaks = []
    for clock in ("400", "200"):
        words = ["--static-power", "--clock-mhz", clock, "--json"]
        assert run_in(folder, "energy", "program.bin", *words) == 0
        found = json.loads(capsys.readouterr().out)
        (leakage,) = (part for part in found["parts"] if part["name"] == "leakage")
        assert leakage["count"] == found["cycles"]
        leaks.append(leakage["energy"])
        tables = found["tables"]
        assert (tables["static_power"], tables["clock_mhz"]) == (True, float(clock))
    assert leaks[1] == 2 * leaks[0] > 0


def test_memory_that_answers_later(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = []
    for words in ([], ["--memory-cycles", "300"]):
        assert run_in(folder, "energy", "program.bin", "--json", *words) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert [one["memory"] for one in found] == [100, 300]
    assert found[1]["cycles"] >= found[0]["cycles"] + 200
    assert found[1]["assumptions"][-1] == "cycles: with a memory that answers after 300"


def test_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_in(folder, "energy", "program.bin", "--json", "--dram", "lpddr4") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["groups"]["off chip"] == 1024 * 14
    assert found["total"] == pytest.approx(sum(part["energy"] for part in found["parts"]))
    assert found["milliseconds"] == pytest.approx(found["cycles"] / 500_000)
    assert found["gigabytes_per_second"] == pytest.approx(1024 / 8 / found["cycles"] / 2)
    assert len(found["assumptions"]) == 6
    assert resized(MachineConfiguration(), **found["machine"]) == MachineConfiguration()
    assert found["memory"] == 100
    tables = found["tables"]
    assert (tables["dram"], tables["sram"], tables["own"]) == ("lpddr4", 28, {})
    product = {"configuration": "pu_exact, 1 accumulator", "format": "mxsf"}
    assert tables["units"]["product"] == product


def test_json_of_a_table_of_ones_own(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the table has is not said to be of another one."""
    own = {"dram": {"read": 2, "write": 3}, "units": {"product": 1, "arithmetic": 2}}
    (folder / "own.json").write_text(json.dumps(own))
    words = ["--table", "own.json", "--json", "--reductions", "none", "--functions", "none"]
    assert run_in(folder, "energy", "program.bin", *words) == 1
    program = Assembler(MachineConfiguration())
    (folder / "program.bin").write_bytes(
        program.assemble([program.load(buffer="vector", count_0=2)])
    )
    capsys.readouterr()
    assert run_in(folder, "energy", "program.bin", *words) == 0
    found = json.loads(capsys.readouterr().out)
    netlists = {"convert": {"configuration": "accelerator, converter", "format": "mxsf"}}
    assert found["tables"] == {
        "dram": None,
        "sram": 28,
        "units": netlists,
        "own": own,
        "static_power": False,
        "clock_mhz": 500,
    }
    assert found["machine"]["functions"] == found["machine"]["reductions"] == []


def compiled(machine: MachineConfiguration) -> Compiled:
    """A linear layer of 20 rows, 48 values of k and 64 columns."""
    graph = Graph()
    graph.output("y", graph.linear(graph.input("x", (20, 48)), np.ones((64, 48), np.float32)))
    return compile_graph(graph, machine, times=times_of(machine))


def found_in(folder: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """What the command says of ``model.mxprog``."""
    assert run_in(folder, "energy", "model.mxprog", "--json") == 0
    return json.loads(capsys.readouterr().out)


def test_a_compiled_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compiled(SMALL_MACHINE).save(tmp_path / "model.mxprog")
    parts = {part["name"]: part for part in found_in(tmp_path, capsys)["parts"]}
    # Tiles of 8x8: three of rows, eight of columns, of 48 values of k each.
    assert parts["array"]["count"] == 24 * 64 * 48
    assert parts["array"]["each"] == 2.0993


def test_cycles_of_the_program_s_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are those of its units, not of the default machine's, as in the compiler's report."""
    model = compiled(FPGA_MACHINE)
    model.save(tmp_path / "model.mxprog")
    (part,) = model.parts
    cycles = predict(part.program, times_of(FPGA_MACHINE)).cycles
    assert found_in(tmp_path, capsys)["cycles"] == cycles > predict(part.program).cycles
    assert f" {cycles} cycles predicted, " in model.report()


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--table", "no.json"], 1, "cannot read no.json: No such file or directory"),
        (["--sram", "7"], 2, "argument --sram: must be one of 65, 45, 28, not '7'"),
        (["--table", "wrong.json"], 1, "mxsafe: wrong.json: dram must have write"),
        (["--table", "program.bin"], 1, "mxsafe: program.bin must be "),
        (
            ["--arithmetic", "window"],
            1,
            "mxsafe: program.bin: units must have product in a table of your own for ",
        ),
        (["--rows", "8", "--data-width", "128"], 1, "mxsafe: program.bin: descriptor 1: "),
        (
            ["--rows", "8"],
            1,
            "mxsafe: program.bin: data_width must be at most 128, the bits of a word, not 256",
        ),
        (["--w-beats", "65536"], 1, "mxsafe: program.bin: buffers must have w_codes in a table "),
    ],
)
def test_what_is_refused(
    words: list[str], code: int, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "wrong.json").write_text('{"dram": {"read": 4}}')
    assert run_in(folder, "energy", "program.bin", *words) == code
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.bin", b"", "x.bin must have one descriptor at least"),
        ("x.bin", bytes(33), "x.bin: program must have a multiple of 32 bytes, not 33"),
        ("x.npy", bytes(32), "x.npy: descriptor 0: opcode must be one of 1, 2, 3, 4, not 0"),
        ("x.mxprog", b"", "x.mxprog must be a file of a compiled network, not an empty file"),
        ("x.mxprog", b"[1, 2]", "x.mxprog must be a file of a compiled network, not JSON"),
        ("x.pt2", b"load vector", "x.pt2 must be a file of descriptors, not text"),
        (
            "x",
            HEAD_ALONE,
            "x must be a file of descriptors, not a compiled model, whose name must end in .mxprog",
        ),
        (
            "x.mxprog",
            HEAD_ALONE,
            "x.mxprog must be a file of a compiled network: head must be an array of NumPy",
        ),
    ],
)
def test_files_that_are_no_programs(
    name: str, content: bytes, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(content)
    assert run_in(tmp_path, "energy", name) == 1
    assert capsys.readouterr() == ("", f"mxsafe: {message}\n")
