"""Exported models: C compiles without a warning, and gives the bits that Python gives."""

import ctypes
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxsafe.host.host import Backend
from mxsafe.host.interpreter import Interpreted
from mxsafe.host.simulated import Simulated
from mxsafe.machine.compiled import Compiled, compile_graph
from mxsafe.machine.configuration import SMALL_MACHINE, MachineConfiguration
from mxsafe.machine.description import ERRORS, REGISTERS
from mxsafe.machine.flat import flat_files
from mxsafe.machine.graph import Graph
from studies.pages import DOCS
from verif.cli.command import run_in
from verif.support.simulators import SCRATCH
from verif.support.tests import available

RNG = np.random.default_rng(0)
OPTIONS = ["-std=c99", "-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror"]
REGISTER = {register.name: register.address for register in REGISTERS}
_READ = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p, ctypes.c_uint32)
_WRITE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32)
ONE = RNG.standard_normal((6, 40)).astype("f4")
TWO = RNG.standard_normal((6, 20)).astype("f4")


class _Bus(ctypes.Structure):
    _fields_ = (("read32", _READ), ("write32", _WRITE), ("context", ctypes.c_void_p))


def network(machine: MachineConfiguration = SMALL_MACHINE) -> Compiled:
    """Two inputs, one of which is needed in two forms, and two outputs."""
    g = Graph()
    two = g.input("two", TWO.shape)
    one = g.input("one/*", ONE.shape)
    w = RNG.standard_normal((40, 20)).astype("f4")
    product = g.matmul(one, w)
    g.output("product", product)
    g.output("sum", g.add(g.add(product, two), g.matmul(one, w[:, ::-1])))
    return compile_graph(g, machine)


def library(model: Compiled, folder: Path) -> ctypes.CDLL:
    """The model's C as a library."""
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    for name, data in flat_files(model, "net").items():
        (folder / name).write_bytes(data)
    command = ["cc", *OPTIONS, "-shared", "-fPIC", "net.c", "mxsafe_model.c", "-o", "net.so"]
    subprocess.run(command, cwd=folder, check=True)
    found = ctypes.CDLL(str(folder / "net.so"))
    u32, pointer = ctypes.c_uint32, ctypes.c_void_p
    found.mxsafe_model_input.argtypes = [pointer, u32, pointer, pointer]
    found.mxsafe_model_output.argtypes = [pointer, u32, pointer, pointer]
    found.mxsafe_model_run.argtypes = [pointer, pointer, ctypes.c_uint64, u32]
    return found


def bus_of(backend: Backend) -> _Bus:
    return _Bus(
        _READ(lambda context, offset: backend.read_register(offset)),
        _WRITE(lambda context, offset, value: backend.write_register(offset, value)),
    )


def _simulated() -> Backend:
    available("verilator")
    return Simulated(SMALL_MACHINE, folder=SCRATCH, optimisation="-O0")


@pytest.mark.parametrize(
    "make", [lambda: Interpreted(SMALL_MACHINE), _simulated], ids=["model", "verilog"]
)
def test_c_runs_a_model(make: Callable[[], Backend], tmp_path: Path) -> None:
    """Twice, from bytes that are put into memory once, behind others; and after an error."""
    model = network()
    c, backend, ahead = library(model, tmp_path), make(), 3 * SMALL_MACHINE.word_bytes
    data = np.frombuffer((tmp_path / "net.bin").read_bytes(), np.uint8)
    backend.memory = np.concatenate([np.full(ahead, 7, np.uint8), data])
    own = backend.memory[ahead:]
    bus = bus_of(backend)
    net = ctypes.addressof(ctypes.c_char.in_dll(c, "net"))
    machine = ctypes.addressof(bus)
    for factor in (np.float32(1), np.float32(-0.5)):
        given = [np.ascontiguousarray(TWO * factor), np.ascontiguousarray(ONE * factor)]
        for number, array in enumerate(given):
            c.mxsafe_model_input(net, number, array.ctypes.data, own.ctypes.data)
        assert c.mxsafe_model_run(net, machine, ahead, 1_000_000) == 0
        for number, wanted in enumerate(model(*given)):
            found = np.full_like(wanted, np.nan)
            c.mxsafe_model_output(net, number, own.ctypes.data, found.ctypes.data)
            assert np.array_equal(found.view("u4"), wanted.view("u4"))
        if factor == 1:
            whole, backend.memory = backend.memory, backend.memory[: ahead + 4096].copy()
            assert c.mxsafe_model_run(net, machine, ahead, 1_000_000) in (
                ERRORS["read"],
                ERRORS["fetch"],
            )
            backend.memory = whole
    assert (backend.memory[:ahead] == 7).all()
    program = backend.memory[ahead + len(model.parts[0].image) :]
    assert program[: 32 * model.parts[0].program.length].tobytes() == model.parts[0].program.data


class Stuck(Interpreted):
    """Runs for ever."""

    def read_register(self, address: int) -> int:
        return 1 if address == REGISTER["status"] else super().read_register(address)


def test_other_machines_and_late_ones(tmp_path: Path) -> None:
    model = network()
    c = library(model, tmp_path)
    net = ctypes.addressof(ctypes.c_char.in_dll(c, "net"))
    other = bus_of(Interpreted(replace(SMALL_MACHINE, a_beats=2 * SMALL_MACHINE.a_beats)))
    assert c.mxsafe_model_run(net, ctypes.addressof(other), 0, 9) == -1
    assert c.mxsafe_model_run(net, ctypes.addressof(bus_of(Stuck(SMALL_MACHINE))), 0, 9) == -2


def test_files() -> None:
    model = network()
    files = flat_files(model, "net")
    assert sorted(files) == [
        *("mxsafe_machine.h", "mxsafe_model.c", "mxsafe_model.h", "net.bin", "net.c", "net.h"),
    ]
    header = files["net.h"].decode()
    assert "/* input 1: one__, 6 x 40 */\n#define NET_INPUT_1_NUMBERS 240u" in header
    assert "/* output 1: sum, 6 x 20 */\n#define NET_OUTPUT_1_NUMBERS 120u" in header
    assert f"#define NET_BYTES {len(files['net.bin'])}u" in header
    # A run for each row of what is in memory by lanes.
    outputs = re.search(r"net_outputs_0\[\] = \{\n(.*?)\};", files["net.c"].decode(), re.DOTALL)
    assert outputs is not None
    assert outputs[1].count("{") == 6


def test_the_example_of_the_page_compiles(tmp_path: Path) -> None:
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    for name, data in flat_files(network()).items():
        (tmp_path / name).write_bytes(data)
    [example] = re.findall(r"```c\n(.*?)```", (DOCS / "compiler.md").read_text(), re.DOTALL)
    (tmp_path / "firmware.c").write_text(example)
    subprocess.run(["cc", *OPTIONS, "-c", "firmware.c"], cwd=tmp_path, check=True)


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    network().save(tmp_path / "net.mxprog")
    words = ["export", "net.mxprog", "--out", "new/firmware", "--name", "net"]
    assert run_in(tmp_path, *words) == 0
    files = flat_files(Compiled.load(tmp_path / "net.mxprog"), "net")
    assert capsys.readouterr().out.splitlines() == [
        f"new/firmware/{name}: {len(data)} bytes" for name, data in files.items()
    ]
    for name, data in files.items():
        assert (tmp_path / "new/firmware" / name).read_bytes() == data
    assert run_in(tmp_path, *words) == 1
    assert capsys.readouterr().err == (
        "mxsafe: cannot write to new/firmware/net.bin: it exists; --force overwrites it\n"
    )
    assert run_in(tmp_path, *words, "--force") == 0
    assert run_in(tmp_path, *words[:-1], "a net") == 1
    assert "name must be an identifier" in capsys.readouterr().err
    assert run_in(tmp_path, "export", "x.npy", "--out", "new") == 2
    assert "COMPILED must end in .mxprog, not 'x.npy'" in capsys.readouterr().err


def _hosts() -> Graph:
    g = Graph()
    x = g.input("x", (3, 4))
    g.output("y", g.scale(g.host("add", [x, x], (3, 4), name="twice"), 2.0))
    return g


def _passed() -> Graph:
    g = Graph()
    x = g.input("x", (3, 4))
    g.output("y", g.scale(x, 2.0))
    g.output("same", x)
    return g


@pytest.mark.parametrize(("graph", "names"), [(_hosts, "twice"), (_passed, "same")])
def test_what_the_host_computes_is_refused(graph: Callable[[], Graph], names: str) -> None:
    model: Any = compile_graph(graph(), SMALL_MACHINE)
    message = f"one program and nothing that the host computes, not 1 and {names}$"
    with pytest.raises(ValueError, match=message):
        flat_files(model)
    with pytest.raises(ValueError, match="name must be an identifier"):
        flat_files(network(), "my net")


def test_what_the_loader_does_not_convert_is_refused() -> None:
    """A weight that is updated stays in memory as an operand, too."""
    g = Graph()
    x, weight = g.input("x", (24, 16)), g.input("weight", (16, 16))
    y = g.linear(x, weight)
    g.output("y", y)
    g.update(weight, g.add(weight, g.scale(weight, 0.5)))
    model = compile_graph(g, block=(8, 8))
    with pytest.raises(ValueError, match=r"model must update nothing .* with, not weight"):
        flat_files(model)
