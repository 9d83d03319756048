"""The page of the machine: its picture, its gates, and its driver, which compiles and runs."""

import ctypes
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mxsafe.host.host import Backend
from mxsafe.host.interpreter import Interpreted
from mxsafe.host.simulated import Simulated
from mxsafe.machine.description import ERRORS, REGISTERS
from mxsafe.synthesis.machine import PARTS
from studies.pages import DOCS
from studies.pages.accelerator import gates, window_gates
from verif.host.host_programs import SMALL, product
from verif.support.manifest import GEN
from verif.support.simulators import SCRATCH
from verif.support.tests import available

PAGE = (DOCS / "accelerator.md").read_text()
DRIVER = PAGE.split("```c\n")[1].split("```")[0]


def test_what_the_example_shows() -> None:
    assert PAGE.count("\nnone 153 40\nTrue\n") == 1


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_the_driver_compiles(tmp_path: Path) -> None:
    """With pointers to registers, and every function used."""
    uses = "".join(f"    (void){name};\n" for name in sorted(set(FUNCTIONS.findall(DRIVER))))
    (tmp_path / "driver.c").write_text(f"{DRIVER}\nint main(void)\n{{\n{uses}    return 0;\n}}\n")
    assert "mxsafe_run" in uses
    assert "load_a" in uses
    subprocess.run(["cc", *OPTIONS, "driver.c", "-o", "driver"], cwd=tmp_path, check=True)


FUNCTIONS = re.compile(r"^static \w+ \*?(\w+)\(", re.MULTILINE)
OPTIONS = ["-std=c99", "-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror", f"-I{GEN}"]
ACCESS = """
#include <stdint.h>
#define MXSAFE_OWN_ACCESS
typedef struct { uint32_t (*read)(uint32_t); void (*write)(uint32_t, uint32_t); } bus;
static uint32_t mxsafe_read(uintptr_t machine, uint32_t offset)
{
    return ((const bus *)machine)->read(offset);
}
static void mxsafe_write(uintptr_t machine, uint32_t offset, uint32_t value)
{
    ((const bus *)machine)->write(offset, value);
}
"""
"""In the place of pointers to registers."""
_READ = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_uint32)
_WRITE = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32)


class _Bus(ctypes.Structure):
    _fields_ = (("read", _READ), ("write", _WRITE))


def _simulated() -> Backend:
    available("verilator")
    return Simulated(SMALL, folder=SCRATCH, optimisation="-O0")


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The driver of the page, as a shared library."""
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    folder = tmp_path_factory.mktemp("driver")
    text = ACCESS + DRIVER.replace("static ", "")
    (folder / "driver.c").write_text(text)
    command = ["cc", *OPTIONS, "-shared", "-fPIC", "driver.c", "-o", "driver.so"]
    subprocess.run(command, cwd=folder, check=True)
    library = ctypes.CDLL(str(folder / "driver.so"))
    u32, u64, machine = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_void_p
    library.mxsafe_start.argtypes = [machine, u64, u32, u64]
    library.mxsafe_run.argtypes = [machine, u64, u32, u64, ctypes.POINTER(u32)]
    library.mxsafe_result.argtypes = [machine, ctypes.POINTER(u32)]
    for name in ("enable", "handle", "reset", "counter"):
        getattr(library, f"mxsafe_{name}").argtypes = [
            machine,
            *([] if name == "handle" else [ctypes.c_uint32]),
        ]
    library.mxsafe_counter.restype = u64
    for name in ("run", "result"):
        getattr(library, f"mxsafe_{name}").restype = u32
    return library


@pytest.mark.parametrize("make", [lambda: Interpreted(SMALL), _simulated], ids=["model", "verilog"])
def test_the_driver_runs_programs(driver: ctypes.CDLL, make: Callable[[], Backend]) -> None:
    """By polling and by the interrupt; it reads errors, and a right program runs after them."""
    backend, wanted = make(), product()
    bus = _Bus(_READ(backend.read_register), _WRITE(backend.write_register))
    machine = ctypes.addressof(bus)
    place = backend.place(wanted.program.data)
    count, found = wanted.program.length, ctypes.c_uint32(99)

    def poll(base: int) -> int:
        backend.memory = wanted.memory.copy()
        return int(driver.mxsafe_run(machine, place, count, base, ctypes.byref(found)))

    assert driver.mxsafe_reset(machine, 1000) == 0
    assert poll(0) == 0
    assert np.array_equal(backend.memory, wanted.expected)
    low = next(register.address for register in REGISTERS if register.name == "words_read_low")
    assert driver.mxsafe_counter(machine, low) == wanted.words_read
    assert (poll(1), found.value) == (ERRORS["alignment"], 0)
    assert (poll(SMALL.word_bytes), found.value) == (ERRORS["write"], count - 1)
    for enabled in (1, 0):
        driver.mxsafe_enable(machine, enabled)
        backend.memory = wanted.memory.copy()
        driver.mxsafe_start(machine, place, count, 0)
        assert any(backend.work(0.01) for _ in range(50)) == enabled
        assert driver.mxsafe_handle(machine) == 1
        assert not backend.work(0.0)
        assert driver.mxsafe_handle(machine) == 0
        assert driver.mxsafe_result(machine, ctypes.byref(found)) == 0
        assert np.array_equal(backend.memory, wanted.expected)


def test_code_begins_and_ends_on_lines_of_its_own() -> None:
    fences = [line for line in PAGE.splitlines() if "```" in line]
    assert len(fences) > 10
    assert len(fences) % 2 == 0
    for opening, closing in zip(fences[::2], fences[1::2], strict=True):
        assert re.fullmatch("```[a-z]+", opening)
        assert closing == "```"


def test_gates_add_up_beside_the_paper() -> None:
    names = ["sta_exact 4x2x4x8, 2 columns a MAC", *(f"accelerator, {part}" for part in PARTS)]
    others = ["accelerator_window, rest", "sta_window 4x2x4x8, 2 groups of lanes"]
    results = [
        {
            "configuration": name,
            "technology": "nangate45",
            "format": "mxsf",
            "numbers": {"area": {"ge": 1000.0 + place, "delay_ns": 1 + place / 10}},
        }
        for place, name in enumerate(names + others)
    ]
    rows = gates({"results": results[: len(names)]})
    assert [row["name"] for row in rows] == ["array", *PARTS, "whole machine"]
    assert (rows[0]["paper"], rows[0]["ge"], rows[0]["ns"]) == ("core", 1000, 1)
    assert round(rows[0]["paper_ge"]) == 1_239_288
    total = sum(1000 + place for place in range(len(names)))
    assert (rows[-1]["ge"], rows[-1]["ns"]) == (total, 1 + len(PARTS) / 10)
    assert round(rows[-1]["paper_ge"]) == 1_409_962
    with pytest.raises(LookupError):
        gates({"results": results[: len(names) - 1]})
    # The machine with windows has another array, and another rest.
    rest, array = 1000 + len(names), 1001 + len(names)
    window = window_gates({"results": results})
    assert (window["array"], window["rest"], window["ns"]) == (array, 1, 1 + len(names) / 10)
    assert window["machine"] == total - 1000 + array + 1
    assert rest == rows[-2]["ge"] + 1
    with pytest.raises(LookupError):
        window_gates({"results": results[:-1]})
