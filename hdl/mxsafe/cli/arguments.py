"""What command lines have in common: blocks, arrays in files, errors without a traceback."""

import argparse
import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["UsageError", "UserError", "parse_block", "read_array"]


class UserError(Exception):
    """Something the user can mend; printed without a traceback, exit code 1."""


class UsageError(UserError):
    """A command line that cannot work; exit code 2."""


def parse_block(text: str) -> int | tuple[int, int]:
    """A length such as ``64`` or a tile such as ``8x8``, for `argparse`.

    Raises
    ------
    argparse.ArgumentTypeError
        If the text is neither.
    """
    try:
        lengths = [int(part) for part in text.split("x")]
    except ValueError:
        lengths = []
    if len(lengths) not in (1, 2) or min(lengths, default=0) < 1:
        raise argparse.ArgumentTypeError(
            f"must be a length such as 64 or a tile such as 8x8, not {text!r}"
        )
    return lengths[0] if len(lengths) == 1 else (lengths[0], lengths[1])


_MAGIC = (b"\x93NUMPY", b"PK\x03\x04")
"""How files of an array and archives begin; NumPy takes anything else for pickled objects."""


def read_array(path: Path) -> NDArray[Any]:
    """The one array of an .npy file, read whole.

    Raises
    ------
    UserError
        If the file cannot be read, or holds something else.
    """
    try:
        content = path.read_bytes()
        if not content.startswith(_MAGIC):
            raise UserError(f"cannot read {path}: not a .npy file of numbers")
        loaded = np.load(io.BytesIO(content), allow_pickle=False)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from None
    except (
        EOFError,
        MemoryError,
        OverflowError,
        RuntimeError,
        SyntaxError,
        ValueError,
        zipfile.BadZipFile,
    ) as error:
        raise UserError(f"cannot read {path}: {error}") from None
    if not isinstance(loaded, np.ndarray):
        raise UserError(f"{path} must hold one .npy array, not an archive")
    return loaded
