"""``python -m studies.training``: a network learns in one format after the other.

Writes ``training.md``, its pictures and the numbers behind them, ``training.json``; pictures need
matplotlib: the extra ``figures``.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mxsafe.analysis import figures
from mxsafe.atomic import write_together
from mxsafe.cli.arguments import UsageError, UserError, parse_block, parse_positive
from studies import pages
from studies.pages import training
from studies.prose import parser_of
from studies.training.comparison import (
    FLOATS,
    LANES,
    STANDARD,
    Curves,
    Experiment,
    Setting,
    Trial,
    as_text,
    compare,
    record,
)
from studies.training.data import DATASETS
from studies.training.network import Optimiser

OWN = ("data", "hidden", "block", "epochs", "batch", "rate", "seeds")
"""Options that make an experiment of one's own."""


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(parse_positive(part) for part in text.split(","))


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a positive number, not {text!r}")
    return rate


def _experiments(args: argparse.Namespace) -> tuple[Experiment, ...]:
    """The standard ones, or the one that the options describe."""
    given = {name: value for name in OWN if (value := getattr(args, name)) is not None}
    if args.out is not None and args.out.exists() and not args.out.is_dir():
        raise UsageError(f"--out must be a folder, not the file {args.out}")
    if not given:
        return STANDARD
    if args.out is None:
        raise UsageError("--out must name a folder when there are settings of one's own")
    if isinstance(args.block, tuple) and args.block[0] != args.block[1]:
        raise UsageError(
            f"--block must be a length or a square tile, not {args.block[0]}x{args.block[1]}"
        )
    length = args.block[0] if isinstance(args.block, tuple) else args.block
    if length is not None and length % LANES:
        raise UsageError(f"--block must be a multiple of {LANES}, the lanes of fp12, not {length}")
    seeds = given.pop("seeds", 5)
    if "rate" in given:
        given["optimiser"] = Optimiser(rate=given.pop("rate"))
    setting = Setting(**given)
    title = f"{setting.data}, hidden layers of {', '.join(map(str, setting.hidden))}"
    return (Experiment(title=title, setting=setting, fp12=FLOATS, seeds=seeds),)


def _line(trial: Trial, curves: Curves) -> str:
    return (
        f"{trial.format:<12}{trial.arithmetic:<9}seed {trial.seed}  "
        f"{curves.accuracy[-1]:>6.1%} right, {curves.underflow[-1]:>6.1%} underflow"
    )


def _run(experiments: Sequence[Experiment], jobs: int) -> dict[Trial, Curves]:
    """Train all, with a line on stdout for each and a count on stderr."""
    for setting in {experiment.setting for experiment in experiments}:
        images = len(DATASETS[setting.data]().train_labels)
        if setting.batch > images:
            raise UsageError(f"--batch must be at most the {images} images, not {setting.batch}")
    planned = {trial: None for experiment in experiments for trial in experiment.trials()}
    found: dict[Trial, Curves] = {}
    start = time.monotonic()
    for trial, curves in compare(tuple(planned), jobs=jobs):
        if not np.isfinite([*curves.train_loss, *curves.loss]).all():
            raise UserError(
                f"{trial.format} with {trial.arithmetic}, seed {trial.seed}: the loss must stay "
                f"finite, it needs a lower --rate than {trial.setting.optimiser.rate:g}"
            )
        found[trial] = curves
        print("\r" + " " * 60 + "\r", end="", file=sys.stderr, flush=True)
        print(_line(trial, curves), flush=True)
        state = f"{len(found)} of {len(planned)} trainings, {time.monotonic() - start:.0f} s "
        print(f"\r{state}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Train, then write the page, its pictures and its numbers; returns the exit code.

    0 is success, 1 work that failed, 2 a wrong command line.
    """
    parser = parser_of("training", __doc__)
    parser.add_argument("--data", choices=tuple(DATASETS), help="images (default: digits)")
    parser.add_argument(
        "--hidden", type=_sizes, metavar="N,N", help="outputs of each hidden layer (default: 64,32)"
    )
    parser.add_argument("--block", type=parse_block, metavar="N|NxN", help="(default: 8x8)")
    parser.add_argument("--epochs", type=parse_positive, metavar="N", help="(default: 20)")
    parser.add_argument("--batch", type=parse_positive, metavar="N", help="(default: 64)")
    parser.add_argument("--rate", type=_rate, metavar="R", help="learning rate (default: 0.05)")
    parser.add_argument("--seeds", type=parse_positive, metavar="N", help="(default: 5)")
    parser.add_argument(
        "--jobs",
        type=parse_positive,
        default=min(2, os.cpu_count() or 1),
        metavar="N",
        help="processes (default: %(default)s)",
    )
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="(default: docs, for the standard settings)"
    )
    args = parser.parse_args(argv)
    try:
        experiments = _experiments(args)
        figures.new_figure(1, 1)
        results = record(experiments, _run(experiments, args.jobs))
        standard = experiments is STANDARD
        page = pages.text("training", training.values(results, standard=standard))
        files = {"training.json": as_text(results).encode(), "training.md": page.encode()}
        write_together(args.out or pages.DOCS, files | training.pictures(results))
    except (UserError, ModuleNotFoundError, OSError) as error:
        print(f"training: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
