"""Checks of vector arithmetic: beats of numbers, and the model's answers to them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mxsafe.model import vector_arithmetic as model
from verif.support.checkers import assert_equal
from verif.support.manifest import Module, Words
from verif.support.stream_job import Job, Streamed, run_stream

__all__ = ["VectorBeats", "check_vectors", "random_floats", "random_vectors"]

Floats = NDArray[np.float32]
WITH_OPERAND = ("add", "multiply", "axpy")

SPECIAL = np.array(
    [0, 1, 0x7FFFFF, 0x800000, 0x3F800000, 0x7F7FFFFF, 0x7F800000, 0x7FC00000, 0x7F800001],
    np.uint32,
)


def random_floats(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Binary32 numbers: most near one another, so that sums matter; some of any kind."""
    bits = rng.integers(0, 1 << 32, shape, np.uint32)
    near = (bits & np.uint32(0x807FFFFF)) | rng.integers(110, 140, shape, np.uint32) << 23
    special = rng.choice(SPECIAL, shape) | (bits & np.uint32(1 << 31))
    kind = rng.random(shape)
    words = np.where(kind < 0.7, near, np.where(kind < 0.9, bits, special))
    return words.astype(np.uint32).view(np.float32)


@dataclass(frozen=True)
class VectorBeats:
    """Beats for a unit.

    Attributes
    ----------
    x : ndarray of float32, shape (beats, lanes)
    operation : ndarray of int64, shape (beats,)
        Number of the operation of each beat.
    factor : ndarray of float32, shape (beats,)
    single, last : ndarray of bool, shape (beats,)
    operand : ndarray of float32, shape (operand beats, lanes or 1)
        As many as the beats take.
    last_lane : ndarray of int64, shape (operand beats,)
        The last lane that each of them is for.
    """

    x: Floats
    operation: NDArray[np.int64]
    factor: Floats
    single: NDArray[np.bool_]
    last: NDArray[np.bool_]
    operand: Floats
    last_lane: NDArray[np.int64]


def _needs(module: Module, operation: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether beats need the second operand."""
    return np.isin(np.array(module.parameters["operations"])[operation], WITH_OPERAND)


def random_vectors(module: Module, seed: int, beats: int) -> VectorBeats:
    """Packets of random beats, with every operation that the unit has."""
    rng = np.random.default_rng(seed)
    p = module.parameters
    operation = rng.integers(0, len(p["operations"]), beats)
    last = rng.random(beats) < 0.2
    last[-1] = True
    single = rng.random(beats) < 0.5 if p["operand"] == "both" else np.full(beats, False)
    taken = int(_needs(module, operation).sum())
    return VectorBeats(
        x=random_floats(rng, (beats, p["lanes"])),
        operation=operation,
        factor=random_floats(rng, (beats,)),
        single=single,
        last=last,
        operand=random_floats(rng, (taken, 1 if p["operand"] == "beat" else p["lanes"])),
        last_lane=rng.integers(0, p["lanes"], taken) if p["ragged"] else np.full(taken, p["lanes"]),
    )


def expected_vectors(module: Module, beats: VectorBeats) -> Floats:
    """The model's answer."""
    operations = module.parameters["operations"]
    needs = _needs(module, beats.operation)
    # Beats of the operand that were taken before each beat.
    index = np.concatenate([[0], np.cumsum(needs)[:-1]])
    y = np.zeros_like(beats.x)
    lane = np.arange(beats.x.shape[1])
    reached = lane <= beats.last_lane[index[needs], None]
    y[needs] = np.where(reached, beats.operand[index[needs]], np.float32(-0.0))
    y = np.where(beats.single[:, None], y[:, :1], y)
    factor = beats.factor[:, None]
    results = {
        "add": model.add(beats.x, y),
        "multiply": model.multiply(beats.x, y),
        "axpy": model.axpy(factor, beats.x, y),
        "scale": model.multiply(factor, beats.x),
    }
    stacked = np.stack([results[name] for name in operations])
    return stacked[beats.operation, np.arange(len(beats.x))]


def _job(module: Module, beats: VectorBeats) -> Job:
    ports = module.ports
    job = {
        "s_axis_tdata": _words(beats.x),
        "s_axis_tlast": ports["s_axis_tlast"].words(beats.last),
    }
    if "s_axis_tuser" in ports:
        values = {
            "operation": beats.operation,
            "single": beats.single,
            "factor": beats.factor.view(np.uint32),
        }
        fields = [values[name] for name, _, _ in ports["s_axis_tuser"].fields]
        job["s_axis_tuser"] = ports["s_axis_tuser"].join(np.stack(fields, axis=1).astype(np.int64))
    if len(beats.operand):
        job["s_axis_operand_tdata"] = _words(beats.operand)
    if "s_axis_operand_tuser" in ports:
        job["s_axis_operand_tuser"] = ports["s_axis_operand_tuser"].words(beats.last_lane)
    return job


def _words(numbers: Floats) -> Words:
    return np.ascontiguousarray(numbers).view(np.uint8).reshape(len(numbers), -1)


def check_vectors(
    simulator: str,
    module: Module,
    beats: VectorBeats,
    *,
    stall_in: float = 0.0,
    stall_out: float = 0.0,
    seed: int = 1,
    resets_after: Sequence[int] = (),
    still: bool = False,
) -> Streamed:
    """Results come out as the model has them, and so does `tlast`."""
    streamed = run_stream(
        simulator,
        module,
        _job(module, beats),
        apart=["s_axis_operand"] if len(beats.operand) else [],
        stall_in=stall_in,
        stall_out=stall_out,
        seed=seed,
        still=still,
        resets_after=resets_after,
    )
    got = streamed.words["m_axis_tdata"].view(np.uint32)
    expected = expected_vectors(module, beats).view(np.uint32)
    index = np.arange(len(expected))
    assert_equal(module.name, got, expected, beat=index, operation=beats.operation)
    last = streamed.words["m_axis_tlast"][:, 0]
    assert_equal("m_axis_tlast", last, beats.last.astype(np.uint8), beat=index)
    return streamed
