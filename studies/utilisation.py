"""``python -m studies.utilisation``: how busy the array is, measured in simulation.

Writes ``docs/utilisation.md`` and ``docs/utilisation.svg`` (which needs matplotlib: the extra
``figures``).
"""

import tempfile
from pathlib import Path

import numpy as np

import mxsafe as mx
from mxsafe.analysis import figures
from mxsafe.rtl.array.systolic_array import STA
from mxsafe.verilog.generate import generate
from studies.multiply import run_with_progress
from verif.support import manifest
from verif.support.manifest import Module

DOCS = Path(__file__).parents[1] / "docs"
SHAPES = [(16, 16, 64), (64, 64, 64), (100, 50, 200), (128, 128, 256), (256, 256, 1024)]
CASES: list[tuple[str, dict[str, object], int | tuple[int, int]]] = [
    ("fp12, 1x64", {"arithmetic": "fp12"}, 64),
    ("fp12, 8x8", {"arithmetic": "fp12"}, (8, 8)),
    ("exact, 1x64", {"arithmetic": "exact"}, 64),
    ("exact, 1x32", {"arithmetic": "exact"}, 32),
    ("exact, 8x8", {"arithmetic": "exact"}, (8, 8)),
    ("exact, 8 units, 8x8", {"arithmetic": "exact", "units": 8}, (8, 8)),
]


_PAGE = """\
# Utilisation of the 4x4x4x4 array

Ideal beats `ceil(M/16) * ceil(N/16) * ceil(K/4)` over cycles from the first operand beat to the
last result row, for M x N x K on Verilator; written by `python -m studies.utilisation`.

{table}

![Utilisation by shape](utilisation.svg)

Small products show the fixed cost of the way through the array and of the last tile's 16 rows.

With arithmetic `exact`, a block must last as long as its scale-and-accumulate unit needs to walk
through its MACs: 16 cycles with one unit for 16 MACs, `16 / units` in general. A shorter block
waits, which costs time and nothing else.

| block | beats | full rate needs | rate with one unit |
|---|---|---|---|
| 1x64 | 16 | 1 unit | 1 |
| 1x32 | 8 | 2 units | 1/2 |
| 8x8 | 2 | 8 units | 1/8 |

A short last block waits too: 200 values of k are three blocks of 64 and one of 8, 64 cycles instead
of 50. With `fp12` every MAC accumulates every cycle, whatever the block.

In both arithmetics a tile must last as long as the rows of the one before need to leave: 16 cycles
for 16 rows, so K below 64 (16 beats) runs at less than the full rate, K = 16 at a quarter of it.
"""


def _array(parameters: dict[str, object], folder: Path) -> Module:
    unit = STA(format=mx.MX_FORMATS["mxsf"], **parameters)
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


def draw(table: dict[str, list[float]], path: Path) -> None:
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
    figures.save(figure, path)


def main() -> None:
    """Measure, then write the table and the picture."""
    table = measure()
    header = [f"{m} x {n} x {k}" for m, n, k in SHAPES]
    lines = [
        "| array, blocks | " + " | ".join(header) + " |",
        "|---|" + "---|" * len(header),
        *(
            f"| {label} | " + " | ".join(f"{value:.1%}" for value in values) + " |"
            for label, values in table.items()
        ),
    ]
    (DOCS / "utilisation.md").write_text(_PAGE.format(table="\n".join(lines)))
    draw(table, DOCS / "utilisation.svg")


if __name__ == "__main__":
    main()
