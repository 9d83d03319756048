"""Checks of backward passes of rows: rows of all kinds, and the models' answers to them."""

from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxsafe.model.normalisation import layer_norm_backward, rms_norm_backward
from mxsafe.model.softmax import softmax_backward
from mxsafe.rtl.vector.normalise_backward import NormaliseBackward
from mxsafe.rtl.vector.softmax_backward import SoftmaxBackward
from verif.rtl.vector.vector_checks import random_floats
from verif.support.manifest import Module
from verif.support.stream_job import Job, Streamed, check_stream
from verif.support.units import generated

Floats = NDArray[np.float32]
PairedRow = tuple[Floats, Floats]
"""Results and gradients, shape (beats, lanes)."""
NormalisedRow = tuple[Floats, Floats, Floats, Floats]
"""Values, gradients and gains, shape (beats, lanes); mean and reciprocal deviation."""
RESETS = (3, 20, 21, 22, 24, 25, 28, 31)
"""Cycles to reset after: about the first results of small units, of one cycle and of more."""
_NAN = np.uint32(0x7FC00000).view(np.float32)


def small_softmax_backward(folder: Path, **parameters: Any) -> Module:
    """One that simulates quickly, generated into `folder`."""
    return generated(SoftmaxBackward(**{"lanes": 2, "depth": 8} | parameters), folder)


def small_normalise_backward(folder: Path, **parameters: Any) -> Module:
    """One that simulates quickly, generated into `folder`."""
    return generated(NormaliseBackward(**{"lanes": 2, "depth": 8} | parameters), folder)


def _kinds(rng: np.random.Generator, shape: tuple[int, int]) -> Iterator[PairedRow]:
    """Pairs of numbers that are hard for one reason each."""
    gradient = rng.standard_normal(shape).astype(np.float32)
    powers = np.exp(rng.standard_normal(shape) * 3)
    weights = (powers / powers.sum()).astype(np.float32)
    yield weights, gradient
    yield weights, np.full(shape, gradient[0, 0])  # the difference is all but nothing
    yield np.full(shape, np.float32(1 / weights.size)), gradient
    yield np.where(weights == weights.max(), 1, 0).astype(np.float32), gradient
    yield random_floats(rng, shape), random_floats(rng, shape)
    near = np.nan_to_num(random_floats(rng, shape), posinf=1, neginf=-1)
    yield np.where(abs(near) < 1e9, near, 1).astype(np.float32), gradient * np.float32(1e-38)
    special = gradient.copy()
    special.flat[rng.integers(weights.size)] = rng.choice([np.nan, np.inf, -np.inf])
    yield weights, special
    yield special, gradient
    yield weights, np.full(shape, np.float32(-0.0))  # sums are 0, and results have their signs
    yield np.full(shape, np.float32(-0.0)), rng.choice(np.float32([-0.0, 0.0]), shape)


def _lengths(rng: np.random.Generator, depth: int) -> Iterator[int]:
    """Beats of rows: some of one beat in turn, of the whole memory, and two that do not fit."""
    yield 2
    yield from (1, 1, 1, 2, 1, depth, depth - 1, 3, depth + 3, depth + 1)
    while True:
        yield int(rng.integers(1, depth + 1))


def paired_rows(
    module: Module, seed: int, count: int, lengths: Sequence[int] = ()
) -> list[PairedRow]:
    """Rows of all kinds, and of these lengths in turn, or of all lengths."""
    rng = np.random.default_rng(seed)
    beats = cycle(lengths) if lengths else _lengths(rng, module.parameters["depth"])
    rows: list[PairedRow] = []
    while len(rows) < count:
        shape = next(beats), module.parameters["lanes"]
        kinds = list(_kinds(rng, shape))
        rows.append(kinds[len(rows) % len(kinds)])
    return rows


def normalised_rows(module: Module, seed: int, count: int) -> list[NormalisedRow]:
    """The same with gains, and with means and deviations of the values or of none."""
    rng = np.random.default_rng(seed)
    rows: list[NormalisedRow] = []
    for values, gradient in paired_rows(module, seed, count):
        with np.errstate(all="ignore"):
            statistics = np.array([values.mean(), 1 / values.std()], np.float32)
        if rng.random() < 0.3:
            statistics = random_floats(rng, (2,))
        gain = rng.standard_normal(values.shape).astype(np.float32)
        rows.append((values, gradient, gain, statistics))
    return rows


def _pieces(lengths: Sequence[int], depth: int) -> Iterator[tuple[int, int, int, bool]]:
    """Rows as the memory gives them: number, start and end in the row, and whether it was cut."""
    for number, length in enumerate(lengths):
        for start in range(0, length, depth):
            stop = min(start + depth, length)
            yield number, start, stop, stop < length


def _check(
    simulator: str,
    module: Module,
    streams: Job,
    lengths: Sequence[int],
    expected_of: Callable[[int, int, int], Floats],
    **options: Any,
) -> Streamed:
    """Results come out as `expected_of` a row and its part has them; what is cut is NaN."""
    depth = module.parameters["depth"]
    ends = np.cumsum(lengths)
    last = np.isin(np.arange(ends[-1]), ends - 1)
    pieces = list(_pieces(lengths, depth))
    expected, flags = [], []
    for number, start, stop, cut in pieces:
        result = expected_of(number, start, stop)
        expected.append(np.full_like(result, _NAN) if cut else result)
        flags += [False] * (stop - start - 1) + [True]
    return check_stream(
        simulator,
        module,
        {"s_axis_tlast": last, **streams},
        {"m_axis_tdata": np.concatenate(expected), "m_axis_tlast": np.array(flags)},
        # Rows are on their way together: those of one beat leave several in a latency.
        clocks=int(ends[-1]) + len(pieces) * module.latency // 4,
        probe=(int(ends[0]), 1),
        **options,
    )


def check_softmax_backward(
    simulator: str,
    module: Module,
    rows: Sequence[PairedRow],
    *,
    scale: float = 0.3,
    **options: Any,
) -> Streamed:
    """Gradients come out as the model has them. Further options are those of `run_stream`."""
    p = module.parameters
    along_lanes = p["along"] == "lanes"
    order = {"lanes": p["lanes"] if along_lanes else 1, "partials": p["partials"]}

    def expected(number: int, start: int, stop: int) -> Floats:
        result, gradient = (part[start:stop] for part in rows[number])
        shape = result.shape
        if along_lanes:
            result, gradient = result.reshape(1, -1), gradient.reshape(1, -1)
        found = softmax_backward(
            result,
            gradient,
            axis=1 if along_lanes else 0,
            scale=scale if p["scale"] else 1.0,
            **order,
        )
        return np.ascontiguousarray(found).reshape(shape)

    steady = {"scale": int(np.float32(scale).view(np.uint32))} if p["scale"] else {}
    streams = {
        "s_axis_tdata": np.concatenate([result for result, _ in rows]),
        "s_axis_gradient_tdata": np.concatenate([gradient for _, gradient in rows]),
    }
    lengths = [len(result) for result, _ in rows]
    return _check(simulator, module, streams, lengths, expected, steady=steady, **options)


def check_normalise_backward(
    simulator: str, module: Module, rows: Sequence[NormalisedRow], **options: Any
) -> Streamed:
    """Gradients come out as the model has them. Further options are those of `run_stream`."""
    p = module.parameters
    order = {"lanes": p["lanes"], "partials": p["partials"]}
    # One factor serves rows of any length, which are not what a network would have.
    count = p["lanes"] * p["depth"] // 2
    share = np.float32(1 / count)

    def expected(number: int, start: int, stop: int) -> Floats:
        values, gradient, gain = (part[start:stop].reshape(1, -1) for part in rows[number][:3])
        mean, reciprocal = rows[number][3].reshape(2, 1, 1)
        factors = gain[0] if p["gain"] else np.ones(gain.size, np.float32)
        rest = {"count": count, **order}
        if p["centre"]:
            found = layer_norm_backward(gradient, values, factors, mean, reciprocal, **rest)
        else:
            found = rms_norm_backward(gradient, values, factors, reciprocal, **rest)
        return found.x.reshape(stop - start, -1)

    statistics = np.stack([row[3] for row in rows])
    streams = {
        "s_axis_tdata": np.concatenate([row[0] for row in rows]),
        "s_axis_gradient_tdata": np.concatenate([row[1] for row in rows]),
        "s_axis_statistics_tdata": statistics if p["centre"] else statistics[:, 1:],
    }
    if p["gain"]:
        streams["s_axis_gain_tdata"] = np.concatenate([row[2] for row in rows])
    lengths = [len(row[0]) for row in rows]
    return _check(
        simulator,
        module,
        streams,
        lengths,
        expected,
        steady={"share": int(share.view(np.uint32))},
        apart=["s_axis_statistics"],
        **options,
    )
