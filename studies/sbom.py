"""``python -m studies.sbom [FILE]``: what the wheel needs, as CycloneDX 1.5 in JSON.

The packages that ``pyproject.toml`` names and those that they need in turn, in the versions that
are installed, without extras. Nothing is fetched.
"""

import json
import tomllib
from collections.abc import Sequence
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import mxsafe
from mxsafe.atomic import write_atomically
from studies.prose import parser_of

ROOT = Path(__file__).parents[1]


def _needed(requirements: Sequence[str]) -> list[str]:
    """Names of packages in a list of requirements, as far as they are needed here."""
    parsed = [Requirement(text) for text in requirements]
    return [
        canonicalize_name(each.name)
        for each in parsed
        if each.marker is None or each.marker.evaluate({"extra": ""})
    ]


def _reference(name: str) -> str:
    return f"pkg:pypi/{name}@{distribution(name).version}"


def _component(name: str) -> dict[str, Any]:
    metadata = distribution(name).metadata
    said = metadata.get("License-Expression") or metadata.get("License") or ""
    classifiers = [line for line in metadata.get_all("Classifier", []) if "License ::" in line]
    text = said.splitlines()[0] if said else ""
    licence = text or (classifiers[0].rpartition(":: ")[2] if classifiers else "unknown")
    return {
        "type": "library",
        "bom-ref": _reference(name),
        "name": name,
        "version": distribution(name).version,
        "licenses": [{"license": {"name": licence}}],
        "purl": _reference(name),
    }


def bill() -> dict[str, Any]:
    """The bill of materials."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    own = f"pkg:pypi/{project['name']}@{mxsafe.__version__}"
    needs = {own: _needed(project["dependencies"])}
    waiting = list(needs[own])
    names: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in names:
            names.add(name)
            needs[_reference(name)] = _needed(distribution(name).requires or [])
            waiting += needs[_reference(name)]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": own,
                "name": project["name"],
                "version": mxsafe.__version__,
                "licenses": [{"license": {"id": project["license"]}}],
                "purl": own,
            }
        },
        "components": [_component(name) for name in sorted(names)],
        "dependencies": [
            {"ref": reference, "dependsOn": sorted({_reference(name) for name in needed})}
            for reference, needed in sorted(needs.items())
        ],
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Write it to a file, or print it."""
    parser = parser_of("sbom", __doc__)
    parser.add_argument("file", nargs="?", type=Path, help="is printed without one")
    file = parser.parse_args(arguments).file
    text = json.dumps(bill(), indent=2) + "\n"
    if file is None:
        print(text, end="")
    else:
        write_atomically(file, text)


if __name__ == "__main__":
    main()
