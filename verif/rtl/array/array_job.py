"""Running matrix products on the simulated array."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mxsafe as mx
from mxsafe.formats import FormatSet
from mxsafe.model.schedule import Schedule, StreamBeats, stream_beats
from mxsafe.rtl.mac.operand import SIDES, Side
from verif.support.manifest import Module
from verif.support.stream_job import Streamed, run_stream

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
    progress: Path | None = None,
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
    progress : Path, optional
        File that holds the number of finished tiles.
    """
    stall_in, stall_out = stall if isinstance(stall, tuple) else (stall, stall)
    runs = {}
    for prefix, (module, products) in jobs.items():
        runs[prefix] = _Run(prefix, module, [array_schedule(module, a, w) for a, w in products])
        alter(runs[prefix].job)
    first = runs[next(iter(runs))]
    streamed = run_stream(
        simulator,
        top,
        {name: words for run in runs.values() for name, words in run.streams().items()},
        together=[group for run in runs.values() for group in run.together],
        sinks=[f"{prefix}m_axis_c" for prefix in runs],
        clocks=max(run.clocks for run in runs.values()),
        probe=(len(first.beats[0]), 1),
        stall_in=stall_in,
        stall_out=stall_out,
        seed=seed,
        resets_after=resets_after,
        # What is not gated would take a beat in a reset.
        silent=not all(module.parameters.get("gated", True) for module, _ in jobs.values()),
        progress=progress,
    )
    return [run.result(streamed) for run in runs.values()]


class _Run:
    """The job of one array, and what its results mean."""

    def __init__(self, prefix: str, module: Module, schedules: list[Schedule]) -> None:
        self._prefix, self._module, self._schedules = prefix, module, schedules
        self.beats = [tile for schedule in schedules for tile in schedule]
        self._rows = module.parameters["pu_rows"] * module.parameters["rows"]
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

    @property
    def together(self) -> list[list[str]]:
        """Streams that are taken together: both, unless one is of packed codes now and then."""
        names = [f"{self._prefix}s_axis_{side}" for side in SIDES]
        operands = self._module.operands
        is_packed = operands and any(isinstance(operands.of(side), FormatSet) for side in SIDES)
        return [[name] for name in names] if is_packed else [names]

    @property
    def clocks(self) -> int:
        """Cycles without stalls: every beat may wait for a block, a tile for rows before it."""
        each = self._module.parameters["block_cycles"]
        return sum(len(tile) * each + 2 * self._rows for tile in self.beats)

    def streams(self) -> Job:
        """The beats, by the names of pins."""
        job, streams = self.job, {}
        flags = job["a_first"] + 2 * job["a_block_last"] + 4 * job["a_mode"].astype(np.int64)
        for side, user in (("a", flags), ("w", job["w_mode"])):
            pins = {"tdata": job[side], "tlast": job[f"{side}_last"], "tuser": user}
            for pin, values in pins.items():
                if f"s_axis_{side}_{pin}" in self._module.ports:
                    streams[f"{self._prefix}s_axis_{side}_{pin}"] = values
        return streams

    def result(self, streamed: Streamed) -> Result:
        """The products in what came out."""
        name, port = f"{self._prefix}m_axis_c", self._module.ports["m_axis_c_tdata"]
        rows, user = streamed.words[f"{name}_tdata"], streamed.words[f"{name}_tuser"][:, 0]
        values = port.split(rows).astype(np.uint32).view(np.float32)
        begun = max(streamed.times[stream][0] for group in self.together for stream in group)
        ends = np.cumsum([schedule.tiles for schedule in self._schedules]) * self._rows
        assert len(rows) == ends[-1], f"{len(rows)} result rows for {ends[-1]} expected ones"
        parts = zip(self._schedules, np.split(values, ends[:-1]), strict=True)
        return Result(
            products=[schedule.assemble(part) for schedule, part in parts],
            tiles=len(self.beats),
            cycles=int(streamed.times[name][-1] - begun) + 1,
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


def _row(beats: StreamBeats) -> NDArray[np.uint8]:
    """Fields of an operand stream, in the order of its layout: codes, scales, anchors."""
    anchors = [] if beats.anchors is None else [beats.anchors]
    codes = beats.codes.reshape(len(beats.codes), -1)
    return np.concatenate([codes, beats.scales, *anchors], axis=1)
