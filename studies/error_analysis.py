"""``python -m studies.error_analysis``: what real weights and activations lose in each format.

Writes ``docs/formats.md``, ``docs/format_error.svg`` and ``docs/format_tensors.svg`` (which need
matplotlib: the extra ``figures``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

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
from mxsafe.analysis.report import gap_rows, markdown, tensor_rows
from mxsafe.atomic import write_together
from mxsafe.formats import BLOCK_FORMATS, MX_FORMATS
from studies.prose import wrapped
from verif.support.data import minilm

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DOCS = Path(__file__).parents[1] / "docs"
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

_PAGE = """\
# What each format loses

`python -m studies.error_analysis` wrote this page; `mxsafe analyse` does the same for other
tensors. Scales that are powers of two are `floor`, those of NVFP4 are the nearest, and all elements
are rounded to nearest even.

## By exponent gap

The best format for an element depends on its exponent gap `S_e - e_x`: the number of binades that
it lies below the largest magnitude of its block (paper, Fig. 3).

![Mean relative error by exponent gap](format_error.svg)

The table has the mean relative error over evenly spaced significands. `zero` means that every
element underflows:

{gap_table}

The paper derives from its equations (5) and (6) that MXINT8 is better than E2M5 at gap 0 only,
equal at 1 and worse from 2 on. The table agrees. MXSF is E2M5 up to a gap of 2, and E3M2 from 3 to
9. The two mantissa bits of E3M2 cost more than E2M5's subnormals do up to a gap of 4, as much at 5,
and less from 6 on. The subnormals of MXSF reach a gap of 11. In every format, rounding to nearest
keeps the elements of one more binade from becoming zero. At gap 0 the floating-point formats of OCP
lose more because they saturate: with a `floor` scale the largest E4M3 value is 1.75 times the power
of two below the maximum. NVFP4 has the same elements as MXFP4 and a scale with a mantissa: the
maximum becomes 6 times the scale, and at gap 0 only the rounding of the scale to E4M3 is lost.

## Real tensors

These are the measurements of the paper's Table I on other tensors: a
[MiniLM layer](../verif/support/data/minilm/README.md) with blocks along the inner dimension, and a
synthetic tensor like a gradient (30 % zeros, magnitudes log-normal with a standard deviation of
three binades). Mean squared errors:

{mse_table}

The paper measured other tensors, so only the order can be compared:

{paper_table}

Best first:

{order_table}

On MiniLM, as in the paper, E2M5 is best and E4M3 last of the four. On the activations MXSF is
second, as in five of the paper's six columns. On the weights MXINT8 is second and MXSF third, as in
one of the paper's columns, the activations of ResNet-18. The next table has the squared error of
MXINT8 less that of MXSF, by gap, in blocks of 1x64, over the whole squared error of MXSF:

{share_table}

MXINT8 gains about as much at gaps 0 and 3 on both tensors. It loses on elements far below the
maximum; the activations have such elements, the weights do not.

The gradient above is one draw, of width 3 and seed 0. Its numbers depend much on the width and on
which elements happen to be largest. The next table has, for each width, the least and the largest
number over seeds {seeds} in blocks of 1x64. The width is the standard deviation of the magnitudes
in binades:

{width_table}

For every width and every seed, E4M3 has the largest mean squared error of the four and the smallest
underflow ratio. MXINT8 has the largest underflow ratio, then E2M5, then MXSF. The mean squared
error puts MXINT8, E2M5 and MXSF in no fixed order, since a few large elements make it up. The paper
says the same of ResNet-18's gradients (section III-B): MXINT8 and E2M5 have smaller errors than
E4M3 and far more underflow. How much MXSF loses depends on the width.

## Four bits

NVFP4 and MXFP4 have the same elements. NVFP4 has an E4M3 scale for every 16 of them and a binary32
scale of the tensor; MXFP4 has an E8M0 scale for every 32. Here both are in blocks of their own, and
MXFP4 is in blocks of 16 too, where it takes as many bits as NVFP4. The bits of an element include
those of its block's scale; the scale of the tensor adds 32 bits to all of it. Relative errors and
underflow:

{four_bit_table}

Shorter blocks alone keep more elements from underflow and change the relative error little. The
scale with a mantissa makes the error smaller on every tensor: the largest element of a block, where
most of the error is, is always close to 6.

## Every format on every tensor

![Mean squared error and underflow ratio](format_tensors.svg)

{tensor_table}
"""


@dataclass(frozen=True, kw_only=True)
class Results:
    """What the page and the pictures are made from.

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


def _mse_table(columns: Mapping[str, Mapping[str, float]]) -> str:
    rows = [
        ("format", *columns),
        *((name, *(f"{column[name]:.2e}" for column in columns.values())) for name in TABLE_I),
    ]
    return markdown(rows)


def _order_table(columns: Mapping[str, Mapping[str, float]]) -> str:
    paper = paper_columns()
    rows = [("tensor, block", "order by mean squared error", "the same in the paper")]
    for title, column in columns.items():
        same = [name for name, other in paper.items() if order(other) == order(column)]
        rows.append((title, ", ".join(order(column)), ", ".join(same) or "nowhere"))
    return markdown(rows, labels=3)


def _share_table(shares: Mapping[str, Sequence[float]]) -> str:
    head = ("tensor", *(f"gap {gap}" for gap in range(SHARE_GAPS)), f"{SHARE_GAPS} and more")
    rows = [(title, *(f"{share:+.1%}" for share in row)) for title, row in shares.items()]
    return markdown([head, *rows])


def _width_table(widths: Mapping[int, Sequence[Mapping[str, TensorError]]]) -> str:
    head = (
        "width",
        *(f"{name}, MSE over that of mxsf" for name in TABLE_I if name != "mxsf"),
        *(f"{name}, underflow" for name in TABLE_I),
    )
    rows = [head]
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
    return markdown(rows)


def bits_of(name: str, block: int) -> float:
    """Bits of an element with its part of the scale of a block."""
    fmt = BLOCK_FORMATS[name]
    return fmt.element.width + fmt.scale.width / block


def _four_bit_table(errors: Errors) -> str:
    measures = [f"{title}, {measure}" for title in errors for measure in ("error", "underflow")]
    rows: list[tuple[str, ...]] = [("format", "block", "bits", *measures)]
    for place, (name, block) in enumerate(FOUR_BITS):
        row = [errors[title][place] for title in errors]
        cells = [f"{v:.2%}" for one in row for v in (one.relative_error, one.underflow_ratio)]
        rows.append((name, block_name(block), f"{bits_of(name, block):g}", *cells))
    return markdown(rows, labels=2)


def page(results: Results) -> str:
    """Text of ``docs/formats.md``."""
    columns = columns_of(results.tensors)
    text = _PAGE.format(
        gap_table=markdown(gap_rows(results.gaps), labels=0),
        mse_table=_mse_table(columns),
        paper_table=_mse_table(paper_columns()),
        order_table=_order_table(columns),
        share_table=_share_table(results.shares),
        width_table=_width_table(results.widths),
        seeds=f"{SEEDS[0]} to {SEEDS[-1]}",
        four_bit_table=_four_bit_table(results.four_bits),
        tensor_table=markdown(tensor_rows(results.tensors), labels=3),
    )
    return wrapped(text)


def pictures(results: Results) -> dict[str, "Figure"]:
    """The pictures of the page by file name."""
    return {
        "format_error.svg": figures.draw_gap_errors(results.gaps),
        "format_tensors.svg": figures.draw_tensor_errors(results.tensors),
    }


def main() -> None:
    """Measure, then write the page and its pictures."""
    results = measure()
    files = {"formats.md": page(results).encode()}
    for name, figure in pictures(results).items():
        files[name] = figures.render(figure, ".svg")
    write_together(DOCS, files)


if __name__ == "__main__":
    main()
