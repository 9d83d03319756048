"""Whether the format holds up on models and data, from ``docs/evidence.json``."""

from collections.abc import Mapping, Sequence
from typing import Any

from studies.evidence import casts, trainings, tunings
from studies.evidence.formats import NAMES
from studies.pages import kept

Results = Sequence[Mapping[str, Any]]
_PARTS = {"direct-cast": casts, "training": trainings, "tuning": tunings}


def values(results: Results | None = None) -> dict[str, Any]:
    """Return the values of the page's template.

    Parameters
    ----------
    results : sequence of Mapping, optional
        Those of runs; by default those that are kept. Some may be missing.
    """
    results = kept("evidence") if results is None else results
    parts = _parts(results)
    return {
        "versions": _versions(results),
        "names": NAMES,
        "formats": trainings.FORMATS,
        "casts": casts.Casts(results) if "direct-cast" in parts else None,
        "task_rows": casts.task_rows,
        "error_rows": casts.error_rows,
        "cast_loss_rows": casts.loss_rows,
        "cast_order_rows": casts.order_rows,
        "summary_rows": casts.summary_rows,
        "paper_rows": casts.paper_rows,
        "paper_gain": casts.paper_gain,
        "trainings": trainings.Trainings(results) if "training" in parts else None,
        "architectures": trainings.ARCHITECTURES,
        "accuracy_rows": trainings.accuracy_rows,
        "order_rows": trainings.order_rows,
        "gradient_rows": trainings.gradient_rows,
        "averages": trainings.averages,
        "largest_losses": trainings.largest_losses,
        "underflow_order": trainings.underflow_order,
        "tunings": tunings.Tunings(results) if "tuning" in parts else None,
        "tuning_rows": tunings.loss_rows,
    }


def _parts(results: Results) -> list[str]:
    """Parts of which there are results to compare with: those of float32."""
    found = {
        result["name"].split("/")[0]
        for result in results
        if result["parameters"].get("format") == "float32" and not result["name"].endswith("/quick")
    }
    return [part for part in _PARTS if part in found]


def _versions(results: Results) -> str:
    """Versions of what measured, each once."""
    found: dict[str, set[str]] = {}
    for result in results:
        for name, version in result.get("versions", {}).items():
            found.setdefault(name, set()).add(version)
    return ", ".join(f"{name} {' and '.join(sorted(found[name]))}" for name in sorted(found))


def pictures(results: Results | None = None) -> dict[str, bytes]:
    """The pictures of all parts of which there are results."""
    results = kept("evidence") if results is None else results
    drawn: dict[str, bytes] = {}
    for part in _parts(results):
        drawn |= _PARTS[part].pictures(results)
    return drawn
