"""Files that are either written whole or not at all."""

import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from mxsafe.validation import checked


@checked
def nameable(path: str | Path) -> Path:
    """The path, if a file can have that name.

    Parameters
    ----------
    path : str or Path

    Raises
    ------
    ValueError
        If the name has a character that no name of a file can have.
    """
    try:
        possible = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        possible = False
    if not possible:
        raise ValueError(f"path must be a name that a file can have, not {str(path)!a}")
    return Path(path)


@checked
def write_atomically(path: Path, content: str | bytes | Callable[[IO[bytes]], object]) -> None:
    """Write a temporary file beside `path`, then give it its name.

    Parameters
    ----------
    path : Path
        File to create or replace; a symbolic link stays one, and a file keeps its mode.
    content : str, bytes or callable
        What is written, text in UTF-8; or what writes it, called with the open temporary file. When
        it raises, nothing is left behind.

    Raises
    ------
    ValueError
        If no file can have that name, or UTF-8 has no such text.
    OSError
        If the file cannot be written, or `path` is something else than a regular file.
    """
    given, path = path, nameable(path).resolve()
    if isinstance(content, str):
        try:
            content = content.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"content must be what UTF-8 has, not {error.object!a}") from None
    if path.exists() and not path.is_file():
        raise OSError(f"{path} is not a regular file")
    temporary = path.with_name(f".mxsafe-{secrets.token_hex(8)}")
    try:
        with temporary.open("xb") as file:
            if callable(content):
                content(file)
            else:
                file.write(content)
        _keep_mode(path, temporary)
        temporary.replace(path)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and error.filename == str(temporary):
            raise OSError(error.errno, error.strerror, str(given)) from None
        raise


@checked
def write_together(folder: Path, files: Mapping[str, bytes], *, remove: Iterable[str] = ()) -> None:
    """Write several files to a folder: all of them, or none.

    All are made in a temporary folder inside `folder` first, then given their names in the order
    of `files`; those that replace a file get its mode. When that fails half-way, what was there
    before is put back.

    Parameters
    ----------
    folder : Path
        Folder to write to; it is created, and removed again on failure.
    files : Mapping
        Contents by file name, perhaps of a folder inside: ``parts/one.v``.
    remove : iterable of str
        Names of regular files in `folder` that are removed when all is written; they may be
        missing.

    Raises
    ------
    OSError
        If a file cannot be written, or the name of one is taken by something else than a regular
        file.
    """
    with ExitStack() as stack:
        for inner in dict.fromkeys([folder, *((folder / name).parent for name in files)]):
            stack.enter_context(_folder(inner))
        place = Path(stack.enter_context(TemporaryDirectory(prefix=".mxsafe-", dir=folder)))
        new, old = place / "new", place / "old"
        for name, content in files.items():
            _prepare(folder / name, content, new / name, old / name)
        try:
            for name in files:
                (new / name).replace(folder / name)
        except BaseException:
            for name in files:
                if (old / name).exists():
                    (old / name).replace(folder / name)
                elif not (new / name).exists():
                    (folder / name).unlink()
            raise
        for name in remove:
            if (folder / name).is_file():
                _remove(folder, folder / name)


def _prepare(target: Path, content: bytes, new: Path, old: Path) -> None:
    """Write what a file will be, and copy what it is."""
    for file in (new, old):
        file.parent.mkdir(parents=True, exist_ok=True)
    if os.path.lexists(target):
        if not target.is_file():
            raise OSError(f"{target} is not a regular file")
        shutil.copy2(target, old)
    new.write_bytes(content)
    _keep_mode(target, new)


def _remove(folder: Path, file: Path) -> None:
    """Remove a file, and the folder inside that it leaves empty."""
    file.unlink()
    if file.parent != folder and not any(file.parent.iterdir()):
        file.parent.rmdir()


def _keep_mode(before: Path, now: Path) -> None:
    """Give a file the mode of the one that it replaces."""
    if before.exists():
        shutil.copymode(before, now)


@contextmanager
def _folder(folder: Path) -> Iterator[None]:
    """Create a folder and its parents; on failure those that were created go again."""
    created = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        for path in created:
            with suppress(OSError):
                path.rmdir()
        raise
