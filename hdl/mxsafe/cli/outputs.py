"""Files and folders that commands write, and what they say when they cannot."""

import importlib.util
import io
import os
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mxsafe.cli.arguments import UsageError, UserError

FIGURES = "matplotlib: pip install '.[figures]'"
"""Requirement of pictures, for helps and errors."""


@contextmanager
def standard_output() -> Iterator[None]:
    """Let what is printed be written when this ends, and say so if it cannot be.

    What a terminal cannot show, such as the name of a file in another encoding, is written with
    escapes.

    Raises
    ------
    UserError
        If standard output is closed or full.
    BrokenPipeError
        If nobody reads it any more.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if sys.stdout is None:
        raise UserError("cannot write to standard output: it is closed")
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OSError as error:
        with suppress(OSError, ValueError):  # so that the interpreter does not try again
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise
        raise UserError(f"cannot write to standard output: {error.strerror or error}") from None


def add_force(parser: ArgumentParser) -> None:
    """Add ``--force``, with which `require_new_file` lets a file be overwritten."""
    parser.add_argument("--force", action="store_true", help="overwrite a file that exists")


def require_new_file(path: Path, *, force: bool) -> None:
    """Raise UserError if there is a file already, unless it may be overwritten."""
    try:
        exists = path.is_file()
    except OSError:
        return  # what writes it says why it cannot
    if exists and not force:
        raise UserError(f"cannot write to {path}: it exists; --force overwrites it")


def require_other_file(path: Path, source: Path) -> None:
    """Raise UsageError if what is to be written is what is read, by whatever name."""
    try:
        is_input = path.samefile(source)
    except OSError:
        return  # what reads or writes it says why it cannot
    if is_input:
        raise UsageError(f"cannot write to {path}: it is the input")


def require_folder(path: Path) -> None:
    """Raise UserError if a path exists and is not a folder."""
    if path.exists() and not path.is_dir():
        raise UserError(f"cannot write to {path}: not a folder")


def require_matplotlib() -> None:
    """Raise UserError if matplotlib, which option ``--out`` needs, is not installed."""
    if importlib.util.find_spec("matplotlib") is None:
        raise UserError(f"--out needs {FIGURES}")


def write_file(path: Path, write: Callable[[], None]) -> None:
    """Call what writes a file.

    Raises
    ------
    UserError
        If it cannot be written, or a library for it is missing.
    """
    try:
        write()
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from None
    except ImportError as error:
        raise UserError(str(error)) from None


@contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Turn an OSError while files of a folder are written into a UserError."""
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot write to {folder}: {error.strerror or error}") from None
