"""Mutants of modules in a design that tests simulate, one build for all of them."""

import gzip
import hashlib
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from mxsafe.host import verilator
from mxsafe.host.verilator import (
    compiled_alone,
    locked,
    number_from_zero,
    repeated_modules,
    tool_environment,
    verilator_bin,
)
from mxsafe.machine.description import REGISTERS
from studies.mutants.designs import Design, Pins, Run, rows
from studies.mutants.limits import run_within
from studies.mutants.mutation import Mutants
from verif.support.simulators import SCRATCH

_HARNESS = Path(__file__).with_name("replay.cpp")
_PROGRAMS = Path(__file__).with_name("programs.cpp")
_DESIGN = Path(__file__).with_name("design.h")
_REGISTERS = {
    "PROGRAM": "program_low",
    "BASE": "base_low",
    "LENGTH": "program_length",
    "CONTROL": "control",
    "STATUS": "status",
    "ERROR": "error",
    "ERROR_DESCRIPTOR": "error_descriptor",
    "INTERRUPT": "interrupt",
    "INTERRUPT_ENABLE": "interrupt_enable",
    "ARRAY_BUSY": "array_busy_low",
    "WORDS_READ": "words_read_low",
    "WORDS_WRITTEN": "words_written_low",
    "WAIT_LOAD": "wait_load_low",
    "WAIT_VECTOR": "wait_vector_low",
    "WAIT_STORE": "wait_store_low",
}
"""Of a machine, by their names in C++."""
_RUNTIME = ("verilated", "verilated_dpi", "verilated_threads")
_HEADER = "included.h"
_INCLUDED = ("verilated.h", "svdpi.h", "cstdio", "memory", "string", "vector")
_DIGITS = 8
"""Of a mutant's number; those of a module's number come before them."""
_LITTLE_TEXT = 200_000
"""Characters of C++ that are not worth a file of their own."""
_DEFINED = (
    "-DVERILATOR=1",
    *(f"-DVM_{what}=0" for what in ("COVERAGE", "SC", "TIMING", "TRACE")),
    *(f"-DVM_TRACE_{what}=0" for what in ("FST", "VCD", "SAIF")),
)
_IGNORED, _RESULT, _CONTROL, _PAYLOAD = -1, 0, 1, 2


@dataclass(frozen=True)
class Program:
    """Program that replays a design with mutants of its modules.

    Attributes
    ----------
    path : Path
    modules : tuple of str
        Those that have mutants.
    """

    path: Path
    modules: tuple[str, ...]

    def number(self, module: str, mutant: int) -> int:
        """Number of a mutant of a module in the compiled design."""
        assert mutant < 1 << _DIGITS
        return self.modules.index(module) << _DIGITS | mutant


@dataclass(frozen=True)
class Replayed:
    """Results of mutants in a design.

    Attributes
    ----------
    killed : frozenset of int
        Those with a wrong result.
    other : dict
        Those that differ otherwise, in handshakes for instance, and the tests in which they do.
    """

    killed: frozenset[int]
    other: dict[int, tuple[str, ...]]


def replay(
    program: Program,
    module: str,
    numbers: Iterable[int],
    design: Design,
    folder: Path,
    *,
    most_rows: int,
    seconds: float,
) -> Replayed:
    """Replay what tests drive on a design with each mutant of a module inside.

    Parameters
    ----------
    program : Program
        What `build` makes of a design.
    module : str
    numbers : iterable of int
        Of the mutants.
    design : Design
    folder : Path
        Where files are written.
    most_rows : int
        Rows of a run that are replayed. Programs on machines run to their end: those that take no
        longer, and the shortest one at least.
    seconds : float
        Of a processor, after which no more mutants are tried.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    known = {program.number(module, number): number for number in numbers}
    if design.runs_programs:
        runs = [run for run in design.runs if run.job is not None]
        lengths = [gzip.decompress(run.pins.read_bytes()).count(b"\n") for run in runs]
        ordered = sorted(zip(lengths, runs, strict=True), key=lambda pair: pair[0])
        runs = [run for at, (length, run) in enumerate(ordered) if not at or length <= most_rows]
        runs = _by_turns(runs)
        arguments = [str(_job(run, folder / str(at))) for at, run in enumerate(runs)]
    else:
        runs = list(design.runs)
        arguments = []
        words = _offsets(design.pins.of("output"))
        for at, run in enumerate(runs):
            file = folder / f"run{at}.bin"
            file.write_bytes(rows(run, design.pins, most_rows).tobytes())
            arguments += [str(file), _kinds(design.pins, run, words), str(int(run.in_beats))]
    command = [str(program.path), ",".join(map(str, known)), *arguments]
    code, output, _ = run_within(seconds, command)
    assert code in (0, None), f"{program.path} ended with {code}"
    shutil.rmtree(folder)
    killed: set[int] = set()
    other: dict[int, list[str]] = {}
    for line in output.splitlines():
        mutant, at, clock, kind = map(int, line.split())
        assert mutant, f"{design.top} differs from itself in cycle {clock} of {runs[at].test}"
        if kind:
            other.setdefault(known[mutant], []).append(runs[at].test)
        else:
            killed.add(known[mutant])
    left = {m: tuple(dict.fromkeys(tests)) for m, tests in other.items() if m not in killed}
    return Replayed(frozenset(killed), left)


def _by_turns(runs: Sequence[Run]) -> list[Run]:
    """The first run of each test, then the second ones: what one test does not see, another may."""
    turns: Counter[str] = Counter()
    numbered = []
    for run in runs:
        test = run.test.partition("[")[0]
        numbered.append((turns[test], run))
        turns[test] += 1
    return [run for _, run in sorted(numbered, key=lambda pair: pair[0])]


def _job(run: Run, folder: Path) -> Path:
    """A folder with what a machine's bench was told, as C++ reads it."""
    assert run.job is not None
    folder.mkdir()
    (folder / "memory_in.hex").write_bytes(gzip.decompress(run.memory.read_bytes()))
    job = run.job
    described = [job[name] for name in ("latency", "spread", "pause", "seed", "start")]
    lines = [[*described, len(job["runs"])]]
    names = ("program", "length", "base", "start_again")
    later = ("reset_after", "reset_again", "in_burst", "pin_clocks", "errors_from", "errors_to")
    for one in job["runs"]:
        lines.append([one[name] for name in names] + [one.get(name, 0) for name in later])
    (folder / "job.txt").write_text("".join(f"{' '.join(map(str, line))}\n" for line in lines))
    return folder.absolute()


def _offsets(ports: Sequence[tuple[str, int]]) -> dict[str, tuple[int, int]]:
    """First word and number of words of each port."""
    result, offset = {}, 0
    for name, width in ports:
        result[name] = (offset, -(-width // 32))
        offset += -(-width // 32)
    return result


def _kinds(pins: Pins, run: Run, words: dict[str, tuple[int, int]]) -> str:
    """Return the meaning of a difference of each output, and the word that makes it count."""
    widths = dict(pins.of("output"))
    valids = [
        (name.removesuffix("valid"), name)
        for name, width in widths.items()
        if name.endswith("valid") and width == 1
    ]
    entries = []
    for name, width in widths.items():
        kind, valid = _CONTROL, 0
        if run.watched and name not in run.watched:
            kind = _IGNORED
        elif run.in_lockstep:
            kind = _RESULT
        elif not (width == 1 and name.endswith(("valid", "ready"))):
            for prefix, flag in valids:
                if prefix and name.startswith(prefix):
                    kind, valid = _PAYLOAD, words[flag][0]
        entries.append(f"{kind} {valid}")
    return ",".join(entries)


def _header(pins: Pins) -> str:
    """C++ that moves words to the inputs and from the outputs of a design."""
    inputs, outputs = pins.of("input"), pins.of("output")
    at, into = _offsets(inputs), _offsets(outputs)
    put, take = [], []
    for name, width in inputs:
        word, count = at[name]
        if width > 64:
            put += [f"top.{name}[{i}] = row[{word + i}];" for i in range(count)]
        elif width > 32:
            put.append(f"top.{name} = row[{word}] | static_cast<uint64_t>(row[{word + 1}]) << 32;")
        else:
            put.append(f"top.{name} = row[{word}];")
    for name, width in outputs:
        word, count = into[name]
        if width > 64:
            take += [f"row[{word + i}] = top.{name}[{i}];" for i in range(count)]
        elif width > 32:
            take += [f"row[{word}] = top.{name};", f"row[{word + 1}] = top.{name} >> 32;"]
        else:
            take.append(f"row[{word}] = top.{name};")
    sources, sinks = _streams(outputs=False, pins=pins), _streams(outputs=True, pins=pins)
    in_words = sum(count for _, count in at.values())
    out_words = sum(count for _, count in into.values())
    reset = at["rst"][0] if pins.clocked and "rst" in at else -1
    table = ", ".join(f"{{{word}, {count}, 0, 0}}" for word, count in into.values())
    return (
        "#include <cstdint>\n"
        f"#define CLOCKED {int(pins.clocked)}\n"
        f"static const int IN_WORDS = {in_words}, OUT_WORDS = {out_words}, RESET = {reset};\n"
        f"#define OUTPUTS_TABLE {{{table}}}\n"
        f"#define SOURCES_TABLE {{{sources}}}\n"
        f"#define SINKS_TABLE {{{sinks}}}\n"
        f"static void put(Vtop& top, const uint32_t* row) {{ {' '.join(put)} }}\n"
        f"static void take(const Vtop& top, uint32_t* row) {{ {' '.join(take)} }}\n"
    )


def _streams(pins: Pins, *, outputs: bool) -> str:
    """Words of ``valid``, ``ready`` and payload of all streams out, or in."""
    forward, backward = ("output", "input") if outputs else ("input", "output")
    ahead, back = pins.of(forward), _offsets(pins.of(backward))
    words = _offsets(ahead)
    entries = []
    for name in words:
        prefix = name.removesuffix("valid")
        if prefix == name or f"{prefix}ready" not in back:
            continue
        payload = [
            str(first + at)
            for other, (first, count) in words.items()
            if other.startswith(prefix) and other != name
            for at in range(count)
        ]
        entries.append(
            f"{{{words[name][0]}, {back[f'{prefix}ready'][0]}, {{{', '.join(payload)}}}}}"
        )
    return ", ".join(entries)


def build(several: Sequence[Mutants], design: Design, folder: Path) -> Program:
    """A program of a design whose modules have mutants, unless a folder has it already."""
    names = tuple(mutants.module for mutants in several)
    texts = {
        f"{mutants.module}.v": mutants.chosen_at_start(at) for at, mutants in enumerate(several)
    }
    texts = {s.name: texts.get(s.name) or s.read_text() for s in design.sources}
    harness = _PROGRAMS if design.runs_programs else _HARNESS
    files = [*texts.values(), _header(design.pins), _addresses()]
    files += [_DESIGN.read_text(), harness.read_text(), Path(verilator.__file__).read_text()]
    digest = hashlib.sha256("\0".join(files).encode()).hexdigest()
    program = Program((folder / "replay").absolute(), names)
    with locked(folder):
        if (folder / "built").exists() and (folder / "built").read_text() == digest:
            return program
        parts = folder / "parts"
        shutil.rmtree(parts, ignore_errors=True)
        parts.mkdir()
        for name, text in texts.items():
            (parts / name).write_text(text)
        (parts / "pins.h").write_text(_header(design.pins))
        (parts / "machine.h").write_text(_addresses())
        _compile(parts, design.top, list(texts), harness)
        (parts / "replay").replace(program.path)
        shutil.rmtree(parts)
        (folder / "built").write_text(digest)
    return program


def _addresses() -> str:
    """C++ that names registers of a machine."""
    addresses = {register.name: register.address for register in REGISTERS}
    lines = [f"{name} = {addresses[of]}" for name, of in _REGISTERS.items()]
    readable = ", ".join(str(r.address) for r in REGISTERS if r.access != "write")
    lines.append(f"READABLE[] = {{{readable}}}")
    return f"#include <cstdint>\nstatic const uint32_t {', '.join(lines)};\n"


def _compile(folder: Path, top: str, sources: Sequence[str], harness: Path) -> None:
    """``replay`` of files in a folder; a module with many instances is compiled once."""
    environment = os.environ | tool_environment()
    repeated = repeated_modules(top, [folder / source for source in sources])
    (folder / "control.vlt").write_text("`verilator_config\n" + compiled_alone(repeated))
    _call(
        folder,
        ["verilator", "--cc", "--prefix", "Vtop", "-Mdir", ".", "--top-module", top],
        ["-O3", "--x-assign", "0", "--x-initial", "0", "-Wno-fatal", "-Wno-lint"],
        ["--no-timing", *(["--hierarchical"] if repeated else []), "control.vlt", *sources],
        environment=environment,
    )
    if repeated:
        _call(folder, ["make", "-f", "Vtop_hier.mk", "hier_verilation"], environment=environment)
        number_from_zero(folder, repeated)
    made = [_runtime() / f"{name}.o" for name in _RUNTIME]
    for place in (folder, *(folder / f"V{name}" for name in repeated)):
        made += _objects(place, [harness] if place == folder else [])
    words = ["g++", "-o", "replay", *map(str, made), "-lpthread"]
    _call(folder, words, environment=environment)


def _objects(place: Path, beside: Sequence[Path]) -> list[Path]:
    """Objects of the C++ that Verilator has written to a folder, and of files beside it."""
    place = place.absolute()
    files = sorted(place.glob("*.cpp"))
    slow = [file for file in files if "Slow" in file.name]
    if sum(file.stat().st_size for file in slow) < _LITTLE_TEXT:
        slow = []
    fast = [file for file in files if file not in slow]
    made = []
    for level, parts in (("-O1", [*fast, *beside]), ("-O0", slow)):
        if parts:
            whole = place / f"all{level}.cxx"
            names = [part.name if part in files else str(part) for part in parts]
            whole.write_text("".join(f'#include "{name}"\n' for name in names))
            made.append(place / f"all{level}.o")
            options = ["-include", str(_runtime() / _HEADER), "-c", "-o", made[-1].name, whole.name]
            _call(place, ["g++", level, "-I.", *_places()], options, environment=os.environ)
    return made


def _places() -> list[str]:
    include = verilator_bin().parent / "include"
    return [f"-I{include}", f"-I{include / 'vltstd'}", *_DEFINED]


def _runtime() -> Path:
    """Folder with Verilator's run-time library, and with its headers, compiled once."""
    kept = SCRATCH / f"replay-{version('verilator')}"
    with locked(kept):
        if not (kept / "built").exists():
            (kept / _HEADER).write_text("".join(f"#include <{name}>\n" for name in _INCLUDED))
            (kept / f"{_HEADER}.gch").mkdir(exist_ok=True)
            for level in ("-O1", "-O0"):
                made = f"{_HEADER}.gch/{level[1:]}"
                options = ["-x", "c++-header", "-o", made, _HEADER]
                _call(kept, ["g++", level, *_places(), *options], environment=os.environ)
            for name in _RUNTIME:
                source = verilator_bin().parent / "include" / f"{name}.cpp"
                options = ["-c", "-o", f"{name}.o", str(source)]
                _call(kept, ["g++", "-O1", *_places(), *options], environment=os.environ)
            (kept / "built").touch()
    return kept


def _call(folder: Path, *command: Sequence[str], environment: object) -> None:
    words = [word for part in command for word in part]
    run = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, f"{words[0]} failed in {folder}:\n{run.stderr[-3000:]}"
