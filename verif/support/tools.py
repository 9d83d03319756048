"""``python -m verif.support.tools [synth|layout]``: programs for tests, synthesis or layout.

As root on a machine with apt they are installed; elsewhere one line names the packages.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from mxsafe.synthesis.technologies import Osu018
from verif.support.simulators import SIMULATORS, missing_tools
from verif.verilog.linters import DISTRIBUTED

_PACKAGES = {
    str(Osu018.folder): "qflow-tech-osu018",
    "iverilog": "iverilog",
    "vvp": "iverilog",
    "g++": "g++",
    "graywolf": "graywolf",
    "make": "make",
    "perl": "perl",
    "qrouter": "qrouter",
    "sta": "opensta",
    "verilator": "verilator",
}


def _missing_for_tests() -> dict[str, list[str]]:
    missing = {f"tests on {name}": missing_tools(name) for name in (*SIMULATORS, DISTRIBUTED)}
    return {what: programs for what, programs in missing.items() if programs}


_ON_NANGATE45 = {"areas and times on nangate45": ["sta"], "power": ["iverilog", "vvp"]}
_FOR_SYNTHESIS = {**_ON_NANGATE45, "those on osu018": ["sta", str(Osu018.folder)]}
_FOR_LAYOUT = {**_ON_NANGATE45, "layouts": ["graywolf", "qrouter"]}


def _missing_of(needed: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Programs and folders that are not there, by what needs them."""
    missing = {
        what: [one for one in those if shutil.which(one) is None and not Path(one).is_dir()]
        for what, those in needed.items()
    }
    return {what: those for what, those in missing.items() if those}


_PURPOSES: dict[str, tuple[Callable[[], dict[str, list[str]]], str]] = {
    "test": (_missing_for_tests, "skipped"),
    "synth": (partial(_missing_of, _FOR_SYNTHESIS), "not measured"),
    "layout": (partial(_missing_of, _FOR_LAYOUT), "not measured"),
}


def main(arguments: Sequence[str] = ("test",)) -> None:
    """Install what is missing for tests, synthesis or layout, or name it in one line."""
    missing_of, consequence = _PURPOSES[arguments[0]]
    missing = missing_of()
    packages = sorted({_PACKAGES[program] for tools in missing.values() for program in tools})
    if not packages:
        return
    if shutil.which("apt-get") and os.geteuid() == 0:
        print(f"installing {' '.join(packages)} with apt-get", flush=True)
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for command in (
            ["apt-get", "update", "-qq"],
            ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages],
        ):
            subprocess.run(command, check=False, env=environment, stdout=subprocess.DEVNULL)
    if left := missing_of():
        print(f"install {' '.join(packages)}; until then {', '.join(left)} are {consequence}")


if __name__ == "__main__":
    main(sys.argv[1:] or ("test",))
