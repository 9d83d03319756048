"""Running matrix products on the simulated array."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mxsafe as mx
from mxsafe.formats import FormatSet
from mxsafe.model.schedule import Schedule, StreamBeats, stream_beats
from mxsafe.rtl.mac.operand import SIDES, Side
from verif.rtl import functional
from verif.support.manifest import Module
from verif.support.simulators import run_bench

Operand = mx.QuantizedTensor | NDArray[np.uint16]
Product = tuple[Operand, Operand]
Job = dict[str, NDArray[Any]]
Stall = float | tuple[float, float]
"""How often streams pause: all of them, or the operands and the results."""


@dataclass(frozen=True)
class Result:
    """Result of the array for a list of products.

    Attributes
    ----------
    tiles : int
        Output tiles.
    cycles : int
        Cycles from the first operand beat on a stream to the last result row.
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


def array_schedule(module: Module, a: Operand, w: Operand) -> Schedule:
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
        longest_tile=p.get("inner"),
        operands=module.operands,
    )


def run_products(
    simulator: str, module: Module, products: Sequence[Product], **options: Any
) -> Result:
    """Multiply matrices on a simulated array; options are those of `run_jobs`."""
    (result,) = run_jobs(simulator, module, {"": (module, products)}, **options)
    return result


def run_jobs(
    simulator: str,
    top: Module,
    jobs: Mapping[str, tuple[Module, Sequence[Product]]],
    *,
    stall: Stall = 0.0,
    seed: int = 1,
    resets_after: Sequence[int] = (),
    alter: Callable[[Job], None] = lambda job: None,
) -> list[Result]:
    """Multiply matrices, one after the other without a pause, on all simulated arrays of a design.

    Parameters
    ----------
    jobs : Mapping
        By the prefix of its ports each array in the design, and its products.
    stall : float or tuple of float
        How often each stream pauses, each by itself.
    resets_after : sequence of int
        Before the job, start it and reset after so many cycles, once for each number; resets of
        one cycle and of four take turns.
    alter : callable
        Called with the job before it runs, to change its flags: ``a_first``, ``a_block_last``,
        ``a_last`` and ``w_last``, arrays of bool with an entry for each beat, and the modes
        ``a_mode`` and ``w_mode`` of arrays for several formats. The number of ``a_last`` stays.
    """
    runs = {}
    pauses = stall if isinstance(stall, tuple) else (stall, stall)
    for index, (prefix, (module, products)) in enumerate(jobs.items()):
        run = _Run(module, [array_schedule(module, a, w) for a, w in products])
        run.classify(pauses=max(pauses) > 0)
        alter(run.job)
        runs[prefix] = run
        run.options |= {
            "clocks_per_tile": _clocks_per_tile(module, max(map(len, run.beats)), max(pauses)),
            "clocks_after": 64 + module.latency,
            "stall": pauses,
            "seed": seed + 3 * index,
        }
    options = {
        "beats": {prefix: run.job for prefix, run in runs.items()},
        "arrays": {prefix: run.options for prefix, run in runs.items()},
        "resets_after": list(resets_after),
    }
    # cocotbext-axi writes at edges
    logged = run_bench(simulator, top, "array", options, writes_at_edges=True)
    return [run.result(log) for run, log in zip(runs.values(), logged, strict=True)]


class _Run:
    """The job of one array, and what its results mean."""

    def __init__(self, module: Module, schedules: list[Schedule]) -> None:
        self._module, self._schedules = module, schedules
        self.options: dict[str, object] = {}
        self.beats = [tile for schedule in schedules for tile in schedule]
        self.job: Job = {}
        for side in SIDES:
            streams = [beats for schedule in schedules for beats in _stream(module, schedule, side)]
            port = module.ports[f"s_axis_{side}_tdata"]
            fields = np.concatenate([_row(beats) for beats in streams])
            self.job[side] = port.join(fields)
            self.job[f"{side}_mode"] = np.repeat(
                [beats.mode for beats in streams], [len(beats.last) for beats in streams]
            )
            for flag in ("first", "block_last", "last"):
                self.job[f"{side}_{flag}"] = np.concatenate(
                    [getattr(beats, flag) for beats in streams]
                )
        self.options["w_has_user"] = "s_axis_w_tuser" in module.ports

    def classify(self, *, pauses: bool) -> None:
        """Say which classes of block-scaled operands there are, for functional coverage."""
        arithmetic = self._module.parameters["arithmetic"]
        for schedule in self._schedules:
            if isinstance(schedule.operands["a"], mx.QuantizedTensor):
                functional.products(arithmetic, schedule, pauses=pauses)

    def result(self, log: Mapping[str, Any]) -> Result:
        """The products in what came out."""
        rows, user = log["rows"], np.array(log["user"])
        port = self._module.ports["m_axis_c_tdata"]
        values = port.split(rows).astype(np.uint32).view(np.float32)
        results = []
        start = 0
        for schedule in self._schedules:
            count = schedule.tiles * (len(rows) // len(self.beats))
            results.append(schedule.assemble(values[start : start + count]))
            start += count
        assert start == len(rows), f"{len(rows)} result rows for {start} expected ones"
        return Result(
            products=results,
            tiles=len(self.beats),
            cycles=int(log["cycles"]),
            ideal=sum(schedule.ideal_beats for schedule in self._schedules),
            out_of_step=(user & 1).astype(bool),
            overlong=(user >> 1 & 1).astype(bool),
        )


def _stream(module: Module, schedule: Schedule, side: Side) -> Iterator[StreamBeats]:
    """The beats of one operand, tile after tile."""
    operand = schedule.operands[side]
    for tile in schedule:
        if not isinstance(operand, mx.QuantizedTensor):  # bfloat16 numbers
            codes, scales = getattr(tile, f"{side}_codes"), getattr(tile, f"{side}_scales")
            yield StreamBeats(codes, scales, 0, tile.first, tile.block_last, tile.last)
            continue
        taken = module.operands and module.operands.of(side)
        chosen_from = taken if isinstance(taken, FormatSet) else None
        yield stream_beats(tile, side, operand.format, chosen_from)


def _clocks_per_tile(module: Module, beats: int, stall: float) -> int:
    """Cycles after which a tile must have come out, counted from the one before or the start.

    Every beat may wait for a block, and the tile for the rows of the one before. Each of the three
    streams pauses up to twice as often as `stall` says; twice the mean is beyond all chance.
    """
    p = module.parameters
    clocks = beats * p["block_cycles"] + 2 * p["pu_rows"] * p["rows"] + module.latency
    return 64 + math.ceil(2 * clocks / (1 - 2 * stall) ** 3)


def _row(beats: StreamBeats) -> NDArray[np.uint8]:
    """Fields of an operand stream, in the order of its layout: codes, scales, anchors."""
    anchors = [] if beats.anchors is None else [beats.anchors]
    codes = beats.codes.reshape(len(beats.codes), -1)
    return np.concatenate([codes, beats.scales, *anchors], axis=1)
