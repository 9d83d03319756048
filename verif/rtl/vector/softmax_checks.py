"""Checks of softmax: rows of all kinds, and the model's answers to them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxsafe.model.softmax import softmax, softmax_factor
from mxsafe.tables import Grade
from mxsafe.tables.softmax import WIDTHS
from verif.rtl.vector.vector_checks import first_changes
from verif.support.checkers import assert_equal
from verif.support.manifest import Module
from verif.support.stream_job import Job, Streamed, check_stream

Words = NDArray[np.uint32]
_ONE, _NAN = 0x3F800000, 0x7FC00000


@dataclass(frozen=True)
class Rows:
    """Rows that stand side by side: one along lanes, one a lane along beats.

    Attributes
    ----------
    length : int
        Values that count, of the first row.
    causal : bool
        Each row has one more that counts than the one before.
    """

    values: NDArray[np.float32]
    scale: float = 1.0
    length: int = 4096
    causal: bool = False

    def results(self, grade: Grade) -> Words:
        """Words of the results, from the model."""
        rows, count = self.values.shape
        limits = self.length + self.causal * np.arange(rows)
        mask = np.arange(count) < limits[:, None]
        return softmax(self.values, mask=mask, scale=self.scale, grade=grade).view(np.uint32)


def _beats(words: Words, lanes: int, along: str) -> Words:
    """Words of rows as beats, shape (beats, lanes)."""
    return words.T if along == "beats" else words.reshape(-1, lanes)


def job_of(module: Module, jobs: Sequence[Rows]) -> Job:
    """The streams in for rows, each a packet."""
    lanes, along = module.parameters["lanes"], module.parameters["along"]
    beats, lasts, controls = [], [], []
    for rows in jobs:
        data = _beats(np.ascontiguousarray(rows.values).view(np.uint32), lanes, along)
        beats.append(data)
        lasts.append(np.arange(len(data)) == len(data) - 1)
        fields = [int(softmax_factor(rows.scale).view(np.uint32)), rows.length]
        fields += [int(rows.causal)] if along == "beats" else []
        controls.append(np.tile(np.array(fields, np.int64), (len(data), 1)))
    return {
        "s_axis_tdata": np.concatenate(beats),
        "s_axis_tlast": np.concatenate(lasts),
        "s_axis_tuser": np.concatenate(controls),
    }


def expected_of(module: Module, jobs: Sequence[Rows]) -> tuple[Words, NDArray[np.uint8]]:
    """Beats of the results of rows, and whether each ends its packet."""
    lanes, along, grade = (module.parameters[name] for name in ("lanes", "along", "grade"))
    beats = [_beats(rows.results(grade), lanes, along) for rows in jobs]
    lasts = [np.arange(len(data)) == len(data) - 1 for data in beats]
    return np.concatenate(beats), np.concatenate(lasts).astype(np.uint8)


def check_softmax(
    simulator: str,
    module: Module,
    jobs: Sequence[Rows],
    *,
    expected: tuple[Words, NDArray[np.uint8]] | None = None,
    unknown: slice = slice(0),
    **options: Any,
) -> Streamed:
    """Results come out as the model has them.

    Where rows are cut they are others, `expected`, and any in the beats `unknown`.
    """
    results, lasts = expected_of(module, jobs) if expected is None else expected
    clocks = 2 * len(results) + len(jobs) * (sum(module.parameters["pauses"]) + 2)
    job = job_of(module, jobs)
    streamed = check_stream(
        simulator, module, job, {"m_axis_tlast": lasts}, clocks=clocks, **options
    )
    got = module.ports["m_axis_tdata"].split(streamed.words["m_axis_tdata"]).astype(np.uint32)
    results[unknown] = got[unknown]
    assert_equal("results", got, results, beat=np.arange(len(results)))
    above = (got > _ONE) & (got != _NAN)
    assert not above.any(), f"results above 1: {got[above].view(np.float32)[:4]}"
    return streamed


def check_overlong_row(simulator: str, module: Module) -> Streamed:
    """Of a row that does not fit, what the memory holds is NaN; rows after it are as ever."""
    rng = np.random.default_rng(5)
    depth = module.parameters["depth"]
    usual, long = (
        Rows(values=rng.normal(size=shape_of(module, beats)).astype(np.float32))
        for beats in (2, depth + 2)
    )
    results, lasts = expected_of(module, [usual])
    cut = np.full((depth + 2, results.shape[1]), _NAN, np.uint32)
    ends = np.isin(np.arange(len(cut)), [depth - 1, depth + 1]).astype(np.uint8)
    return check_softmax(
        simulator,
        module,
        [usual, long, usual],
        expected=(np.concatenate([results, cut, results]), np.concatenate([lasts, ends, lasts])),
        unknown=slice(2 + depth, 4 + depth),
    )


def shape_of(module: Module, beats: int) -> tuple[int, int]:
    """Rows that stand side by side, and values of each in so many beats."""
    lanes = module.parameters["lanes"]
    return (lanes, beats) if module.parameters["along"] == "beats" else (1, beats * lanes)


def random_rows(module: Module, seed: int, packets: int, beats: int = 8) -> list[Rows]:
    """Rows of up to so many beats, over many spreads, means, scales and masks."""
    rng = np.random.default_rng(seed)
    made = []
    for packet in range(packets):
        shape = shape_of(module, int(rng.integers(1, beats + 1)) if packet else 2)
        scale = float(rng.choice([1.0, 0.125, 0.08838834764831845, 2.0 ** rng.integers(-60, 60)]))
        scale *= float(rng.uniform(0.7, 1.6))
        spread = float(rng.choice([0.01, 1.0, 5.0, 20.0, 100.0])) / scale
        mean = spread * float(rng.choice([0.0, 1.0, -30.0, 1e5]))
        values = (mean + rng.normal(size=shape) * spread).astype(np.float32)
        # Some of the values are as far from the others as numbers can be, or of another kind.
        other = rng.integers(0, 1 << 32, shape, np.uint32).view(np.float32)
        kinds = np.where(np.isnan(other) | (other == np.inf), np.float32(-np.inf), other)
        few = rng.random(shape) < rng.choice([0.0, 0.05, 0.5])
        lowered = np.where(few, np.where(np.abs(kinds) < np.abs(spread), kinds, values), values)
        made.append(
            Rows(
                values=lowered,
                scale=scale,
                length=int(rng.choice([4096, rng.integers(0, shape[1] + 1)])),
                causal=module.parameters["along"] == "beats" and bool(rng.random() < 0.5),
            )
        )
    return made


def corner_rows(module: Module) -> list[Rows]:
    """Rows of special values, each of two beats: NaN, infinities, zeros, subnormals, extremes."""
    rng = np.random.default_rng(5)
    shape = shape_of(module, 2)
    usual = rng.normal(size=shape).astype(np.float32)
    largest = float(np.finfo(np.float32).max)
    pools: list[list[float]] = [
        [np.inf, 0.0, -np.inf, 1.0],
        [0.0, -0.0],
        [-np.inf],
        [-np.inf, -largest, 2.0],
        [-np.inf, -largest],
        [largest, -largest],
        [largest, float(np.nextafter(np.float32(largest), np.float32(0))), 0.0],
        [1e-45, -1e-45, 1e-40, -1e-38, 0.0],
        [1e-45, 0.0],
        [1e20, 0.0, -1.0],
        [-1e20, -1.5e20, -1e21],
    ]
    made = [Rows(values=rng.choice(np.array(pool, np.float32), shape)) for pool in pools]
    # Each lane has one with a sign and one without.
    words = np.array([0xFFC00000, 0xFFFFFFFF, 0x7FC00000, 0x7F800001], np.uint32)
    for number, word in enumerate(words.view(np.float32)):
        values = usual.copy()
        values.flat[number % values.size] = word
        made += [Rows(values=values), Rows(values=values, length=1)]
    for scale in (2.0**-120, 2.0**120, 1e-30, 1e30):
        made += [Rows(values=rows.values, scale=scale) for rows in made[: len(pools)]]
        made.append(Rows(values=usual / np.float32(scale), scale=scale))
    made += [Rows(values=usual, length=length) for length in range(4)]
    made += [Rows(values=size * usual, length=1, scale=0.3) for size in (1e-40, -1e38)]
    return made + list(_near_one(module, rng)) + list(_near_the_threshold(module, rng))


def edge_rows(module: Module, seed: int, packets: int, beats: int) -> Iterator[Rows]:
    """Rows whose sums of exponentials may miss no bit.

    Two after each other have sums that differ by as little as can be, and other results: that of
    the first is the least with its logarithm, and that of the second the largest with the one
    before.
    """
    rng = np.random.default_rng(seed)
    rows, length = shape_of(module, beats)
    assert length >= 3, f"rows must have 3 values, not {length}"
    count = packets * rows
    grade = module.parameters["grade"]
    bits = WIDTHS[grade].window_fraction_bits
    top = rng.integers(-8, 9, (count, 1)).astype(np.float32)
    below = rng.uniform(0, 3, (count, length)).astype(np.float32)
    below[:, 0] = 0
    furthest = 31 << bits  # as far below the largest that it adds nothing
    below[:, 1:3] = 31
    places = np.argsort(rng.random((count, length)), axis=1)

    def values(column: int, steps: NDArray[np.int64]) -> NDArray[np.float32]:
        below[:, column] = (furthest - steps) * 2.0**-bits
        return np.take_along_axis(top - below, places, axis=1)

    # The second value changes the sum more finely, and enough for the first.
    nearest = {"compact": 5, "fine": 9}[grade]
    for column, most in ((1, furthest), (2, furthest - (nearest << bits))):

        def largest(steps: NDArray[np.int64], column: int = column) -> NDArray[np.float32]:
            return softmax(values(column, steps), grade=grade).max(axis=1)

        above = first_changes(largest, count, most)
        pair = np.stack([values(column, above), values(column, above - 1)])
    for packet in range(packets):
        for side in pair:
            yield Rows(values=side[packet * rows : (packet + 1) * rows])


def _near_one(module: Module, rng: np.random.Generator) -> Iterator[Rows]:
    """One value and others below it, from what changes its result of 1 a little to nothing."""
    for below in (8.0, 11.5, 12.0, 12.5, 20.0):
        values = -rng.uniform(below, below + 0.5, shape_of(module, 2)).astype(np.float32)
        values[:, 1] = 0
        yield Rows(values=values, scale=float(rng.uniform(0.9, 1.1)))


def _near_the_threshold(module: Module, rng: np.random.Generator) -> Iterator[Rows]:
    """Values about where they begin to count, for maxima of many sizes."""
    shape = shape_of(module, 2)
    for size in (0.0, 1.0, 40.0, 1e8, 4e8, 1e9):
        for scale in (1.0, 0.53, 0.61):
            for sign in (1, -1):
                top = np.float32(sign * size)
                reach = 8 * 4.0 if scale < 1 else 8 * 5.0
                count = float(rng.choice([4, 5, 6, 7])) * 8 if rng.random() < 0.7 else reach
                around = np.array([np.float32(float(top) - count)], np.float32)
                steps = rng.integers(-1, 2, shape)
                values = np.where(
                    steps > 0,
                    np.nextafter(around, np.float32(np.inf)),
                    np.where(steps < 0, np.nextafter(around, np.float32(-np.inf)), around),
                ).astype(np.float32)
                values[:, 0] = top
                yield Rows(values=np.minimum(values, top), scale=scale)
