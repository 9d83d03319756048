"""``python -m studies.multiply``: multiply two real matrices on the simulated systolic array."""

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mxsafe as mx
from mxsafe.cli.arguments import UsageError, UserError, parse_block, read_array
from studies.prose import parser_of
from verif.data import minilm
from verif.rtl.array.array_job import Result, array_schedule, run_products
from verif.support import manifest
from verif.support.manifest import Module
from verif.support.simulators import SCRATCH, missing_tools

ARRAYS = {"fp12": "mxsf_sta", "exact": "mxsf_sta_exact", "window": "mxsf_sta_window"}
"""Arrays of the paper's size, by arithmetic."""


def run_with_progress(
    module: Module, a: mx.QuantizedTensor, w: mx.QuantizedTensor, label: str
) -> Result:
    """Run a product on Verilator while a line on stderr counts the finished tiles.

    In a terminal it is one line; elsewhere there is a line every quarter of a minute.
    """
    interactive = sys.stderr.isatty()
    before, after, pause = ("\r", " ", 0.5) if interactive else ("", "\n", 15.0)
    tiles = array_schedule(module, a, w).tiles
    results: list[Result] = []
    failures: list[BaseException] = []
    with tempfile.TemporaryDirectory(dir=SCRATCH, prefix="progress-") as folder:
        counter = Path(folder) / "tiles"

        def work() -> None:
            try:
                results.append(run_products("verilator", module, [(a, w)], progress=counter))
            except BaseException as error:
                failures.append(error)

        worker = threading.Thread(target=work)
        worker.start()
        start = time.monotonic()
        while worker.is_alive():
            done = counter.read_text() if counter.exists() else ""
            state = f"tile {done} of {tiles}" if done else "building the simulator"
            line = f"{before}{label}: {state}, {time.monotonic() - start:.0f} s"
            print(line, end=after, file=sys.stderr, flush=True)
            worker.join(pause)
        if interactive:
            print("\r" + " " * 78 + "\r", end="", file=sys.stderr, flush=True)
    if failures:
        raise failures[0]
    return results[0]


def _check_block(block: int | tuple[int, int], module: Module) -> None:
    """Refuse a block that the array or its arithmetic cannot take."""
    if isinstance(block, tuple) and block[0] != block[1]:
        raise UsageError(
            f"--block must be a length or a square tile, not {block[0]}x{block[1]}: "
            "the operands would not have the same blocks in k"
        )
    length = block if isinstance(block, int) else block[0]
    lanes, longest = module.parameters["lanes"], module.parameters.get("block", length)
    if module.parameters["arithmetic"] == "fp12" and length % lanes:
        raise UsageError(
            f"--block must be a multiple of the array's {lanes} lanes for fp12, not {length}"
        )
    if length > longest:
        raise UsageError(
            f"--block must be at most {longest}, which the array's sums hold, not {length}"
        )


def _operand(
    path: Path, x: NDArray[Any], block: int | tuple[int, int], axis: int
) -> mx.QuantizedTensor:
    if x.ndim != 2 or x.size == 0:
        raise UserError(f"{path} must hold a matrix that is not empty, not the shape {x.shape}")
    try:
        return mx.quantize(x, "mxsf", block=block, axis=axis)
    except (TypeError, ValueError) as error:
        raise UserError(f"{path}: {error}") from None


def _multiply(args: argparse.Namespace) -> bool:
    module = manifest.generated()[ARRAYS[args.arithmetic]]
    _check_block(args.block, module)
    x, y = minilm.load() if args.a is None else (read_array(args.a), read_array(args.w))
    a = _operand(args.a, x, args.block, -1)
    w = _operand(args.w, y, args.block, -2)
    if x.shape[1] != y.shape[0]:
        raise UserError(
            f"{args.w} must have the {x.shape[1]} rows that {args.a} has columns, not {y.shape[0]}"
        )
    try:
        array_schedule(module, a, w)
    except ValueError as error:
        raise UserError(f"{args.a}: {error}") from None
    if missing := missing_tools("verilator"):
        raise UserError(f"Verilator needs {', '.join(missing)}: python -m verif.support.tools")
    try:
        result = run_with_progress(module, a, w, f"{x.shape[0]} x {x.shape[1]} x {y.shape[1]}")
    except AssertionError as error:
        raise UserError(str(error)) from None

    (product,) = result.products
    expected = mx.matmul(a, w, arithmetic=args.arithmetic)
    same = np.array_equal(product.view(np.uint32), expected.view(np.uint32))
    with np.errstate(invalid="ignore"):  # 0 / 0, NaN and Inf among the operands
        reference = x.astype(np.float64) @ y.astype(np.float64)
        relative = np.linalg.norm(product - reference) / np.linalg.norm(reference)
    print(f"{x.shape[0]} x {x.shape[1]} x {y.shape[1]} on {module.name}, blocks of {args.block}")
    print(f"tiles        {result.tiles}")
    print(f"cycles       {result.cycles} ({result.ideal} beats)")
    print(f"utilisation  {result.ideal / result.cycles:.1%}")
    print(f"error        {relative:.3%} relative to float32")
    print(f"mx.matmul    {'the same in every bit' if same else 'DIFFERENT'}")
    return same


def main(argv: Sequence[str] | None = None) -> int:
    """Multiply, compare with `mxsafe.matmul`, and print what it cost; returns the exit code.

    0 is success, 1 work that failed, 2 a wrong command line.
    """
    parser = parser_of("multiply", __doc__)
    parser.add_argument("a", nargs="?", type=Path, metavar="A.npy", help="M x K (default: MiniLM)")
    parser.add_argument("w", nargs="?", type=Path, metavar="W.npy", help="K x N")
    parser.add_argument("--arithmetic", choices=tuple(ARRAYS), default="exact")
    parser.add_argument(
        "--block", type=parse_block, default=64, metavar="N|NxN", help="(default: 64)"
    )
    args = parser.parse_args(argv)
    if args.a is not None and args.w is None:
        parser.error("two matrices are needed, or none")
    try:
        return 0 if _multiply(args) else 1
    except UserError as error:
        print(f"multiply: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1


if __name__ == "__main__":
    sys.exit(main())
