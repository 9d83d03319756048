"""Mutants of a module in a design that tests simulate, one build for all of them."""

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from mxsafe.host.verilator import locked, tool_environment, verilator_bin
from studies.mutants.designs import Design, Pins, Run, rows
from studies.mutants.limits import run_within
from studies.mutants.mutation import Mutants
from verif.support.simulators import SCRATCH

__all__ = ["Replayed", "build", "replay"]

_HARNESS = Path(__file__).with_name("replay.cpp")
_RUNTIME = ("verilated", "verilated_dpi", "verilated_threads")
_HEADER = "included.h"
_INCLUDED = ("verilated.h", "svdpi.h", "cstdio", "memory", "string", "vector")
_LITTLE_TEXT = 200_000
"""Characters of C++ that are not worth a file of their own."""
_DEFINED = (
    "-DVERILATOR=1",
    *(f"-DVM_{what}=0" for what in ("COVERAGE", "SC", "TIMING", "TRACE")),
    *(f"-DVM_TRACE_{what}=0" for what in ("FST", "VCD", "SAIF")),
)
_IGNORED, _RESULT, _CONTROL, _PAYLOAD = -1, 0, 1, 2


@dataclass(frozen=True)
class Replayed:
    """What became of mutants in a design.

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
    program: Path,
    numbers: Iterable[int],
    design: Design,
    *,
    most_rows: int,
    seconds: float,
) -> Replayed:
    """Replay what tests drive on a design with each mutant of a module inside.

    Parameters
    ----------
    program : Path
        What `build` makes of a design.
    numbers : iterable of int
        Of the mutants.
    design : Design
    most_rows : int
        Rows of a run that are replayed.
    seconds : float
        Of a processor, after which no more mutants are tried.
    """
    folder = program.parent
    arguments: list[str] = []
    words = _offsets(design.pins.of("output"))
    for number, run in enumerate(design.runs):
        file = folder / f"run{number}.bin"
        file.write_bytes(rows(run, design.pins, most_rows).tobytes())
        arguments += [str(file), _kinds(design.pins, run, words), str(int(run.in_beats))]
    command = [str(program), ",".join(map(str, numbers)), *arguments]
    code, output, _ = run_within(seconds, command)
    assert code in (0, None), f"{program} ended with {code}"
    for file in folder.glob("run*.bin"):
        file.unlink()
    killed: set[int] = set()
    other: dict[int, list[str]] = {}
    for line in output.splitlines():
        mutant, at, _, kind = map(int, line.split())
        if kind:
            other.setdefault(mutant, []).append(design.runs[at].test)
        else:
            killed.add(mutant)
    left = {m: tuple(dict.fromkeys(tests)) for m, tests in other.items() if m not in killed}
    return Replayed(frozenset(killed), left)


def _offsets(ports: Sequence[tuple[str, int]]) -> dict[str, tuple[int, int]]:
    """First word and number of words of each port."""
    result, offset = {}, 0
    for name, width in ports:
        result[name] = (offset, -(-width // 32))
        offset += -(-width // 32)
    return result


def _kinds(pins: Pins, run: Run, words: dict[str, tuple[int, int]]) -> str:
    """What a difference of each output means, and where the word is that makes it count."""
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


def build(mutants: Mutants, design: Design, folder: Path) -> Path:
    """A program of a design whose module has mutants, built in a folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    sources = []
    for source in design.sources:
        path = folder / source.name
        if source.stem == mutants.module:
            path.write_text(mutants.chosen_at_start())
        else:
            path.write_text(source.read_text())
        sources.append(path.name)
    (folder / "pins.h").write_text(_header(design.pins))
    environment = os.environ | tool_environment()
    _call(
        folder,
        ["verilator", "--cc", "--prefix", "Vtop", "-Mdir", ".", "--top-module", design.top],
        ["-O3", "--x-assign", "0", "--x-initial", "0", "-Wno-fatal", "-Wno-lint"],
        ["--no-timing", *sources],
        environment=environment,
    )
    runtime = _runtime()
    files = sorted(folder.glob("Vtop*.cpp"))
    slow = [file for file in files if "Slow" in file.name]
    if sum(file.stat().st_size for file in slow) < _LITTLE_TEXT:
        slow = []
    made = []
    for level, parts in (("-O1", [f for f in files if f not in slow]), ("-O0", slow)):
        if parts:
            whole = folder / f"all{level}.cxx"
            names = [part.name for part in parts] + [str(_HARNESS)] * (level == "-O1")
            whole.write_text("".join(f'#include "{name}"\n' for name in names))
            made.append(f"all{level}.o")
            options = ["-include", str(runtime / _HEADER), "-c", "-o", made[-1], whole.name]
            _call(folder, ["g++", level, "-I.", *_places()], options, environment=environment)
    objects = [str(runtime / f"{name}.o") for name in _RUNTIME]
    _call(folder, ["g++", "-o", "replay", *made, *objects, "-lpthread"], environment=environment)
    return (folder / "replay").absolute()


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
