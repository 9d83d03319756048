"""Means and reciprocal deviations of sums, against exact integers; rows side by side."""

import math
from fractions import Fraction

import numpy as np
import pytest

from mxsafe.rtl.vector.normalise_row import NormaliseRow
from mxsafe.rtl.vector.row_lane import EARLY_BITS
from mxsafe.tables import Grade
from mxsafe.tables.normalise import WIDTHS, NormaliseWidths
from verif.support.checkers import assert_equal
from verif.support.manifest import Module, Words
from verif.support.simulators import lint, run_lockstep
from verif.support.tests import refused
from verif.support.units import generated, published

_NOWHERE = -10_000
"""A power of 4 far below all others."""
_EPSILONS = 12
"""Rows with an epsilon, one after the other or side by side."""


@pytest.mark.parametrize("grade", ["compact", pytest.param("fine", marks=pytest.mark.variant)])
@pytest.mark.parametrize(("rows", "span"), [(1, 8), (3, 1)])
def test_means_and_deviations(rows: int, span: int, grade: Grade) -> None:
    module = generated(NormaliseRow(rows=rows, span=span, depth=4, grade=grade))
    assert lint(module) == ""
    _check(module, [3] * 8, epsilons=5, zeros=3)


@pytest.mark.variant
@pytest.mark.parametrize("name", published(NormaliseRow))
def test_published_ones(name: str) -> None:
    """Rows of two beats, of half the most and one more, and of the most beats; epsilons.

    The first ones have the least and the largest sums with their reciprocals.
    """
    module = published(NormaliseRow)[name]
    depth = module.parameters["depth"]
    epsilons = max(_EPSILONS // module.parameters["rows"], 2)
    lengths = [depth - 1, depth - 3, 2, depth // 2 + 1, depth] + [2] * epsilons
    _check(module, [*lengths, 2], epsilons, edges=2, zeros=2)


@pytest.mark.full
@pytest.mark.parametrize("name", published(NormaliseRow))
def test_many_rows_of_published_ones(name: str) -> None:
    """Short rows and long ones; all but the last ones have the least sums, or the largest."""
    module = published(NormaliseRow)[name]
    depth, count = module.parameters["depth"], 240 // module.parameters["rows"]
    rng = np.random.default_rng(12)
    lengths = rng.integers(2, depth + 1, count) >> rng.integers(0, 6, count)
    few = count // 4
    _check(module, [*lengths.clip(2)], few, count - few, few // 2, simulator="verilator")


def _check(
    module: Module,
    lengths: list[int],
    epsilons: int = 0,
    edges: int = 0,
    zeros: int = 0,
    simulator: str = "icarus",
) -> None:
    """A pass of values, if there is a mean, and one of squares for each row.

    Parameters
    ----------
    lengths : list of int
        Beats of each row.
    epsilons : int
        How many of the last rows have one, of about the size of the variance of one of those beside
        it; the very last one is subnormal.
    edges : int
        How many of the first rows have the least sums with their reciprocal deviations, or the
        largest: with less or more these are other ones.
    zeros : int
        How many of the last rows have no variance, nor has one before all with an epsilon; side by
        side not all of them.
    """
    p, ports, rng = module.parameters, module.ports, np.random.default_rng(9)
    widths = WIDTHS[p["grade"]]
    rows, span, pause = p["rows"], p["span"], module.latency + 1
    kinds = 2 if p["centre"] else 1
    beats = np.repeat(lengths, kinds)
    squares = np.arange(len(beats)) % kinds == kinds - 1
    starts = 1 + np.cumsum(beats + pause) - (beats + pause)
    clocks = int(beats.sum()) + len(beats) * pause + 1
    addend_bits = ports["addends"].fields[0][2]
    bits = np.where(squares, addend_bits, widths.window + span.bit_length())
    addends, adds = np.zeros((clocks, rows), np.int64), np.zeros(clocks, np.bool_)
    for number, (start, length, most) in enumerate(zip(starts, beats, bits, strict=True)):
        few = most if rng.random() < 0.5 else rng.integers(most // 2, most + 1)
        addends[start : start + length] = rng.integers(0, 1 << few, (length, rows))
        if length == p["depth"]:  # so that sums have all of their bits
            addends[start : start + length] |= 1 << int(most) - 1
        adds[start : start + length] = True
        if edges and kinds * edges > number and squares[number]:
            for row in range(rows):
                total = int(addends[start : start + length, row].sum())
                is_largest = (number // kinds + row) % 2 == 1
                total = _edge(total, int(length) * span, widths, largest=is_largest)
                addends[start : start + length, row] = total // length
                addends[start : start + total % length, row] += 1
        from_end = len(lengths) - number // kinds
        if zeros and squares[number] and (from_end <= zeros or from_end == epsilons + 1):
            addends[start : start + length, 0 if rows == 1 else number % rows] = 0
    # Some rows have something that is no number.
    largest = rng.integers(1, 255, (len(lengths), rows))
    largest = np.where(rng.random(largest.shape) < 0.2, 255, largest)
    sums = np.stack([addends[s : s + n].sum(axis=0) for s, n in zip(starts, beats, strict=True)])
    counts = beats * span
    variances = [
        [
            _variance(int(each), int(count), int(top), widths)
            for each, top in zip(row, tops, strict=True)
        ]
        for row, tops, count in zip(sums[squares], largest, counts[squares], strict=True)
    ]
    given = np.zeros(len(variances), np.int64)
    for number in range(len(variances) - epsilons, len(variances)):
        variance, power = variances[number][int(rng.integers(rows))]
        power = power if variance else int(rng.integers(-64, 64))
        field = 2 * (power + 64 + int(rng.integers(-9, 3))) - int(rng.integers(2))
        is_last = number == len(variances) - 1
        field = 0 if is_last else min(max(field, 1), 254)
        given[number] = int(rng.integers(2)) << 31 | field << 23 | int(rng.integers(1 << 23))
    epsilon = np.repeat(np.repeat(given, kinds), beats + pause)
    overlong = rng.random(len(variances)) < 0.3
    ends = starts + beats + pause - 1
    # Addends come as two numbers, if there are several lanes; between them are any.
    words = np.where(adds[:, None], addends, rng.integers(0, 1 << addend_bits, (1, rows)))
    if span > 1:
        parts = rng.integers(0, words + 1)
        words = np.stack([parts, words - parts], axis=-1).reshape(clocks, -1)
    pins = {
        "rst": np.arange(clocks) == 0,
        "add": adds,
        "last": np.isin(np.arange(clocks), starts + beats - 1),
        "epsilon": np.append(0, epsilon),
        "overlong": np.append(0, np.repeat(np.repeat(overlong, kinds), beats + pause)),
        "leaves": np.isin(np.arange(clocks), ends[squares]),
        "centred": np.ones(clocks),
        # What is shared does nothing else, and no row is given up.
        **dict.fromkeys(("begins", "summing", "other", "clear"), np.zeros(clocks)),
    }
    of_rows: dict[str, Words] = {
        name: np.zeros((clocks, (ports[name].width + 7) // 8), np.uint8)
        for name in ("negative", "stores", "stored")
        if name in ports
    }
    log = run_lockstep(
        simulator,
        module,
        {
            "addends": ports["addends"].join(words),
            "largest": ports["largest"].join(
                np.concatenate(
                    [
                        largest[:1],
                        np.repeat(np.repeat(largest, kinds, axis=0), beats + pause, axis=0),
                    ]
                )
            ),
            **{name: ports[name].words(pin) for name, pin in pins.items() if name in ports},
            **of_rows,
        },
        unsettled=clocks - 1,
    )
    done = np.flatnonzero(log["done"][:, 0])
    assert ((starts + beats <= done) & (done < starts + beats + module.latency)).all()
    if p["centre"]:
        means = ports["mean"].split(log["mean"])[ends[~squares]]
        copies = means.shape[1] // rows
        expected = np.repeat(sums[~squares] // counts[~squares, None], copies, axis=1)
        assert_equal("mean", means, expected)
        none = ports["mean"].split(log["mean"])[starts[~squares]] % (1 << EARLY_BITS)
        assert_equal("mean", none, np.zeros_like(none))
    found = [
        [_with_epsilon(variance, int(word), widths) for variance in row]
        for row, word in zip(variances, given, strict=True)
    ]
    deviations = np.array(
        [[(_reciprocal(each, widths), power) for each, power in row] for row in found]
    )
    base_bits = ports["base"].width // rows
    deviations[..., 1] = (largest - deviations[..., 1] - (not p["centre"])) % (1 << base_bits)
    constant = np.array([[not variance for variance, _ in row] for row in found])
    assert constant.any() or not zeros
    for column, name in enumerate(("reciprocal", "base")):
        got = ports[name].split(log[name])[ends[squares]]
        right = np.where(constant, got, deviations[..., column])  # of no deviation it is any
        shown = {"total": sums[squares], "epsilon": given}
        assert_equal(name, got, right, **shown)
    for name, flags in (
        ("not_finite", overlong[:, None] | (largest == 255)),
        ("constant", constant),
    ):
        got = ports[name].numbers(log[name]).astype(np.int64)[ends[squares]]
        assert_equal(name, got, flags @ (1 << np.arange(rows)), epsilon=given)


def _variance(total: int, count: int, largest: int, widths: NormaliseWidths) -> tuple[int, int]:
    """A variance from 1 to 4, in units of its last place, and its power of 4; of no total 0."""
    if not total:
        return 0, _NOWHERE
    one = count << widths.point
    steps = next(step for step in range(-40, 40) if total * Fraction(4) ** step >= one)
    # The unit of squares is that of the window's top twice, two binades above the largest one.
    power = largest - 127 + 2 - (widths.square - widths.point) // 2 - steps
    return math.floor(total * Fraction(4) ** steps / count), power


def _edge(total: int, count: int, widths: NormaliseWidths, *, largest: bool) -> int:
    """The least sum with the same reciprocal deviation as a total, or the largest."""
    largest_here = 125 + (widths.square - widths.point) // 2
    variance, power = _variance(total, count, largest_here, widths)
    same = _reciprocal(variance, widths)
    if largest:
        most = (4 << widths.point) - 1
        while variance < most and _reciprocal(variance + 1, widths) == same:
            variance += 1
        return math.ceil((variance + 1) * count * Fraction(4) ** power) - 1
    while variance > 1 << widths.point and _reciprocal(variance - 1, widths) == same:
        variance -= 1
    return math.ceil(variance * count * Fraction(4) ** power)


def _with_epsilon(variance: tuple[int, int], word: int, widths: NormaliseWidths) -> tuple[int, int]:
    """The same with an epsilon, whatever its sign, unless it is subnormal; less is cut off."""
    field = word >> 23 & 255
    if not field:
        return variance
    exponent = field - 127
    significand = 1 << 23 | word & (1 << 23) - 1
    epsilon = significand << exponent % 2 >> 23 - widths.point, exponent // 2
    smaller, larger = sorted((variance, epsilon), key=lambda each: each[1])
    total = larger[0] + (smaller[0] >> 2 * (larger[1] - smaller[1]))
    carry = total >> widths.point + 2
    return (total >> 2, larger[1] + 1) if carry else (total, larger[1])


def _reciprocal(variance: int, widths: NormaliseWidths) -> int:
    """Significand of a reciprocal deviation; of no variance it is any."""
    if not variance:
        return 0
    root = math.isqrt(((1 << 2 * widths.root + widths.point) - 1) // variance)
    rounded = root + 1 >> widths.root - widths.reciprocal
    return min(rounded, (1 << widths.reciprocal) - 1)


test_configurations_that_cannot_work = refused(
    NormaliseRow,
    [
        ({"rows": 0}, "rows must be a positive integer, not 0"),
        ({"span": 3}, "span must be a power of two, not 3"),
        ({"centre": False, "optional": True}, "centre must be set with optional"),
        ({"depth": -1}, "depth must be a positive integer, not -1"),
    ],
)
