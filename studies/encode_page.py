"""``python -m studies.encode_page``: sentences through the machine, from the numbers of a run.

Writes ``docs/encode.md`` from ``docs/encode.json``, which `studies.encode` measures.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from mxsafe.analysis.report import markdown
from mxsafe.atomic import write_atomically
from mxsafe.machine.configuration import MachineConfiguration
from studies.pages import DOCS
from studies.prose import wrapped

__all__ = ["DOCS", "MEGAHERTZ", "Numbers", "as_text", "costs", "load", "page", "similarities"]

MEGAHERTZ = 500

Numbers = Mapping[str, Any]
"""What ``docs/encode.json`` holds."""


def costs(numbers: Numbers) -> list[tuple[str, ...]]:
    """What programs cost, head first: a row a sentence."""
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


_PAGE = """\
# Sentences through the machine

`make encode` wrote this page. All six blocks of all-MiniLM-L6-v2, with its real weights in MXSF,
run as one program of [the machine](accelerator.md) for each sentence: embeddings of its tokens go
into memory, hidden states come out. Looking up embeddings and the mean over tokens are the host's.

The program runs on the Verilog of the usual sizes ({rows} x {rows} MACs of {lanes} lanes), which
Verilator has compiled, with a memory of {data_bytes} bytes a clock and {latency} clocks of latency
beside it. After each program the whole memory, {memory:.1f} MB, is that of the interpreter, byte
for byte; words read and written and beats of the array are those that the compiler foretold,
exactly.

COSTS-HERE

*cosine*: of the embedding with that of float32. *cycles* are counted by the machine, *predicted* is
what `mxsafe.machine.compiler.timing` says. *array busy*: clocks in which the array takes a beat.
*s simulated* are those that went by, on a computer that also had other work. With few tokens the
time goes to reading weights, once each: {least:.1f} MB are read at least.

Similarity of pairs of sentences, float32 on the left and the machine on the right:

PAIRS-HERE

SENTENCES-HERE

The largest difference of two similarities is {difference:.4f}.
"""


def page(numbers: Numbers) -> str:
    """The page as Markdown."""
    sizes, sentences = MachineConfiguration(), numbers["sentences"]
    machine, exact = (np.array(numbers[name]) for name in ("machine", "float32"))
    text = wrapped(
        _PAGE.format(
            rows=sizes.rows,
            lanes=sizes.lanes,
            data_bytes=sizes.data_width // 8,
            latency=numbers["latency"],
            memory=numbers["memory_bytes"] / 1e6,
            least=min(one["words_read"] for one in sentences) * sizes.word_bytes / 1e6,
            difference=float(np.abs(machine - exact).max()),
        )
    )
    listed = "\n".join(f"{at}. {one['sentence']}" for at, one in enumerate(sentences, start=1))
    for place, part in (
        ("COSTS-HERE", markdown(costs(numbers))),
        ("PAIRS-HERE", markdown(similarities(numbers))),
        ("SENTENCES-HERE", listed),
    ):
        text = text.replace(place, part)
    return text


def as_text(numbers: Numbers) -> str:
    """The numbers as JSON, a line for each sentence and each row of a matrix."""
    parts = []
    for name, value in numbers.items():
        rows = value if isinstance(value, list) else []
        inner = ",\n".join(f"  {json.dumps(row)}" for row in rows)
        parts.append(f" {json.dumps(name)}: " + (f"[\n{inner}\n ]" if rows else json.dumps(value)))
    return "{\n" + ",\n".join(parts) + "\n}\n"


def load() -> Numbers:
    """The numbers of the last run."""
    numbers: Numbers = json.loads((DOCS / "encode.json").read_text())
    return numbers


if __name__ == "__main__":
    write_atomically(DOCS / "encode.md", lambda file: file.write(page(load()).encode()))
