"""Errors of real weights and activations in each format."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mxsafe as mx
from mxsafe.analysis import figures
from mxsafe.analysis.errors import (
    GapError,
    TensorError,
    block_name,
    draw_tensor,
    gap_error,
    tensor_error,
)
from mxsafe.analysis.report import gap_rows, tensor_rows
from mxsafe.formats import BLOCK_FORMATS, MX_FORMATS
from verif.data import minilm

BLOCKS: tuple[int | tuple[int, int], ...] = (64, (8, 8))
TABLE_I = ("mxint8", "mxfp8_e2m5", "mxfp8_e4m3", "mxsf")
FORMATS = (*TABLE_I, *(name for name in MX_FORMATS if name not in TABLE_I))
FOUR_BITS = (("mxfp4_e2m1", 32), ("mxfp4_e2m1", 16), ("nvfp4", 16))
"""Formats of four bits with the lengths of their blocks."""

SHARE_GAPS = 5
WIDTHS = (2, 3, 4, 5)
SEEDS = range(5)

PAPER: Mapping[str, tuple[float, float, float, float]] = {
    "ResNet-18 activations": (1.31e-4, 1.14e-4, 17.3e-4, 1.40e-4),
    "ResNet-18 weights": (6.13e-6, 3.41e-6, 42.5e-6, 5.07e-6),
    "MobileNetV2 activations": (11.2e-4, 8.35e-4, 120e-4, 10.7e-4),
    "MobileNetV2 weights": (3.41e-6, 2.29e-6, 31.0e-6, 3.06e-6),
    "FastViT-T8 activations": (1.27e-4, 0.79e-4, 10.3e-4, 1.10e-4),
    "FastViT-T8 weights": (1.48e-4, 1.00e-4, 13.1e-4, 1.17e-4),
}
"""Mean squared errors of the paper's Table I, formats in the order of `TABLE_I`."""

Errors = Mapping[str, Sequence[TensorError]]


@dataclass(frozen=True, kw_only=True)
class Results:
    """Results that the page and the pictures are made from.

    Attributes
    ----------
    gaps : list of GapError
        One a format.
    tensors : mapping of str to list of TensorError
        By tensor, all blocks and formats.
    shares : mapping of str to list of float
        By real tensor and gap, the last of which stands for all above too: squared error of MXINT8
        less that of MXSF, over the whole squared error of MXSF.
    widths : mapping of int to list of mapping of str to TensorError
        By width of a gradient in binades and by seed: errors by format of Table I.
    four_bits : mapping of str to list of TensorError
        By tensor, in the order of `FOUR_BITS`.
    """

    gaps: Sequence[GapError]
    tensors: Errors
    shares: Mapping[str, Sequence[float]]
    widths: Mapping[int, Sequence[Mapping[str, TensorError]]]
    four_bits: Errors


def share_by_gap(x: NDArray[np.float32]) -> list[float]:
    """See `Results.shares`; blocks of 64 along the last axis, which they must fill."""
    blocks = x.astype(np.float64).reshape(-1, 64)
    exponents = np.frexp(blocks)[1]
    gaps = np.minimum(exponents.max(axis=1, keepdims=True) - exponents, SHARE_GAPS)
    squared = {
        name: np.square(
            blocks - mx.dequantize(mx.quantize(blocks, name, block=64), dtype=np.float64)
        )
        for name in ("mxint8", "mxsf")
    }
    more = squared["mxint8"] - squared["mxsf"]
    return [float(more[gaps == gap].sum() / squared["mxsf"].sum()) for gap in range(SHARE_GAPS + 1)]


def gradient(width: int, seed: int) -> NDArray[np.float32]:
    """The synthetic gradient with a standard deviation of `width` binades instead of three."""
    x = draw_tensor("gradient", (64, 1024), seed=seed).astype(np.float64)
    binades = np.log2(np.abs(x), where=x != 0, out=np.zeros_like(x))
    return (np.sign(x) * np.exp2((binades + 14) * width / 3 - 14)).astype(np.float32)


@cache
def measure() -> Results:
    """Errors of every format by gap, and on each tensor with each block."""
    activations, weights = minilm.load()
    tensors = {
        "MiniLM activations": (activations, -1),
        "MiniLM weights": (weights, -2),
        "synthetic gradient": (draw_tensor("gradient", (64, 1024)), -1),
    }
    return Results(
        gaps=[gap_error(name) for name in (*FORMATS, "nvfp4")],
        tensors={
            title: [
                tensor_error(x, name, block=block, axis=axis)
                for block in BLOCKS
                for name in FORMATS
            ]
            for title, (x, axis) in tensors.items()
        },
        shares={
            "MiniLM activations": share_by_gap(activations),
            "MiniLM weights": share_by_gap(weights.T),
        },
        widths={
            width: [
                {name: tensor_error(gradient(width, seed), name, block=64) for name in TABLE_I}
                for seed in SEEDS
            ]
            for width in WIDTHS
        },
        four_bits={
            title: [tensor_error(x, name, block=block, axis=axis) for name, block in FOUR_BITS]
            for title, (x, axis) in tensors.items()
        },
    )


def columns_of(tensors: Errors) -> dict[str, dict[str, float]]:
    """Mean squared errors by tensor and block, then by format of Table I."""
    return {
        f"{title}, {block_name(block)}": {
            error.format: error.mse
            for error in errors
            if error.block == block and error.format in TABLE_I
        }
        for title, errors in tensors.items()
        for block in BLOCKS
    }


def paper_columns() -> dict[str, dict[str, float]]:
    """The paper's Table I in the form of `columns_of`."""
    return {title: dict(zip(TABLE_I, values, strict=True)) for title, values in PAPER.items()}


def order(column: Mapping[str, float]) -> tuple[str, ...]:
    """Formats of a column, the smallest error first."""
    return tuple(sorted(column, key=lambda name: column[name]))


def _width_rows(widths: Mapping[int, Sequence[Mapping[str, TensorError]]]) -> list[tuple[str, ...]]:
    head = (
        "width",
        *(f"{name}, MSE over that of mxsf" for name in TABLE_I if name != "mxsf"),
        *(f"{name}, underflow" for name in TABLE_I),
    )
    rows: list[tuple[str, ...]] = [head]
    for width, seeds in widths.items():
        cells = [str(width)]
        for name in TABLE_I:
            if name != "mxsf":
                ratios = [errors[name].mse / errors["mxsf"].mse for errors in seeds]
                cells.append(f"{min(ratios):.2f} to {max(ratios):.2f}")
        for name in TABLE_I:
            lost = [errors[name].underflow_ratio for errors in seeds]
            cells.append(f"{min(lost):.2%} to {max(lost):.2%}")
        rows.append(tuple(cells))
    return rows


def bits_of(name: str, block: int) -> float:
    """Bits of an element with its part of the scale of a block."""
    fmt = BLOCK_FORMATS[name]
    return fmt.element.width + fmt.scale.width / block


def _four_bit_rows(errors: Errors) -> list[tuple[str, ...]]:
    measures = [f"{title}, {measure}" for title in errors for measure in ("error", "underflow")]
    rows: list[tuple[str, ...]] = [("format", "block", "bits", *measures)]
    for place, (name, block) in enumerate(FOUR_BITS):
        row = [errors[title][place] for title in errors]
        cells = [f"{v:.2%}" for one in row for v in (one.relative_error, one.underflow_ratio)]
        rows.append((name, block_name(block), f"{bits_of(name, block):g}", *cells))
    return rows


def values(results: Results | None = None) -> dict[str, Any]:
    """Return the values of the page's template, by default those measured now."""
    results = measure() if results is None else results
    paper = paper_columns()
    return {
        "results": results,
        "table_i": TABLE_I,
        "columns": columns_of(results.tensors),
        "paper": paper,
        "order": order,
        "same": lambda column: [n for n, other in paper.items() if order(other) == order(column)],
        "share_gaps": SHARE_GAPS,
        "seeds": SEEDS,
        "width_rows": _width_rows,
        "four_bit_rows": _four_bit_rows,
        "gap_rows": gap_rows(results.gaps),
        "tensor_rows": tensor_rows(results.tensors),
    }


def pictures(results: Results | None = None) -> dict[str, bytes]:
    """The pictures of the page by file name."""
    results = measure() if results is None else results
    drawn = {
        "format_error.svg": figures.draw_gap_errors(results.gaps),
        "format_tensors.svg": figures.draw_tensor_errors(results.tensors),
    }
    return {name: figures.render(figure, ".svg") for name, figure in drawn.items()}
