"""Functional coverage counts what is driven, and nothing else."""

from pathlib import Path

import numpy as np
import pytest

import mxsafe as mx
from mxsafe.machine.assembler import Assembler
from mxsafe.machine.configuration import SMALL_MACHINE
from mxsafe.model.schedule import Schedule
from studies.coverage import functional as counted
from verif.rtl import functional

_CODES, _SCALES, _CHANGES, _PLACES, _FIELDS, _FAULTS = functional.crosses()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(functional.VARIABLE, str(tmp_path))
    monkeypatch.setattr(functional, "_seen", set())
    return tmp_path


def _operand(codes: list[int], scales: list[int], axis: int) -> mx.QuantizedTensor:
    shape = (1, len(codes)) if axis == -1 else (len(codes), 1)
    block = len(codes) // len(scales)
    empty = mx.quantize(np.zeros(shape), "mxsf", block=block, axis=axis)
    own = np.array(codes, np.uint8).reshape(shape)
    scaled = np.array(scales, np.uint8).reshape(empty.scales.shape)
    return mx.QuantizedTensor(own, scaled, empty.format, empty.block, empty.axis)


def test_operands_of_an_array(folder: Path) -> None:
    """A row and a column of two blocks, each of a beat of two lanes."""
    a = _operand([0x00, 0x80, 0x7F, 0x01], [127, 254], -1)
    w = _operand([0x01, 0x20, 0xFF, 0x80], [127, 255], -2)
    schedule = Schedule(a, w, arithmetic="exact", rows=1, columns=1, lanes=2)
    functional.products("exact", schedule, pauses=True)
    reached = functional.reached(folder)
    assert reached[_CODES] == {
        ("exact", "mxsf", *pair)
        for pair in (
            ("+0", "+least"),
            ("-0", "+normal"),
            ("+largest", "-largest"),
            ("+least", "-0"),
        )
    }
    assert reached[_SCALES] == {("exact", "32 to 222", "32 to 222"), ("exact", "254", "NaN")}
    assert reached[_CHANGES] == {("exact", "to NaN")}
    places = {("exact", "only", place, "with pauses") for place in ("first", "last")}
    assert reached[_PLACES] == places
    left = counted.summary(folder)[_SCALES]
    assert (left["bins"], len(left["left"])) == (108, 106)


def test_changes_of_scales(folder: Path) -> None:
    """Each class at its borders."""
    for change, label in (
        (-48, "down by more than 47"),
        (-47, "down by 25 to 47"),
        (-25, "down by 25 to 47"),
        (-24, "down by 1 to 24"),
        (-1, "down by 1 to 24"),
        (0, "the same"),
        (1, "up by 1 to 24"),
        (24, "up by 1 to 24"),
        (25, "up by 25 to 47"),
        (47, "up by 25 to 47"),
        (48, "up by more than 47"),
    ):
        a = _operand([1, 1], [100, 100 + change], -1)
        schedule = Schedule(
            a, _operand([1, 1], [127, 127], -2), arithmetic="fp12", rows=1, columns=1, lanes=1
        )
        before = functional.reached(folder)[_CHANGES]
        functional.products("fp12", schedule, pauses=False)
        found = functional.reached(folder)[_CHANGES]
        assert ("fp12", label) in found
        assert found - before <= {("fp12", label)}


def test_descriptors_and_errors(folder: Path) -> None:
    make = Assembler(SMALL_MACHINE)
    one = make.vector(function="gelu", beats=1, to_vector=1, wait="load,gemm")
    functional.descriptors([one], SMALL_MACHINE)
    functional.fault("address", one.encoded())
    functional.fault("fetch", b"")
    reached = functional.reached(folder)
    waits = {value for kind, field, value in reached[_FIELDS] if field == "wait"}
    assert waits == {"load", "gemm"}
    assert ("vector", "function", "gelu") in reached[_FIELDS]
    assert ("vector", "beats", "least") in reached[_FIELDS]
    assert reached[_FAULTS] == {("address", "vector"), ("fetch", "no descriptor")}


def test_bins_that_are_left(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those with a reason are counted apart, and a bin that is none is an error."""
    monkeypatch.setattr(counted, "REASONS", ((_FIELDS, "*, most", "beyond every buffer"),))
    found = counted.summary(folder)
    rows = {name: numbers for name, *numbers in counted.rows(found)[1:]}
    bins = len(functional.crosses()[_FAULTS])
    assert rows[_FAULTS] == [f"{bins}", "0", "0", f"{bins}"]
    assert int(rows[_FIELDS][2]) > 0
    assert f"{_FAULTS}: sweep, vector" in counted.left_without(found)
    functional.fault("sweep", Assembler(SMALL_MACHINE).load(buffer="vector").encoded())
    with pytest.raises(AssertionError, match="has no bins"):
        counted.summary(folder)
