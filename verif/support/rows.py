"""Files of arrays between tests and benches, as `verif.bench.rows` has them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["read_arrays", "write_arrays"]


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays to a file: of bytes whole rows, of others each number."""
    path.write_text(json.dumps({name: _written(array) for name, array in arrays.items()}))


def _written(array: NDArray[Any]) -> object:
    if array.dtype != np.uint8:
        return array.astype(np.int64).ravel().tolist()
    return {"bytes": array.shape[-1] if array.ndim > 1 else 1, "rows": array.tobytes().hex()}


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Arrays in a file, by name: rows of bytes, shape (rows, bytes), and numbers."""
    found = json.loads(path.read_text())
    return {name: _read(one) for name, one in found.items()}


def _read(one: Any) -> NDArray[Any]:
    if isinstance(one, list):
        return np.array(one, np.int64)
    if not isinstance(one, dict):
        return np.array(one)
    data = np.frombuffer(bytes.fromhex(one["rows"]), np.uint8)
    return data.reshape(-1, one["bytes"])
