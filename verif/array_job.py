"""Running matrix products on the simulated array."""

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import mxsafe as mx
from mxsafe.model.schedule import Schedule
from verif.manifest import Module
from verif.simulators import SCRATCH, simulate

__all__ = ["Result", "run_products"]

Product = tuple[mx.QuantizedTensor, mx.QuantizedTensor]


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
    out_of_step : ndarray of bool
        The flag of every result row.
    """

    products: list[NDArray[np.float32]]
    tiles: int
    cycles: int
    ideal: int
    out_of_step: NDArray[np.bool_]


def array_schedule(module: Module, a: mx.QuantizedTensor, w: mx.QuantizedTensor) -> Schedule:
    """The schedule of a product on the array that a module is."""
    p = module.parameters
    return Schedule(
        a,
        w,
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
    w_last_missing: bool = False,
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
        Before the job, start it and reset after so many cycles, once for each number.
    sources : sequence of Path, optional
        Other files than the manifest names.
    w_last_missing : bool
        Leave out the first `tlast` of the second operand.
    progress : Path, optional
        File that holds the number of finished tiles.
    """
    schedules = [array_schedule(module, a, w) for a, w in products]
    beats = [tile for schedule in schedules for tile in schedule]
    port_a, port_w = module.ports["s_axis_a_tdata"], module.ports["s_axis_w_tdata"]
    last = np.concatenate([tile.last for tile in beats])
    w_last = last.copy()
    if w_last_missing:
        w_last[np.flatnonzero(last)[0]] = False
    job = {
        "a": port_a.join(np.concatenate([_row(t.a_codes, t.a_scales) for t in beats])),
        "w": port_w.join(np.concatenate([_row(t.w_codes, t.w_scales) for t in beats])),
        "a_user": np.concatenate([t.first + 2 * t.block_last for t in beats]),
        "a_last": last,
        "w_last": w_last,
    }
    options = {
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
            rows, flags, cycles = (archive[n] for n in ("rows", "out_of_step", "cycles"))
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
        out_of_step=flags.astype(bool),
    )


def _row(codes: NDArray[np.uint8], scales: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Fields of an operand stream, in the order of its layout: all codes, then the scales."""
    return np.concatenate([codes.reshape(len(codes), -1), scales], axis=1)
