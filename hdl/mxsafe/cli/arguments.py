"""Shared parts of command lines: types of arguments, arrays in files, errors.

Types for `argparse` raise its ArgumentTypeError, which says what the word must be.
"""

import argparse
import io
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mxsafe.codec.elements import canonical_rounding
from mxsafe.codec.storage import DAMAGED, SUFFIXES, damage
from mxsafe.formats import BLOCK_FORMATS, MX_FORMATS, named
from mxsafe.validation import one_of

T = TypeVar("T")
_SIZE_LENGTHS = 4
_LONGEST_BLOCK = 1 << 32


class UserError(Exception):
    """Something the user can mend; printed without a traceback, exit code 1."""


class UsageError(UserError):
    """A command line that cannot work; exit code 2."""


@contextmanager
def refused(
    *kinds: type[Exception], about: object = "", by: type[UserError] = UserError
) -> Iterator[None]:
    """Let errors of these kinds be the user's to mend, with what they are about in front."""
    try:
        yield
    except kinds as error:
        raise by(f"{about}: {error}" if about else str(error)) from None


def parse_block(text: str) -> int | tuple[int, int]:
    """A length such as ``64`` or a tile such as ``8x8``, for `argparse`."""
    try:
        lengths = [int(part) for part in text.split("x")]
    except ValueError:
        lengths = []
    if len(lengths) not in (1, 2) or min(lengths, default=0) < 1:
        raise argparse.ArgumentTypeError(
            f"must be a length such as 64 or a tile such as 8x8, not {text!r}"
        )
    if max(lengths) > _LONGEST_BLOCK:
        raise argparse.ArgumentTypeError(f"must be at most {_LONGEST_BLOCK}, not {text!r}")
    return lengths[0] if len(lengths) == 1 else (lengths[0], lengths[1])


def parse_size(text: str) -> tuple[int, ...]:
    """Four lengths such as ``4x4x4x4``, for `argparse`."""
    try:
        lengths = tuple(int(part) for part in text.split("x"))
    except ValueError:
        lengths = ()
    if len(lengths) != _SIZE_LENGTHS or min(lengths) < 1:
        raise argparse.ArgumentTypeError(f"must be four lengths such as 4x4x4x4, not {text!r}")
    return lengths


def choice(known: Collection[str]) -> dict[str, Any]:
    """How `argparse` takes one of some words, as keywords of ``add_argument``."""

    def parse(text: str) -> str:
        if text not in known:
            raise argparse.ArgumentTypeError(f"must be {one_of(known, text)}")
        return text

    return {"type": parse, "choices": known}


def format_of(formats: Mapping[str, T]) -> Callable[[str], T]:
    """How `argparse` takes the name of one of some formats, as ``type`` of ``add_argument``."""

    def parse(name: str) -> T:
        try:
            return named(name, formats)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error).removeprefix("format ")) from None

    return parse


def parse_number(text: str) -> float:
    """A float64 in decimal or hexadecimal, for `argparse`."""
    text = text.strip()
    is_hexadecimal = "x" in text.lower()
    try:
        number = float.fromhex(text) if is_hexadecimal else float(text)
    except OverflowError:
        number = math.inf
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"must be a number such as -2.5, 1e-3, 0x1.4p-3, nan or inf, not {text!r}"
        ) from None
    if math.isinf(number) and "inf" not in text.lower():
        raise argparse.ArgumentTypeError(f"must lie within the range of float64, not {text!r}")
    return number


def parse_integer(text: str) -> int:
    """A decimal integer, for `argparse`."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be an integer, not {text!r}") from None


def parse_code(text: str) -> int:
    """An integer in any base that Python writes, for `argparse`."""
    try:
        return int(text, 0)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"must be an integer such as 0x5f, 0b1011111 or 95, not {text!r}"
        ) from None


def parse_seed(text: str) -> int:
    """A non-negative decimal integer, for `argparse`."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be a non-negative integer, not {text!r}")
    return int(text)


def parse_positive(text: str) -> int:
    """A positive decimal integer, for `argparse`."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a positive integer, not {text!r}")
    return int(text)


def parse_rounding(text: str) -> str:
    """The canonical name of a rounding, for `argparse`."""
    try:
        return canonical_rounding(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error).removeprefix("rounding ")) from None


def parse_container(text: str) -> Path:
    """The path of a file of quantised tensors, for `argparse`."""
    path = Path(text)
    if path.suffix not in SUFFIXES:
        raise argparse.ArgumentTypeError(f"must end in {' or '.join(SUFFIXES)}, not {text!r}")
    return path


def add_format(parser: argparse.ArgumentParser, *, hardware: bool = False) -> None:
    """Add ``--format``, which is MXSF if it is not given.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        The parser of the command.
    hardware : bool
        Whether the command is about hardware, which only MX formats have.
    """
    formats = MX_FORMATS if hardware else BLOCK_FORMATS
    parser.add_argument(
        "--format",
        type=format_of(formats),
        default="mxsf",
        metavar="FORMAT",
        help=f"format: {', '.join(formats)} (default: mxsf)",
    )


def refuse_device(path: Path) -> None:
    """Raise UserError if a path is that of a device, which may have no end."""
    try:
        is_device = path.is_char_device()
    except OSError:
        return  # what reads it says why it cannot
    if is_device:
        raise UserError(f"cannot read {path}: a device is no file")


def read_bytes(path: Path) -> bytes:
    """Return the content of a file.

    Raises
    ------
    UserError
        If it cannot be read.
    """
    refuse_device(path)
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from None


_MAGIC = (b"\x93NUMPY", b"PK\x03\x04")
"""How files of an array and archives begin; NumPy takes anything else for pickled objects."""


def read_array(path: Path) -> NDArray[Any]:
    """The one array of an .npy file, read whole.

    Raises
    ------
    UserError
        If the file cannot be read, or holds something else.
    """
    content = read_bytes(path)
    if not content.startswith(_MAGIC):
        raise UserError(f"cannot read {path}: not a .npy file of numbers")
    try:
        loaded = np.load(io.BytesIO(content), allow_pickle=False)
    except (OSError, ValueError, *DAMAGED) as error:
        raise UserError(f"cannot read {path}: {damage(error)}") from None
    if not isinstance(loaded, np.ndarray):
        raise UserError(f"{path} must hold one .npy array, not an archive")
    return loaded
