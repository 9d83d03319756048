"""GGUF files with tensors of MXFP4 and NVFP4: read and written without any other library.

A file is a header, named values, descriptions of tensors, and their data. Tensors here are of
MXFP4 or NVFP4 in the layout ``gguf`` of `mxsafe.codec.packing`, float32 or float16. The scale of an
NVFP4 tensor is one of float32 beside it, as llama.cpp has it: ``NAME.scale`` of ``NAME.weight``.
What a file says is checked before it is believed, and nothing in it is run.
"""

import math
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxsafe.atomic import nameable, write_atomically
from mxsafe.codec.blocks import QuantizedTensor, is_tensor, tensor_of
from mxsafe.codec.packing import from_bytes, to_bytes
from mxsafe.formats import mx_format
from mxsafe.validation import checked, shown

Tensor = QuantizedTensor | NDArray[Any]

_MAGIC, _VERSION, _ALIGNMENT = b"GGUF", 3, 32
_QUANTISED = {39: "mxfp4_e2m1", 40: "nvfp4"}
_NVFP4 = 40
_FLOATS: dict[int, np.dtype[Any]] = {0: np.dtype("<f4"), 1: np.dtype("<f2")}
_NAMES = {2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 12: "Q4_K", 14: "Q6_K", 30: "BF16"}
_STRING, _ARRAY = 8, 9
_VALUES = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
_MOST_AXES, _MOST_NESTED = 4, 8


class _Cursor:
    """A place in the bytes of a file, which does not run past their end."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def bytes(self, count: int) -> bytes:
        if count > len(self.data) - self.at:
            raise ValueError(f"it ends within {count} bytes at {self.at}")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, form: str) -> Any:
        return struct.unpack(f"<{form}", self.bytes(struct.calcsize(f"<{form}")))[0]

    def text(self) -> str:
        return self.bytes(self.number("Q")).decode()

    def value(self, kind: int, depth: int = 0) -> Any:
        """A named value; of an array nothing is kept."""
        if kind in _VALUES:
            return self.number(_VALUES[kind])
        if kind == _STRING:
            return self.text()
        if kind != _ARRAY or depth > _MOST_NESTED:
            raise ValueError(f"it has a value of type {kind}")
        inner, count = self.number("I"), self.number("Q")
        if inner in _VALUES:
            self.bytes(count * struct.calcsize(f"<{_VALUES[inner]}"))
            return None
        if count > len(self.data):
            raise ValueError(f"it has an array of {count} items")
        for _ in range(count):
            self.value(inner, depth + 1)
        return None


@checked
def read(path: str | Path, names: Iterable[str] | None = None) -> dict[str, Any]:
    """Tensors of a GGUF file.

    Parameters
    ----------
    path : str or Path
        File to read.
    names : iterable of str, optional
        Tensors to read; by default all of them.

    Returns
    -------
    dict of str to QuantizedTensor or ndarray
        Of MXFP4, NVFP4, float32 and float16; scales of NVFP4 tensors are parts of these.

    Raises
    ------
    ValueError
        If the file is damaged or no GGUF file, has no tensor of a name, or one of another type.
    OSError
        If it cannot be read.
    """
    data = nameable(path).read_bytes()
    try:
        described, start = _described(data)
        scales = {_scale_of(name) for name, one in described.items() if one[1] == _NVFP4}
        wanted = [name for name in described if name not in scales] if names is None else names
        return {name: _tensor(name, described, data, start) for name in wanted}
    except (UnicodeDecodeError, ValueError) as error:
        raise ValueError(
            f"{path} does not hold tensors of MXFP4, NVFP4 or floats: {error}"
        ) from None


def _described(data: bytes) -> tuple[dict[str, tuple[tuple[int, ...], int, int]], int]:
    """Shape, type and place of each tensor, and where data begin."""
    cursor = _Cursor(data)
    if cursor.bytes(4) != _MAGIC:
        raise ValueError("it is no GGUF file")
    version = cursor.number("I")
    if version not in (2, 3):
        raise ValueError(f"it has version {version}, not 2 or 3")
    tensors, values = cursor.number("Q"), cursor.number("Q")
    alignment: Any = _ALIGNMENT
    for _ in range(min(values, len(data))):
        key = cursor.text()
        value = cursor.value(cursor.number("I"))
        alignment = value if key == "general.alignment" else alignment
    if not isinstance(alignment, int) or alignment < 1:
        raise ValueError(f"its alignment is {shown(alignment)}")
    described: dict[str, tuple[tuple[int, ...], int, int]] = {}
    for _ in range(min(tensors, len(data))):
        name, rank = cursor.text(), cursor.number("I")
        if not 1 <= rank <= _MOST_AXES or name in described:
            raise ValueError(f"it has {name!r} twice, or with {rank} axes")
        shape = tuple(cursor.number("Q") for _ in range(rank))[::-1]
        described[name] = shape, cursor.number("I"), cursor.number("Q")
    return described, -(-cursor.at // alignment) * alignment


def _scale_of(name: str) -> str:
    """Name of the scale of a tensor."""
    return f"{name.removesuffix('.weight')}.scale"


def _tensor(name: str, described: Mapping[str, Any], data: bytes, start: int) -> Tensor:
    if name not in described:
        raise ValueError(f"it has no tensor {name!r}")
    shape, kind, offset = described[name]
    fmt = mx_format(_QUANTISED[kind]) if kind in _QUANTISED else None
    if fmt is None and kind not in _FLOATS:
        raise ValueError(
            f"{name} is of type {_NAMES.get(kind, kind)}; give names to read others alone"
        )
    count = math.prod(shape)
    if fmt is None:
        size = count * _FLOATS[kind].itemsize
    else:
        size = count // fmt.block * (1 + fmt.block // 2)
    part = data[start + offset : start + offset + size]
    if len(part) != size:
        raise ValueError(f"{name} is cut short")
    if fmt is None:
        return np.frombuffer(part, _FLOATS[kind]).reshape(shape).copy()
    shared = None
    if fmt.tensor_scale:
        beside = _scale_of(name)
        found = (
            _tensor(beside, described, data, start)
            if beside in described
            else np.ones(1, np.float32)
        )
        if not isinstance(found, np.ndarray) or found.dtype != np.float32 or found.size != 1:
            raise ValueError(f"{beside} is not one number of float32")
        shared = found.reshape(-1)[0]
    return from_bytes(part, fmt, shape, layout="gguf", tensor_scale=shared)


@checked
def write(
    path: str | Path, tensors: Mapping[str, Any], *, values: Mapping[str, str | int] | None = None
) -> None:
    """Write tensors to a GGUF file, whole or not at all.

    Parameters
    ----------
    path : str or Path
        File to write.
    tensors : mapping of str to QuantizedTensor or ndarray
        Of MXFP4 in blocks of 32 or NVFP4 in blocks of 16, along a last axis that is a multiple of
        32 or 64, float32 or float16.
    values : mapping of str to str or int, optional
        Named values, such as ``general.architecture``; integers are of 32 bits. Data begin at
        multiples of ``general.alignment``, a power of two, by default 32.

    Raises
    ------
    TypeError, ValueError
        If a tensor or a value is another one; the message names it.
    OSError
        If the file cannot be written.
    """
    named = {"general.alignment": _ALIGNMENT} | dict(values or {})
    alignment = _alignment_of(named)
    tensors = _with_scales(tensors)
    head = [_MAGIC, struct.pack("<IQQ", _VERSION, len(tensors), len(named))]
    for key, value in named.items():
        if isinstance(value, str):
            head += [_text(key), struct.pack("<I", _STRING), _text(value)]
            continue
        if not 0 <= value < 1 << 32:
            raise ValueError(f"values must be texts or integers of 32 bits, not {value} for {key}")
        head += [_text(key), struct.pack("<II", 4, value)]
    body: list[bytes] = []
    offset = 0
    for name, given in tensors.items():
        shape, kind, data = _data(name, given)
        lengths = struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))
        head += [_text(name), lengths, struct.pack("<IQ", kind, offset)]
        body.append(data + bytes(-len(data) % alignment))
        offset += len(body[-1])
    start = b"".join(head)
    whole = b"".join([start, bytes(-len(start) % alignment), *body])
    write_atomically(Path(path), whole)


def _alignment_of(named: Mapping[str, Any]) -> int:
    """What places of data are multiples of, or a clear error."""
    key = "general.alignment"
    alignment = named[key]
    if isinstance(alignment, str) or alignment < 1 or alignment & (alignment - 1):
        raise ValueError(f"values must have a power of two for {key}, not {shown(alignment)}")
    return alignment


def _with_scales(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """The tensors, and those of their scales; or a clear error, if a name is taken."""
    scales = {
        _scale_of(name): np.array([q.tensor_scale], np.float32)
        for name, q in ((name, tensor_of(name, t)) for name, t in tensors.items() if is_tensor(t))
        if q.tensor_scale is not None
    }
    for name in scales.keys() & tensors.keys():
        raise ValueError(f"tensors must not have {name!r}, where the scale of a tensor of NVFP4 is")
    return {**tensors, **scales}


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _data(name: str, given: Any) -> tuple[tuple[int, ...], int, bytes]:
    """Shape, type and bytes of a tensor, or a clear error."""
    if is_tensor(given):
        q = tensor_of("tensors", given)
        known = {mx_format(fmt): kind for kind, fmt in _QUANTISED.items()}
        if q.format not in known:
            raise ValueError(
                f"tensors must be of mxfp4_e2m1 or nvfp4 in GGUF, not {q.format.name} for {name}"
            )
        try:
            shape, kind, data = q.shape, known[q.format], to_bytes(q, "gguf").tobytes()
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    else:
        kinds = {dtype: kind for kind, dtype in _FLOATS.items()}
        dtype = getattr(given, "dtype", None)
        if not isinstance(given, np.ndarray) or dtype not in kinds:
            found = type(given).__name__ if dtype is None else dtype
            raise TypeError(
                f"tensors must be QuantizedTensors, float32 or float16, not {found} for {name}"
            )
        shape, kind, data = given.shape, kinds[dtype], given.tobytes()
    if not 1 <= len(shape) <= _MOST_AXES:
        raise ValueError(f"tensors must have 1 to {_MOST_AXES} axes, not {len(shape)} for {name}")
    return shape, kind, data
