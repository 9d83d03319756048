"""What runs of the tests reached, summed up: numbers, and what is left."""

import json
import re
import subprocess
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from studies.coverage.runs import LIBRARY, ROOT
from verif.support import coverage
from verif.support.coverage import Point
from verif.support.manifest import GEN

__all__ = ["library", "verilog"]

_PACKAGE = "hdl/mxsafe/"
_COUNTED = {
    "lines": ("covered_lines", "num_statements"),
    "branches": ("covered_branches", "num_branches"),
}
_NUMBERS = re.compile(r"\[\d+\]")
_NET = re.compile(r"^\s*(?:input|output|wire|reg)[\w ]*(?:\[\d+:\d+\])?\s*\\?([^\s;]+)")


def library(folder: Path) -> dict[str, Any]:
    """Lines and branches of the library that the runs in a folder reached.

    Of each file with something left there are the lines that were not reached, and the branches
    that were not taken, as pairs of lines; a negative line is the end of a function.
    """
    data = (folder / LIBRARY).absolute()
    places = [str(place) for place in sorted(folder.glob(f"*/{LIBRARY}.*"))]
    data.unlink(missing_ok=True)
    for words in (["combine", "-q", "--keep", *places], ["json", "-q", "-o", f"{data}.json"]):
        subprocess.run(
            [sys.executable, "-m", "coverage", words[0], f"--data-file={data}", *words[1:]],
            cwd=ROOT,
            check=True,
            stdout=subprocess.DEVNULL,
        )
    report = json.loads(Path(f"{data}.json").read_text())
    totals, files = report["totals"], {}
    packages: dict[str, dict[str, list[int]]] = {}
    for name, found in sorted(report["files"].items()):
        numbers = found["summary"]
        package = packages.setdefault(_package(name), {"lines": [0, 0], "branches": [0, 0]})
        for kind, counted in _COUNTED.items():
            package[kind] = [n + numbers[c] for n, c in zip(package[kind], counted, strict=True)]
        if not numbers["missing_lines"] and not numbers["missing_branches"]:
            continue
        files[name.removeprefix(_PACKAGE)] = {
            **{kind: [numbers[c] for c in counted] for kind, counted in _COUNTED.items()},
            "lines_left": found["missing_lines"],
            "branches_left": found["missing_branches"],
        }
    return {
        **{kind: [totals[c] for c in counted] for kind, counted in _COUNTED.items()},
        "packages": dict(sorted(packages.items())),
        "files_left": files,
    }


def _package(file: str) -> str:
    """The package of the library that a file is in, or the module that it is."""
    first, *rest = file.removeprefix(_PACKAGE).removesuffix(".py").split("/")
    return f"mxsafe.{first}" if rest or first != "__init__" else "mxsafe"


def verilog(folder: Path, constants: Collection[tuple[str, int, int]]) -> dict[str, Any]:
    """Lines, branches and toggles of each module of ``gen/`` that the runs in a folder reached.

    A bit that cannot change counts in no number but that of constants. What is left is named by its
    line, a bit by the name of its net and its number, with ``^`` if it never rose and ``v`` if it
    never fell. A constant may rise once, to what it is from the beginning on.
    """
    modules: dict[str, dict[str, Any]] = {}
    moves: dict[tuple[str, int, int], set[str]] = {}
    for point, is_reached in sorted(coverage.reached(folder).items()):
        name, kind, line, _, what = point
        found = modules.setdefault(name, _empty())
        if kind == "toggle" and (name, line, _bit(what)) in constants:
            found["constants"] += 1
            changed = moves.setdefault((name, line, _bit(what)), set())
            changed |= {what[-4:]} if is_reached else set()
            assert len(changed) < 2, f"a constant in line {line} of {name}.v, {what}, changes"
            continue
        numbers = found[_KINDS[kind]]
        numbers[0] += is_reached
        numbers[1] += 1
        if not is_reached:
            found["left"].append(point)
    for name, found in modules.items():
        found["constants"] //= 2  # each may neither rise nor fall
        found["left"] = _named(name, found["left"])
    return {
        "modules": dict(sorted(modules.items())),
        "never_simulated": sorted({file.stem for file in GEN.glob("*.v")} - modules.keys()),
    }


_KINDS = {"line": "lines", "branch": "branches", "toggle": "toggles"}


def _empty() -> dict[str, Any]:
    return {**{name: [0, 0] for name in _KINDS.values()}, "constants": 0, "left": []}


def _bit(what: str) -> int:
    found = _NUMBERS.findall(what)
    return int(found[-1][1:-1]) if found else 0


def _named(module: str, points: Iterable[Point]) -> list[str]:
    """Names of points that were not reached."""
    texts = (GEN / f"{module}.v").read_text().splitlines()
    left: dict[str, None] = {}
    ways: dict[tuple[int, str, int], str] = {}
    for _, kind, line, _, what in points:
        if kind != "toggle":
            left[f"{line}: {what.removeprefix('cond_')}"] = None
            continue
        place = (line, "".join(_NUMBERS.findall(what)[:-1]), _bit(what))
        ways[place] = ways.get(place, "") + ("^" if what.endswith("0->1") else "v")
    for (line, entry, way), bits in _together(ways).items():
        net = _NET.match(texts[line - 1])
        assert net is not None, f"{module}.v declares nothing in line {line}"
        left[f"{line}: {net[1]}{entry}[{_ranges(bits)}] {way}"] = None
    return list(left)


def _together(ways: Mapping[tuple[int, str, int], str]) -> dict[tuple[int, str, str], list[int]]:
    """Bits of the same net that lack the same."""
    found: dict[tuple[int, str, str], list[int]] = {}
    for (line, entry, bit), way in sorted(ways.items()):
        found.setdefault((line, entry, way), []).append(bit)
    return found


def _ranges(bits: Sequence[int]) -> str:
    """Numbers that go up, with ``3-7`` for those that follow each other."""
    parts: list[list[int]] = []
    for bit in bits:
        if parts and parts[-1][1] == bit - 1:
            parts[-1][1] = bit
        else:
            parts.append([bit, bit])
    return ",".join(f"{first}-{last}" if last > first else f"{first}" for first, last in parts)
