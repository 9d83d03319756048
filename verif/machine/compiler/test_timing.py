"""The timing model by hand: what descriptors take, and what they wait for."""

from dataclasses import replace

import pytest

from mxsafe.machine.compiler.emitter import Emitter, Pass
from mxsafe.machine.compiler.tensors import Operand, Rows
from mxsafe.machine.compiler.timing import Times, predict
from mxsafe.machine.configuration import BF16_MACHINE, MachineConfiguration
from mxsafe.machine.layout import Float32Layout, OperandLayout
from verif.machine.compiler.moves import load_rows, store_rows

SIZES = MachineConfiguration()
TIMES = Times()
FETCHED = TIMES.memory + TIMES.start + 1
"""Cycles until the first descriptor is there; others follow one a cycle."""


def _operand(e: Emitter, rows: int, columns: int) -> Operand:
    layout = OperandLayout(configuration=SIZES, rows=rows, columns=columns)
    return e.operand("weights", layout)


def test_two_loads_are_under_way() -> None:
    e = Emitter(SIZES)
    operand = _operand(e, 32, 256)  # of each strip 128 words of codes, 2 of scales
    for strip in range(2):
        e.load(operand, range(strip, strip + 1), "a")
    found = predict(e)
    first = FETCHED + TIMES.queue
    assert [run.start for run in found.runs[:2]] == [first, first + 128]
    ends = [run.end - TIMES.load for run in found.runs]
    begins = first + TIMES.memory
    assert ends[:2] == [begins + 128, begins + 130]
    # Two are in flight: the third one is asked for when the first has ended.
    begins = found.runs[0].end + TIMES.memory
    assert ends[2:] == [begins + 128, begins + 130]
    assert (found.words_read, found.words_written) == (260, 0)
    # The latency of memory is seen three times, once of them by the first descriptor's own words.
    slow = predict(e, replace(TIMES, memory=200))
    assert slow.cycles == found.cycles + 3 * 100


def test_numbers_are_four_words_a_beat_and_a_cycle() -> None:
    """Of bfloat16: no scales come, and a tile takes as many cycles as it has beats."""
    e, times = Emitter(BF16_MACHINE), Times.of(BF16_MACHINE)
    layout = OperandLayout(configuration=BF16_MACHINE, rows=48, columns=148)
    operand = e.operand("weights", layout)
    a, w = e.load(operand, range(3), "a"), e.load(operand, range(1), "w")
    e.multiply(a, w, 0, stride_a=16, stride_w=0)
    found = predict(e)
    *loads, run = found.runs
    assert len(loads) == 2
    assert found.words_read == (3 + 1) * 37 * 4
    assert (run.stop - run.start, run.end - run.stop) == (3 * 37, times.gemm)
    assert found.array_busy == 3 * 37
    e.compute(Rows(0, 37), Pass(), out=e.place("out", operand, 1))
    last = predict(e).runs[-1]
    plain = Emitter(BF16_MACHINE)
    plain.compute(Rows(0, 37), Pass(), d=Rows(64, 37))
    (own,) = predict(plain).runs
    # The first four numbers are there before they are rounded.
    assert (last.end - last.start) - (own.end - own.start) == times.convert + 4 * times.codes


@pytest.mark.parametrize(("columns", "clocks"), [(256, 64), (32, TIMES.tile)])
def test_tiles_last_as_long_as_their_rows(columns: int, clocks: int) -> None:
    e = Emitter(SIZES)
    operand = _operand(e, 48, columns)
    a, w = e.load(operand, range(3), "a"), e.load(operand, range(1), "w")
    e.multiply(a, w, 0, stride_a=16, stride_w=0)
    found = predict(e)
    *loads, run = found.runs
    assert (run.waits_for, run.start) == ("load", loads[-1].end)
    assert (run.stop - run.start, run.end - run.stop) == (3 * clocks, TIMES.gemm)
    assert found.array_busy == 3 * columns // 4
    assert found.idle() == {
        "load": run.start,
        "tiles": 3 * (clocks - columns // 4),
        "end": TIMES.gemm,
    }


def test_vectors_take_passes() -> None:
    e = Emitter(SIZES)
    rows = e.rows(128, 2, "rows")
    like = Operand("results", OperandLayout(configuration=SIZES, rows=32, columns=128))
    out = e.place("w", like, 2)
    always = TIMES.queue + TIMES.vector
    for work, more in (
        (Pass(), 256),
        (Pass(function="gelu"), 256 + TIMES.function),
        (Pass(function="rsqrt"), 4 * 256 + TIMES.narrow),
        (Pass(arithmetic="scale"), 256 + TIMES.arithmetic),
        (Pass(reduction="softmax", parameter=1.0), 128 + 512 + 2 * TIMES.softmax),
        (Pass(reduction="layer_norm"), 128 + 768 + 2 * TIMES.layer_norm),
        (Pass(reduction="rms_norm"), 128 + 512 + 2 * TIMES.rms_norm),
        (
            Pass(function="exp", reduction="rms_norm"),
            TIMES.narrow + 512 + 2 * max(256 + TIMES.rms_norm, 512),
        ),
    ):
        e.compute(rows, work, d=rows)
        run = predict(e).runs[-1]
        assert run.stop - run.start == run.end - run.start == always + more
    e.compute(rows, Pass(), out=out)
    run = predict(e).runs[-1]
    assert run.stop - run.start == always + 256 + TIMES.convert + 64


def test_vectors_are_not_read_faster_than_the_buffer_gives_them() -> None:
    """Of beats that units take in parts only the first parts of whole rows wait for it."""
    e = Emitter(SIZES)
    rows = e.rows(128, 2, "rows")
    times = replace(TIMES, pace=3)
    always = TIMES.queue + TIMES.vector
    for work, parts, clocks in (
        (Pass(), 1, 3 * 256),
        (Pass(), 2, 3 * 256),
        (Pass(), 8, 8 * 256),
        (Pass(reduction="softmax", parameter=1.0), 1, 3 * 128 + 256 * 4 + 2 * TIMES.softmax),
        (Pass(reduction="softmax", parameter=1.0), 8, 3 * 128 + 256 * 18 + 16 * TIMES.softmax),
    ):
        e.compute(rows, work, d=rows)
        run = predict(e, replace(times, parts=parts)).runs[-1]
        assert run.stop - run.start == always + clocks


def test_words_of_vectors_wait_for_their_buffer() -> None:
    e = Emitter(SIZES)
    numbers = e.vectors("numbers", Float32Layout(configuration=SIZES, rows=16, columns=16))
    rows = e.rows(16, 1, "rows")
    load_rows(e, numbers, range(1), rows)
    store_rows(e, numbers, range(1), rows)
    e.load(_operand(e, 16, 64), range(1), "a")
    default, slow = predict(e), predict(e, replace(TIMES, pace=3))
    for found, clocks in ((default, 32), (slow, 96)):
        load, store, *codes = found.runs
        begins = load.start + TIMES.memory
        assert load.end - begins - TIMES.load == clocks
        assert store.end - store.start - TIMES.memory - TIMES.store == clocks
        assert codes[0].end - load.end == 32
    assert slow.words_read == default.words_read


def test_a_full_queue_keeps_others_from_their_descriptors() -> None:
    e = Emitter(SIZES)
    rows = e.rows(512, 1, "rows")
    for _ in range(SIZES.queue_depth + 1):
        e.compute(rows, Pass(), d=rows)
    operand = _operand(e, 16, 64)
    e.load(operand, range(1), "a")
    found = predict(e)
    first = found.runs[0]
    assert found.runs[-2].waits_for == "fetch"
    # The last of nine has a place when the first has ended.
    assert found.runs[-2].start == first.end + 1 + TIMES.queue
