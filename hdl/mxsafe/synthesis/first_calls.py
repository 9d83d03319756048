"""First calls of tools that are wheels, by one process at a time.

Such a wheel holds WebAssembly. It compiles that on its first call, and writes the program into a
folder that all processes of a user share. A process that finds no whole program there writes it
over the file that others may have mapped into their memory meanwhile: those end with a bus error.
So whatever runs such tools calls each of them once before, and waits until no other process does.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mxsafe.synthesis.technologies import SynthesisError, command, is_wheel

_LOCK = "mxsafe.lock"
_CHOICE = "YOWASP_CACHE_DIR"
"""The variable of the environment by which these wheels are told another folder."""


def program_folder() -> Path:
    """The folder in which wheels keep the programs that they have compiled."""
    if _CHOICE in os.environ:
        return Path(os.environ[_CHOICE])
    import platformdirs  # comes with these wheels

    return platformdirs.user_cache_path("YoWASP", appauthor=False)


@contextmanager
def alone() -> Iterator[bool]:
    """Wait until no other process is in here with the same folder of programs.

    Yields
    ------
    bool
        Whether programs can be written; where they cannot there is nothing to wait for.
    """
    try:
        import fcntl
    except ImportError:  # not on Windows
        yield True
        return
    folder = program_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Opened for reading, that of another user will do.
        lock = os.open(folder / _LOCK, os.O_RDONLY | os.O_CREAT, 0o644)
    except OSError:
        yield False
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield True
    finally:
        os.close(lock)


def call_first(tools: Iterable[str], call: Callable[[list[str]], int]) -> None:
    """Call every tool once, before any of them runs side by side with others.

    Parameters
    ----------
    tools : iterable of str
        Names of tools, see `mxsafe.synthesis.technologies.command`.
    call : callable
        Runs a command and returns its exit code.

    Raises
    ------
    SynthesisError
        If a program is not there and cannot be written either.
    """
    wheels = [tool for tool in dict.fromkeys(tools) if is_wheel(tool)]
    if not wheels:
        return
    with alone() as writes:
        for tool in wheels:
            if call([*command(tool), "--version"]) and not writes:
                raise SynthesisError(
                    f"{tool} cannot write its program into {program_folder()}: let {_CHOICE} be "
                    "the name of a folder that it can write"
                )
