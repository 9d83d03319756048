"""``python -m studies.evidence``: the paper's tables on models and data that anyone can get.

Makes the runs of each part, keeps every result in a folder, and writes what is made of all that are
there: ``docs/evidence.json`` (`pages`). What is interrupted goes on where it was.
"""

import argparse
import fnmatch
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

from mxsafe.cli.arguments import UsageError, UserError, parse_positive
from mxsafe.cli.outputs import require_folder, writing_to
from mxsafe.executors import workers
from studies.evidence import PARTS
from studies.evidence.runs import Run, RunError, execute
from studies.prose import parser_of

OUT = Path("sim_build") / "evidence"


def planned(
    parts: Sequence[str], *, quick: bool = False, seeds: int = 3, only: str = "*"
) -> list[Run]:
    """The runs of some parts.

    Parameters
    ----------
    parts : sequence of str
        Names in `PARTS`.
    quick : bool
        The small subset instead, of seconds.
    seeds : int
        How often that is trained which starts at random.
    only : str
        Names of runs, with ``*`` for anything.
    """
    runs = []
    for part in parts:
        runs += importlib.import_module(PARTS[part]).runs(quick=quick, seeds=seeds)
    return [run for run in runs if fnmatch.fnmatchcase(run.name, only)]


def _measure(args: argparse.Namespace, parts: Sequence[str]) -> None:
    try:
        runs = planned(parts, quick=args.quick, seeds=args.seeds, only=args.only)
        if not runs:
            raise UsageError(f"--only must fit the name of a run, not {args.only!r}")
        if args.list:
            print("\n".join(run.name for run in runs))
            return
        if args.dask is None:
            _require(runs)
        with workers(args.jobs, args.dask) as where, writing_to(args.out):
            execute(runs, args.out, where, progress=_tell)
    except ImportError as error:
        raise UserError(
            f"these runs need the extra evidence, pip install '.[evidence]': {error}"
        ) from None
    except RunError as error:
        raise UserError(f"these runs failed, the others are kept:\n{error}") from None


def _require(runs: Sequence[Run]) -> None:
    """Refuse at once what every run of a kind would refuse."""
    for module in dict.fromkeys(run.function.split(":")[0] for run in runs):
        require = getattr(importlib.import_module(module), "require", None)
        if require is not None:
            require()


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, then write the pages; returns the exit code.

    0 is success, 1 a run that failed, 2 a wrong command line, 130 an interrupt.
    """
    parser = parser_of("evidence", __doc__)
    parser.add_argument(
        "parts",
        nargs="*",
        metavar="PART",
        help=f"{', '.join(PARTS)}, pages (default: all; with --quick all but pages)",
    )
    parser.add_argument("--quick", action="store_true", help="a small subset, under two minutes")
    parser.add_argument(
        "--only", default="*", metavar="GLOB", help="runs of this name, in which * is anything"
    )
    parser.add_argument("--list", action="store_true", help="print names of runs, measure nothing")
    parser.add_argument(
        "--seeds", type=parse_positive, default=3, metavar="N", help="of trainings (default: 3)"
    )
    parser.add_argument(
        "--jobs",
        type=parse_positive,
        default=1,
        metavar="N",
        help="processes, each of one thread (default: 1)",
    )
    parser.add_argument(
        "--dask", metavar="ADDRESS", help="scheduler of a Dask cluster that makes the runs"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=OUT,
        metavar="DIR",
        help="folder of results (default: sim_build/evidence)",
    )
    args = parser.parse_args(argv)
    parts = args.parts or [*PARTS, *([] if args.quick else ["pages"])]
    try:
        if unknown := [part for part in parts if part not in (*PARTS, "pages")]:
            raise UsageError(f"PART must be one of {', '.join(PARTS)}, pages, not {unknown[0]!r}")
        require_folder(args.out)
        measured = [part for part in parts if part != "pages"]
        if measured:
            _measure(args, measured)
        if "pages" in parts and not args.list:
            importlib.import_module("studies.evidence.collected").write(args.out, seeds=args.seeds)
    except (UserError, OSError) as error:
        print(f"evidence: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    except KeyboardInterrupt:
        print("evidence: interrupted; the same command goes on from here", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
