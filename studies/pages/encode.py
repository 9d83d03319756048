"""Sentences through the machine, from ``docs/encode.json``, which `studies.encode` measures."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from mxsafe.machine.configuration import MachineConfiguration
from studies.pages import kept

MEGAHERTZ = 500

Numbers = Mapping[str, Any]
"""Content of ``docs/encode.json``."""


def costs(numbers: Numbers) -> list[tuple[str, ...]]:
    """Return the costs of programs, head first: a row a sentence."""
    head = (
        *("", "tokens", "cosine", "cycles", "predicted", "array busy", "MB moved"),
        *(f"ms at {MEGAHERTZ} MHz", "s simulated", "cycles/s"),
    )
    rows = [_cost(one) for one in numbers["sentences"]]
    return [head, *((str(at), *row) for at, row in enumerate(rows, start=1))]


def _cost(one: Numbers) -> tuple[str, ...]:
    cycles = one["cycles"]
    words = one["words_read"] + one["words_written"]
    moved = words * MachineConfiguration().word_bytes / 1e6
    return (
        str(one["tokens"]),
        f"{one['cosine']:.5f}",
        f"{cycles:,}" if cycles else "-",
        f"{one['predicted_cycles']:,}",
        f"{one['array_busy'] / cycles:.1%}" if cycles else "-",
        f"{moved:.2f}",
        f"{cycles / MEGAHERTZ / 1e3:.2f}" if cycles else "-",
        f"{one['seconds']:.1f}",
        f"{cycles / one['seconds']:,.0f}" if cycles else "-",
    )


def similarities(numbers: Numbers) -> list[tuple[str, ...]]:
    """Pairs of sentences, by float32 and by the machine, head first."""
    count = len(numbers["sentences"])
    rows = [("", *(str(at + 1) for at in range(count)))]
    for row in range(count):
        cells = [
            f"{numbers['float32'][row][at]:.3f} {numbers['machine'][row][at]:.3f}"
            for at in range(row + 1)
        ]
        rows.append((str(row + 1), *cells, *[""] * (count - row - 1)))
    return rows


def values() -> dict[str, Any]:
    """Return the values of the page's template."""
    sizes, numbers = MachineConfiguration(), kept("encode")
    machine, exact = (np.array(numbers[name]) for name in ("machine", "float32"))
    least = min(one["words_read"] for one in numbers["sentences"])
    return {
        "sizes": sizes,
        "numbers": numbers,
        "costs": costs,
        "similarities": similarities,
        "least": least * sizes.word_bytes / 1e6,
        "difference": np.abs(machine - exact).max(),
    }
