"""``python -m studies.utilisation``: how busy the array is, measured in simulation.

Writes the numbers, ``docs/utilisation.json``, and the page that is made of them.
"""

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

import mxsafe as mx
from mxsafe.atomic import write_atomically
from mxsafe.verilog.generate import generate
from studies import pages
from studies.multiply import multiplied
from studies.pages import DOCS
from verif.support import manifest
from verif.support.manifest import Module
from verif.support.units import array_unit

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
                result = multiplied(module, a, w)
                table[label].append(result.ideal / result.cycles)
                print(f"{label:<22}{m:>5} x {n} x {k:<6}{table[label][-1]:.1%}", flush=True)
    return table


def as_text(table: Table) -> str:
    """The table as JSON, a line for each case."""
    lines = (
        f"  {json.dumps(label)}: {json.dumps([round(value, 4) for value in values])}"
        for label, values in table.items()
    )
    cases = ",\n".join(lines)
    return f'{{"shapes": {json.dumps(SHAPES)},\n "utilisation": {{\n{cases}\n}}}}\n'


def main() -> None:
    """Measure, then write numbers, page and picture."""
    write_atomically(DOCS / "utilisation.json", as_text(measure()))
    pages.write("utilisation")


if __name__ == "__main__":
    main()
