"""Rows of products on their way to the vector buffer: addresses and handshakes in every cycle."""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from mxsafe.rtl.machine.gemm.result_rows import ResultRows
from verif.support.checkers import assert_equal
from verif.support.manifest import Module
from verif.support.simulators import run_lockstep
from verif.support.tests import typical
from verif.support.units import published, random_words

_TILES = 5
"""Tiles of each descriptor that runs have cycles for."""
_STOP = 20
"""Cycles of a stop before a reset."""
_PACE = 4
"""For an FPGA so many times the cycles: rows come three cycles apart."""
_CONTROL = ("has_room", "is_only_one", "s_axis_tready", "result_valid", "done", "fault")


class _Rows:
    """The model: pins in each cycle, and what the outputs have to be."""

    def __init__(self, rng: np.random.Generator, module: Module) -> None:
        self._rng, self._sizes = rng, module.parameters
        self._fields = [name for name, _, _ in module.ports["descriptor"].fields]
        self._ends = np.array([1 << width for _, _, width in module.ports["descriptor"].fields])
        self.pins: list[dict[str, int]] = []
        self.descriptors: list[list[int]] = []
        self.told: list[dict[str, int]] = []

    def run(
        self, descriptors: list[dict[str, int]], offers: float, takes: float, rows: int, tiles: int
    ) -> None:
        """Descriptors enter as soon as they may, or later; a reset ends the run.

        Parameters
        ----------
        offers, takes : float
            How often descriptors and rows come, and rows are taken.
        rows : int
            Of a tile.
        tiles : int
            The run has cycles for so many of each descriptor, ended or not.
        """
        waiting, kept = deque(descriptors), deque[Iterator[tuple[int, bool, bool, bool]]]()
        row: tuple[int, bool, bool, bool] | None = None
        paced = "target" in self._sizes
        clocks = tiles * rows * len(descriptors) * (_PACE if paced else 1)
        # For an FPGA: from which cycle on a row may come, and may go; it goes in this cycle.
        comes, may_go, goes_now = 0, 0, False
        stops = clocks - _STOP * int(self._rng.integers(0, 2))
        for clock in range(clocks):
            has_room = len(kept) < self._sizes["under_way"]
            enters = bool(waiting) and has_room and self._rng.random() < offers
            noise = self._rng.integers(0, self._ends).tolist()
            fields = dict(zip(self._fields, noise, strict=True))
            if enters:
                fields |= waiting.popleft()
            if row is None and kept and clock >= comes and self._rng.random() < offers:
                row = next(kept[0])
            address, is_wanted, ends_tile, ends = row or (0, False, False, False)
            stop = clock >= stops
            ready = bool(self._rng.random() < takes) or goes_now  # room stays
            outside = is_wanted and address >= self._sizes["beats"]
            settled = not paced or clock >= may_go
            goes = settled and not stop and (ready and not outside if is_wanted else True)
            writes = is_wanted and not outside and not stop
            if paced:
                goes, goes_now = goes_now, bool(row) and goes and not goes_now
                writes = is_wanted and goes
            is_done = bool(row) and goes and ends
            self.pins.append(
                {
                    "rst": int(clock == clocks - 1),
                    "enters": int(enters),
                    "s_axis_tvalid": int(row is not None),
                    "s_axis_tlast": int(ends_tile),
                    "result_ready": int(ready),
                    "stop": int(stop),
                }
            )
            self.descriptors.append(list(fields.values()))
            self.told.append(
                {
                    "has_room": int(has_room),
                    "is_only_one": int(len(kept) == 1),
                    "s_axis_tready": int(goes) if row else -1,
                    "result_valid": int(writes),
                    "done": int(is_done),
                    "fault": int(outside and settled),
                    "result_address": address,
                }
            )
            if paced and row and goes:
                comes, may_go = clock + 2, clock + (3 if ends else 0)
            if row and goes:
                row = None
            if is_done:
                kept.popleft()
            if enters:
                comes = comes if kept else clock + 3
                kept.append(_rows(fields, rows))


def _rows(fields: Mapping[str, int], rows: int) -> Iterator[tuple[int, bool, bool, bool]]:
    """Address of each row, whether it is written, ends its tile, and ends all of them."""
    for w in range(fields["strips_w"]):
        column = fields["result"] + w * fields["result_stride_w"]
        for a in range(fields["strips_a"]):
            tile = column + a * fields["result_stride_a"]
            at_end = a == fields["strips_a"] - 1
            for row in range(rows):
                is_wanted = bool(fields["write"]) and not (at_end and row >= fields["last_rows"])
                ends = row == rows - 1
                yield tile + row, is_wanted, ends, ends and at_end and w == fields["strips_w"] - 1


def _descriptor(
    rng: np.random.Generator, sizes: Mapping[str, Any], **fields: int
) -> dict[str, int]:
    """Some tiles that fit, if nothing else is said; most of them are written."""
    rows, beats = sizes["rows"], sizes["beats"]
    strips_a, strips_w = rng.integers(1, 4, 2).tolist()
    room = (beats - rows) // (strips_a + strips_w)
    stride_a, stride_w = rng.integers(0, room, 2).tolist()
    reach = (strips_a - 1) * stride_a + (strips_w - 1) * stride_w + rows
    return {
        "result": int(rng.integers(0, beats - reach + 1)),
        "result_stride_a": stride_a,
        "result_stride_w": stride_w,
        "strips_a": strips_a,
        "strips_w": strips_w,
        "last_rows": int(rng.integers(1, rows + 1)),
        "write": int(rng.random() < 0.8),
    } | fields


def _widths(module: Module) -> dict[str, int]:
    return {name: width for name, _, width in module.ports["descriptor"].fields}


def _runs(rng: np.random.Generator, module: Module) -> list[list[dict[str, int]]]:
    """Many descriptors; the last beat of the buffer and the one behind it; counts of each bit."""
    sizes = module.parameters
    rows, beats = sizes["rows"], sizes["beats"]
    widths = _widths(module)
    one = {"strips_a": 1, "strips_w": 1, "last_rows": rows, "write": 1}
    runs = [[_descriptor(rng, sizes) for _ in range(12)] for _ in range(4)]
    for first in (beats - rows, beats - rows + 1):
        runs.append([_descriptor(rng, sizes, **one, result=first) for _ in range(2)])
    # Rows behind the last one are not written, so they may be outside.
    few = one | {"last_rows": 3, "result": beats - 3}
    runs.append([_descriptor(rng, sizes, **few), _descriptor(rng, sizes)])
    for name, other in (("result_stride_a", "strips_a"), ("result_stride_w", "strips_w")):
        strides = [1 << bit for bit in range(widths[name])]
        runs += [
            [_descriptor(rng, sizes, **one | {other: 2, name: stride, "result": 1})]
            for stride in strides
        ]
    for bit in range(beats.bit_length() - 1, widths["result"]):
        runs.append([_descriptor(rng, sizes, **one, result=1 << bit)])
    for strips, other in (("strips_a", "strips_w"), ("strips_w", "strips_a")):
        for bit in range(1, widths[strips]):
            many = one | {strips: (1 << bit) + 2, other: 2, "write": 0}
            runs.append([_descriptor(rng, sizes, **many)])
    return runs


@pytest.mark.parametrize("name", typical(published(ResultRows), every=3))
def test_published_ones(name: str) -> None:
    module = published(ResultRows)[name]
    rng = np.random.default_rng(4)
    model = _Rows(rng, module)
    for number, descriptors in enumerate(_runs(rng, module)):
        offers, takes = [(1.0, 1.0), (0.7, 0.9), (1.0, 0.7)][number % 3]
        model.run(descriptors, offers, takes, module.parameters["rows"], _TILES)
    # Tiles of one row, so that a run sees the ends of the longest loops.
    for one, other in (("strips_a", "strips_w"), ("strips_w", "strips_a")):
        most = (1 << _widths(module)[one]) - 1
        few = {"result": 0, "result_stride_a": 1, "result_stride_w": 1, "last_rows": 1}
        longest = {**few, "write": 1, one: most, other: 1}
        model.run([longest, longest], 0.9, 0.9, 1, 2 * most)
    ports, count = module.ports, len(model.pins)
    words = {pin: np.array([row[pin] for row in model.pins]) for pin in model.pins[0]}
    words["descriptor"] = np.array(model.descriptors, np.int64)
    words["s_axis_tdata"] = random_words(rng, ports["s_axis_tdata"].width, count)
    log = run_lockstep("icarus", module, words, unsettled=1)
    for pin in _CONTROL:
        expected = np.array([row[pin] for row in model.told])
        known = expected >= 0
        assert 0 < expected[known].sum() < count
        assert_equal(pin, log[pin][known, 0].astype(np.int64), expected[known])
    goes = log["result_valid"][:, 0] == 1
    address = np.array([row["result_address"] for row in model.told])
    got = ports["result_address"].numbers(log["result_address"][goes])
    assert_equal("result_address", got, address[goes])
    assert (log["result_halves"][goes] == 3).all()
    assert_equal("result_data", log["result_data"][goes], words["s_axis_tdata"][goes])
