"""Rows of beats read ahead: what is asked for, and what is given, in every cycle."""

from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from mxsafe.rtl.machine.ports import WIDTHS
from mxsafe.rtl.machine.vector.beat_reader import BeatReader
from verif.support.checkers import assert_equal
from verif.support.manifest import Module
from verif.support.simulators import run_lockstep
from verif.support.tests import Volume, refused, typical
from verif.support.units import published, random_words

_PER_BEAT, _PER_BEAT_OF_MANY, _AROUND = 9, 6, 40
"""Cycles that are enough for a beat with pauses, for one of many with few pauses, around a job."""
_MOST, _MOST_IN_FULL = 511, 4095
"""Beats of a row, and rows, that are read to their end, at most."""
_UNSETTLED = 600
"""Cycles until a beat has been in every register of one."""


def _job(rng: np.random.Generator, parameters: Mapping[str, Any]) -> dict[str, int]:
    """Rows of up to a few beats; somewhere, at the end of the buffer, or perhaps far behind it."""
    depth, bits = parameters["depth"], parameters["address_bits"]
    beats, rows = rng.integers(1, 7, 2).tolist()
    origin = int(rng.integers(0, depth - beats))
    stride = int(rng.integers(0, (depth - beats - origin) // rows + 1))
    where = rng.random()
    if where < 0.5:
        # The last beats of the buffer, and a few behind them.
        origin, stride = depth - int(rng.integers(1, beats * rows + 2)), beats
    elif where < 0.7:
        origin = int(rng.integers(0, 1 << bits))
        stride = int(rng.integers(0, 1 << WIDTHS["vector"]["x_stride"]))
    return {"origin": origin, "stride": stride, "beats": beats, "rows": rows}


def _long_jobs(parameters: Mapping[str, Any]) -> list[dict[str, int]]:
    """Rows of so many beats, so many rows, and so far, that each bit matters at once."""
    long_rows = [
        {"origin": 1, "stride": 3, "beats": (1 << bit) + 2, "rows": 2}
        for bit in range(3, WIDTHS["vector"]["beats"])
    ]
    many_rows = [
        {"origin": 2, "stride": 5, "beats": 1, "rows": (1 << bit) + 1}
        for bit in range(4, parameters["rows_bits"])
    ]
    far_rows = [
        {"origin": 1, "stride": 1 << bit, "beats": 1, "rows": 2}
        for bit in range(WIDTHS["vector"]["x_stride"])
    ]
    return long_rows + many_rows + far_rows


def _whole_jobs(parameters: Mapping[str, Any], most: int) -> list[dict[str, int]]:
    """Long rows and many rows, up to so many, that are read to their end."""
    beats = min(parameters["depth"], most)
    rows = min((1 << parameters["rows_bits"]) - 1, most)
    # What changes a bit wherever another one is set may do it an even number of times.
    sizes = [(beats - less, 1) for less in (0, 1)] + [(1, rows - less) for less in (0, 1)]
    return [{"origin": 0, "stride": 1, "beats": each, "rows": many} for each, many in sizes]


def _wanted(job: Mapping[str, int]) -> deque[tuple[int, int]]:
    """Address of each beat, and whether it ends its row."""
    beats = range(job["beats"])
    return deque(
        (job["origin"] + row * job["stride"] + beat, int(beat == job["beats"] - 1))
        for row in range(job["rows"])
        for beat in beats
    )


def _columns(rng: np.random.Generator, module: Module, most: int) -> dict[str, np.ndarray]:
    """Return the pins' values in each cycle; a reset ends long jobs, stops, or comes between."""
    rows: list[dict[str, int]] = []
    jobs = [(_job(rng, module.parameters), _PER_BEAT) for _ in range(30)]
    jobs += [(job, 0) for job in _long_jobs(module.parameters)]
    jobs += [(job, _PER_BEAT_OF_MANY) for job in _whole_jobs(module.parameters, most)]
    for number, (job, per_beat) in enumerate(jobs):
        is_cut, of_many = per_beat == 0, per_beat == _PER_BEAT_OF_MANY
        clocks = per_beat * job["beats"] * job["rows"] + _AROUND
        pauses = [(1, 1), (0.6, 0.6), (1, 0.5), (0.5, 1)]
        ready, takes = (0.9, 0.9) if of_many else pauses[number % 4]
        ends = is_cut or (not of_many and rng.random() < 0.3)
        if ends and not is_cut:
            clocks = int(rng.integers(3, clocks))
        stops = int(rng.integers(clocks // 2, clocks)) if ends and rng.random() < 0.5 else clocks
        for clock in range(clocks):
            rows.append(
                job
                | {
                    "start": clock == 0,
                    "stop": clock > stops,
                    "rst": ends and clock == clocks - 1,
                    "read_ready": rng.random() < ready,
                    "m_axis_tready": rng.random() < takes,
                }
            )
    return {name: np.array([row[name] for row in rows], np.int64) for name in rows[0]}


def _expected(
    pins: Mapping[str, np.ndarray], data: list[bytes], parameters: Mapping[str, Any]
) -> list[tuple[int, int, int, int, int, bytes]]:
    """Whether a beat is asked for, its address, whether it is outside, what is given."""
    depth, ahead, later = (parameters.get(name, 0) for name in ("depth", "ahead", "later"))
    wanted: deque[tuple[int, int]] = deque()
    kept: deque[tuple[int, bytes]] = deque()
    coming: dict[int, int] = {}
    room, offered, was_outside, leaves = ahead, False, False, False
    told = []
    for clock in range(len(data)):
        there = bool(kept) and not leaves
        taken = there and bool(pins["m_axis_tready"][clock])
        asks = bool(wanted) and room > 0 and not pins["stop"][clock]
        is_outside = asks and wanted[0][0] >= depth
        offers = asks and not is_outside
        valid, outside = (offered, was_outside) if later else (offers, is_outside)
        asked = valid and bool(pins["read_ready"][clock])
        told.append(
            (
                int(valid),
                wanted[0][0] if valid else 0,
                int(outside),
                int(there),
                *(kept[0] if there else (0, b"")),
            )
        )
        if leaves if later else taken:
            kept.popleft()
        if clock in coming:
            kept.append((coming.pop(clock), data[clock]))
        room += taken - asked
        if asked:
            coming[clock + 1 + later] = wanted.popleft()[1]
        start = bool(pins["start"][clock])
        offered, was_outside = offers and not asked and not start, is_outside and not start
        leaves = bool(later and taken)
        if start:
            wanted = _wanted({name: int(values[clock]) for name, values in pins.items()})
        if pins["rst"][clock]:
            wanted.clear()
            kept.clear()
            coming.clear()
            room, offered, was_outside, leaves = ahead, False, False, False
    return told


@pytest.mark.parametrize("name", typical(published(BeatReader), every=6))
def test_published_ones(name: str, volume: Volume) -> None:
    """Beats inside and behind the buffer, pauses on either side, stops and resets."""
    module = published(BeatReader)[name]
    rng = np.random.default_rng(3)
    pins = _columns(rng, module, volume(_MOST, _MOST_IN_FULL))
    count = len(pins["rst"])
    read = random_words(rng, module.parameters["beat_bits"], count)
    log = run_lockstep("icarus", module, pins | {"read_data": read}, unsettled=_UNSETTLED)
    data = [row.tobytes() for row in read]
    told = _expected(pins, data, module.parameters)
    valid, address, outside, there, last, given = (list(row) for row in zip(*told, strict=True))
    for pin, values in (("read_valid", valid), ("outside", outside), ("m_axis_tvalid", there)):
        assert 0 < sum(values) < count
        assert_equal(pin, log[pin][:, 0], np.array(values, np.uint8))
    assert not log["read_hold"].any()
    asked, came = np.flatnonzero(valid), np.flatnonzero(there)
    got = module.ports["read_address"].numbers(log["read_address"][asked])
    assert_equal("addresses", got, np.array(address)[asked])
    assert_equal("tlast", log["m_axis_tlast"][came, 0], np.array(last, np.uint8)[came])
    beats = np.frombuffer(b"".join(given), np.uint8).reshape(len(came), -1)
    assert_equal("beats", log["m_axis_tdata"][came], beats)


test_configurations_that_cannot_work = refused(
    BeatReader,
    [
        ({"ahead": 0}, "ahead must be an integer from 1 to 8, not 0"),
        ({"beat_bits": 0}, "beat_bits must be a positive integer, not 0"),
        ({"address_bits": 13}, "address_bits must be an integer from 14 to 32, not 13"),
    ],
)
