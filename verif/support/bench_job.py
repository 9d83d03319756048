"""Running a bench whose job and log are JSON."""

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from verif.support.manifest import Module
from verif.support.simulators import SCRATCH, simulate

__all__ = ["run_bench"]


def run_bench(
    simulator: str,
    module: Module,
    bench: str,
    job: Mapping[str, Any],
) -> Any:
    """Run a job on a design and return what the bench logged.

    Parameters
    ----------
    simulator : {"icarus", "verilator"}
    module : Module
    bench : str
        A module of `verif.bench`, which reads MXSAFE_JOB and writes MXSAFE_LOG.
    job : Mapping
        Whatever the bench wants, in values that JSON can hold.
    """
    with tempfile.TemporaryDirectory(dir=SCRATCH, prefix=f"{bench}-") as folder:
        given, log = Path(folder) / "job.json", Path(folder) / "log.json"
        given.write_text(json.dumps(job))
        simulate(
            simulator,
            module.name,
            module.sources,
            f"verif.bench.{bench}",
            {"MXSAFE_JOB": str(given), "MXSAFE_LOG": str(log)},
        )
        return json.loads(log.read_text())
