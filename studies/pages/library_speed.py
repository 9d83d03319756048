"""Numbers of ``docs/library_speed.md``."""

from typing import Any

from studies.pages import kept

OURS, LIMIT = "mxsafe.torch", 1.2


def values() -> dict[str, Any]:
    """Rows of `studies.benchmarks.libraries` with ratios."""
    numbers = kept("library_speed")
    names = list(dict.fromkeys(name for row in numbers["rows"].values() for name in row))
    table: list[list[str]] = [["", *names, "ratio"]]
    slower = []
    for title, row in numbers["rows"].items():
        ratio = row[OURS] / min(time for name, time in row.items() if name != OURS)
        cells = (f"{row[name]:,.0f}" if name in row else "-" for name in names)
        table.append([title, *cells, f"{ratio:.2f}"])
        if ratio > LIMIT:
            slower.append(title)
    step = numbers["step"]
    steps = [["", "milliseconds", "beside float32"]]
    steps += [[name, f"{ms:,.0f}", f"{ms / step['float32']:.2f}"] for name, ms in step.items()]
    return {**numbers, "table": table, "slower": slower, "steps": steps}
