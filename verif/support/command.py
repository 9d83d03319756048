"""Running the command line in this process."""

from pathlib import Path

from mxsafe.cli import main

__all__ = ["run"]


def run(*arguments: str | Path) -> int:
    """Exit code of the command."""
    try:
        return main([str(argument) for argument in arguments])
    except SystemExit as stop:
        assert isinstance(stop.code, int)
        return stop.code
