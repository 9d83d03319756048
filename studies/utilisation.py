"""``python -m studies.utilisation``: how busy the array is, measured in simulation.

Writes the numbers, ``docs/utilisation.json``, and the page that is made of them.
"""

import tempfile
from pathlib import Path

import numpy as np

import mxsafe as mx
from mxsafe.atomic import write_atomically
from mxsafe.verilog.generate import generate
from studies import pages
from studies.multiply import multiplied
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
                table[label].append(round(result.ideal / result.cycles, 4))
                print(f"{label:<22}{m:>5} x {n} x {k:<6}{table[label][-1]:.1%}", flush=True)
    return table


def main() -> None:
    """Measure, then write numbers, page and picture."""
    numbers = {"shapes": SHAPES, "utilisation": measure()}
    write_atomically(pages.DOCS / "utilisation.json", pages.as_text(numbers))
    pages.write("utilisation")


if __name__ == "__main__":
    main()
