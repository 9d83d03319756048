"""``python -m studies.coverage``: what the tests reach, of the library and of the Verilog.

Runs the tests with counters, folder by folder, in ``sim_build/coverage``; what is interrupted goes
on where it was. Then it prints the numbers and writes them to ``docs/coverage.json``, and
``docs/trust.md`` with them.
"""

import os
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from mxsafe.analysis.report import aligned
from studies import pages
from studies.coverage import functional, reasons, record
from studies.coverage.constants import Bit, constants, proved
from studies.coverage.measured import library, verilog
from studies.coverage.runs import run, summary
from studies.prose import parser_of
from verif.rtl.functional import VARIABLE

FOLDER = Path("sim_build/coverage")


def _keep_functional(folder: Path) -> int:
    found = functional.summary(folder)
    record.write(record.read() | {"functional": found})
    print(aligned(functional.rows(found)))
    print("\n".join(functional.left_without(found)))
    pages.write("trust")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    parser = parser_of("coverage", __doc__)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="(all cores)")
    parser.add_argument(
        "--kept",
        action="store_true",
        help="keep what was found with other sources, of folders that were run with them",
    )
    parser.add_argument(
        "--no-run", action="store_true", help="run nothing, and sum up what was run before"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=3600.0,
        help="for proofs, with which those that were made before do not begin again (3600)",
    )
    parser.add_argument(
        "--functional",
        type=Path,
        metavar="FOLDER",
        help="run nothing, and sum up alone which classes of operands and descriptors a run of "
        f"pytest has reached, with {VARIABLE}=FOLDER in its environment",
    )
    options = parser.parse_args(arguments)
    if options.functional is not None:
        return _keep_functional(options.functional)
    started = time.monotonic()
    try:
        left = () if options.no_run else run(FOLDER, options.jobs, kept=options.kept)
        for name, number, of in left:
            minutes = (time.monotonic() - started) / 60
            print(f"{number}/{of} {name}, after {minutes:.0f} minutes", flush=True)
    except AssertionError as error:
        print(error)
        return 1
    known = constants(FOLDER)
    print("proves that bits which never fell cannot", flush=True)

    def prove(bits: Mapping[str, Collection[Bit]]) -> Mapping[str, Collection[Bit]]:
        return proved(bits, known, FOLDER / "proved", options.seconds)

    record.write(
        {
            "run": summary(FOLDER),
            "library": library(FOLDER),
            "verilog": verilog(FOLDER, known, prove),
            "functional": functional.summary(FOLDER),
        }
    )
    results = record.read()
    modules = results["verilog"]["modules"]
    places = [(name, what) for name, found in modules.items() for what in found["left"]]
    for pattern in reasons.unused(places):
        print(f"no place needs {pattern}")
    print(aligned(record.library_rows(results["library"])))
    print(aligned(record.verilog_rows(results["verilog"])))
    print(aligned(functional.rows(results["functional"])))
    pages.write("trust")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
