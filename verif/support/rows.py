"""Files of arrays between tests and benches, as `verif.bench.rows` has them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["read_arrays", "write_arrays"]


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays to a file: rows of bytes along the last axis, and integers or flags."""
    path.write_text(json.dumps({name: _written(name, array) for name, array in arrays.items()}))


def _written(name: str, array: NDArray[Any]) -> object:
    if array.dtype == np.uint8:
        return {"bytes": array.shape[-1] if array.ndim > 1 else 1, "rows": array.tobytes().hex()}
    assert array.ndim == 1, f"{name} has the shape {array.shape}"
    assert array.dtype.kind in "biu", f"{name} holds {array.dtype}"
    return [int(number) for number in array.tolist()]


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Arrays in a file, by name: rows of bytes, shape (rows, bytes), integers, single numbers."""
    found = json.loads(path.read_text())
    return {name: _read(name, one) for name, one in found.items()}


def _read(name: str, one: Any) -> NDArray[Any]:
    if isinstance(one, dict):
        data = np.frombuffer(bytes.fromhex(one["rows"]), np.uint8)
        return data.reshape(-1, one["bytes"])
    array = np.array(one)
    if isinstance(one, list):
        assert not one or array.dtype.kind in "iu", f"{name} holds {array.dtype}"
        return array if one else np.zeros(0, np.int64)
    return array
