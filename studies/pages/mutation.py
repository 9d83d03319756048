"""The mutation score, from ``docs/mutation.json``."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from studies.mutants import record
from studies.mutants.designs import module_without_parameters
from studies.mutants.reasons import reason
from studies.mutants.trial import LARGEST, SECONDS
from verif.support.manifest import generated


def values(results: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the values of the page's template, by default of the results that are kept."""
    results = record.read() if results is None else results
    found = sorted(results["modules"].items())
    unseen = [name for name in results["unseen"] if name not in results["modules"]]
    return {
        "results": results,
        "seconds": [one["seconds"] for _, one in found if "seconds" in one],
        "limit": SECONDS,
        "total": record.total(results),
        "largest": LARGEST,
        "unseen": unseen,
        "left": results["of"] - len(found) - len(unseen),
        "earlier": _earlier(results["modules"]),
        "later": sum(len(one["later"]) for _, one in found),
        "modules": [_module(name, one) for name, one in found],
        "alive": [
            (name, mutant, reason(name, mutant)) for name, one in found for mutant in one["alive"]
        ],
    }


def _earlier(results: Mapping[str, Any]) -> int:
    """How many results are of modules whose Verilog has changed since then."""
    known = {name: one for name, one in generated().items() if name in results}
    with tempfile.TemporaryDirectory() as folder:
        return sum(
            module_without_parameters(one, Path(folder)).digest != results[name]["digest"]
            for name, one in known.items()
        )


def _module(name: str, found: Mapping[str, Any]) -> dict[str, Any]:
    mutants, killed, equivalent, alive = record.counts(found)
    return {
        "name": name,
        "mutants": mutants,
        "killed": killed,
        "equivalent": equivalent,
        "alive": alive,
        "score": record.score(killed, mutants, equivalent),
        "designs": found["designs"],
    }
