"""Files and folders that commands write, and what they say when they cannot."""

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mxsafe.cli.arguments import UserError

__all__ = ["require_folder", "require_matplotlib", "write_file", "writing_to"]


def require_folder(path: Path) -> None:
    """Raise UserError if a path exists and is not a folder."""
    if path.exists() and not path.is_dir():
        raise UserError(f"cannot write to {path}: not a folder")


def require_matplotlib() -> None:
    """Raise UserError if matplotlib, which option ``--out`` needs, is not installed."""
    if importlib.util.find_spec("matplotlib") is None:
        raise UserError("--out needs matplotlib: pip install '.[figures]'")


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
    """Turn an OSError while files of a folder are written into a UserError.

    A broken pipe is one of the standard output and stays what it is.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UserError(f"cannot write to {folder}: {error.strerror or error}") from None
