"""Running matrix products on the simulated array."""

import json
import math
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mxsafe as mx
from mxsafe.model.schedule import Schedule
from verif.manifest import Module
from verif.simulators import SCRATCH, simulate

__all__ = ["Job", "Product", "Result", "array_schedule", "run_products"]

Product = tuple[mx.QuantizedTensor, mx.QuantizedTensor]
Job = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Result:
    """What the array made of a list of products.

    Attributes
    ----------
    products : list of ndarray of float32
    tiles : int
        Output tiles.
    cycles : int
        Clocks from the first operand beat on a stream to the last result row.
    ideal : int
        Beats of all products, without ragged blocks.
    out_of_step, overlong : ndarray of bool
        The flags of every result row.
    """

    products: list[NDArray[np.float32]]
    tiles: int
    cycles: int
    ideal: int
    out_of_step: NDArray[np.bool_]
    overlong: NDArray[np.bool_]


def array_schedule(module: Module, a: mx.QuantizedTensor, w: mx.QuantizedTensor) -> Schedule:
    """The schedule of a product on the array that a module is."""
    p = module.parameters
    return Schedule(
        a,
        w,
        arithmetic=p["arithmetic"],
        rows=p["pu_rows"] * p["rows"],
        columns=p["pu_columns"] * p["columns"],
        lanes=p["lanes"],
        longest_block=p.get("block"),
    )


def run_products(
    simulator: str,
    module: Module,
    products: Sequence[Product],
    *,
    stall: float = 0.0,
    seed: int = 1,
    resets_after: Sequence[int] = (),
    sources: Sequence[Path] | None = None,
    alter: Callable[[Job], None] = lambda job: None,
    progress: Path | None = None,
) -> Result:
    """Multiply matrices on a simulated array, one after the other without a pause.

    Parameters
    ----------
    simulator : {"icarus", "verilator"}
    module : Module
        A systolic tensor array.
    products : sequence of (a, w)
    stall : float
        How often each stream pauses, each by itself.
    seed : int
        Of the pauses.
    resets_after : sequence of int
        Before the job, start it and reset after so many cycles, once for each number; resets of
        one clock and of four take turns.
    sources : sequence of Path, optional
        Other files than the manifest names.
    alter : callable
        Called with the job before it runs, to change its flags: ``a_first``, ``a_block_last``,
        ``a_last`` and ``w_last``, arrays of bool with an entry for each beat. The number of
        ``a_last`` stays.
    progress : Path, optional
        File that holds the number of finished tiles.
    """
    schedules = [array_schedule(module, a, w) for a, w in products]
    beats = [tile for schedule in schedules for tile in schedule]
    port_a, port_w = module.ports["s_axis_a_tdata"], module.ports["s_axis_w_tdata"]
    job = {
        "a": port_a.join(np.concatenate([_row(t.a_codes, t.a_scales) for t in beats])),
        "w": port_w.join(np.concatenate([_row(t.w_codes, t.w_scales) for t in beats])),
        "a_first": np.concatenate([t.first for t in beats]),
        "a_block_last": np.concatenate([t.block_last for t in beats]),
        "a_last": np.concatenate([t.last for t in beats]),
        "w_last": np.concatenate([t.last for t in beats]),
    }
    alter(job)
    options = {
        "clocks_per_tile": _clocks_per_tile(module, max(map(len, beats)), stall),
        "clocks_after": 64 + module.latency,
        "stall": stall,
        "seed": seed,
        "resets_after": list(resets_after),
        "progress": str(progress) if progress else None,
    }
    with tempfile.TemporaryDirectory(dir=SCRATCH, prefix="array-") as folder:
        stimulus, log = Path(folder) / "stimulus.npz", Path(folder) / "log.npz"
        np.savez(stimulus, **job)
        simulate(
            simulator,
            module.name,
            sources or module.sources,
            "verif.bench.array",
            {
                "MXSAFE_STIMULUS": str(stimulus),
                "MXSAFE_LOG": str(log),
                "MXSAFE_OPTIONS": json.dumps(options),
            },
        )
        with np.load(log) as archive:
            rows, user, cycles = (archive[n] for n in ("rows", "user", "cycles"))
    values = module.ports["m_axis_c_tdata"].split(rows).astype(np.uint32).view(np.float32)
    results = []
    start = 0
    for schedule in schedules:
        count = schedule.tiles * (len(rows) // len(beats))
        results.append(schedule.assemble(values[start : start + count]))
        start += count
    assert start == len(rows), f"{len(rows)} result rows for {start} expected ones"
    return Result(
        products=results,
        tiles=len(beats),
        cycles=int(cycles),
        ideal=sum(schedule.ideal_beats for schedule in schedules),
        out_of_step=(user & 1).astype(bool),
        overlong=(user >> 1 & 1).astype(bool),
    )


def _clocks_per_tile(module: Module, beats: int, stall: float) -> int:
    """Clocks after which a tile must have come out, counted from the one before or the start.

    Every beat may wait for a block, and the tile for the rows of the one before. Each of the three
    streams pauses up to twice as often as `stall` says; twice the mean is beyond all chance.
    """
    p = module.parameters
    clocks = beats * p["block_cycles"] + 2 * p["pu_rows"] * p["rows"] + module.latency
    return 64 + math.ceil(2 * clocks / (1 - 2 * stall) ** 3)


def _row(codes: NDArray[np.uint8], scales: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Fields of an operand stream, in the order of its layout: all codes, then the scales."""
    return np.concatenate([codes.reshape(len(codes), -1), scales], axis=1)
