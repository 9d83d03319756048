"""``python -m studies.evidence pages``: the page on evidence, from results that are kept.

``docs/evidence.json`` holds the numbers, so the page is made anew without any run.
"""

import importlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mxsafe.atomic import write_together
from studies.evidence import PARTS
from studies.evidence.runs import Run, kept
from studies.prose import wrapped

__all__ = ["DOCS", "collected", "page", "pictures", "text_of", "write"]

DOCS = Path(__file__).parents[2] / "docs"

SECTIONS = {
    "direct-cast": "studies.evidence.direct_cast_page",
    "training": "studies.evidence.training_page",
    "tuning": "studies.evidence.tuning_page",
}
"""By part, modules that make its ``section`` and ``pictures`` of results."""

Results = Sequence[Mapping[str, Any]]

_HEAD = """\
# Evidence

Does the format hold up on models and data that anyone can get? `make evidence` measures what
follows: it installs the packages that hold models and texts, needs Debian's
`dataset-fashion-mnist`, keeps each result in `sim_build/evidence`, goes on where it was
interrupted, and writes this page and the numbers behind it, `docs/evidence.json`.

```sh
make evidence                                           # all of it: hours on two cores
python -m studies.evidence direct-cast --only '*magika*' --jobs 2    # a part of it
python -m studies.evidence --dask tcp://10.0.0.1:8786   # on a Dask cluster with one file system
python -m studies.evidence --quick                      # a small subset, in two minutes
```

Results are of {versions}.
"""


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


def _versions(results: Results) -> str:
    """Versions of what measured, each once."""
    found: dict[str, set[str]] = {}
    for result in results:
        for name, version in result["versions"].items():
            found.setdefault(name, set()).add(version)
    return ", ".join(f"{name} {' and '.join(sorted(found[name]))}" for name in sorted(found))


def _sections(results: Results) -> list[Any]:
    """Modules of the parts of which there are results to compare with: those of float32."""
    parts = {
        result["name"].split("/")[0]
        for result in results
        if result["parameters"].get("format") == "float32" and not result["name"].endswith("/quick")
    }
    return [importlib.import_module(name) for part, name in SECTIONS.items() if part in parts]


def page(results: Results) -> str:
    """The page as Markdown."""
    texts = [_HEAD.format(versions=_versions(results))]
    texts += [module.section(results) for module in _sections(results)]
    return wrapped("\n\n".join(text.strip("\n") for text in texts))


def pictures(results: Results) -> dict[str, bytes]:
    """The pictures of the page by file name."""
    found: dict[str, bytes] = {}
    for module in _sections(results):
        found |= module.pictures(results)
    return found


def write(out: Path, *, seeds: int) -> None:
    """Put results into ``docs/evidence.json``, and write the page and its pictures."""
    path = DOCS / "evidence.json"
    earlier = json.loads(path.read_text()) if path.exists() else []
    runs: list[Run] = []
    for name in PARTS.values():
        module = importlib.import_module(name)
        runs += module.runs(quick=False, seeds=seeds) + module.runs(quick=True, seeds=seeds)
    results = collected(runs, out, earlier)
    files = {"evidence.json": text_of(results).encode(), "evidence.md": page(results).encode()}
    write_together(DOCS, files | pictures(results))
