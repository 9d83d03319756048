"""Runs of the tests that count what they reach, in the library and in the generated Verilog."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from verif.rtl import functional
from verif.support import coverage

ROOT = Path(__file__).parents[2]
LIBRARY, VERILOG, FUNCTIONAL = ".coverage", "verilog", "functional"
"""Files of a run in its folder: data of coverage.py, places in Verilog, and functional bins."""
_TESTS = ROOT / "verif"
_OF_VERILOG = "verif/rtl"
"""Where tests are that simulate modules of `gen/`."""
_NOT_AGAIN = ("-k", "not icarus")
"""Where nothing in Verilog is counted, other tests reach the same of the library."""


def groups() -> dict[str, list[Path]]:
    """Files of tests by the folder they are in, which are run together."""
    found: dict[str, list[Path]] = {}
    for file in sorted(_TESTS.rglob("test_*.py")):
        found.setdefault(str(file.parent.relative_to(ROOT)), []).append(file)
    return found


def _digest() -> str:
    """Of everything that a run depends on."""
    digest = hashlib.sha256((ROOT / "pyproject.toml").read_bytes())
    for place in ("hdl", "gen", "verif", "studies"):
        for file in sorted((ROOT / place).rglob("*")):
            if file.suffix in (".py", ".v", ".json", ".h", ".cpp", ".vlt"):
                digest.update(str(file.relative_to(ROOT)).encode() + file.read_bytes())
    return digest.hexdigest()


def run(folder: Path, jobs: int, *, kept: bool = False) -> Iterator[tuple[str, int, int]]:
    """Run the groups that were not run with these sources.

    Parameters
    ----------
    folder : Path
        A folder for each group is made in it.
    jobs : int
        Tests that run at the same time.
    kept : bool
        Leave out groups that were run with other sources, too.

    Yields
    ------
    name : str
        Of the group that is run next.
    number, of : int

    Raises
    ------
    AssertionError
        If a test fails; the message names the log.
    """
    digest = _digest()
    left = {}
    for name, files in groups().items():
        done = folder / name.replace("/", ".") / "done"
        if not done.exists() or (not kept and done.read_text() != digest):
            left[name] = files
    for number, (name, files) in enumerate(left.items(), start=1):
        yield name, number, len(left)
        place = (folder / name.replace("/", ".")).absolute()
        shutil.rmtree(place, ignore_errors=True)
        (place / VERILOG).mkdir(parents=True)
        log = place / "log"
        words = ["coverage", "run", "-m", "pytest", "-q", "-n", str(jobs), "-p", "no:cacheprovider"]
        # With variants all that Verilator has is run, and so are tests that call Yosys. What is
        # for Icarus alone, which counts nothing, goes to Verilator too.
        words.append("--variants")
        if name.startswith(_OF_VERILOG):
            counts = {
                coverage.VARIABLE: str(place / VERILOG),
                functional.VARIABLE: str(place / FUNCTIONAL),
                "MXSAFE_SIMULATOR": "verilator",
            }
        else:
            counts = {}
            words += _NOT_AGAIN
        with log.open("w") as file:
            ended = subprocess.run(
                [sys.executable, "-m", *words, *map(str, files)],
                cwd=ROOT,
                env=os.environ | counts | {"COVERAGE_FILE": str(place / LIBRARY)},
                stdout=file,
                stderr=subprocess.STDOUT,
                check=False,
            )
        # 5: no test is left in the group.
        assert ended.returncode in (0, 5), f"tests of {name} failed; see {log}"
        (place / "done").write_text(digest)


def summary(folder: Path) -> dict[str, Any]:
    """How many tests passed in how many folders, and when; and the folders that were not run."""
    tests = 0
    done = sorted(folder.glob("*/done"))
    for file in done:
        passed = re.findall(r"^.*\b(\d+) passed\b", (file.parent / "log").read_text(), re.MULTILINE)
        tests += int(passed[-1]) if passed else 0
    until = max((file.stat().st_mtime for file in done), default=0.0)
    day = datetime.fromtimestamp(until, UTC).date()
    run = {file.parent.name for file in done}
    missing = [name for name in groups() if name.replace("/", ".") not in run]
    return {"tests": tests, "folders": len(done), "until": f"{day}", "not_run": missing}
