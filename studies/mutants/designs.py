"""Designs that the tests simulate, and the recorded values of their input pins."""

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mxsafe.host.verilator import module_parts, module_texts, repeated_modules
from mxsafe.verilog.parameters import fixed, fixed_name
from verif.support.manifest import Module
from verif.support.recording import PROGRAMS, files_without_parameters, top_ports

_TESTS = Path(__file__).parents[2] / "verif" / "rtl"
_LOCKSTEP = "verif.bench.lockstep"
_OF_FULL_RUN = {
    "test_accelerator.py": (
        "test_a_long_program",
        "test_each_bit_of_a_place",
        "test_errors_of_published_machines",
        "test_random_programs_for_fpgas",
        "test_random_programs_of_the_paper",
        "test_resets_for_fpgas",
    ),
    "test_beat_parts.py": ("test_published_ones",),
    "test_beat_reader.py": ("test_published_ones",),
    "test_gemm_engine.py": ("test_published_ones",),
    "test_layer.py": ("test_full_layer",),
    "test_load_engine.py": ("test_long_loops", "test_far_steps"),
    "test_memory_address_generator.py": ("test_random_descriptors", "test_runs_past_the_top"),
    "test_normalise.py": ("test_many_rows_of_published_ones",),
    "test_normalise_row.py": ("test_many_rows_of_published_ones",),
    "test_rows.py": ("test_many_rows_of_published_ones",),
    "test_safe_mac.py": ("test_corner_classes",),
    "test_softmax.py": ("test_many_rows_of_published_ones",),
    "test_store_engine.py": ("test_long_loops", "test_far_steps"),
    "test_systolic_array.py": ("test_full_array", "test_control_of_published_arrays"),
    "test_vector_engine.py": ("test_published_ones",),
    "test_vector_function.py": ("test_many_numbers_of_published_ones",),
}
"""By a file of tests those of which only the full run has all. They are recorded too: without them
these modules are simulated inside a whole machine alone, or with few numbers."""
_STREAMS = ("verif.bench.stream", "verif.bench.array")
_RECORDED = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
"""How pytest may end: a test that fails without a mutant tells nothing of one."""


@dataclass(frozen=True)
class Run:
    """One simulation of a design.

    Attributes
    ----------
    pins : Path
        What its inputs carried.
    test : str
        That of pytest.
    in_lockstep : bool
        Its bench compares outputs in every cycle.
    in_beats : bool
        Its bench drives streams alone, and looks at the beats that come.
    watched : tuple of str
        Outputs that it looks at; none stands for all.
    job : Mapping, optional
        What its bench was told, if it runs programs on a machine.
    """

    pins: Path
    test: str
    in_lockstep: bool
    in_beats: bool
    watched: tuple[str, ...]
    job: Mapping[str, Any] | None = None

    @property
    def memory(self) -> Path:
        """File of the initial content of the machine's memory."""
        return self.pins.with_suffix(".memory")


@dataclass(frozen=True)
class Pins:
    """Ports of a top module: name, direction and width, in their order."""

    ports: tuple[tuple[str, str, int], ...]

    def of(self, direction: str) -> list[tuple[str, int]]:
        """Names and widths of all inputs but the clock, or of all outputs."""
        return [(n, w) for n, d, w in self.ports if d == direction and n != "clk"]

    @property
    def clocked(self) -> bool:
        """There is a clock."""
        return any(name == "clk" for name, _, _ in self.ports)


@dataclass(frozen=True)
class Design:
    """A design that tests simulate.

    Attributes
    ----------
    top : str
    sources : tuple of Path
    size : int
        Characters of Verilog that are compiled: with all instances, but modules with so many of
        them that they are compiled by themselves count once.
    pins : Pins
    runs : tuple of Run
    """

    top: str
    sources: tuple[Path, ...]
    size: int
    pins: Pins
    runs: tuple[Run, ...]

    @property
    def name(self) -> str:
        """Another one for each design."""
        return self.runs[0].pins.parent.name

    @property
    def runs_programs(self) -> bool:
        """It is a machine with its memory."""
        return any(run.job is not None for run in self.runs)


def record(
    folder: Path, files: Sequence[Path] = (), *, jobs: int = 1
) -> Iterator[tuple[Path, int, int]]:
    """Run tests and keep what they drive; files of tests that were recorded are left out.

    Parameters
    ----------
    folder : Path
        Records go there.
    files : sequence of Path
        Of tests; by default all of the Verilog.
    jobs : int
        Files that are recorded at the same time.

    Yields
    ------
    file : Path
        That has been recorded.
    number, of : int

    Raises
    ------
    AssertionError
        Tests of files fail; all other files are recorded before that.
    """
    folder.mkdir(parents=True, exist_ok=True)
    found = files or sorted(_TESTS.rglob("test_*.py"))
    left = [file for file in found if not _done(folder, file).exists()]
    with ThreadPoolExecutor(jobs) as pool:
        recorded = {pool.submit(_record, folder, file): file for file in left}
        failed = []
        try:
            for number, ended in enumerate(as_completed(recorded), start=1):
                if error := ended.exception():
                    failed.append(str(error))
                else:
                    yield recorded[ended], number, len(left)
        finally:  # an interrupt leaves the others for the next time
            pool.shutdown(cancel_futures=True)
    assert not failed, "; ".join(failed)


def _record(folder: Path, file: Path) -> None:
    """Run the tests of a file with its variants, and by name those that only the full run has."""
    calls = [
        ["--variants", str(file)],
        *(["--full", f"{file}::{n}"] for n in _OF_FULL_RUN.get(file.name, ())),
    ]
    with _done(folder, file).with_suffix(".log").open("w") as log:
        for words in calls:
            run = subprocess.run(
                [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words],
                env=os.environ | {"MXSAFE_RECORD": str(folder.absolute())},
                stdout=log,
                stderr=subprocess.STDOUT,
                check=False,
            )
            # An interrupt ends pytest, and not the thread that waits for it.
            assert run.returncode in _RECORDED, f"{file} was not recorded: see {log.name}"
    _done(folder, file).touch()


def needs_full_run(test: str) -> bool:
    """Whether a test runs with all of its cases, of which the default run may lack this one."""
    file, _, name = test.partition("::")
    return name.partition("[")[0] in _OF_FULL_RUN.get(Path(file).name, ())


def _done(folder: Path, file: Path) -> Path:
    return folder / f"{'.'.join(file.with_suffix('').parts[-2:])}.done"


def load(folder: Path) -> list[Design]:
    """Designs that were recorded, small ones first."""
    designs = []
    for place in sorted(folder.glob("*/")):
        # Short ones first, which are cheap and tell most.
        files = sorted(place.glob("*.gz"), key=lambda file: (file.stat().st_size, file.name))
        files = [file for file in files if file.with_suffix(".json").exists()]
        if not files:
            continue
        described = [json.loads(file.with_suffix(".json").read_text()) for file in files]
        recorded = sorted((place / "sources").iterdir())
        sources = tuple(files_without_parameters(recorded, place / "without_parameters"))
        top = described[0]["top"]
        ports = None
        for source in sources:
            ports = ports or top_ports(source.read_text(), top)
        if ports is None:
            continue
        runs = tuple(
            Run(
                file,
                d["test"],
                in_lockstep=d["bench"] == _LOCKSTEP,
                in_beats=d["bench"] in _STREAMS,
                watched=tuple(d["watched"]),
                job=d.get("job"),
            )
            for file, d in zip(files, described, strict=True)
            if d["bench"] != PROGRAMS or "job" in d
        )
        if not runs:
            continue
        pins = Pins(tuple((name, way, width) for name, (way, width) in ports.items()))
        designs.append(Design(top, sources, _size(sources, top), pins, runs))
    return sorted(designs, key=lambda design: design.size)


def _size(sources: Sequence[Path], top: str) -> int:
    """Characters with all instances, of which those of modules with many count once."""
    texts = module_texts(sources)
    repeated = repeated_modules(top, sources)
    parts = module_parts(texts)
    sizes: dict[str, int] = {}

    def size(name: str) -> int:
        if name not in sizes:
            inside = [(n, part) for part, n in parts[name].items() if part not in repeated]
            sizes[name] = len(texts[name]) + sum(n * size(part) for n, part in inside)
        return sizes[name]

    return size(top) + sum(map(size, repeated))


def module_without_parameters(module: Module, folder: Path) -> Module:
    """A module of which neither it nor one inside has parameters, with new files in a folder."""
    sources = module.sources
    if module.given:
        name = fixed_name(module.name, module.given)
        sources = (folder / f"{name}.v",)
        folder.mkdir(parents=True, exist_ok=True)
        sources[0].write_text(fixed(module.sources[0].read_text(), module.given, name))
        return replace(module, name=name, sources=sources, given={})
    return replace(module, sources=tuple(files_without_parameters(sources, folder)))


def designs_with(designs: Sequence[Design], source: Path) -> list[Design]:
    """Designs that hold a file as it is: first that whose top it is, then small ones."""
    text = source.read_text()
    found = [
        design
        for design in designs
        if any(s.name == source.name and s.read_text() == text for s in design.sources)
    ]
    return sorted(found, key=lambda design: (design.top != source.stem, design.size))


def rows(run: Run, pins: Pins, most: int) -> NDArray[np.uint32]:
    """Return the recorded inputs as words of 32 bits, each input from a word of its own on.

    At most `most` rows.
    """
    lines = gzip.decompress(run.pins.read_bytes()).split()[:most]
    inputs = pins.of("input")
    total = sum(width for _, width in inputs)
    digits = -(-total // 4)
    whole = b"".join(line.rjust(digits + digits % 2, b"0") for line in lines)
    numbers = np.frombuffer(bytes.fromhex(whole.decode()), np.uint8).reshape(len(lines), -1)
    bits = np.unpackbits(numbers, axis=1)[:, ::-1][:, :total]  # least significant first
    columns = []
    high = total
    for _, width in inputs:  # the first one is most significant
        high -= width
        words = -(-width // 32)
        padded = np.zeros((len(lines), 32 * words), np.uint8)
        padded[:, :width] = bits[:, high : high + width]
        columns.append(np.packbits(padded, axis=1, bitorder="little").view("<u4"))
    return np.ascontiguousarray(np.concatenate(columns, axis=1))
