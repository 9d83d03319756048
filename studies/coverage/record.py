"""What the tests reach, in ``docs/coverage.json``, and what the page of trust says of it."""

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mxsafe.analysis.report import markdown
from mxsafe.atomic import write_atomically
from studies.coverage.reasons import UNKNOWN, reason
from studies.prose import wrapped

__all__ = [
    "RESULTS",
    "largest_rows",
    "left_rows",
    "library_rows",
    "read",
    "section",
    "verilog_rows",
    "write",
]

RESULTS = Path(__file__).parents[2] / "docs" / "coverage.json"
_VERILOG = ("lines", "branches", "toggles")
_APART = ("constants", "proved", "elsewhere")
_LINE = re.compile(r"^\d+: ")
_NAMED = 3
"""Nets that are named of a module."""


def read() -> dict[str, Any]:
    """Results so far."""
    results: dict[str, Any] = json.loads(RESULTS.read_text())
    return results


def write(results: Mapping[str, Any]) -> None:
    """Keep results."""
    text = json.dumps(results, indent=1) + "\n"
    write_atomically(RESULTS, lambda file: file.write(text.encode()))


def _share(reached: int, of: int) -> str:
    return f"{reached:,} of {of:,} ({100 * reached / of:.1f} %)" if of else "none"


def library_rows(library: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """A table of packages of the library, head first."""
    rows = [("package", "lines", "branches")]
    for name, found in library["packages"].items():
        rows.append((f"`{name}`", _share(*found["lines"]), _share(*found["branches"])))
    return [*rows, ("all", _share(*library["lines"]), _share(*library["branches"]))]


def verilog_rows(verilog: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """A table of the Verilog by the folders of its sources, head first."""
    sums: dict[str, Counter[str]] = {}
    for name, found in verilog["modules"].items():
        for where in (found["made_from"], "all"):
            numbers = sums.setdefault(where, Counter())
            numbers["modules"] += 1
            for kind in _APART:
                numbers[kind] += found[kind]
            for kind in _VERILOG:
                numbers[f"{kind} reached"] += found[kind][0]
                numbers[kind] += found[kind][1]
            for what, count in found["left"].items():
                numbers[UNKNOWN if reason(name, what) == UNKNOWN else "known"] += count
    sums["all"] = sums.pop("all", Counter())
    head = ("made from", "modules", *_VERILOG, *_APART, "left for a reason", "left without")
    rows: list[tuple[str, ...]] = [head]
    for where, numbers in sums.items():
        shares = [_share(numbers[f"{kind} reached"], numbers[kind]) for kind in _VERILOG]
        counts = [numbers[kind] for kind in (*_APART, "known", UNKNOWN)]
        rows.append((where, f"{numbers['modules']}", *shares, *(f"{count:,}" for count in counts)))
    return rows


def left_rows(verilog: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """A table of what is left in the Verilog by reasons, head first."""
    reasons: dict[str, Counter[str]] = {}
    for name, found in verilog["modules"].items():
        for what, count in found["left"].items():
            numbers = reasons.setdefault(reason(name, what), Counter())
            numbers["toggles" if what.endswith(("^", "v")) else "branches"] += count
    last = reasons.pop(UNKNOWN, None)
    ordered = sorted(reasons.items(), key=lambda entry: -entry[1].total())
    rows: list[tuple[str, ...]] = [("why", "branches", "toggles")]
    for why, numbers in [*ordered, *([(UNKNOWN, last)] if last else [])]:
        rows.append((why, f"{numbers['branches']:,}", f"{numbers['toggles']:,}"))
    return rows


def largest_rows(verilog: Mapping[str, Any], most: int = 20) -> list[tuple[str, ...]]:
    """A table of modules with most points that are left without a reason, head first."""
    found = []
    for name, numbers in verilog["modules"].items():
        unknown = {w: n for w, n in numbers["left"].items() if reason(name, w) == UNKNOWN}
        nets = sorted(unknown, key=lambda what: -unknown[what])[:_NAMED]
        found.append((sum(unknown.values()), name, nets))
    rows: list[tuple[str, ...]] = [("module", "points", "most of them in")]
    for count, name, nets in sorted(found, reverse=True)[:most]:
        if count:
            shown = ", ".join(f"`{re.sub(_LINE, '', net)}`" for net in nets)
            rows.append((f"`{name}`", f"{count:,}", shown))
    return rows


def section(results: Mapping[str, Any]) -> str:
    """Paragraphs for the page, below their heading."""
    verilog = results["verilog"]
    run = results["run"]
    opening = (
        "`make coverage` runs the tests of `make test` and `make test-yosys` once more with "
        "counters, with the [variants](verification.md) that they leave out. What tests of the "
        "hardware run on Icarus runs on Verilator, once; other tests with Icarus in their name "
        "are left out, and so are designs that are broken on purpose. These "
        f"are {run['tests']:,} tests in {run['folders']} folders, run until {run['until']}. "
        "Everything that was not reached stands in `docs/coverage.json`."
    )
    of_library = (
        "Of the library, measured by coverage.py. Left out are `mxsafe.torch`, which needs "
        "PyTorch, and `mxsafe.codec.numba_engine`, which is compiled: the tests hold its every bit "
        "to the NumPy engine."
    )
    of_verilog = (
        "Of the Verilog as it stands in `gen/`, whatever design a module is simulated in, counted "
        "by Verilator: lines of `always` blocks, both sides of each `?:`, `if` and `case`, and for "
        "each bit of each net that it rises and that it falls. Words of memories do not count. "
        "Bits that cannot change count apart: *constants* are those that Yosys makes constant when "
        "it simplifies their module by itself, and *proved* those of the rest of which ABC proves "
        "it by induction, for all inputs and contents of memories, from registers at 0 on. "
        "*Elsewhere* counts lines, branches and ways of bits that are not reached in a module, but "
        "in another configuration of the same unit, as in that which the unit's own bench takes: "
        "of the machine's parts most run only with the programs of the machine's tests."
    )
    of_reasons = (
        "What is left there has these reasons, as far as one is known; they stand in "
        "`studies/coverage/reasons.py`, and the command names patterns that no place has any more."
    )
    missing = [f"`{name}`" for name in run["not_run"]]
    parts = [
        wrapped(opening),
        *([wrapped(f"Not run: {', '.join(missing)}.")] if missing else []),
        wrapped(of_library),
        markdown(library_rows(results["library"])),
        wrapped(of_verilog),
        markdown(verilog_rows(verilog)),
    ]
    if any(found["left"] for found in verilog["modules"].values()):
        parts += [wrapped(of_reasons), markdown(left_rows(verilog))]
    if len(largest := largest_rows(verilog)) > 1:
        what = "Most of what has no reason, `^` a bit that never rose and `v` one that never fell:"
        parts += [wrapped(what), markdown(largest, labels=1)]
    if never := verilog["never_simulated"]:
        what = (
            f"{len(never)} modules of `gen/` are simulated in none of these tests as they stand "
            "there, but in other configurations; `docs/coverage.json` names them."
        )
        parts.append(wrapped(what))
    return "\n\n".join(part.strip("\n") for part in parts)
