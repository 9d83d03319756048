"""Results of mutants in ``docs/mutation.json``, from which the page `mutation` is made."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mxsafe.atomic import write_atomically
from studies.mutants.reasons import reason
from studies.pages import DOCS

RESULTS = DOCS / "mutation.json"
COUNT, SEED = 30, 1
"""Mutants of a module, and the seed that they are drawn with."""
_WANTED = 0.97
"""The score that every module should have."""


def read(path: Path = RESULTS) -> dict[str, Any]:
    """Results so far."""
    results: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"modules": {}}
    return {"count": COUNT, "seed": SEED, "of": 0, "unseen": []} | results


def write(results: Mapping[str, Any]) -> None:
    """Keep results."""
    text = json.dumps(results, indent=1, sort_keys=True) + "\n"
    write_atomically(RESULTS, text)


def score(killed: int, mutants: int, equivalent: int) -> str:
    """Killed ones among those that are not equivalent."""
    meant = mutants - equivalent
    return f"{100 * killed / meant:.1f} %" if meant else "-"


def counts(found: Mapping[str, Any]) -> tuple[int, int, int, int]:
    """Mutants of a module that were tried, those killed, equivalent ones, and those alive."""
    tried = found["mutants"] - len(found["later"])
    return tried, found["killed"], len(found["equivalent"]), len(found["alive"])


def total(results: Mapping[str, Any]) -> dict[str, Any]:
    """The score over all modules, with the numbers that it is made of."""
    modules = results["modules"]
    each = {name: counts(found) for name, found in modules.items()}
    mutants, killed, equivalent, alive = (sum(n[at] for n in each.values()) for at in range(4))
    reasoned = sum(
        bool(reason(name, mutant)) for name, found in modules.items() for mutant in found["alive"]
    )
    shares = {
        name: killed / (tried - equivalent)
        for name, (tried, killed, equivalent, _) in each.items()
        if tried > equivalent
    }
    below = {name: share for name, share in shares.items() if share < _WANTED}
    return {
        "modules": len(modules),
        "mutants": mutants,
        "killed": killed,
        "equivalent": equivalent,
        "alive": alive,
        "score": score(killed, mutants, equivalent),
        "reasoned": reasoned,
        "score_without": score(killed, mutants, equivalent + reasoned),
        "lowest": lowest(results),
        "wanted": _WANTED,
        "below": below,
        "worst": min(below, key=below.__getitem__, default=""),
    }


def lowest(results: Mapping[str, Any]) -> float:
    """The lowest share of killed mutants of a module, of those without a proof or a reason."""
    shares = [1.0]
    for name, found in results["modules"].items():
        tried, killed, equivalent, _ = counts(found)
        reasoned = sum(bool(reason(name, mutant)) for mutant in found["alive"])
        if meant := tried - equivalent - reasoned:
            shares.append(killed / meant)
    return min(shares)
