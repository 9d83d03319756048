"""Programs that may take so many seconds of a processor: what else runs makes no difference."""

import resource
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path


def run_within(
    seconds: float,
    command: Sequence[str],
    *,
    folder: Path | None = None,
    environment: dict[str, str] | None = None,
) -> tuple[int | None, str, str]:
    """Run a program, each process of which ends after so much time of a processor.

    Parameters
    ----------
    seconds : float
    command : sequence of str
    folder : Path, optional
        Where it runs.
    environment : dict, optional
        Its variables.

    Returns
    -------
    code : int or None
        How the program ended; None if it had no time left.
    output, errors : str
        What it printed.
    """
    most = max(1, round(seconds))
    run = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (most, most + 5)),
    )
    ended = run.returncode in (-signal.SIGXCPU, -signal.SIGKILL)
    return None if ended else run.returncode, run.stdout, run.stderr
