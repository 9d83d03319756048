"""Evidence of correctness, from ``docs/trust.json`` and others' numbers."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from studies.coverage import record as coverage
from studies.mutants import record as mutants
from studies.pages import DOCS
from verif.rtl.stream_claims import LEFT_OUT

DATA = DOCS / "trust.json"
COMMAND_LINES = "command lines"
"""The group of answers of the command."""
_ANSWERS = ("result", "TypeError", "ValueError", "documented", "fault")


def answers(bad_input: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """How often each answer came, by what was tried, and of all."""
    found = bad_input["answers"]
    total = {kind: sum(counts[kind] for counts in found.values()) for kind in _ANSWERS}
    return {
        group: {kind: counts[kind] for kind in _ANSWERS}
        for group, counts in {**found, "all": total}.items()
    }


def _all_time(found: Sequence[Mapping[str, Any]], what: str) -> str:
    """How many of how many are proved for all time, and for how long others are."""
    if not any(what in entry for entry in found):
        return "-"
    always = sum(what in entry and entry[what] is None for entry in found)
    clocks = sorted({entry[what] for entry in found if entry.get(what)})
    some = f", {clocks[0]} cycles" if clocks else ""
    return f"{always} of {len(found)}{some}"


def _clocks(numbers: Sequence[int]) -> str:
    if not numbers:
        return "-"
    low, high = min(numbers), max(numbers)
    return f"{low}" if low == high else f"{low} to {high}"


def kinds(proofs: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the proofs about streams, by kinds of units."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for one in proofs["streams"].values():
        found.setdefault(one["kind"], []).append(one)
    return {
        kind: {
            "claims": list(dict.fromkeys(one["claim"] for one in ones if one.get("claim"))),
            "rules": _all_time(ones, "rules"),
            "beats": _all_time(ones, "beats"),
            "taken": _clocks([one["taken"] for one in ones if "taken" in one]),
            "seconds": sum(one["seconds"] for one in ones),
        }
        for kind, ones in sorted(found.items())
    }


def values(reached: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the values of the page's template, by default of the coverage that is kept."""
    reached = coverage.read() if reached is None else reached
    numbers, mutation = json.loads(DATA.read_text()), mutants.read()
    proofs = numbers["proofs"]
    return {
        "mutation": mutation,
        "total": mutants.total(mutation),
        "bad": numbers["bad_input"],
        "answers": answers(numbers["bad_input"]),
        "proofs": proofs,
        "kinds": kinds(proofs),
        "pipelines": [name for name, one in proofs["pipelines"].items() if one["proved"]],
        "left_out": LEFT_OUT,
        "not_proved": {
            name: found["why"]
            for kind in proofs.values()
            for name, found in kind.items()
            if not found["proved"]
        },
        "coverage": reached,
        "library_rows": coverage.library_rows(reached["library"]),
        "verilog_rows": coverage.verilog_rows(reached["verilog"]),
        "left_rows": coverage.left_rows(reached["verilog"]),
        "largest_rows": coverage.largest_rows(reached["verilog"]),
    }
