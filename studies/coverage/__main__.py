"""``python -m studies.coverage``: what the tests reach, of the library and of the Verilog.

Runs the tests with counters, folder by folder, in ``sim_build/coverage``; what is interrupted goes
on where it was. Then it prints the numbers and writes them to ``docs/coverage.json``, and
``docs/trust.md`` with them.
"""

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path

from mxsafe.analysis.report import aligned
from studies import trust_page
from studies.coverage import record
from studies.coverage.constants import constants, proved
from studies.coverage.measured import library, verilog
from studies.coverage.runs import run, summary

__all__ = ["main"]

FOLDER = Path("sim_build/coverage")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m studies.coverage", description=__doc__)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="(all cores)")
    parser.add_argument(
        "--kept",
        action="store_true",
        help="keep what was found with other sources, of folders that were run with them",
    )
    options = parser.parse_args(arguments)
    started = time.monotonic()
    try:
        for name, number, of in run(FOLDER, options.jobs, kept=options.kept):
            minutes = (time.monotonic() - started) / 60
            print(f"{number}/{of} {name}, after {minutes:.0f} minutes", flush=True)
    except AssertionError as error:
        print(error)
        return 1
    known = constants(FOLDER)
    print("proves that bits which never fell cannot", flush=True)
    record.write(
        {
            "run": summary(FOLDER),
            "library": library(FOLDER),
            "verilog": verilog(FOLDER, known, lambda bits: proved(bits, known, FOLDER / "proved")),
        }
    )
    results = record.read()
    for reason in record.unused(results["verilog"]):
        print(f"no place has this reason any more: {reason}")
    print(aligned(record.library_rows(results["library"])))
    print(aligned(record.verilog_rows(results["verilog"])))
    trust_page.main()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
