"""Checks of normalisation: rows of all kinds, and the model's answers to them."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxsafe.model.normalisation import normalise
from mxsafe.rtl.vector.normalise import Normalise
from verif.rtl.vector.vector_checks import first_changes
from verif.support.checkers import assert_equal
from verif.support.manifest import Module
from verif.support.stream_job import Streamed, check_stream
from verif.support.units import generated

Words = NDArray[np.uint32]
SPECIAL = np.array([0x7F800000, 0xFF800000, 0x7FC00000, 0xFF800001], np.uint32)
TINY = np.array([0, 1 << 31, 1, 0x80000001, 0x7FFFFF, 0x807FFFFF, 0x800000], np.uint32)


def kinds_of_rows(rng: np.random.Generator, count: int, length: int) -> dict[str, Words]:
    """Rows that are hard for one reason each, shape (count, length)."""
    shape = count, length
    normal = rng.standard_normal(shape)
    scale = np.exp2(rng.integers(-100, 100, (count, 1)))
    column = rng.integers(0, length, (count, 1))
    one = np.arange(length) == column
    signs = rng.choice([-1.0, 1.0], shape)
    mean = rng.choice([-1.0, 1.0], (count, 1)) * rng.uniform(0, 256, (count, 1))
    bits = rng.integers(0, 1 << 32, shape, np.uint32)
    constant = np.broadcast_to(rng.standard_normal((count, 1)), shape)
    with np.errstate(over="ignore", under="ignore"):
        numbers = {
            "normal": normal * scale,
            "mean of many deviations": (normal + mean) * scale,
            "two values": (signs + mean) * scale,
            "one binade": signs * rng.uniform(1, 2, shape) * scale,
            "one dominant": (one * rng.uniform(1, 4096, (count, 1)) + normal) * scale,
            "one and two values": (one * length**0.5 + signs * rng.random((count, 1))) * scale,
            "one alone": one * scale,
            "all equal": constant * scale,
            "wide range": np.exp2(rng.uniform(-40, 0, shape)) * signs * scale,
            "cancelling": np.round(normal * 8) * np.exp2(-3) + 2.0 ** rng.integers(0, 24),
            "largest": np.clip(normal * 1e38, -3.4e38, 3.4e38),
        }
        words = {name: value.astype(np.float32).view(np.uint32) for name, value in numbers.items()}
    words["any exponents"] = np.where(bits >> 23 & 255 == 255, bits ^ 1 << 29, bits)
    words["subnormals"] = bits & np.uint32(0x807FFFFF)
    words["tiny"] = rng.choice(TINY, shape)
    words["zeros of either sign"] = bits & np.uint32(1 << 31)
    words["not finite"] = np.where(one, rng.choice(SPECIAL, (count, 1)), bits & ~np.uint32(1 << 30))
    return words


def normalise_unit(**parameters: Any) -> Module:
    """A small one, generated into `folder`."""
    return generated(Normalise(**{"lanes": 2, "depth": 8} | parameters))


def random_rows(module: Module, seed: int, count: int, longest: int | None = None) -> list[Words]:
    """Rows, or as many side by side as there are lanes, of all kinds: shape (beats, lanes).

    They have at most `longest` beats; by default what the memory holds, and one does not fit.
    """
    rng = np.random.default_rng(seed)
    lanes, depth = module.parameters["lanes"], module.parameters["depth"]
    rows: list[Words] = []
    while len(rows) < count:
        beats = 2 if not rows else int(rng.integers(1, (longest or depth) + 1))
        if module.parameters["along"] == "lanes":
            kinds = kinds_of_rows(rng, 1, beats * lanes)
            rows += [words.reshape(beats, lanes) for words in kinds.values()]
        else:
            kinds = kinds_of_rows(rng, 1, beats)
            side = rng.permutation(np.concatenate(list(kinds.values())))
            side = np.concatenate([side, side[: -len(side) % lanes]])
            rows += [np.ascontiguousarray(group.T) for group in side.reshape(-1, lanes, beats)]
    if longest is None:
        rows[3] = np.concatenate([rows[3]] * depth)[: depth + 2]  # does not fit
    return rows[:count]


def edge_rows(module: Module, seed: int, count: int, beats: int, **options: Any) -> list[Words]:
    """Rows, shape (beats, lanes), whose sums of squares may miss no bit.

    Two after each other have sums that differ by as little as can be, and other reciprocal
    deviations: that of the first is the least with its reciprocal, and that of the second the
    largest with the one before. Options are those of `normalise`.
    """
    rng, lanes = np.random.default_rng(seed), module.parameters["lanes"]
    along_lanes = module.parameters["along"] == "lanes"
    options["grade"] = module.parameters["grade"]
    number, length = (count, beats * lanes) if along_lanes else (count * lanes, beats)
    rows = _at_edges(rng, number, length, **options)
    if not options["epsilon"]:
        # The first ones after a reset, too, for what is left of largest exponents.
        rows = np.concatenate([_at_edges(rng, number, length, tiny=True, **options), rows])
    if along_lanes:
        return [row.reshape(beats, lanes) for row in rows]
    # Both of a pair go through the same lane.
    pairs = rows.reshape(-1, lanes, 2, beats).swapaxes(1, 2)
    return [np.ascontiguousarray(group.T) for group in pairs.reshape(-1, lanes, beats)]


def _at_edges(
    rng: np.random.Generator,
    count: int,
    length: int,
    *,
    epsilon: float,
    tiny: bool = False,
    **options: Any,
) -> Words:
    """Rows of `edge_rows`, shape (2 * count, length), of 8 values or more."""
    assert length >= 8, f"rows must have 8 values, not {length}"
    # Their largest values have exponents of all sizes, some of a single bit, whose squares are no
    # less than `epsilon`; or the smallest ones.
    least = max(int(np.log2(epsilon)) // 2, -119) if epsilon else -119
    single_bits = (1 << rng.integers(3, 8, (count, 1))) - 127
    exponents = np.where(
        rng.random((count, 1)) < 0.3, single_bits, rng.integers(-127, 127, (count, 1))
    )
    exponents = np.maximum(exponents, least)
    if tiny:
        exponents = rng.integers(-127, least, (count, 1))
        exponents[0] = -127  # the least one there is comes first after a reset
    # Each value is there with either sign, so that the mean is next to nothing.
    halves = rng.uniform(0, 1, (count, length // 2)).astype(np.float32)
    halves[:, 0] = 1.75  # the largest, whatever else is changed
    levels = {1: 1.75, 2: 2.0**-6} if tiny else {1: 1.75, 2: 2.0**-6, 3: 2.0**-12}
    halves[:, list(levels)] = 0
    places = np.argsort(rng.random((count, length)), axis=1)

    def rows(column: int, steps: NDArray[np.int64]) -> NDArray[np.float32]:
        halves[:, column] = steps * levels[column] * 2.0**-17
        padded = np.zeros((count, length), np.float32)
        padded[:, : 2 * halves.shape[1]] = np.concatenate([halves, -halves], axis=1)
        return np.take_along_axis(np.ldexp(padded, exponents), places, axis=1)

    # Values of a level change the sum more finely than those before: by 17 bits of significands.
    for column in levels:

        def reciprocals(steps: NDArray[np.int64], column: int = column) -> NDArray[np.float32]:
            found = normalise(rows(column, steps), epsilon=epsilon, **options)
            return found.reciprocal_deviation[:, 0]

        above = first_changes(reciprocals, count, 1 << 17)
        pair = np.stack([rows(column, above), rows(column, above - 1)], axis=1)
    return pair.reshape(2 * count, length).view(np.uint32)


def _pieces(rows: Sequence[Words], depth: int) -> list[tuple[Words, bool]]:
    """Rows as the memory gives them, and whether one was cut."""
    return [
        (row[start : start + depth], len(row) - start > depth)
        for row in rows
        for start in range(0, len(row), depth)
    ]


def any_factors(rng: np.random.Generator, shape: tuple[int, ...]) -> Words:
    """Gains or biases: most of them ordinary, and some of all others."""
    usual = rng.standard_normal(shape).astype(np.float32).view(np.uint32)
    any_bits = rng.integers(0, 1 << 32, shape, np.uint32)
    special = rng.choice(np.concatenate([SPECIAL, TINY]), shape)
    one_bit_from_infinite = SPECIAL[0] | np.uint32(1) << rng.integers(0, 23, shape, np.uint32)
    kinds = [any_bits, special, one_bit_from_infinite]
    chosen = rng.random(shape)
    return np.select([chosen < 0.2, chosen < 0.3, chosen < 0.33], kinds, usual)


def check_rows(
    simulator: str,
    module: Module,
    rows: Sequence[Words],
    *,
    epsilon: float = 1e-5,
    seed: int = 1,
    centred: bool | None = None,
    rest_known: bool = True,
    steady: Mapping[str, int] = MappingProxyType({}),
    **options: Any,
) -> Streamed:
    """Results come out as the model has them, whatever gains and biases are.

    With `centred` or without a mean, if that is a choice. Unless the rest of a row that does not
    fit is known to be as a row by itself, it may be any numbers. `steady` are other inputs.
    """
    parameters, ports = module.parameters, module.ports
    along_lanes = parameters["along"] == "lanes"
    span = parameters["lanes"] if along_lanes else 1
    values = np.concatenate(rows)
    ends = np.cumsum([len(row) for row in rows]) - 1
    last = np.isin(np.arange(len(values)), ends)
    rng = np.random.default_rng(seed)
    streams = {"s_axis": values}
    for name in ("gain", "bias"):
        if parameters[name]:
            streams[f"s_axis_{name}"] = any_factors(rng, (len(values), span))
    pieces = _pieces(rows, parameters["depth"])
    lengths = [len(piece) for piece, _ in pieces]
    flags = np.isin(np.arange(sum(lengths)), np.cumsum(lengths) - 1)
    streamed = check_stream(
        simulator,
        module,
        {f"{name}_tdata": words for name, words in streams.items()}
        | {"s_axis_tlast": last}
        | ({"s_axis_tuser": rng.integers(0, 2, len(values))} if "s_axis_tuser" in ports else {}),
        {"m_axis_tlast": flags},
        clocks=3 * len(values) + len(pieces) * module.latency,
        probe=(int(ends[0]) + 1, 1),
        steady={
            **steady,
            "epsilon": int(np.float32(epsilon).view(np.uint32)),
            **({} if centred is None else {"centred": int(centred)}),
        },
        apart=[name for name in streams if name != "s_axis"],
        beside=["m_axis_statistics"] if parameters["statistics"] else [],
        **options,
    )
    expected, statistics, start = [], [], 0
    for piece, cut in pieces:
        stop = start + len(piece)
        factors = {
            name[7:]: words[start:stop].ravel().view(np.float32)
            for name, words in streams.items()
            if name != "s_axis"
        }
        numbers = piece.view(np.float32)
        shaped = numbers.reshape(1, -1) if along_lanes else numbers
        axis = 1 if along_lanes else 0
        found = normalise(
            shaped,
            **factors,
            epsilon=epsilon,
            axis=axis,
            grade=parameters["grade"],
            centre=parameters["centre"] if centred is None else centred,
        )
        result = np.ascontiguousarray(found.result).reshape(piece.shape).view(np.uint32)
        expected.append(np.full_like(result, 0x7FC00000) if cut else result)
        known = [found.mean, found.reciprocal_deviation][not parameters["centre"] :]
        words = np.stack([each.ravel() for each in known], axis=1).view(np.uint32)
        statistics.append(np.full_like(words, 0x7FC00000) if cut else words)
        start = stop
    got = ports["m_axis_tdata"].split(streamed.words["m_axis_tdata"])
    results = np.concatenate(expected).astype(np.int64)
    behind = np.array([not rest_known and cut for _, cut in [(None, False), *pieces[:-1]]])
    beats = np.repeat(behind, lengths)
    results[beats] = got[beats]
    assert_equal("results", got, results, value=values)
    if parameters["statistics"]:
        port = ports["m_axis_statistics_tdata"]
        words = np.stack(statistics).reshape(len(pieces), -1).astype(np.int64)
        found_words = port.split(streamed.words[port.name])
        words[behind] = found_words[behind]
        assert_equal(port.name, found_words, words)
    return streamed
