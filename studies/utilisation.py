"""``python -m studies.utilisation``: how busy the array is, measured in simulation.

Writes ``docs/utilisation.md``, ``docs/utilisation.svg`` (which needs matplotlib: the extra
``figures``) and the numbers, ``docs/utilisation.json``. With ``--page`` nothing is simulated: page
and picture come from the numbers of an earlier run.
"""

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import mxsafe as mx
from mxsafe.analysis import figures
from mxsafe.analysis.report import markdown
from mxsafe.atomic import write_together
from mxsafe.verilog.generate import generate
from studies.multiply import run_with_progress
from studies.prose import wrapped
from verif.support import manifest
from verif.support.manifest import Module
from verif.support.units import array_unit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["DOCS", "draw", "measure", "page"]

DOCS = Path(__file__).parents[1] / "docs"
SHAPES = [(16, 16, 64), (64, 64, 64), (100, 50, 200), (128, 128, 256), (256, 256, 1024)]
CASES: list[tuple[str, dict[str, object], int | tuple[int, int]]] = [
    ("fp12, 1x64", {"arithmetic": "fp12"}, 64),
    ("fp12, 8x8", {"arithmetic": "fp12"}, (8, 8)),
    ("exact, 1x64", {"arithmetic": "exact"}, 64),
    ("exact, 1x32", {"arithmetic": "exact"}, 32),
    ("exact, 8x8", {"arithmetic": "exact"}, (8, 8)),
    ("exact, 8 accumulators, 8x8", {"arithmetic": "exact", "accumulators": 8}, (8, 8)),
]

Table = Mapping[str, Sequence[float]]
"""Utilisation of every shape, by case."""

_PAGE = """\
# Utilisation of the 4x4x4x4 array

Utilisation is ideal beats `ceil(M/16) * ceil(N/16) * ceil(K/4)` over the cycles from the first
operand beat to the last result row, for a product of M x N x K on Verilator.
`python -m studies.utilisation` wrote this page; the numbers are in
[utilisation.json](utilisation.json).

{table}

![Utilisation by shape](utilisation.svg)

Small products show the fixed cost: the way through the array, and the 16 rows of the last tile.

With arithmetic `exact` the MACs of a sub-matrix unit share accumulators. An accumulator scales and
adds the sum of one MAC in each cycle, so a block must last `16 / accumulators` cycles. A shorter
block waits; its results are the same.

| block | beats | accumulators for the full rate | rate with one accumulator |
|---|---|---|---|
| 1x64 | 16 | 1 | 1 |
| 1x32 | 8 | 2 | 1/2 |
| 8x8 | 2 | 8 | 1/8 |

A short last block waits too: 200 values of k are three blocks of 64 and one of 8, which take 64
cycles instead of 50. With `fp12` every MAC accumulates in every cycle, so no block waits; nor does
one with [`window`](window.md), whose MACs add the sums of blocks themselves.

In every arithmetic a tile must last until the rows of the tile before have left: 16 cycles for 16
rows. So K below 64 (16 beats) runs at less than the full rate, and K = 16 at a quarter of it.
"""


def _array(parameters: dict[str, object], folder: Path) -> Module:
    unit = array_unit(**parameters)
    generate([unit], folder)
    return manifest.load(folder)[unit.module_name]


def measure() -> dict[str, list[float]]:
    """Utilisation of every case and shape: ideal beats over cycles."""
    rng = np.random.default_rng(0)
    table: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for label, parameters, block in CASES:
            module = _array(parameters, Path(folder) / label.replace(" ", "-"))
            table[label] = []
            for m, n, k in SHAPES:
                a = mx.quantize(rng.standard_normal((m, k)), block=block, axis=-1)
                w = mx.quantize(rng.standard_normal((k, n)), block=block, axis=-2)
                result = run_with_progress(module, a, w, f"{label}, {m} x {n} x {k}")
                arithmetic = module.parameters["arithmetic"]
                expected = mx.matmul(a, w, arithmetic=arithmetic)
                if not np.array_equal(result.products[0].view("u4"), expected.view("u4")):
                    raise SystemExit(f"{label}, {m} x {n} x {k}: not what mx.matmul says")
                table[label].append(result.ideal / result.cycles)
                print(f"{label:<22}{m:>5} x {n} x {k:<6}{table[label][-1]:.1%}", flush=True)
    return table


def page(table: Table) -> str:
    """Text of ``docs/utilisation.md``."""
    rows = [
        ("array, blocks", *(f"{m} x {n} x {k}" for m, n, k in SHAPES)),
        *((label, *(f"{value:.1%}" for value in values)) for label, values in table.items()),
    ]
    return wrapped(_PAGE.format(table=markdown(rows)))


def draw(table: Table) -> "Figure":
    """Bars of utilisation, a group for each shape."""
    figure = figures.new_figure(9, 4, layout="tight")
    axes = figure.subplots()
    width = 0.8 / len(table)
    for index, (label, values) in enumerate(table.items()):
        places = np.arange(len(SHAPES)) + (index - (len(table) - 1) / 2) * width
        axes.bar(places, [100 * value for value in values], width, label=label)
    axes.set_xticks(range(len(SHAPES)), [f"{m} x {n} x {k}" for m, n, k in SHAPES])
    axes.set_xlabel("M x N x K")
    axes.set_ylabel("utilisation, %")
    axes.set_ylim(0, 105)
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)
    axes.legend(ncols=3, loc="upper center", bbox_to_anchor=(0.5, 1.22), frameon=False)
    return figure


def _numbers(table: Table) -> str:
    """The table as JSON, a line for each case."""
    lines = (
        f"  {json.dumps(label)}: {json.dumps([round(value, 4) for value in values])}"
        for label, values in table.items()
    )
    cases = ",\n".join(lines)
    return f'{{"shapes": {json.dumps(SHAPES)},\n "utilisation": {{\n{cases}\n}}}}\n'


def load() -> Table:
    """The numbers of the last run."""
    table: Table = json.loads((DOCS / "utilisation.json").read_text())["utilisation"]
    return table


def main(arguments: Sequence[str]) -> None:
    """Measure, or read the numbers of the last run; then write numbers, page and picture."""
    table = load() if "--page" in arguments else measure()
    files = {
        "utilisation.json": _numbers(table).encode(),
        "utilisation.md": page(table).encode(),
        "utilisation.svg": figures.render(draw(table), ".svg"),
    }
    write_together(DOCS, files)


if __name__ == "__main__":
    main(sys.argv[1:])
