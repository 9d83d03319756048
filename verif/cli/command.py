"""Running the command line in this process."""

import contextlib
from pathlib import Path

from mxsafe.cli import main


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
