"""Quantised tensors in files: NumPy's ``.npz`` and ``.safetensors``.

Both hold, for a tensor called NAME, the arrays ``NAME.codes`` and ``NAME.scales`` (uint8; codes of
fewer than eight bits packed along the last axis, see `mxsafe.codec.packing`) and one text of JSON
that says what they are: ``{"NAME": {"format", "shape", "block", "axis"}}``, and ``"tensor_scale"``,
a number as C99 writes it in hexadecimal, of formats that have one. In an ``.npz`` that text is the
array ``mxsafe``, in safetensors the entry ``mxsafe`` of the header's metadata.
"""

import io
import json
import math
import zipfile
import zlib
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxsafe.atomic import write_atomically
from mxsafe.codec._scales import require_tensor_scale
from mxsafe.codec.blocks import QuantizedTensor, is_tensor, tensor_of
from mxsafe.codec.packing import pack_codes, unpack_codes
from mxsafe.formats import BLOCK_FORMATS, mx_format
from mxsafe.validation import checked, other_than, require_one_of, settled, shown

__all__ = ["load", "load_all", "save"]

Arrays = dict[str, NDArray[Any]]

_KEY = "mxsafe"
_LONGEST_NAME = 1024  # bytes; a zip archive holds names of 65,535
_LONGEST_TEXT = 1 << 26  # bytes, as all that follow
_HEADER_BYTES = 1 << 16
DAMAGED = (
    EOFError,
    MemoryError,
    NotImplementedError,
    OverflowError,
    RuntimeError,  # too many brackets within each other, too
    SyntaxError,
    TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
"""Errors beside ValueError and OSError that NumPy raises for a file that is not its own."""
_OF_HEADERS = (RecursionError, SyntaxError, TokenError)
"""Those that Python's parser raises of a header, in words about a program."""
_ABOUT_HEADERS = ("Cannot parse header", "malformed node")
"""How errors begin that show a header as it is, or as Python's parser sees it."""
SUFFIXES = (".npz", ".safetensors")


def save(path: str | Path, tensors: QuantizedTensor | Mapping[str, QuantizedTensor]) -> None:
    """Write quantised tensors to a file, which appears whole or not at all.

    Parameters
    ----------
    path : str or Path
        File to write; its suffix, ``.npz`` or ``.safetensors``, says how. The latter needs the
        package safetensors (the extra ``files``).
    tensors : QuantizedTensor or mapping of str to QuantizedTensor
        One tensor, stored as ``tensor``, or several by name. A name is a text of 1 to 1,024 bytes
        in UTF-8 without NUL.

    Raises
    ------
    TypeError, ValueError
        If `path` has another suffix, or `tensors` are something else, have other names or are of a
        format that is not in the catalogue. Nothing is written then.
    OSError
        If the file cannot be written.
    ImportError
        If safetensors is not installed.
    """
    path = _with_known_suffix(path)
    named = {"tensor": tensors} if is_tensor(tensors) else tensors
    if not isinstance(named, Mapping):
        words = "a QuantizedTensor or a mapping of them"
        raise TypeError(f"tensors must be {words}, not {other_than(words, tensors)}")
    arrays: Arrays = {}
    about: dict[str, dict[str, Any]] = {}
    for name, given in named.items():
        _require_name(name)
        if not is_tensor(given):
            raise TypeError(
                f"tensors must be QuantizedTensors, not {type(given).__name__} for {name}"
            )
        q = tensor_of(name, given)
        if BLOCK_FORMATS.get(q.format.name) != q.format:
            raise ValueError(f"format must be in the catalogue to be saved, not {q.format.name}")
        packed = pack_codes(q.codes, q.format.element.width)
        arrays |= {f"{name}.codes": packed, f"{name}.scales": np.ascontiguousarray(q.scales)}
        about[name] = {
            "format": q.format.name,
            "shape": q.shape,
            "block": q.block,
            "axis": q.axis,
        }
        if q.tensor_scale is not None:
            about[name]["tensor_scale"] = float(q.tensor_scale).hex()
    text = json.dumps(about)
    if path.suffix == ".npz":
        entries: dict[str, Any] = {_KEY: np.array(text), **arrays}
        write_atomically(path, lambda file: np.savez(file, **entries))
    else:
        data = safetensors_for("numpy").numpy.save(arrays, metadata={_KEY: text})
        write_atomically(path, data)


@checked
def load_all(path: str | Path) -> dict[str, QuantizedTensor]:
    """Read all quantised tensors of a file that `save` wrote.

    Parameters
    ----------
    path : str or Path
        File to read, ``.npz`` or ``.safetensors``.

    Returns
    -------
    dict of str to QuantizedTensor

    Raises
    ------
    ValueError
        If the file has another suffix, is cut short or holds something else.
    OSError
        If it cannot be read.
    ImportError
        If safetensors is not installed.
    """
    path = _with_known_suffix(path)
    try:
        arrays, text = _read_npz(path) if path.suffix == ".npz" else _read_safetensors(path)
        return {name: _tensor(name, about, arrays) for name, about in _described(text).items()}
    except (
        AttributeError,
        IndexError,
        KeyError,
        MemoryError,
        OverflowError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else error
        raise ValueError(f"{path} does not hold quantised tensors: {reason}") from None


@checked
def load(path: str | Path, name: str | None = None) -> QuantizedTensor:
    """Read one quantised tensor from a file that `save` wrote.

    Parameters
    ----------
    path : str or Path
        File to read, ``.npz`` or ``.safetensors``.
    name : str, optional
        Which tensor; not needed if there is only one.

    Returns
    -------
    QuantizedTensor

    Raises
    ------
    ValueError
        As `load_all`, and if the file holds no tensor of that name, or several and `name` is not
        given.
    OSError, ImportError
        As `load_all`.
    """
    tensors = load_all(path)
    if not tensors:
        raise ValueError(f"{path} holds no tensor")
    if name is None and len(tensors) == 1:
        return next(iter(tensors.values()))
    return tensors[require_one_of("name", name, tensors, f" in {path}")]


def _require_name(name: object) -> None:
    """Refuse a name that a container would cut, or that would not come back as it was."""
    shown = repr(name)
    if isinstance(name, str):
        with suppress(UnicodeEncodeError):  # half of a surrogate pair
            size = len(name.encode())
            if 1 <= size <= _LONGEST_NAME and "\0" not in name:
                return
            if size > _LONGEST_NAME:
                shown = f"one of {size:,} bytes"
    raise ValueError(
        f"tensors must have names of 1 to {_LONGEST_NAME:,} bytes in UTF-8 without NUL, not {shown}"
    )


def _with_known_suffix(path: str | Path) -> Path:
    path = Path(settled("path", str | Path, path))
    if path.suffix not in SUFFIXES:
        raise ValueError(f"path must end in {' or '.join(SUFFIXES)}, not {shown(path.name)}")
    return path


def _tensor(name: str, about: Mapping[str, Any], arrays: Arrays) -> QuantizedTensor:
    fmt = mx_format(about["format"])
    shape, block, axis = _shape_of(about), about["block"], about["axis"]
    packed = arrays[f"{name}.codes"]
    tensor_scale = None
    if fmt.tensor_scale or "tensor_scale" in about:
        tensor_scale = float.fromhex(about["tensor_scale"])
    return QuantizedTensor(
        codes=unpack_codes(packed, fmt.element.width, shape[-1]).reshape(shape),
        scales=arrays[f"{name}.scales"],
        format=fmt,
        block=tuple(block) if isinstance(block, list) else block,
        axis=tuple(axis) if isinstance(axis, list) else axis,
        tensor_scale=require_tensor_scale(tensor_scale, fmt),
    )


def _read_npz(path: Path) -> tuple[Arrays, str]:
    """The arrays that the text of an ``.npz`` file names, and the text itself.

    Nothing else is read, and nothing that is longer than the text lets it be. Whatever is wrong
    with the file is a ValueError.
    """
    try:
        loaded = np.load(io.BytesIO(path.read_bytes()), allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            raise ValueError("it is a single array")
        with loaded:
            text = str(_member(loaded, _KEY, _LONGEST_TEXT))
            arrays = {
                key: _member(loaded, key, _most_bytes(about))
                for name, about in _described(text).items()
                for key in (f"{name}.codes", f"{name}.scales")
            }
    except (*DAMAGED, ValueError) as error:
        raise ValueError(damage(error)) from None
    return arrays, text


def damage(error: Exception) -> str:
    """Describe the damage to a file for which NumPy raises one of `DAMAGED`, or another error."""
    words = str(error)
    without_words = isinstance(error, MemoryError) and not words  # of the parser; NumPy's have some
    if isinstance(error, _OF_HEADERS) or without_words or words.startswith(_ABOUT_HEADERS):
        return "the header of an array is damaged"
    return words


def _described(text: str) -> Any:
    """Return the description of tensors in the text of a file."""
    try:
        return json.loads(text)
    except (RecursionError, ValueError):
        raise ValueError("its text is no JSON") from None


def _member(loaded: Any, key: str, most: int) -> NDArray[Any]:
    """An array of an ``.npz`` file, if it is not longer than it can be."""
    if key not in loaded:
        raise KeyError(key)
    entry = loaded.zip.NameToInfo.get(f"{key}.npy") or loaded.zip.getinfo(key)
    if entry.file_size > most:
        raise ValueError(f"{key} must have at most {most} bytes, not {entry.file_size}")
    array = loaded[key]
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{key} must be an array, not {shown(array)}")
    return array


def _shape_of(about: Any) -> list[int]:
    shape = about["shape"]
    is_list = isinstance(shape, list) and bool(shape)
    if not is_list or not all(isinstance(size, int) and size >= 0 for size in shape):
        raise ValueError(f"shape must be a list of lengths, not {shown(shape)}")
    return list(shape)


def _most_bytes(about: Any) -> int:
    """Bytes that the codes or the scales of a tensor take at most, with the header before them."""
    return _HEADER_BYTES + math.prod(_shape_of(about))


def _read_safetensors(path: Path) -> tuple[Arrays, str]:
    path.open("rb").close()  # what cannot be read is an OSError here too
    safetensors = safetensors_for("numpy")
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
            return arrays, (file.metadata() or {})[_KEY]
    except safetensors.SafetensorError as error:
        raise ValueError(str(error)) from None


def safetensors_for(framework: str) -> Any:
    """The package safetensors, with its module for ``numpy`` or ``torch``.

    Raises
    ------
    ImportError
        If it is not installed.
    """
    try:
        import_module(f"safetensors.{framework}")
        return import_module("safetensors")
    except ImportError as error:
        raise ImportError(
            f".safetensors files need the extra files, pip install '.[files]': {error}"
        ) from None
