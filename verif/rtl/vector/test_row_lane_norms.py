"""A lane of normalisation on its own: values and squares, against exact integers, and results."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mxsafe.model.normalisation import normalise
from mxsafe.rtl.timing import TARGETS, Target
from mxsafe.rtl.vector.row_lane import EARLY_BITS, RowLane
from mxsafe.tables import Grade
from mxsafe.tables.normalise import WIDTHS, NormaliseWidths
from verif.rtl.array.stall_checks import check_stalls
from verif.rtl.vector.normalise_checks import kinds_of_rows
from verif.support.checkers import assert_equal
from verif.support.farm import farm_of, published_farm, run_farm
from verif.support.simulators import lint, run_lockstep
from verif.support.units import generated, random_words

SQUARES: dict[Grade, float] = {"compact": 12 / 8192, "fine": 2.0**-15}
"""How exact squares are."""
GRADE = pytest.mark.parametrize(
    "grade", ["compact", pytest.param("fine", marks=pytest.mark.variant)]
)


@GRADE
@pytest.mark.parametrize("target", TARGETS)
def test_values_and_squares(target: Target, grade: Grade) -> None:
    """Values from -4 to 4 and a mean, every one followed by its square."""
    lane = RowLane(softmax=False, target=target, grade=grade)
    widths = WIDTHS[grade]
    module = generated(lane)
    assert lint(module) == ""
    rng = np.random.default_rng(10)
    rows = 4000
    values = (rng.uniform(-4, 4, rows) * np.exp2(-rng.integers(0, 30, rows))).astype(np.float32)
    means = rng.integers(0, 2 << widths.window, rows)
    ports = module.ports
    numbers = {
        "en": np.ones(rows),
        "word": values.view(np.uint32).astype(np.int64),
        "largest": np.full(rows, 128),
        "mean": means % (1 << EARLY_BITS) | np.roll(means >> EARLY_BITS << EARLY_BITS, 1),
        "squares": np.ones(rows),
    }
    stimulus = {
        port.name: port.words(np.asarray(numbers.get(port.name, np.zeros(rows))).astype(np.int64))
        for port in ports.values()
        if port.direction == "input" and port.name != "clk"
    }
    log = run_lockstep("icarus", module, stimulus, unsettled=lane.config.result_latency)
    # The window of values below 4.
    steps = np.floor(np.abs(np.ldexp(values.astype(np.float64), widths.window - 2)))
    steps = steps.astype(np.int64)
    placed = np.where(values < 0, ~steps, steps) + (1 << widths.window)
    # Without the lower bits of the mean, which are there first; the others follow a cycle later.
    low = placed - means % (1 << EARLY_BITS)
    got = ports["value"].numbers(log["value"])[1:] % (1 << EARLY_BITS)
    expected = low[:-1] % (1 << EARLY_BITS)
    assert_equal("value", got, expected, value=values[:-1])
    placed -= means
    distance = np.where(placed < 0, ~placed, placed)
    late = lane.config.square_latency
    squares = ports["square"].numbers(log["square"])[late:]
    unit = 2.0 ** (widths.square - 2 * widths.window - 2)
    exact = ((distance + 0.5) * (placed != 0)) ** 2 * unit
    error = np.abs(squares - exact[:-late])
    assert (error <= 1 + exact[:-late] * SQUARES[grade]).all()


LANES: dict[str, dict[str, Any]] = {
    "plain": {"softmax": False},
    "no mean": {"softmax": False, "centre": False},
    "mean": {"softmax": False, "optional": True},
    "fpga": {"softmax": False, "optional": True, "target": "fpga"},
    "with softmax": {"optional": True},
    "with softmax, no mean": {"centre": False},
    "with softmax, fpga": {"optional": True, "target": "fpga"},
}


@GRADE
@pytest.mark.parametrize("centred", [True, False])
def test_results(centred: bool, grade: Grade) -> None:
    """Rows of every kind, constant ones and those with NaN and Inf among them.

    All lanes side by side, with anything at inputs for softmax; what a row's values share is made
    from the model's statistics.
    """
    chosen = {
        name: parameters
        for name, parameters in LANES.items()
        if parameters.get("optional") or centred == parameters.get("centre", True)
    }
    units = {name: RowLane(**parameters, grade=grade) for name, parameters in chosen.items()}
    farm = farm_of("row_lanes", units)
    rng, length, widths = np.random.default_rng(13), 12, WIDTHS[grade]
    words = np.concatenate([*kinds_of_rows(rng, 2, length).values(), np.zeros((1, length), int)])
    words = words.astype(np.uint32)
    options: dict[str, Any] = {"epsilon": 0, "centre": centred, "grade": grade}
    found = normalise(words.view(np.float32), **options)
    deviation = found.reciprocal_deviation[:, 0]
    # Of one that is subnormal bits are missing.
    known = ~((deviation > 0) & (deviation < 2.0**-126))
    words, deviation = words[known], deviation[known]
    largest = np.maximum(words >> 23 & 255, 1).max(axis=1).astype(np.int64)
    numbers = np.isfinite(deviation)
    significand, power = np.frexp(np.where(numbers, deviation, 1).astype(np.float64))
    # Of rows without one it may be any.
    reciprocal = np.where(numbers, significand, rng.uniform(0.5, 1, len(words))) * (
        1 << widths.reciprocal
    )
    flags = {"constant": np.isinf(deviation), "not_finite": largest == 255}
    assert all(flag.any() and not flag.all() for flag in flags.values())
    pause = max(unit.config.result_latency for unit in units.values())
    starts = np.arange(len(words)) * (length + pause)
    row = np.repeat(np.arange(len(words)), length + pause)
    inputs = {}
    for name, unit in units.items():
        word = rng.integers(0, 1 << 32, len(row))
        for start, own in zip(starts, words, strict=True):
            word[start : start + length] = own
        base = largest + power - (not unit.config.centre)
        values = {
            "word": word,
            "largest": largest[row],
            "mean": (_means(words, largest, widths) if centred else 0 * largest)[row],
            "centred": np.full(len(row), centred),
            "squares": 0 * row,
            "reciprocal": reciprocal.astype(np.int64)[row],
            "base": base[row],
            **{flag: each[row] for flag, each in flags.items()},
            "is_softmax": 0 * row,
        }
        for port in farm.modules[name].ports.values():
            if port.name in values and port.direction == "input":
                inputs[f"{name}.{port.name}"] = port.words(np.asarray(values[port.name]))
            elif unit.config.softmax and port.name in unit.config.of_powers.inputs.members:
                inputs[f"{name}.{port.name}"] = random_words(rng, port.width, len(row))
    ones = np.ones(len(row), np.int64)
    logs = run_farm("icarus", farm, inputs, ones, 0 * ones, unsettled=pause)
    for name, unit in units.items():
        right = normalise(words.view(np.float32), **options).result
        at = starts[:, None] + unit.config.result_latency + np.arange(length)
        got = farm.modules[name].ports["result"].numbers(logs[name]["result"])[at]
        expected = np.ascontiguousarray(right).view(np.uint32).astype(np.int64)
        # In the first row pins were unknown.
        assert_equal(f"{name}: result", got[1:], expected[1:], value=words[1:])


def _means(
    words: NDArray[np.uint32], largest: NDArray[np.int64], widths: NormaliseWidths
) -> NDArray[np.int64]:
    """Means of rows in the window, rounded down, with half the range added; of any without one."""
    means = []
    for row, top in zip(words.view(np.float32), largest, strict=True):
        if top == 255:
            means.append(1 << widths.window)
            continue
        unit = Fraction(2) ** (int(top) - 126 - widths.window)
        steps = [math.floor(abs(Fraction(float(value))) / unit) for value in row]
        placed = [~step if value < 0 else step for step, value in zip(steps, row, strict=True)]
        means.append(math.floor(Fraction(sum(placed), len(row))) + (1 << widths.window))
    return np.array(means)


def test_clocks_without_enable_change_nothing() -> None:
    """Of all published lanes side by side, on inputs of any bits."""
    farm = published_farm("row_lanes", RowLane)
    width = farm.wrapper.ports["inputs"].width
    given = {"inputs": random_words(np.random.default_rng(11), width, 400)}
    _, log = check_stalls("icarus", farm.wrapper, given)
    assert len(np.unique(log["outputs"], axis=0)) > 200
