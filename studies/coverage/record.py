"""Coverage in ``docs/coverage.json``, from which the page `trust` is made."""

import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from studies.coverage.reasons import UNKNOWN, reason
from studies.pages import DOCS, keep

RESULTS = DOCS / "coverage.json"
_VERILOG = ("lines", "branches", "toggles")
_APART = ("constants", "proved", "elsewhere")
_LINE = re.compile(r"^\d+: ")
_NAMED = 3
"""Nets that are named of a module."""
_MODULES = 20
"""Modules that are shown, at most."""


def read() -> dict[str, Any]:
    """Results so far."""
    results: dict[str, Any] = json.loads(RESULTS.read_text())
    return results


def write(results: Mapping[str, Any]) -> None:
    """Keep results."""
    keep(RESULTS, results)


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


def largest_rows(verilog: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """A table of modules with most points that are left without a reason, head first."""
    found = []
    for name, numbers in verilog["modules"].items():
        unknown = {w: n for w, n in numbers["left"].items() if reason(name, w) == UNKNOWN}
        nets = sorted(unknown, key=lambda what: -unknown[what])[:_NAMED]
        found.append((sum(unknown.values()), name, nets))
    rows: list[tuple[str, ...]] = [("module", "points", "most of them in")]
    for count, name, nets in sorted(found, reverse=True)[:_MODULES]:
        if count:
            shown = ", ".join(f"`{re.sub(_LINE, '', net)}`" for net in nets)
            rows.append((f"`{name}`", f"{count:,}", shown))
    return rows
