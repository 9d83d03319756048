"""Loss of accuracy of arithmetic ``window``, by its width.

Writes ``docs/window.md``. Takes about half a minute. Layers of a language model are those of
``docs/window_layers.json``, which `studies.window_layers` writes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mxsafe as mx
from mxsafe.model.window import anchors
from studies.pages import kept
from studies.synthesised import find, load
from verif.data import minilm

WIDTHS = (24, 28, 32, 36, 40, 44)
_SPREADS = (2, 4, 8, 16)
_ARRAYS = {
    "exact": "sta_exact 4x2x4x8, 2 columns a MAC",
    "own": "sta_window 4x4x4x4",
    "shared": "sta_window 4x2x4x8, 2 groups of lanes",
}
"""Configurations of synthesis: arrays at the full rate for blocks and tiles."""
_BLOCKS: Mapping[str, int | tuple[int, int]] = {"1x64": 64, "8x8": (8, 8)}
Operands = tuple[mx.QuantizedTensor, mx.QuantizedTensor]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Errors of one product.

    Attributes
    ----------
    quantised : float, optional
        Of the quantised operands, where there are others.
    exact, fp12 : float
        Of the other arithmetics.
    window : dict
        By width.
    below : ndarray of int
        For each output, how far its largest block is below the anchor, in bits.
    inner : int
        Products of an output.
    """

    quantised: float | None
    exact: float
    fp12: float
    window: dict[int, float]
    below: NDArray[np.int64]
    inner: int


def relative(got: NDArray[np.floating], reference: NDArray[np.float64]) -> float:
    """Error of a matrix in the Frobenius norm."""
    return float(np.linalg.norm(got - reference) / np.linalg.norm(reference))


def quantised(
    x: NDArray[np.float32], y: NDArray[np.float32], block: int | tuple[int, int]
) -> Operands:
    """Both factors of a product, with blocks along k."""
    return mx.quantize(x, block=block, axis=-1), mx.quantize(y, block=block, axis=-2)


def _opposed(spread: int) -> Operands:
    """Blocks that are large in the rows are small in the columns."""
    rng = np.random.default_rng(spread)
    x, y = (rng.standard_normal(shape).astype(np.float32) for shape in ((64, 1024), (1024, 64)))
    more = np.repeat(rng.integers(-spread, spread + 1, 16), 64)
    return quantised(np.ldexp(x, more), np.ldexp(y, -more[:, None]), 64)


def products() -> dict[str, tuple[Operands, NDArray[np.float64] | None]]:
    """Operands by name, and the product of the unquantised ones where there are such."""
    x, w, dy = minilm.load_training()
    wanted = {"y": (x, w), "dX": (dy, w.T), "dW": (x.T, dy)}
    found: dict[str, tuple[Operands, NDArray[np.float64] | None]] = {
        f"{name}, {label}": (
            quantised(np.ascontiguousarray(left), np.ascontiguousarray(right), block),
            left.astype(np.float64) @ right.astype(np.float64),
        )
        for label, block in _BLOCKS.items()
        for name, (left, right) in wanted.items()
    }
    found["whole layer, 1x64"] = minilm.load_whole_layer(), None
    return found | {f"opposed scales, n = {n}": (_opposed(n), None) for n in _SPREADS}


def measure(
    operands: Operands, true: NDArray[np.float64] | None, widths: Sequence[int] = WIDTHS
) -> Measured:
    """Errors of a product in every arithmetic."""
    a, w = operands
    reference = mx.dequantize(a).astype(np.float64) @ mx.dequantize(w).astype(np.float64)
    scales_a, scales_w = (q.element_scales().astype(np.int64) for q in operands)
    largest = np.array([(row[:, None] + scales_w).max(axis=0) for row in scales_a])
    top = anchors(a, 1).astype(np.int64)[:, None] + anchors(w, 0)
    return Measured(
        quantised=None if true is None else relative(reference, true),
        exact=relative(mx.matmul(a, w, arithmetic="exact"), reference),
        fp12=relative(mx.matmul(a, w, arithmetic="fp12"), reference),
        window={
            width: relative(mx.matmul(a, w, arithmetic="window", window=width), reference)
            for width in widths
        },
        below=top - largest,
        inner=a.shape[1],
    )


@cache
def measured() -> dict[str, Measured]:
    """Errors of all products."""
    return {name: measure(*pair) for name, pair in products().items()}


def _reversed(operands: Operands) -> Operands:
    """The same products, with the blocks of k in reverse order."""
    a, w = operands
    block = a.block if isinstance(a.block, int) else a.block[1]
    blocks = a.shape[1] // block
    order = np.arange(blocks)[::-1]
    places = (order[:, None] * block + np.arange(block)).reshape(-1)
    return (
        mx.QuantizedTensor(a.codes[:, places], a.scales[:, order], a.format, a.block, a.axis),
        mx.QuantizedTensor(w.codes[places], w.scales[order], w.format, w.block, w.axis),
    )


def reordered(operands: Operands) -> dict[str, float]:
    """Share of the outputs whose bits change with the order of blocks, by arithmetic."""
    other = _reversed(operands)
    return {
        name: float(
            (mx.matmul(*operands, arithmetic=name) != mx.matmul(*other, arithmetic=name)).mean()
        )
        for name in ("fp12", "exact", "window")
    }


def _is_real(name: str) -> bool:
    return not name.startswith("opposed")


def values() -> dict[str, Any]:
    """Return the values of the page's template."""
    found = measured()
    real = [one for name, one in found.items() if _is_real(name)]
    as_exact = (
        width
        for width in WIDTHS
        if all(one.window[later] <= one.exact for one in real for later in WIDTHS if later >= width)
    )
    return {
        "widths": WIDTHS,
        "found": found,
        "orders": {
            name: reordered(pair)
            for name, (pair, _) in products().items()
            if _is_real(name) and "dX" not in name
        },
        "percentile": lambda below: np.percentile(below, 99, method="higher"),
        "used": max(one.inner for one in found.values()),
        "worst_real": max(one.window[32] for one in real),
        "worst_fp12": max(one.fp12 for one in real),
        "as_exact": next(as_exact),
        "layers": kept("window_layers"),
        "gates": {
            name: find(load(), configuration)["numbers"]["area"]["ge"]
            for name, configuration in _ARRAYS.items()
        },
    }
