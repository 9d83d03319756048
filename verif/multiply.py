"""``python -m verif.multiply``: multiply two real matrices on the simulated systolic array."""

import argparse
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

import mxsafe as mx
from verif import manifest
from verif.array_job import Result, array_schedule, run_products
from verif.data import minilm
from verif.manifest import GEN, Module
from verif.simulators import SCRATCH, missing_tools

__all__ = ["main", "run_with_progress"]


def run_with_progress(
    module: Module, a: mx.QuantizedTensor, w: mx.QuantizedTensor, label: str
) -> Result:
    """Run a product on Verilator while a line on stderr counts the finished tiles."""
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
            print(f"\r{label}: {state}, {time.monotonic() - start:.0f} s ", end="", file=sys.stderr)
            worker.join(0.5)
        print("\r" + " " * 78 + "\r", end="", file=sys.stderr, flush=True)
    if failures:
        raise failures[0]
    return results[0]


def _block(text: str) -> int | tuple[int, int]:
    rows, _, columns = text.partition("x")
    return (int(rows), int(columns)) if columns else int(rows)


def main() -> int:
    """Multiply, compare with `mxsafe.matmul`, and print what it cost."""
    parser = argparse.ArgumentParser(prog="python -m verif.multiply", description=__doc__)
    parser.add_argument("a", nargs="?", type=Path, metavar="A.npy", help="M x K (default: MiniLM)")
    parser.add_argument("w", nargs="?", type=Path, metavar="W.npy", help="K x N")
    parser.add_argument("--arithmetic", choices=("fp12", "exact"), default="exact")
    parser.add_argument("--block", type=_block, default=64, metavar="N|NxN", help="(default: 64)")
    args = parser.parse_args()
    if missing := missing_tools("verilator"):
        print(f"Verilator needs {', '.join(missing)}: python -m verif.tools", file=sys.stderr)
        return 1
    if args.a is not None and args.w is None:
        parser.error("two matrices are needed, or none")
    x, y = minilm.load() if args.a is None else (np.load(args.a), np.load(args.w))
    a = mx.quantize(x, "mxsf", block=args.block, axis=-1)
    w = mx.quantize(y, "mxsf", block=args.block, axis=-2)
    module = manifest.load(GEN)["mxsf_sta" if args.arithmetic == "fp12" else "mxsf_sta_exact"]
    result = run_with_progress(module, a, w, f"{x.shape[0]} x {x.shape[1]} x {y.shape[1]}")

    (product,) = result.products
    expected = mx.matmul(a, w, arithmetic=args.arithmetic)
    same = np.array_equal(product.view(np.uint32), expected.view(np.uint32))
    reference = x.astype(np.float64) @ y.astype(np.float64)
    error = np.linalg.norm(product - reference) / np.linalg.norm(reference)
    print(f"{x.shape[0]} x {x.shape[1]} x {y.shape[1]} on {module.name}, blocks of {args.block}")
    print(f"tiles        {result.tiles}")
    print(f"cycles       {result.cycles} ({result.ideal} beats)")
    print(f"utilisation  {result.ideal / result.cycles:.1%}")
    print(f"error        {error:.3%} relative to float32")
    print(f"mx.matmul    {'the same in every bit' if same else 'DIFFERENT'}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
