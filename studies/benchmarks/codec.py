"""``python -m studies.benchmarks.codec``: how fast tensors are quantised and dequantised.

Times `mxsafe` against NumPy with ml_dtypes, torchao and JAX, those of them that are installed, on
one 4096 x 4096 float32 tensor. The contenders take turns, round after round, in one process:
compare rows with each other rather than with another machine. Rows that should give the same bits
are first checked to do so. ``--write`` writes
``docs/codec_speed.json`` and the page that is made of it.
"""

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mxsafe as mx
from studies import pages
from studies.benchmarks import versions

SIZE, BLOCK = 4096, 32

Array = NDArray[Any]


@dataclass
class Contender:
    """One row of the table: two calls without arguments, and their times in seconds."""

    name: str
    quantize: Callable[[], Any]
    dequantize: Callable[[], Any]
    bits: Callable[[], tuple[Array, Array]] | None = None  # codes and scales, to be compared
    times: dict[str, list[float]] = field(default_factory=dict)

    def rate(self, call: str, statistic: Callable[[list[float]], float]) -> float:
        """GB of float32 a second."""
        return SIZE * SIZE * 4 / 1e9 / statistic(self.times[call])


def mxsafe_rows(x: Array) -> Iterator[Contender]:
    """Ours, in both formats that matter and all kinds of blocks, and the plain reference."""
    for name, kind, options in (
        ("mxfp8_e4m3", "1x32", {"block": 32}),
        ("mxfp8_e4m3", "32x1", {"block": 32, "axis": 0}),
        ("mxfp8_e4m3", "8x8", {"block": (8, 8)}),
        ("mxsf", "1x64", {"block": 64}),
        ("mxsf", "64x1", {"block": 64, "axis": 0}),
        ("mxsf", "8x8", {"block": (8, 8)}),
    ):
        yield mxsafe_row(x, f"mxsafe, {name} {kind}", name, "numba", options)
    yield mxsafe_row(
        x, "mxsafe, mxfp8_e4m3 1x32, plain NumPy", "mxfp8_e4m3", "numpy", {"block": 32}
    )


def mxsafe_row(x: Array, title: str, name: str, engine: Any, options: dict[str, Any]) -> Contender:
    """One of ours."""
    q = mx.quantize(x, name, engine=engine, **options)
    comparable = name == "mxfp8_e4m3" and options == {"block": BLOCK}
    return Contender(
        title,
        lambda: mx.quantize(x, name, engine=engine, **options),
        lambda: mx.dequantize(q, engine=engine),
        (lambda: (q.codes, q.scales)) if comparable else None,
    )


def ml_dtypes_row(x: Array) -> Contender:
    """Return the code that one would write with NumPy and ml_dtypes."""
    import ml_dtypes

    def quantize() -> tuple[Array, Array]:
        blocks = x.reshape(-1, BLOCK)
        amax = np.abs(blocks).max(axis=1, keepdims=True)
        scale = np.clip((amax.view(np.int32) >> 23) - 8, 0, 254).astype(np.uint8)
        relative = blocks / scale.view(ml_dtypes.float8_e8m0fnu).astype(np.float32)
        return np.clip(relative, -448, 448).astype(ml_dtypes.float8_e4m3fn), scale

    codes, scale = quantize()

    def dequantize() -> Array:
        powers = scale.view(ml_dtypes.float8_e8m0fnu).astype(np.float32)
        return (codes.astype(np.float32) * powers).reshape(x.shape)

    return Contender(
        "NumPy and ml_dtypes, E4M3 1x32",
        quantize,
        dequantize,
        lambda: (codes.view(np.uint8), scale),
    )


def library_row(x: Array, name: str) -> Contender:
    """One of the libraries of `studies.benchmarks.libraries`."""
    import torch

    from studies.benchmarks import libraries

    calls = libraries.LIBRARIES[name](torch.from_numpy(x))
    title = "JAX, compiled" if name == "JAX" else name
    return Contender(f"{title}, E4M3 1x32", calls["quantise"], calls["dequantise"], calls["codes"])


def contenders(x: Array) -> list[Contender]:
    """Every row that can be made here; the rest are named on stderr."""
    rows = list(mxsafe_rows(x))
    for name in ("NumPy and ml_dtypes", "torchao", "JAX"):
        try:
            rows.append(library_row(x, name) if name in ("torchao", "JAX") else ml_dtypes_row(x))
        except ImportError as error:
            print(f"left out {name}: {error}", file=sys.stderr)
    return rows


def run(rows: list[Contender], rounds: int) -> None:
    """Time all rows in turns."""
    expected = next(row.bits for row in rows if row.bits is not None)()
    for row in rows:
        if row.bits is not None:
            for ours, theirs in zip(expected, row.bits(), strict=True):
                if not np.array_equal(ours.ravel(), theirs.ravel()):
                    raise SystemExit(f"{row.name} gives other bits")
    order = np.random.default_rng(0)  # who follows whom matters: threads of others spin for a while
    for turn in range(rounds + 1):  # the first is not counted
        print(f"\rround {turn} of {rounds}", end="", file=sys.stderr, flush=True)
        for row in (rows[i] for i in order.permutation(len(rows))):
            for call in ("quantize", "dequantize"):
                start = time.perf_counter()
                getattr(row, call)()
                seconds = time.perf_counter() - start
                if turn:
                    row.times.setdefault(call, []).append(seconds)
    print(file=sys.stderr)


def rates(row: Contender) -> list[float]:
    """GB of float32 a second: the best and the median round of each call."""
    return [
        round(row.rate(call, statistic), 4)
        for call in ("quantize", "dequantize")
        for statistic in (min, lambda times: float(np.median(times)))
    ]


def main() -> None:
    """Print the table, or write the page."""
    parser = argparse.ArgumentParser(description="Time the codec beside other libraries.")
    parser.add_argument("--rounds", type=int, default=15, metavar="N", help="(default: 15)")
    parser.add_argument("--write", action="store_true", help="write codec_speed.md")
    args = parser.parse_args()
    x = np.random.default_rng(0).standard_normal((SIZE, SIZE), np.float32)
    rows = contenders(x)
    run(rows, args.rounds)
    found = {row.name: rates(row) for row in rows}
    print("GB/s: quantise, best and median; dequantise, best and median")
    for name, row in found.items():
        print(f"{name:<40}", *(f"{rate:6.2f}" for rate in row))
    if args.write:
        numbers = {
            "size": SIZE,
            "cores": len(os.sched_getaffinity(0)),
            "machine": platform.machine(),
            "versions": versions("numpy", "numba", "ml_dtypes", "torch", "torchao", "jax"),
            "rates": found,
        }
        pages.keep(pages.DOCS / "codec_speed.json", numbers)
        pages.write("codec_speed")


if __name__ == "__main__":
    main()
