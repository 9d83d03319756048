"""Running layers on the simulated unit."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mxsafe as mx
from mxsafe.model.layer import LayerSchedule, OperandBeats, bias_beats, residual_beats
from verif.support.manifest import Module, Port, Words
from verif.support.stream_job import Job, Streamed, run_stream

Added = Mapping[str, NDArray[np.float32]]
"""Operands of a layer's stages: ``bias`` of shape (features,), ``residual`` (features, samples)."""


@dataclass(frozen=True)
class LayerRun:
    """Results of a layer for a list of operands.

    Attributes
    ----------
    beats : list of OperandBeats
        For each pair of operands its strips.
    words : list of ndarray of uint8
        The same as the bytes that were on ``m_axis_tdata``.
    out_of_step, overlong : ndarray of bool
        The flags of every beat.
    taken, left : ndarray of int
        Cycles in which beats went in and came out.
    """

    beats: list[OperandBeats]
    words: list[Words]
    out_of_step: NDArray[np.bool_]
    overlong: NDArray[np.bool_]
    taken: NDArray[np.int64]
    left: NDArray[np.int64]


def layer_schedule(
    module: Module, weights: mx.QuantizedTensor, samples: mx.QuantizedTensor
) -> LayerSchedule:
    """The schedule of operands on the layer that a module is."""
    p = module.parameters
    return LayerSchedule(
        weights,
        samples,
        arithmetic=p["arithmetic"],
        rows=p["pu_rows"] * p["rows"],
        columns=p["pu_columns"] * p["columns"],
        lanes=p["lanes"],
        longest_block=p.get("block"),
    )


def replayed(words: Words, last: NDArray[np.bool_], times: int) -> Words:
    """Beats of strips as a memory shows them: every strip so many times, one after the other."""
    strips = np.split(words, np.flatnonzero(last)[:-1] + 1)
    return np.concatenate([strip for strip in strips for _ in range(times)])


def _fields(codes: NDArray[np.uint8], scales: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.concatenate([codes.reshape(len(codes), -1), scales], axis=1)


def _job(module: Module, schedules: Sequence[LayerSchedule]) -> Job:
    """Beats of schedules, one after the other, with noise in all that the layer does not read."""
    ports = module.ports
    parts: dict[str, list[Words]] = {}
    rng = np.random.default_rng(0)
    for schedule in schedules:
        for tile, strip_last in zip(schedule, schedule.strip_last, strict=True):
            a_codes, a_scales = tile.a_codes.copy(), tile.a_scales.copy()
            if strip_last:
                no_features = np.s_[:, schedule.last_row + 1 :]
                _fill_with_noise(rng, a_codes[no_features], _code_bits(ports["s_axis_a_tdata"]))
                _fill_with_noise(rng, a_scales[no_features], 8)
            # `strip_last` counts in the last beat of a tile, `last_row` in that of a strip.
            last = tile.last
            may_end = np.where(last, strip_last, rng.integers(0, 2, len(last)))
            rows = rng.integers(0, a_codes.shape[1], len(last))
            last_row = np.where(last & strip_last, schedule.last_row, rows)
            flags = np.stack([tile.first, tile.block_last, may_end, last_row], axis=1)
            w_fields = _fields(tile.w_codes, tile.w_scales)
            for name, words in {
                "s_axis_a_tdata": ports["s_axis_a_tdata"].join(_fields(a_codes, a_scales)),
                "s_axis_a_tlast": ports["s_axis_a_tlast"].words(last),
                "s_axis_a_tuser": ports["s_axis_a_tuser"].join(flags),
                "s_axis_w_tdata": ports["s_axis_w_tdata"].join(w_fields),
                "s_axis_w_tlast": ports["s_axis_w_tlast"].words(last),
            }.items():
                parts.setdefault(name, []).append(words)
    return {name: np.concatenate(words) for name, words in parts.items()}


def _code_bits(port: Port) -> int:
    """Bits of an element's code."""
    _, _, width = port.fields[0]
    return width


def _fill_with_noise(rng: np.random.Generator, numbers: NDArray[np.uint8], bits: int) -> None:
    numbers[...] = rng.integers(0, 1 << bits, numbers.shape, np.uint8)


def _added_job(module: Module, schedules: Sequence[LayerSchedule], added: Sequence[Added]) -> Job:
    """Beats of what stages add."""
    p = module.parameters
    columns = p["pu_columns"] * p["columns"]
    parts: dict[str, list[Words]] = {}
    for schedule, numbers in zip(schedules, added, strict=True):
        for name, values in numbers.items():
            if name == "bias":
                beats, last = bias_beats(values, schedule.shape[1], columns=columns)
                port = module.ports["s_axis_bias_tuser"]
                parts.setdefault(port.name, []).append(port.words(last))
            else:
                beats = residual_beats(values, columns=columns)
            words = beats.view(np.uint8).reshape(len(beats), -1)
            parts.setdefault(f"s_axis_{name}_tdata", []).append(words)
    return {name: np.concatenate(words) for name, words in parts.items()}


def run_layers(
    simulator: str,
    module: Module,
    operands: Sequence[tuple[mx.QuantizedTensor, mx.QuantizedTensor]],
    *,
    added: Sequence[Added] = (),
    alter: Callable[[Job], None] = lambda job: None,
    **options: Any,
) -> LayerRun:
    """Send operands through a layer, one pair after the other, until nothing comes out any more.

    Parameters
    ----------
    added : sequence of Added
        For each of them what the layer's stages add, if it has such.
    alter : callable
        Called with the job before it runs, to change it in place; the number of beats stays.
    """
    schedules = [layer_schedule(module, *pair) for pair in operands]
    job = _job(module, schedules)
    alter(job)
    job |= (apart := _added_job(module, schedules, added) if added else {})
    p = module.parameters
    clocks = len(job["s_axis_a_tdata"]) * p["block_cycles"] + sum(
        s.tiles for s in schedules
    ) * 2 * (p["pu_rows"] * p["rows"] * p["row_interval"])
    streamed = run_stream(
        simulator,
        module,
        job,
        apart=sorted({name.rsplit("_", 1)[0] for name in apart}),
        clocks=clocks,
        probe=(sum(len(tile) for tile in schedules[0]), schedules[0].grid[1]),
        **options,
    )
    return _received(module, schedules, streamed)


def _received(module: Module, schedules: Sequence[LayerSchedule], streamed: Streamed) -> LayerRun:
    """Return the results on the pins, each strip with the operands it belongs to."""
    words = streamed.words["m_axis_tdata"]
    p, port = module.parameters, module.ports["m_axis_tdata"]
    columns, lanes = p["pu_columns"] * p["columns"], p["lanes"]
    fields = port.split(words).astype(np.uint8)
    codes = fields[:, : columns * lanes].reshape(-1, columns, lanes)
    scales = fields[:, columns * lanes :]
    last = streamed.words["m_axis_tlast"][:, 0].astype(bool)
    flags = module.ports["m_axis_tuser"].split(streamed.words["m_axis_tuser"]).astype(bool)
    ends = np.flatnonzero(last) + 1
    strips = [schedule.grid[1] for schedule in schedules]
    assert len(ends) == sum(strips), f"{len(ends)} strips came out for {sum(strips)}"
    assert ends[-1] == len(words), "beats followed the last strip"
    stops = ends[np.cumsum(strips) - 1]
    parts = [slice(start, stop) for start, stop in zip([0, *stops[:-1]], stops, strict=True)]
    return LayerRun(
        [OperandBeats(codes[s], scales[s], flags[s, 0], last[s]) for s in parts],
        [words[s] for s in parts],
        flags[:, 1],
        flags[:, 2],
        streamed.taken,
        streamed.left,
    )
