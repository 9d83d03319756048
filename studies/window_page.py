"""``python -m studies.window_page``: what arithmetic ``window`` costs in accuracy, by its width.

Writes ``docs/window.md``. Takes about half a minute.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import mxsafe as mx
from mxsafe.analysis.report import markdown
from mxsafe.atomic import write_together
from mxsafe.model.window import anchors
from studies.pages import DOCS
from studies.prose import wrapped
from studies.training_pass import training_layer
from verif.support.data import minilm

__all__ = ["WIDTHS", "Measured", "measure", "page", "products", "reordered"]

WIDTHS = (24, 28, 32, 36, 40, 44)
_SPREADS = (2, 4, 8, 16)
_BLOCKS: Mapping[str, int | tuple[int, int]] = {"1x64": 64, "8x8": (8, 8)}
Operands = tuple[mx.QuantizedTensor, mx.QuantizedTensor]

_PAGE = """\
# Arithmetic `window`

`python -m studies.window_page` wrote this page.

In arithmetic `exact` every block ends with a binary32 addition. In `window` the sums of blocks stay
integers: each is shifted to a common position, the *anchor* of its row and column, and added to an
integer of a fixed width. There is one conversion to binary32 an output. The docstring of
[`model/window.py`](../hdl/mxsafe/model/window.py) states its numerics.

## Error by width

Errors are relative, in the Frobenius norm, against the exact product of the same quantised
operands. *Quantised* is what quantising the operands has cost before, against float32 operands.
Windows hold {inner} products an output, of which these products use at most {used}.

{errors}

*y* is a [MiniLM layer](../verif/support/data/minilm/README.md), *dX* and *dW* are the products of
its backward pass, *whole layer* is the same layer with all of its outputs. *Opposed scales* are an
attack: in each block of k the row is 2^s times as large as usual and the column 2^-s, with s from
-n to n. No block is then anywhere near the anchors, though all products are alike.

A window of 32 bits loses at most {worst_real:.1e} of a real product, less than a hundredth of what
quantising has lost; `fp12` loses {worst_fp12:.1e}. From 24 to 28 bits the error of a real product
falls to about a sixteenth, from 32 to 36 to a twentieth or less. From {as_exact} bits on
no real product is further off than in `exact`.

## How far blocks are below the anchor

How much less the largest sum of two scale codes among the blocks of an output is than the sum of
the anchors of its row and column. An output does not use that many bits of its window.

{distances}

So the anchor of a row and a column is enough where large blocks of a row do not all meet small
blocks of the columns. Opposed scales are such blocks: a layer whose activations are divided by
channel and whose weights are multiplied has them. There `exact` or a wider window is the answer.

## Order of blocks

Blocks of k in reverse order. The table has the share of outputs whose bits change.

{orders}

A result of `window` is independent of the order of blocks, and of where k is cut. So:

- the integers of parts of k can be added in any order, and the result is the same bit for bit, as
  long as all parts have the anchors of the whole row and column (in the model: an array gives
  binary32 numbers, and adds parts of a tile itself, one after the other);
- a schedule may take the blocks of an output in the order in which memory has them;
- a test needs no model of the order in which hardware adds.

Parts of k that are quantised and scheduled each by itself have anchors of their own. Their results
are those of shorter products, and nothing notices it where an array goes on from one to the next:
an array would have to keep the anchors of all rows and columns to compare them. So anchors are to
be taken from the whole of k, as `mxsafe.model.Schedule` does with the operands it is given.

## In hardware

`mxsafe verilog sta_window --lanes 8` writes the array; [its streams](array.md#anchors) carry the
anchors beside the scales. The edge of the array makes distances from anchors of the scales, 5 bits
in place of 8. A MAC has a shifter and an integer adder for its blocks, which take one every clock:
blocks of 1x64 and of 8x8 run at the full rate in the same array, and no binary32 adder is needed.
One conversion serves the 16 MACs of a sub-matrix unit, because a tile lasts at least 16 clocks.
`mxsafe synth --case 'sta_window*'` measures its gates.
"""


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


def _relative(got: NDArray[np.floating], reference: NDArray[np.float64]) -> float:
    return float(np.linalg.norm(got - reference) / np.linalg.norm(reference))


def _quantised(
    x: NDArray[np.float32], y: NDArray[np.float32], block: int | tuple[int, int]
) -> Operands:
    return mx.quantize(x, block=block, axis=-1), mx.quantize(y, block=block, axis=-2)


def _opposed(spread: int) -> Operands:
    """Blocks that are large in the rows are small in the columns."""
    rng = np.random.default_rng(spread)
    x, y = (rng.standard_normal(shape).astype(np.float32) for shape in ((64, 1024), (1024, 64)))
    more = np.repeat(rng.integers(-spread, spread + 1, 16), 64)
    return _quantised(np.ldexp(x, more), np.ldexp(y, -more[:, None]), 64)


def products() -> dict[str, tuple[Operands, NDArray[np.float64] | None]]:
    """Operands by name, and the product of the unquantised ones where there are such."""
    x, w, dy = training_layer("exact")
    wanted = {"y": (x, w), "dX": (dy, w.T), "dW": (x.T, dy)}
    found: dict[str, tuple[Operands, NDArray[np.float64] | None]] = {
        f"{name}, {label}": (
            _quantised(np.ascontiguousarray(left), np.ascontiguousarray(right), block),
            left.astype(np.float64) @ right.astype(np.float64),
        )
        for label, block in _BLOCKS.items()
        for name, (left, right) in wanted.items()
    }
    found["whole layer, 1x64"] = minilm.load_whole_layer(), None
    return found | {f"opposed scales, n = {n}": (_opposed(n), None) for n in _SPREADS}


def measure(operands: Operands, true: NDArray[np.float64] | None) -> Measured:
    """Errors of a product in every arithmetic."""
    a, w = operands
    reference = mx.dequantize(a).astype(np.float64) @ mx.dequantize(w).astype(np.float64)
    scales_a, scales_w = (q.element_scales().astype(np.int64) for q in operands)
    largest = np.array([(row[:, None] + scales_w).max(axis=0) for row in scales_a])
    top = anchors(a, 1).astype(np.int64)[:, None] + anchors(w, 0)
    return Measured(
        quantised=None if true is None else _relative(reference, true),
        exact=_relative(mx.matmul(a, w, arithmetic="exact"), reference),
        fp12=_relative(mx.matmul(a, w, arithmetic="fp12"), reference),
        window={
            width: _relative(mx.matmul(a, w, arithmetic="window", window=width), reference)
            for width in WIDTHS
        },
        below=top - largest,
        inner=a.shape[1],
    )


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


def page(found: Mapping[str, Measured], orders: Mapping[str, Mapping[str, float]]) -> str:
    """The page as Markdown."""
    head = ["", "quantised", "fp12", "exact", *(f"{width} bits" for width in WIDTHS)]
    errors: list[Sequence[str]] = [head]
    distances: list[Sequence[str]] = [("", "mean", "99 % are at most", "largest")]
    for name, one in found.items():
        quantised = "" if one.quantised is None else f"{one.quantised:.1e}"
        numbers = [one.fp12, one.exact, *one.window.values()]
        errors.append([name, quantised, *(f"{number:.1e}" for number in numbers)])
        most = np.percentile(one.below, 99, method="higher")
        distances.append((name, f"{one.below.mean():.1f}", f"{most}", f"{one.below.max()}"))
    real = [one for name, one in found.items() if _is_real(name)]
    as_exact = [
        width
        for width in WIDTHS
        if all(one.window[later] <= one.exact for one in real for later in WIDTHS if later >= width)
    ]
    text = _PAGE.format(
        inner="4,096",
        used=f"{max(one.inner for one in found.values()):,}",
        errors=markdown(errors),
        distances=markdown(distances),
        orders=markdown(
            [
                ("", *next(iter(orders.values()))),
                *((name, *(f"{s:.1%}" for s in one.values())) for name, one in orders.items()),
            ]
        ),
        worst_real=max(one.window[32] for one in real),
        worst_fp12=max(one.fp12 for one in real),
        as_exact=as_exact[0],
    )
    return wrapped(text)


def main() -> None:
    """Write the page."""
    operands = products()
    found = {name: measure(*pair) for name, pair in operands.items()}
    orders = {
        name: reordered(pair)
        for name, (pair, _) in operands.items()
        if _is_real(name) and "dX" not in name
    }
    write_together(DOCS, {"window.md": page(found, orders).encode()})


if __name__ == "__main__":
    main()
