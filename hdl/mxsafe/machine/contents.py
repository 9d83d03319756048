"""What files seem to hold, for errors about one that is given where a program is wanted."""

import json
import zipfile
from collections.abc import Mapping
from io import BytesIO

from mxsafe.codec.storage import DAMAGED
from mxsafe.validation import checked

__all__ = ["ARCHIVE", "COMPILED", "EXPORTED", "contents"]

COMPILED = "a compiled model, whose name must end in .mxprog"
"""What a file of `mxsafe.machine.compiled` is."""
EXPORTED = "a model of torch.export.save, which mxsafe compile takes"
ARCHIVE = "an archive"
"""What may be a model of PyTorch; of other archives nothing is known."""
_ARRAY, _ARCHIVE = b"\x93NUMPY", b"PK\x03\x04"
"""How files of an array and archives begin."""
_MEMBERS: Mapping[str, str] = {
    "head.npy": COMPILED,
    "archive_format": EXPORTED,
    "data.pkl": "a file of torch.save",
}
"""By the name of a file in an archive, in whatever folder, what the archive is."""


@checked
def contents(data: bytes) -> str:
    """What the bytes of a file seem to be, such as ``text``; nothing if they are of no known kind.

    A program of the machine is of none.
    """
    if not data:
        return "an empty file"
    if data.startswith(_ARRAY):
        return "an array of NumPy"
    return _archive(data) if data.startswith(_ARCHIVE) else _text(data)


def _archive(data: bytes) -> str:
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            names = {name.rpartition("/")[2] for name in archive.namelist()}
    except (*DAMAGED, ValueError):
        return "a damaged archive"
    return next((what for name, what in _MEMBERS.items() if name in names), ARCHIVE)


def _text(data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return ""
    if not "".join(text.split()).isprintable():
        return ""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return "text"
    return "JSON"
