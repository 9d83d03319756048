"""Running the command line in this process, and a program that it runs."""

import contextlib
from pathlib import Path

import numpy as np

from mxsafe.cli import main
from mxsafe.machine.assembler import Assembler
from mxsafe.machine.configuration import MachineConfiguration


def run(*arguments: str | Path) -> int:
    """Exit code of the command."""
    try:
        return main([str(argument) for argument in arguments])
    except SystemExit as stop:
        assert isinstance(stop.code, int)
        return stop.code


def run_in(folder: Path, *arguments: str | Path) -> int:
    """Exit code of the command in a folder."""
    with contextlib.chdir(folder):
        return run(*arguments)


def write_program(folder: Path, configuration: MachineConfiguration) -> np.ndarray:
    """Write a program that doubles a vector beat, and memory for it, which is returned."""
    assembler = Assembler(configuration)
    beat = configuration.vector_beat_bytes
    program = assembler.assemble(
        [
            assembler.load(buffer="vector", count_0=2, signal="vector"),
            assembler.vector(arithmetic="add", to_vector=1, wait="load", signal="store"),
            assembler.store(buffer="vector", address=beat, count_0=2, wait="vector"),
        ]
    )
    (folder / "program.bin").write_bytes(program)
    memory = np.zeros(beat // 2, "<f4")
    memory[: beat // 4] = np.arange(beat // 4)
    (folder / "memory.bin").write_bytes(memory.tobytes())
    return memory
