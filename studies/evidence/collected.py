"""Results that are kept, together in ``docs/evidence.json``, of which the page is made."""

import importlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mxsafe.atomic import write_atomically
from studies import pages
from studies.evidence import PARTS
from studies.evidence.runs import Run, kept

Results = Sequence[Mapping[str, Any]]


def collected(runs: Sequence[Run], out: Path, earlier: Results = ()) -> list[dict[str, Any]]:
    """Results of runs: those in a folder, else those of `earlier`, each of the same parameters.

    Parameters
    ----------
    runs : sequence of Run
        What is wanted; runs that have not been made are left out.
    out : Path
        Folder of results.
    earlier : sequence of Mapping
        Results of before, such as those of ``docs/evidence.json``.
    """
    before = {result["name"]: result for result in earlier}
    found = []
    for run in runs:
        result = kept(run, out)
        if result is None and run.name in before:
            same = before[run.name]["parameters"] == json.loads(json.dumps(dict(run.parameters)))
            result = dict(before[run.name]) if same else None
        if result is not None:
            keys = ("name", "parameters", "versions", "seconds", "numbers")
            found.append({key: result[key] for key in keys})
    return found


def text_of(results: Results) -> str:
    """Results as JSON, one a line."""
    lines = ",\n".join(json.dumps(result, separators=(",", ":")) for result in results)
    return f"[\n{lines}\n]\n"


def write(out: Path, *, seeds: int) -> None:
    """Put results into ``docs/evidence.json``, and write the page and its pictures."""
    path = pages.DOCS / "evidence.json"
    earlier = json.loads(path.read_text()) if path.exists() else []
    runs: list[Run] = []
    for name in PARTS.values():
        module = importlib.import_module(name)
        runs += module.runs(quick=False, seeds=seeds) + module.runs(quick=True, seeds=seeds)
    write_atomically(path, text_of(collected(runs, out, earlier)))
    pages.write("evidence")
