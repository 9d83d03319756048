"""`mxsafe run`."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mxsafe.host import serial, simulated
from mxsafe.host.interpreter import Interpreted
from mxsafe.machine.compiled import compile_graph
from mxsafe.machine.configuration import FPGA_MACHINE, MachineConfiguration
from mxsafe.machine.graph import Graph
from mxsafe.rtl.machine.times import times_of
from verif.cli.command import run, run_in, write_program
from verif.host.fake_board import FakeBoard


@pytest.mark.parametrize(("rows", "options"), [(16, []), (8, ["--rows", "8"])])
def test_run(
    rows: int, options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    memory = write_program(tmp_path, MachineConfiguration(rows=rows))
    assert run_in(tmp_path, "run", "program.bin", "memory.bin", "--out", "after.bin", *options) == 0
    assert capsys.readouterr().out == "after.bin: 3 descriptors, 2 words read, 2 written\n"
    assert (tmp_path / "memory.bin").read_bytes() == memory.tobytes()
    after = np.frombuffer((tmp_path / "after.bin").read_bytes(), "<f4")
    half = len(memory) // 2
    assert np.array_equal(after[half:], 2 * memory[:half])
    assert run_in(tmp_path, "run", "program.bin", "memory.bin", *options) == 0
    assert (tmp_path / "memory.bin").read_bytes() == after.tobytes()


def test_base(tmp_path: Path) -> None:
    memory = write_program(tmp_path, MachineConfiguration())
    (tmp_path / "memory.bin").write_bytes(bytes(32) + memory.tobytes())
    arguments = ["run", tmp_path / "program.bin", tmp_path / "memory.bin"]
    assert run(*arguments, "--base", "32") == 0
    after = np.frombuffer((tmp_path / "memory.bin").read_bytes(), "<f4")[8:]
    assert np.array_equal(after[16:], 2 * memory[:16])


def test_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Four words are moved, and a beat is computed."""
    memory = write_program(tmp_path, MachineConfiguration())
    arguments = ["run", "program.bin", "memory.bin", "--limit"]
    for limit, message in (
        (
            "4",
            "limit must be at least 5, the words and beats that the program moves and computes, "
            "not 4",
        ),
        ("-1", "limit must be a non-negative integer, not -1"),
    ):
        assert run_in(tmp_path, *arguments, limit) == 1
        assert capsys.readouterr().err == f"mxsafe: {message}\n"
        assert (tmp_path / "memory.bin").read_bytes() == memory.tobytes()
    assert run_in(tmp_path, *arguments, "5", "--backend", "verilog") == 2
    assert "limit must be given with backend interpreter alone" in capsys.readouterr().err
    assert run_in(tmp_path, *arguments, "5") == 0


def test_compiled_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = Graph()
    x = graph.input("x", (3, 20))
    for name, factor in (("half", 0.5), ("twice", 2.0)):
        graph.output(name, graph.scale(x, factor, name))
    compile_graph(graph).save(tmp_path / "model.mxprog")
    given = np.random.default_rng(0).standard_normal((3, 20)).astype("f4")
    np.save(tmp_path / "x.npy", given)
    words = ["run", "model.mxprog", "--input", "x.npy", "--out"]
    assert run_in(tmp_path, *words, "y.npz") == 0
    assert capsys.readouterr().out == (
        "y.npz: half, float32 of shape (3, 20)\ny.npz: twice, float32 of shape (3, 20)\n"
    )
    with np.load(tmp_path / "y.npz") as found:
        assert np.array_equal(found["half"], given / 2)
        assert np.array_equal(found["twice"], given * 2)
    assert run_in(tmp_path, *words, "y.npy") == 2
    message = "out must end in .npz for 2 outputs, not 'y.npy'"
    assert capsys.readouterr().err == f"mxsafe: {message}\n"
    for more, message in (
        (["y.npz"], "cannot write to y.npz: it exists; --force overwrites it"),
        (["z.npz", "--input", "x.npy"], "inputs must be 1 (x), not 2"),
        (
            ["z.npz", "--rows", "8"],
            "model.mxprog must be for this machine, whose rows is 8, not 16",
        ),
    ):
        assert run_in(tmp_path, *words, *more) == 1
        assert capsys.readouterr().err == f"mxsafe: {message}\n"
    assert not (tmp_path / "z.npz").exists()
    assert run_in(tmp_path, *words, "z.npz", "--trace", "t.json") == 0
    assert capsys.readouterr().out.endswith("(3, 20)\nt.json: timeline\n")
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert {"half", "twice"} <= {event["name"] for event in events}
    assert run_in(tmp_path, *words, "a.npz", "--trace", "t.json") == 1
    assert capsys.readouterr().err == (
        "mxsafe: cannot write to t.json: it exists; --force overwrites it\n"
    )


class Clocked(Interpreted):
    """Counts cycles, as simulated Verilog does."""

    def __init__(self, configuration: MachineConfiguration, note: Callable[[str], object]) -> None:
        super().__init__(configuration)
        note("compiling the machine")
        self._registers |= {"cycles_low": 4000, "array_busy_low": 1000}


def test_cycles_are_shown_of_a_backend_that_counts_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulated, "Simulated", Clocked)
    write_program(tmp_path, MachineConfiguration())
    assert run_in(tmp_path, "run", "program.bin", "memory.bin", "--backend", "verilog") == 0
    out, err = capsys.readouterr()
    assert out == (
        "memory.bin: 3 descriptors, 2 words read, 2 written\n4000 cycles, array busy 25.0%\n"
    )
    assert err == "compiling the machine\n"


class Sampled(Clocked):
    """Is asked a second time before it has ended."""

    asked: tuple[float, ...] = ()

    def work(self, seconds: float) -> bool:
        self.asked += (seconds,)
        self._registers |= {"cycles_low": 1000 * len(self.asked)}
        return len(self.asked) == 2


def test_a_timeline_has_what_was_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated, "Simulated", Sampled)
    write_program(tmp_path, MachineConfiguration())
    words = ["run", "program.bin", "memory.bin", "--backend", "verilog", "--trace", "t.json"]
    assert run_in(tmp_path, *words) == 0
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    busy = [(e["ts"], e["args"]) for e in events if e["ph"] == "C" and "busy" in e["args"]]
    assert busy == [(0, {"busy": 100.0}), (1000, {"busy": 0.0})]
    assert [e["name"] for e in events if e.get("cat") in ("load", "vector", "store")] == [
        "load",
        "vector",
        "store",
    ]


def test_files_that_are_no_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, wanted in (
        (["x.mxprog", "--out", "y.npy"], "of a compiled network"),
        (["x.pt2", "x.pt2"], "of descriptors"),
    ):
        (tmp_path / words[0]).write_text("no program")
        assert run_in(tmp_path, "run", *words) == 1
        message = f"mxsafe: {words[0]} must be a file {wanted}, not text\n"
        assert capsys.readouterr() == ("", message)


def test_a_timeline_has_the_times_of_its_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It ends when the compiler's report and the energy's say, of a machine for FPGAs too."""
    graph = Graph()
    graph.output("half", graph.scale(graph.input("x", (3, 20)), 0.5))
    times = times_of(FPGA_MACHINE)
    compiled = compile_graph(graph, FPGA_MACHINE, times=times)
    compiled.save(tmp_path / "model.mxprog")
    np.save(tmp_path / "x.npy", np.zeros((3, 20), np.float32))
    words = ["run", "model.mxprog", "--input", "x.npy", "--out", "y.npy", "--trace"]
    assert run_in(tmp_path, *words, "t.json") == 0
    compiled.trace(tmp_path / "same.json", times)
    text = (tmp_path / "t.json").read_text()
    assert text == (tmp_path / "same.json").read_text()
    ends = [e["args"]["end"] for e in json.loads(text)["traceEvents"] if "end" in e.get("args", {})]
    assert f" {max(ends)} cycles predicted, " in compiled.report()
    write_program(tmp_path, MachineConfiguration(rows=8))
    words = ["run", "program.bin", "memory.bin", "--rows", "8", "--trace", "no.json"]
    capsys.readouterr()
    assert run_in(tmp_path, *words) == 1
    message = "data_width must be at most 128, the bits of a word, not 256"
    assert capsys.readouterr().err == f"mxsafe: {message}\n"
    assert not (tmp_path / "no.json").exists()


def test_a_board(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its sizes are those that it shows; sizes that are given must be the same."""
    configuration, opened = MachineConfiguration(rows=8, a_beats=64), []

    def open_port(name: str, baud: int) -> FakeBoard:
        opened.append((name, baud))
        return FakeBoard(configuration)

    monkeypatch.setattr(serial, "open_port", open_port)
    memory = write_program(tmp_path, configuration)
    board = ["run", "program.bin", "memory.bin", "--backend", "serial", "--port", "/dev/x"]
    assert run_in(tmp_path, *board, "--rows", "8") == 1
    assert "must have a_beats 64, not 2048" in capsys.readouterr().err
    assert run_in(tmp_path, *board, "--baud", "115200") == 0
    assert capsys.readouterr().out == "memory.bin: 3 descriptors, 2 words read, 2 written\n"
    after = np.frombuffer((tmp_path / "memory.bin").read_bytes(), "<f4")
    assert np.array_equal(after[len(memory) // 2 :], 2 * memory[: len(memory) // 2])
    assert opened == [("/dev/x", 1_000_000), ("/dev/x", 115_200)]
