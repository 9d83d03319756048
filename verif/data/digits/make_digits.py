#!/usr/bin/env python3
"""Pack the digits that scikit-learn carries: ``python make_digits.py [OUT.npz]``.

Reads ``sklearn/datasets/data/digits.csv.gz`` of the installed package, without importing it. UCI's
own file, ``optdigits.tes``, has the same rows.
"""

import gzip
import hashlib
import importlib.util
import io
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

SHA256 = "09f66e6debdee2cd2b5ae59e0d6abbb73fc2b0e0185d2e1957e9ebb51e23aa22"
TARGET = Path(__file__).resolve().parent / "digits.npz"


def find_table() -> Path:
    """Path of the table in the installed scikit-learn.

    Raises
    ------
    SystemExit
        If there is none, or it is not the one expected; the message says what to do.
    """
    spec = importlib.util.find_spec("sklearn")
    if spec is None or spec.origin is None:
        raise SystemExit(
            "scikit-learn is not installed; run: pip install --no-deps scikit-learn==1.9.1"
        )
    path = Path(spec.origin).parent / "datasets" / "data" / "digits.csv.gz"
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != SHA256:
        raise SystemExit(f"{path} must have the SHA-256 {SHA256}, not {digest}")
    return path


def main(arguments: Sequence[str]) -> None:
    """Write the archive."""
    target = Path(arguments[0]) if arguments else TARGET
    text = gzip.decompress(find_table().read_bytes()).decode()
    table = np.loadtxt(io.StringIO(text), delimiter=",").astype(np.uint8)
    partial = target.with_suffix(".partial.npz")
    np.savez_compressed(partial, pixels=table[:, :64], labels=table[:, 64])
    partial.replace(target)
    print(f"{target.name}: {len(table)} images, {target.stat().st_size} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
