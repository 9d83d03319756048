"""Building and running designs on Icarus Verilog and Verilator under cocotb.

A build is kept under ``sim_build/`` in a folder named after a hash of everything that goes into it,
so an unchanged design is compiled once; `verif.support.simulations` starts it once for many jobs.
Four things keep the builds of Verilator short: its run-time library, its headers and cocotb's main
program are compiled once on a machine, and kept in the user's cache, a module with many instances
is compiled once (Verilator's hierarchical mode), the C++ of a design is one file, and only the
ports of the top module can be reached from the bench, so that everything below is optimised.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest import mock
from xml.etree import ElementTree

import cocotb_tools.config
import numpy as np
import pytest
from cocotb_tools.runner import get_runner
from numpy.typing import NDArray

from mxsafe.host import verilator
from mxsafe.host.verilator import (
    POWER_UP,
    PROGRAMS,
    compiled_alone,
    locked,
    module_texts,
    number_from_zero,
    repeated_modules,
    tool_environment,
    user_cache,
    verilator_bin,
)
from verif.support import coverage, recording, simulations
from verif.support.fresh import require_fresh
from verif.support.manifest import Module, Words
from verif.verilog.linters import DISTRIBUTED, distributed_verilator, said_by_verilator

SIMULATORS = ("icarus", "verilator")
SIMULATED: set[str] = set()
"""Simulators that a test has run."""
SCRATCH = Path(__file__).parents[2] / "sim_build"

_TIMESCALE = ("1ns", "1ps")
# Lint is a test of its own; a build is not where its warnings belong.
_VERILATOR_ARGS = (*POWER_UP, "-Wno-fatal")
_RUNTIME = ("verilated", "verilated_dpi", "verilated_threads", "verilated_vpi")
"""C++ files of Verilator's run-time library that designs under cocotb need."""
_INCLUDED = ("verilated", "verilated_dpi", "svdpi")
_HEADER = "included.h"
_FAST, _SLOW = "-O1", "-O0"
"""Optimisation of what runs in every cycle, and of the rest."""
_DEFINED = (
    "-DVERILATOR=1",
    *(f"-DVM_{what}=0" for what in ("SC", "TIMING", "TRACE")),
    *(f"-DVM_TRACE_{what}=0" for what in ("FST", "VCD", "SAIF")),
)
_LITTLE_TEXT = 200_000
"""Characters of C++ that are not worth a file of their own."""
_ANY_DESIGN = """\
// Stands for the class of a design where the main program is compiled, once for all designs.
#include "verilated.h"
#if VM_COVERAGE
#include "verilated_cov.h"
#endif
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
void* design_new() {
    Verilated::threadContextp()->threads(1);  // no other ones, which a fork would leave behind
    return new Vtop{""};
}
void design_delete(void* design) { delete static_cast<Vtop*>(design); }
void design_eval_step(void* design) { static_cast<Vtop*>(design)->eval_step(); }
void design_eval_end_step(void* design) { static_cast<Vtop*>(design)->eval_end_step(); }
bool design_events_pending(void* design) { return static_cast<Vtop*>(design)->eventsPending(); }
uint64_t design_next_time_slot(void* design) { return static_cast<Vtop*>(design)->nextTimeSlot(); }
void design_final(void* design) {
#if !VM_COVERAGE  // modules compiled by themselves end there, and their counters with them
    static_cast<Vtop*>(design)->final();
#endif
}
}
"""


def missing_tools(simulator: str) -> list[str]:
    """System programs that a simulator or a linter needs and that are not there."""
    if simulator == DISTRIBUTED:
        return [] if distributed_verilator() else ["verilator"]
    needed = {"icarus": ["iverilog", "vvp"], "verilator": list(PROGRAMS), "slang": []}[simulator]
    return [program for program in needed if shutil.which(program) is None]


def require_tools(name: str) -> None:
    """Skip a test that needs a simulator or a linter whose programs are missing; fail it in CI."""
    if missing := missing_tools(name):
        message = f"{name} needs {', '.join(missing)}: see `python -m verif.support.tools`"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)


def _tool_environment() -> dict[str, str]:
    """Settings for the simulators, in this process: the runner copies its environment."""
    return {
        **tool_environment(),
        # cocotb would have pytest rewrite the assertions of every module that a bench imports,
        # which takes longer than many simulations; ours have messages.
        "COCOTB_REWRITE_ASSERTION_FILES": "",
        "COCOTB_RESOLVE_X": "",  # what is unknown is no number
        # What the Perl script in front of Verilator says; we start without one.
        "VERILATOR_ROOT": str(verilator_bin().parent),
    }


def _folder(kind: str, *parts: bytes, place: Path = SCRATCH) -> Path:
    """Where a build of these parts, with these versions of the tools, is kept."""
    digest = hashlib.sha256()
    texts = (*_VERILATOR_ARGS, _ANY_DESIGN, _THIS_DESIGN, coverage.HEADER, coverage.LEFT_OUT)
    versions = (version("cocotb"), version("verilator"), _FAST, _SLOW, *_DEFINED, *texts)
    for part in (*map(str.encode, versions), *parts):
        digest.update(part + b"\0")
    return place / f"{kind}-{digest.hexdigest()[:16]}"


def _call(folder: Path, *command: str | Path) -> None:
    """Run a command in a folder, with what it says at the end of ``build.log`` there."""
    with (folder / "build.log").open("a") as log:
        subprocess.run(command, cwd=folder, stdout=log, stderr=subprocess.STDOUT, check=True)


def _compile(folder: Path, source: Path, made: Path, level: str, *options: str | Path) -> None:
    """Compile one file of C++; what the compiler says is logged in a folder."""
    include = verilator_bin().parent / "include"
    places = (f"-I{source.parent}", f"-I{include}", f"-I{include / 'vltstd'}")
    _call(folder, "g++", level, *places, *_DEFINED, *options, "-o", made, source)


def _counting(covered: bool) -> str:
    """Return the C++ option that says whether the design counts what is reached."""
    return f"-DVM_COVERAGE={int(covered)}"


def _side_by_side(calls: Iterable[Callable[[], None]]) -> None:
    """Do things that wait for other programs at the same time."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for done in [pool.submit(call) for call in calls]:
            done.result()


@cache
def _compiler() -> bytes:
    """Version and machine of the compiler of C++."""
    command = ["g++", "-dumpfullversion", "-dumpmachine"]
    return subprocess.run(command, capture_output=True, check=True).stdout


def runtime_library(covered: bool) -> Path:
    """Folder of Verilator's run-time library and cocotb's main program, the same for all designs.

    It is compiled once on a machine, for every version of the tools, and kept in the user's cache.
    Beside their objects there is a header, compiled for both levels of optimisation, of all that
    Verilator's headers take in, and of the counters of what is reached.
    """
    parts = (_counting(covered).encode(), _compiler())
    folder = _folder("verilator-runtime", *parts, place=user_cache())
    done = folder / "built"
    with locked(folder):
        if not done.exists():
            (folder / "Vtop.h").write_text(_ANY_DESIGN)
            header = folder / _HEADER
            included = "".join(f'#include "{name}.h"\n' for name in _INCLUDED)
            header.write_text(included + (coverage.HEADER if covered else ""))
            compiled = Path(f"{header}.gch")
            compiled.mkdir(exist_ok=True)
            include = verilator_bin().parent / "include"
            main = cocotb_tools.config.share_dir / "lib" / "verilator" / "verilator.cpp"
            names = (*_RUNTIME, *(["verilated_cov"] if covered else []))
            sources = [*(include / f"{name}.cpp" for name in names), main]
            kind = (_counting(covered), "-x", "c++-header")
            _side_by_side(
                partial(_compile, folder, header, compiled / level[1:], level, *kind)
                for level in (_FAST, _SLOW)
            )
            options = (_counting(covered), f"-I{folder}", "-include", header, "-c")
            _side_by_side(
                partial(_compile, folder, source, folder / f"{source.stem}.o", _FAST, *options)
                for source in sources
            )
            done.touch()
    return folder


def _objects(folder: Path, covered: bool, place: Path) -> list[Path]:
    """Objects of the C++ that Verilator has written to a place; the same text is compiled once.

    One file that includes the others, or two, is quicker to compile than all by themselves.
    """
    texts = {path.name: path.read_bytes() for path in sorted(place.glob("*.[ch]*"))}
    counting = _counting(covered)
    kept = _folder(
        "objects",
        counting.encode(),
        *(part for name in texts for part in (name.encode(), texts[name])),
    )
    done = kept / "built"
    with locked(kept):
        if not done.exists():
            sizes = {name: len(text) for name, text in texts.items() if name.endswith(".cpp")}
            slow = [name for name in sizes if name.endswith("__Slow.cpp")]
            if sum(map(sizes.__getitem__, slow)) < _LITTLE_TEXT:
                slow = []
            fast = [name for name in sizes if name not in slow]
            parts = [(level, names) for level, names in ((_FAST, fast), (_SLOW, slow)) if names]
            options = (counting, "-include", runtime_library(covered) / _HEADER, "-c")
            calls = []
            for level, names in parts:
                part, made = place / f"all{level}.cxx", kept / f"all{level}.o"
                part.write_text("".join(f'#include "{name}"\n' for name in names))
                calls.append(partial(_compile, folder, part, made, level, *options))
            _side_by_side(calls)
            done.touch()
    return sorted(kept.glob("*.o"))


def _verilate(folder: Path, top: str, sources: Sequence[Path], covered: bool) -> None:
    """Build a design with Verilator."""
    repeated = repeated_modules(top, sources)
    control = folder / "control.vlt"
    control.write_text(
        "`verilator_config\n"
        f'public_flat_rw -module "{top}" -port "*"\n'
        + compiled_alone(repeated)
        + (coverage.left_out(sources) if covered else "")
    )
    _call(
        folder,
        verilator_bin() / "verilator_bin",
        *("--cc", "--vpi", "--prefix", "Vtop", "-Mdir", "."),
        *("--top-module", top, "--timescale", "/".join(_TIMESCALE)),
        *(["--hierarchical"] if repeated else []),
        *_VERILATOR_ARGS,
        *(coverage.OPTIONS if covered else []),
        control,
        *(source.resolve() for source in sources),
    )
    if repeated:
        _call(folder, "make", "-f", "Vtop_hier.mk", "hier_verilation")
        number_from_zero(folder, repeated)
    with (folder / "Vtop.cpp").open("a") as text:
        text.write(_THIS_DESIGN)
    places = (folder, *(folder / f"V{name}" for name in repeated))
    libraries = cocotb_tools.config.libs_dir
    _call(
        folder,
        *("g++", *(made for place in places for made in _objects(folder, covered, place))),
        *sorted(runtime_library(covered).glob("*.o")),
        *(f"-Wl,-rpath,{libraries}", f"-L{libraries}", "-lcocotbvpi_verilator", "-o", top),
        *(["-fuse-ld=gold"] if shutil.which("ld.gold") else []),  # it links four times as fast
    )


def _icarus(folder: Path, top: str, sources: Sequence[Path], covered: bool) -> None:
    """Build a design with Icarus Verilog, which counts nothing."""
    assert not covered, f"{top} cannot be counted in"
    get_runner("icarus").build(
        sources=[source.resolve() for source in sources],
        hdl_toplevel=top,
        build_dir=folder,
        timescale=_TIMESCALE,
        log_file=folder / "build.log",
        always=True,
    )


def _build(simulator: str, top: str, sources: Sequence[Path], covered: bool) -> Path:
    """Build a design, or find it built; returns the build folder."""
    texts = [part for s in sources for part in (s.name.encode(), s.read_bytes())]
    if simulator == "verilator":
        texts.append(Path(verilator.__file__).read_bytes())
    options = coverage.OPTIONS if covered else ()
    folder = _folder(f"{simulator}-{top}", *texts, *map(str.encode, options))
    done = folder / "built"
    with locked(folder):
        if not done.exists():
            try:
                build = {"icarus": _icarus, "verilator": _verilate}[simulator]
                build(folder, top, sources, covered)
            except (subprocess.CalledProcessError, RuntimeError, SystemExit) as error:
                log = folder / "build.log"
                lines = log.read_text().splitlines() if log.exists() else []
                wrong = [line for line in lines if "error" in line.lower()] or lines[-1:]
                said = wrong[0] if wrong else error
                where = os.path.relpath(log)
                raise AssertionError(
                    f"{simulator} did not build {top}: {said}; the log is {where}"
                ) from error
            done.touch()
    return folder


def lint(module: Module, *, elsewhere: Sequence[str] = ()) -> str:
    """Return all warnings of Verilator in a module and those inside it; empty if none.

    Parameters
    ----------
    module : Module
        Verilator looks at every instance of a module anew: one that has many is linted by itself,
        and is nothing but its ports elsewhere.
    elsewhere : sequence of str
        Modules that are linted elsewhere, and are nothing but their ports here.
    """
    require_tools("verilator")
    repeated = repeated_modules(module.name, module.sources)
    with tempfile.TemporaryDirectory(dir=SCRATCH, prefix="lint-") as folder:
        ports = _ports_alone([*repeated, *elsewhere], module.sources, Path(folder))
        found = []
        for design in (module.name, *repeated):
            files = [
                source if source.stem == design else ports.get(source.stem, source)
                for source in module.sources
            ]
            found += said_by_verilator(files, "-Wall", "--top-module", design)
    return "\n".join(found)


def _ports_alone(names: Sequence[str], sources: Sequence[Path], folder: Path) -> dict[str, Path]:
    """Files in a folder with modules that have nothing inside."""
    texts = module_texts(sources)
    files = {}
    for name in names:
        head = re.search(r"^module [^;]*;\n", texts[name], re.MULTILINE)
        assert head is not None, f"{name} has no ports"
        declared = re.findall(r"^  (?:input|output) [^;]*;\n", texts[name], re.MULTILINE)
        off = [f"/* verilator lint_off {rule} */\n" for rule in ("UNDRIVEN", "UNUSEDSIGNAL")]
        files[name] = folder / f"{name}.v"
        files[name].write_text("".join([*off, head[0], *declared, "endmodule\n"]))
    return files


def _reason(results: Path, log: Path) -> str:
    """Return the first failure in the results of a bench, or the end of the log without any."""
    found = None
    with contextlib.suppress(OSError, ElementTree.ParseError):
        found = ElementTree.parse(results).find(".//failure")
    if found is None:
        return "it ended without a result: " + " ".join(log.read_text()[-300:].split())
    if message := found.get("message"):
        return (
            message if found.get("type") == "AssertionError" else f"{found.get('type')}: {message}"
        )
    # An assertion without a message: where it stands, and its text.
    frames = re.findall(r'File "([^"]+)", line (\d+), in (\S+)\n +(.+)', found.text or "")
    where = [f"{Path(file).name}:{line} in {name}: {text}" for file, line, name, text in frames]
    return where[-1] if where else str(found.get("type"))


def simulate(
    simulator: str,
    top: str,
    sources: Sequence[Path],
    bench: str,
    environment: Mapping[str, str],
    *,
    watched: Sequence[str] = (),
    writes_at_edges: bool = False,
    power_up: int = 1,
) -> None:
    """Run a cocotb module on a design; AssertionError with what it said in a line if it fails.

    Parameters
    ----------
    bench : str
        Python module with cocotb tests.
    environment : Mapping
        Environment variables for the bench.
    watched : sequence of str
        Outputs of the top module that are looked at; of none given, all.
    writes_at_edges : bool
        The bench writes when a clock rises, not only while it is low. On Icarus cocotb has to hold
        such writes back, so that the design sees them after the edge, which is slower.
    power_up : int
        Seed, from 1, of what registers and memories hold at first on Verilator; on Icarus that is
        unknown.
    """
    __tracebackhide__ = True
    require_tools(simulator)
    SIMULATED.add(simulator)
    require_fresh(sources)
    simulator, sources = recording.simulator(simulator), recording.replaced(sources)
    if coverage.is_asked() and not coverage.is_covered(simulator, sources):
        pytest.skip("it counts nothing")
    begins = []
    if simulator == "verilator":
        begins = ["+verilator+rand+reset+2", f"+verilator+seed+{power_up}"]
    are_held = writes_at_edges and simulator == "icarus"
    writes = {"COCOTB_TRUST_INERTIAL_WRITES": "0" if are_held else "1"}
    with mock.patch.dict(os.environ, _tool_environment() | writes):
        records = "MXSAFE_RECORD" in os.environ
        with tempfile.TemporaryDirectory(dir=SCRATCH, prefix="recorder-") as recorder:
            built = recording.recorded(top, sources, Path(recorder)) if records else sources
            covered = coverage.is_covered(simulator, built)
            folder = _build(simulator, top, built, covered)

        def start(place: Path, variables: Mapping[str, str]) -> None:
            get_runner(simulator).test(
                test_module=bench,
                hdl_toplevel=top,
                hdl_toplevel_lang="verilog",
                build_dir=folder,
                test_dir=place,
                results_xml=str(place / "results.xml"),
                extra_env=variables,
                plusargs=[*begins, *recording.arguments()],
                timescale=_TIMESCALE,
                log_file=place / "run.log",
            )

        key = (folder, bench, are_held, *begins, *recording.arguments())
        started = simulations.started(key, folder, start)
    is_alone = records or covered  # a simulation writes that when it ends, where it has begun
    with tempfile.TemporaryDirectory(dir=folder, prefix="run-") as own:
        run = started.place if is_alone or not started.waits else Path(own)
        failed = not (started.waits and started.run(run, environment))
        if records and not failed:
            recording.keep(top, sources, run, bench, watched, environment)
        if covered and not failed:
            coverage.keep(top, sources, run)
        if failed:
            log, kept = run / "run.log", folder / f"failed-{os.getpid()}.log"
            kept.write_text(log.read_text() if log.exists() else "")
            reason = _reason(run / "results.xml", kept)
    if is_alone:
        simulations.close(key)
    if failed:
        how = f"{simulator}, powered up by seed {power_up}," if begins else simulator
        what = f"{bench} failed on {how} with {top}"
        raise AssertionError(f"{what}: {reason}; the log is {os.path.relpath(kept)}")


def run_bench(
    simulator: str,
    module: Module,
    bench: str,
    job: Mapping[str, Any] | Sequence[Any],
    **options: Any,
) -> Any:
    """Run a job on a design and return what the bench of `verif.bench` logged.

    Arrays of bytes, along their last axis, of integers and of flags may stand anywhere in a job. In
    a log there are arrays of bytes. Options are those of `simulate`.
    """
    with tempfile.TemporaryDirectory(dir=SCRATCH, prefix=f"{bench}-") as folder:
        given, log = Path(folder) / "job.json", Path(folder) / "log.json"
        given.write_text(json.dumps(job, default=_written))
        files = {"MXSAFE_JOB": str(given), "MXSAFE_LOG": str(log)}
        simulate(simulator, module.name, module.sources, f"verif.bench.{bench}", files, **options)
        return json.loads(log.read_text(), object_hook=_read)


def _written(array: Any) -> object:
    if array.dtype == np.uint8 and array.ndim:
        return {"bytes": array.shape[-1] if array.ndim > 1 else 1, "rows": array.tobytes().hex()}
    assert array.ndim <= 1, f"integers of a job have the shape {array.shape}"
    assert array.dtype.kind in "biu", f"a job holds {array.dtype}"
    return array.tolist()


def _read(one: dict[str, Any]) -> Any:
    if one.keys() != {"bytes", "rows"}:
        return one
    return np.frombuffer(bytes.fromhex(one["rows"]), np.uint8).reshape(-1, one["bytes"])


def run_lockstep(
    simulator: str,
    module: Module,
    stimulus: Mapping[str, NDArray[Any] | int],
    *,
    unsettled: int = 0,
    watched: Sequence[str] = (),
    power_up: int = 1,
) -> dict[str, Words]:
    """Apply rows of inputs to a module and return what all its pins carried.

    Parameters
    ----------
    stimulus : Mapping
        Values of every input but the clock, as `Port.packed` takes them, equally many rows; or one
        number for all rows.
    unsettled : int
        First rows in which pins may still be unknown, of units with registers that are not reset.
    watched : sequence of str
        Outputs that the caller looks at; of none given, all.
    """
    inputs = [name for name in module.inputs if name != "clk"]
    assert sorted(stimulus) == sorted(inputs), f"{module.name} needs {inputs}"
    rows = max(np.size(values, 0) for values in stimulus.values() if np.ndim(values))
    given = {
        name: module.ports[name].packed(values if np.ndim(values) else np.full(rows, values))
        for name, values in stimulus.items()
    }
    job = {
        "stimulus": given,
        "pins": [name for name in module.ports if name != "clk"],
        "unsettled": unsettled,
    }
    log: dict[str, Words] = run_bench(
        simulator, module, "lockstep", job, watched=watched, power_up=power_up
    )
    return log
