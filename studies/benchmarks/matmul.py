"""``python -m studies.benchmarks.matmul``: speed and memory of `mxsafe.matmul`.

One process, one run: compare rows with each other rather than with another machine.
"""

import time
import tracemalloc

import numpy as np

import mxsafe as mx

M, K, N = 1024, 2048, 1024


def main() -> None:
    """Print multiply-accumulates a second for both arithmetics and block shapes."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((M, K), np.float32), rng.standard_normal((K, N), np.float32)
    print(f"{M} x {K} x {N}, NumPy {np.__version__}")
    print(f"{'arithmetic':<12}{'block':<8}{'M MAC/s':>10}{'extra memory, MB':>18}")
    for arithmetic in ("exact", "fp12"):
        for block in (64, 32, (8, 8)):
            a, w = mx.quantize(x, block=block), mx.quantize(y, block=block, axis=-2)
            tracemalloc.start()
            size = mx.matmul(a, w, arithmetic=arithmetic).nbytes  # warms caches and BLAS too
            extra = (tracemalloc.get_traced_memory()[1] - size) / 1e6
            tracemalloc.stop()
            start = time.perf_counter()
            mx.matmul(a, w, arithmetic=arithmetic)
            seconds = time.perf_counter() - start
            shape = "x".join(map(str, block)) if isinstance(block, tuple) else f"1x{block}"
            print(f"{arithmetic:<12}{shape:<8}{M * K * N / seconds / 1e6:>10.0f}{extra:>18.1f}")


if __name__ == "__main__":
    main()
