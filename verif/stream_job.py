"""Running beats through a simulated unit with one AXI4-Stream in and one out."""

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from verif.manifest import Module, Words
from verif.simulators import SCRATCH, simulate

__all__ = ["Streamed", "run_stream"]


@dataclass(frozen=True)
class Streamed:
    """What left a unit.

    Attributes
    ----------
    words : dict
        By port name a row of little-endian bytes for each beat.
    taken, left : ndarray of int
        Clocks in which beats went in and came out.
    """

    words: dict[str, Words]
    taken: NDArray[np.int64]
    left: NDArray[np.int64]


def run_stream(
    simulator: str,
    module: Module,
    words: Words,
    last: NDArray[np.bool_],
    *,
    alone: int,
    user: NDArray[np.bool_] | None = None,
    stall_in: float = 0.0,
    stall_out: float = 0.0,
    seed: int = 1,
    resets_after: Sequence[int] = (),
    sources: Sequence[Path] | None = None,
) -> Streamed:
    """Send beats through a unit until nothing comes out any more.

    Parameters
    ----------
    simulator : {"icarus", "verilator"}
    module : Module
        A unit with the streams ``s_axis`` and ``m_axis``.
    words : ndarray of uint8
        Values of ``s_axis_tdata``, a row of little-endian bytes a beat.
    last : ndarray of bool
        Values of ``s_axis_tlast``.
    alone : int
        Beats that come out for a packet of one beat.
    user : ndarray of bool, optional
        Values of ``s_axis_tuser``, if there is one.
    stall_in, stall_out : float
        How often source and sink pause, each by itself, below one half.
    seed : int
        Of the pauses.
    resets_after : sequence of int
        Before the job, start it and reset after so many clocks, once for each number; resets of
        one clock and of four take turns. A packet of one beat follows each but the last.
    sources : sequence of Path, optional
        Other files than the manifest names.
    """
    # Both streams pause up to twice as often as they are told to; a beat may wait for a block.
    rate = (1 - 2 * stall_in) * (1 - 2 * stall_out)
    options = {
        "stall_in": stall_in,
        "stall_out": stall_out,
        "seed": seed,
        "resets_after": list(resets_after),
        "alone": alone,
        "clocks_after": 2 * module.latency,
        "limit": int(4 * (len(words) + module.latency) / rate) + 1000,
    }
    with tempfile.TemporaryDirectory(dir=SCRATCH, prefix="stream-") as folder:
        stimulus, log = Path(folder) / "stimulus.npz", Path(folder) / "log.npz"
        flags = {} if user is None else {"user": user}
        np.savez(stimulus, words=words, last=last, **flags)
        simulate(
            simulator,
            module.name,
            sources or module.sources,
            "verif.bench.stream",
            {
                "MXSAFE_STIMULUS": str(stimulus),
                "MXSAFE_LOG": str(log),
                "MXSAFE_OPTIONS": json.dumps(options),
            },
        )
        with np.load(log) as archive:
            logged = {name: archive[name] for name in archive.files}
    taken, left = logged.pop("taken"), logged.pop("left")
    return Streamed(logged, taken, left)
