"""Operand beats on their way to buffers: all that a writer says in every cycle; what it refuses."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from mxsafe.formats import BF16, MX_FORMATS
from mxsafe.rtl.machine.buffers.operand_writer import TARGETS, OperandWriter
from mxsafe.rtl.machine.ports import KINDS
from mxsafe.rtl.stream.operand_packer import OperandPackerConfiguration
from verif.support.checkers import assert_equal
from verif.support.manifest import Module
from verif.support.simulators import run_lockstep
from verif.support.tests import typical
from verif.support.units import generated, published

_MOST = 120
"""Cycles of a job that does not end by itself."""


@dataclass(frozen=True)
class _Job:
    """Rows of beats for a buffer: by kind where they begin, and what lies between two."""

    target: int
    origin: tuple[int, int]
    stride: tuple[int, int]
    rows: int
    beats: int
    block: int

    def flags(self) -> Iterator[tuple[bool, bool]]:
        """Of each beat whether it ends a block, and a row."""
        for _ in range(self.rows):
            for beat in range(1, self.beats + 1):
                yield beat % self.block == 0 or beat == self.beats, beat == self.beats


def _kinds(parameters: Mapping[str, Any]) -> tuple[str, ...]:
    """Kinds of data: without scales there are codes alone."""
    return KINDS if parameters["groups"] else KINDS[:1]


def _ports(parameters: Mapping[str, Any]) -> list[str]:
    """Ports of the buffers."""
    return [f"{target}_{kind}" for kind in _kinds(parameters) for target in TARGETS]


def _sizes(parameters: Mapping[str, Any]) -> list[list[int]]:
    """By kind beats or scale entries that the buffers hold."""
    entries = [beats // 2 for beats in parameters["beats"]]
    return [parameters["beats"], entries][: len(_kinds(parameters))]


def _beat_bytes(parameters: Mapping[str, Any]) -> tuple[int, int]:
    """Bytes of the codes of a beat, and of it with its scales."""
    scaled = bool(parameters["groups"])
    codes = parameters["width"] * parameters["lanes"] * (1 if scaled else BF16.width // 8)
    return codes, codes + scaled * parameters["width"]


class _Walk:
    """Entries one behind the other, and rows a stride apart."""

    def __init__(self, origin: int, stride: int) -> None:
        self._row, self.here, self._stride = origin, origin, stride

    def step(self, *, ends_row: bool) -> None:
        self.here = self._row + self._stride if ends_row else self.here + 1
        self._row = self.here if ends_row else self._row


class _Writer:
    """The model: pins in each cycle, and what the outputs have to be."""

    def __init__(self, rng: np.random.Generator, parameters: Mapping[str, Any]) -> None:
        self._rng, self._is_later = rng, bool(parameters.get("later"))
        self._sizes, self._kinds = _sizes(parameters), _kinds(parameters)
        self._ports = _ports(parameters)
        _, self._bytes = _beat_bytes(parameters)
        self.pins: list[dict[str, int]] = []
        self.beats: list[bytes] = []
        self.told: list[dict[str, int]] = []

    def run(self, job: _Job, offers: float, takes: float) -> None:
        """A start, and cycles until all is written, or outside for a while; then a reset."""
        self._clock(job, {"start": 1}, self._rng.bytes(self._bytes), {})
        kinds = self._kinds
        walks = [_Walk(job.origin[at], job.stride[at]) for at in range(len(kinds))]
        flags, row = job.flags(), None
        written, beat, left = [False for _ in kinds], b"", job.rows * job.beats
        offered: list[int | None] = [None for _ in kinds]
        """For each kind the buffer, or one more for what is outside; from the cycle before."""
        for clock in range(_MOST):
            if row is None:
                comes = left > 0 and self._rng.random() < offers
                row, beat = next(flags) if comes else None, self._rng.bytes(self._bytes)
            ends_block, ends_row = row or (False, False)
            wanted_now = (row is not None, ends_block)
            wants = [wanted_now[at] and not written[at] for at in range(len(kinds))]
            now: list[int | None] = [
                None
                if not wanted
                else job.target
                if walk.here < sizes[job.target]
                else len(TARGETS)
                for wanted, walk, sizes in zip(wants, walks, self._sizes, strict=True)
            ]
            there = offered if self._is_later else now
            ready = {port: bool(self._rng.random() < takes) for port in self._ports}
            goes = [
                at is not None and at < len(TARGETS) and ready[f"{TARGETS[at]}_{kind}"]
                for at, kind in zip(there, kinds, strict=True)
            ]
            done = all(not want or go for want, go in zip(wants, goes, strict=True))
            told = {f"{port}_valid": 0 for port in self._ports}
            for at, kind, walk in zip(there, kinds, walks, strict=True):
                if at is not None and at < len(TARGETS):
                    told[f"{TARGETS[at]}_{kind}_valid"] = 1
                    told[kind] = walk.here
            told |= {
                "s_axis_tready": int(done),
                "row_written": int(done and ends_row),
                "outside": int(len(TARGETS) in there),
            }
            ends = clock == _MOST - 1 or (not left and not row)
            pins = {f"{port}_ready": int(is_ready) for port, is_ready in ready.items()}
            pins |= {"s_axis_tvalid": int(row is not None), "s_axis_tlast": int(ends_row)}
            pins |= {"s_axis_tuser": int(ends_block)} if len(kinds) > 1 else {}
            pins["rst"] = int(ends)
            self._clock(job, pins, beat, told)
            if ends:
                break
            offered = [None if go or done else at for at, go in zip(now, goes, strict=True)]
            for walk, go in zip(walks, goes, strict=True):
                if go:
                    walk.step(ends_row=ends_row)
            written = [(was or go) and not done for was, go in zip(written, goes, strict=True)]
            if done and row is not None:
                row, left = None, left - 1

    def _clock(self, job: _Job, pins: dict[str, int], beat: bytes, told: dict[str, int]) -> None:
        steady = {"target": job.target}
        for at, kind in enumerate(self._kinds):
            steady |= {f"{kind}_origin": job.origin[at], f"{kind}_stride": job.stride[at]}
        flags = ["rst", "start", "s_axis_tvalid", "s_axis_tlast"]
        flags += ["s_axis_tuser"] if len(self._kinds) > 1 else []
        none = dict.fromkeys((*flags, *(f"{port}_ready" for port in self._ports)), 0)
        self.pins.append(none | steady | pins)
        self.beats.append(beat)
        self.told.append(told)


def _jobs(rng: np.random.Generator, module: Module) -> list[_Job]:
    """For each buffer rows that fit, that end with its last entry, and that go further."""
    beats_held = module.parameters["beats"]
    sizes = beats_held, [beats // 2 for beats in beats_held]
    bits = [
        [module.ports[f"{kind}_{what}"].width for what in ("origin", "stride")]
        for kind in _kinds(module.parameters)
    ]
    bits = [bits[0], bits[-1]]
    jobs = []
    for target in range(len(TARGETS)):
        codes, scales = (each[target] for each in sizes)
        for _ in range(6):
            rows, beats, block = (int(rng.integers(1, most)) for most in (5, 9, 6))
            stride = tuple(int(rng.integers(0, (size - 8) // rows)) for size in (codes, scales))
            origin = tuple(
                int(rng.integers(0, size - 8 - step * (rows - 1)))
                for size, step in zip((codes, scales), stride, strict=True)
            )
            jobs.append(_Job(target, origin, stride, rows, beats, block))
        # All entries up to the last one; codes, or scales, one further.
        for more in ((0, 0), (1, 0), (0, 1)):
            origin = codes - 6 + more[0], scales - 3 + more[1]
            jobs.append(_Job(target, origin, (3, 1), 2, 3, 2))
        # Bits of origins and of strides, one after the other.
        for bit in range(bits[0][0]):
            origin = 1 << bit, 1 << bit % bits[1][0]
            stride = 1 << bit % bits[0][1], 1 << bit % bits[1][1]
            jobs.append(_Job(target, origin, (1, 1), 1, 2, 1))
            jobs.append(_Job(target, (0, 1), stride, 2, 1, 1))
    return jobs


@pytest.mark.parametrize("name", typical(published(OperandWriter), every=3))
def test_published_ones(name: str) -> None:
    """Pauses of the stream and of each buffer; all that is said of what is there."""
    _check("icarus", published(OperandWriter)[name])


def test_numbers_without_scales(simulator: str) -> None:
    packer = OperandPackerConfiguration(format=BF16, width=8)
    module = generated(OperandWriter(packer=packer, beats=(64, 128, 96)))
    assert not [name for name in module.ports if "scales" in name or "tuser" in name]
    _check(simulator, module)


def _check(simulator: str, module: Module) -> None:
    names = _ports(module.parameters)
    rng = np.random.default_rng(5)
    model = _Writer(rng, module.parameters)
    for number, job in enumerate(_jobs(rng, module)):
        model.run(job, *[(1.0, 1.0), (0.7, 0.7), (1.0, 0.5)][number % 3])
    ports = module.ports
    words = {
        pin: ports[pin].words(np.array([row[pin] for row in model.pins])) for pin in model.pins[0]
    }
    beats = np.frombuffer(b"".join(model.beats), np.uint8).reshape(len(model.beats), -1)
    log = run_lockstep(simulator, module, words | {"s_axis_tdata": beats}, unsettled=2)
    runs = np.array([bool(told) for told in model.told])
    for pin in ("s_axis_tready", "row_written", "outside", *(f"{port}_valid" for port in names)):
        expected = np.array([told.get(pin, 0) for told in model.told], np.uint8)
        assert expected.any()
        assert_equal(pin, log[pin][runs, 0], expected[runs])
    split, _ = _beat_bytes(module.parameters)
    for port in names:
        kind = port.rsplit("_")[1]
        at = np.flatnonzero(log[f"{port}_valid"][:, 0])
        place = np.array([model.told[row][kind] for row in at])
        address, halves, data = (log[f"{port}_{pin}"][at] for pin in ("address", "halves", "data"))
        entry = place if kind == "codes" else place // 2
        whole = (1 << ports[f"{port}_halves"].width) - 1
        half = whole + 0 * place if kind == "codes" else 1 << place % 2
        scales = beats[at, split:]
        upper = scales
        if port == "out_scales":  # what is stored by words has 0 behind an entry at an even place
            half, upper = half | 2, np.where(place[:, None] % 2, scales, 0)
        expected = beats[at, :split] if kind == "codes" else np.hstack([scales, upper])
        assert_equal(port, ports[f"{port}_address"].numbers(address), entry)
        assert_equal(port, halves[:, 0].astype(np.int64), half)
        assert_equal(port, data, expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beats": (64, 64)}, "beats must be 3 numbers, not 2"),
        ({"beats": (32, 0, 32)}, "beats must be a positive integer, not 0"),
        ({"beats": (32, 62, 32)}, r"beats must be multiples of 4, not \(32, 62, 32\)"),
        (
            {"beats": (64, 64, 70_000)},
            "beats must be at most 65536, not 70000",
        ),
    ],
)
def test_configurations_that_cannot_work(options: dict[str, Any], message: str) -> None:
    packer = OperandPackerConfiguration(format=MX_FORMATS["mxsf"])
    with pytest.raises(ValueError, match=f"^{message}$"):
        OperandWriter(packer=packer, **options)
