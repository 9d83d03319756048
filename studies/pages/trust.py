"""Evidence of correctness, from ``docs/trust.json`` and others' numbers."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from studies.coverage import functional
from studies.coverage import record as coverage
from studies.function_errors.record import exhausted
from studies.mutants import record as mutants
from studies.pages import DOCS
from verif.rtl.datapaths import UNDETERMINED, datapath, inside, only_wires, rests_on
from verif.rtl.pipelines import PIPELINES
from verif.rtl.stream_claims import LEFT_OUT, kind_of
from verif.support.manifest import Module, generated

DATA = DOCS / "trust.json"
COMMAND_LINES = "command lines"
"""The group of answers of the command."""
_WAYS = ("proved", "exhausted", "structure", "parts", "simulation")
_OF_VALUES = ("datapaths", "pipelines", "frames")
"""Kinds of proofs that are about what a unit computes."""
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


def known(modules: Mapping[str, Module], proofs: Mapping[str, Any]) -> dict[str, str]:
    """How the function of each module is known: one of `_WAYS`.

    A pipeline that is proved to equal its combinational form is proved if that is. Exhausted is a
    lane whose frame is proved and whose functions were swept with it. By structure is
    a module of wires and of modules inside that are known otherwise than by simulation. But for
    parts is one that is proved, and rests on some that are not.
    """
    found = dict.fromkeys(modules, "simulation")
    of_datapaths = proofs["datapaths"]
    for name, module in modules.items():
        model = PIPELINES.get(name)
        own = [proofs["pipelines"].get(name), of_datapaths.get(model)] if model else []
        own += [of_datapaths.get(name)] * (datapath(module) is not None)
        if own and all(one and one["proved"] for one in own):
            found[name] = "proved"
        frame = proofs["frames"].get(name, {"proved": False})
        if frame["proved"] and exhausted(module):
            found[name] = "exhausted"
    changed = True
    while changed:
        changed = False
        for name, module in modules.items():
            if found[name] == "proved" and any(
                found[o] not in ("proved", "exhausted") for o in rests_on(module)
            ):
                found[name], changed = "parts", True
    units = {module.name: unit for unit, module in modules.items()}
    changed = True
    while changed:
        changed = False
        for name, module in modules.items():
            if found[name] == "simulation" and only_wires(module):
                parts = [found[units[part]] for part in inside(module)]
                if not {"simulation", "parts"} & set(parts):
                    found[name], changed = "structure", True
    return found


def functions(
    modules: Mapping[str, Module], proofs: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """How the functions of modules are known, by kinds of units."""
    how = known(modules, proofs)
    kinds: dict[str, list[str]] = {}
    for name, module in modules.items():
        kinds.setdefault(kind_of(module), []).append(name)
    rows = {}
    for kind, names in sorted(kinds.items()):
        counts = {way: sum(how[name] == way for name in names) for way in _WAYS}
        proved = [name for name in names if how[name] in ("proved", "exhausted")]
        ones = [
            proofs[part][name] for part in _OF_VALUES for name in proved if name in proofs[part]
        ]
        rows[kind] = {
            "modules": len(names),
            **counts,
            "seconds": sum(one["seconds"] for one in ones) if ones else None,
            "control": sum(name in proofs["streams"] for name in names),
        }
    return rows


def values(reached: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the values of the page's template, by default of the coverage that is kept."""
    reached = coverage.read() if reached is None else reached
    classes = reached.get("functional", {})
    numbers, mutation = json.loads(DATA.read_text()), mutants.read()
    proofs = numbers["proofs"]
    return {
        "mutation": mutation,
        "total": mutants.total(mutation),
        "bad": numbers["bad_input"],
        "answers": answers(numbers["bad_input"]),
        "proofs": proofs,
        "kinds": kinds(proofs),
        "functions": functions(generated(), proofs),
        "undetermined": UNDETERMINED,
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
        "functional_rows": functional.rows(classes),
        "functional_reasons": functional.REASONS,
        "functional_left": functional.left_without(classes),
    }
