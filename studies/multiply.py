"""``python -m studies.multiply``: multiply two real matrices on the simulated systolic array.

Verilator simulates it; building the simulator takes a few minutes. All bits are compared with those
of `mxsafe.matmul`.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mxsafe as mx
from mxsafe.cli.arguments import UserError, parse_block, read_array
from studies.prose import parser_of
from verif.data import minilm
from verif.rtl.array.array_job import Result, run_products
from verif.support import manifest
from verif.support.manifest import Module

ARRAYS = {"fp12": "mxsf_sta", "exact": "mxsf_sta_exact", "window": "mxsf_sta_window"}
"""Arrays of the paper's size, by arithmetic."""


def multiplied(module: Module, a: mx.QuantizedTensor, w: mx.QuantizedTensor) -> Result:
    """A product on an array, on Verilator.

    Raises
    ------
    ValueError
        If the array does not take these operands.
    AssertionError
        If the simulation fails, or a bit is not that of `mxsafe.matmul`.
    """
    result = run_products("verilator", module, [(a, w)])
    expected = mx.matmul(a, w, arithmetic=module.parameters["arithmetic"])
    same = np.array_equal(result.products[0].view(np.uint32), expected.view(np.uint32))
    assert same, f"{module.name}: the product must be that of mx.matmul in every bit"
    return result


def _operand(
    path: Path, x: NDArray[Any], block: int | tuple[int, int], axis: int
) -> mx.QuantizedTensor:
    if x.ndim != 2 or x.size == 0:
        raise UserError(f"{path} must hold a matrix that is not empty, not the shape {x.shape}")
    try:
        return mx.quantize(x, "mxsf", block=block, axis=axis)
    except (TypeError, ValueError) as error:
        raise UserError(f"{path}: {error}") from None


def _multiply(args: argparse.Namespace) -> None:
    module = manifest.generated()[ARRAYS[args.arithmetic]]
    x, y = minilm.load() if args.a is None else (read_array(args.a), read_array(args.w))
    a, w = _operand(args.a, x, args.block, -1), _operand(args.w, y, args.block, -2)
    sizes = f"{x.shape[0]} x {x.shape[1]} x {y.shape[1]}"
    print(f"{sizes} on {module.name}, blocks of {args.block}", flush=True)
    result = multiplied(module, a, w)
    with np.errstate(invalid="ignore"):  # 0 / 0, NaN and Inf among the operands
        reference = x.astype(np.float64) @ y.astype(np.float64)
        relative = np.linalg.norm(result.products[0] - reference) / np.linalg.norm(reference)
    print(f"tiles        {result.tiles}")
    print(f"cycles       {result.cycles} ({result.ideal} beats)")
    print(f"utilisation  {result.ideal / result.cycles:.1%}")
    print(f"error        {relative:.3%} relative to float32")
    print("mx.matmul    the same in every bit")


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
        _multiply(args)
    except (AssertionError, ValueError, UserError) as error:
        print(f"multiply: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
