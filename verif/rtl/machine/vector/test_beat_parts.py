"""Beats in parts, and parts of beats joined again."""

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Module as Logic
from amaranth.hdl import ResetSignal, Signal
from amaranth.lib.wiring import In, connect, flipped

from mxsafe.rtl.machine.vector.beat_parts import (
    BeatJoiner,
    BeatSplitter,
    BeatSplitterConfiguration,
)
from mxsafe.rtl.machine.vector.folded_chain import FoldedChain
from mxsafe.rtl.machine.vector.vector_chain import VectorChainConfiguration
from mxsafe.rtl.stream.axi_stream import AxiStream
from mxsafe.rtl.unit import Ports, Unit, place
from verif.support.checkers import assert_equal
from verif.support.manifest import Module
from verif.support.simulators import lint
from verif.support.stream_job import check_stream
from verif.support.tests import typical
from verif.support.units import generated, published

COLUMNS = 4


class BothConfiguration(BeatSplitterConfiguration):
    @property
    def base(self) -> str:
        return "splitter_and_joiner"

    @property
    def latency(self) -> int:
        """At most so many cycles from a row to its first beat, behind most of its parts."""
        return super().latency + (self.parts * self.depth if self.rows else 0)


class Both(Unit[BothConfiguration]):
    """A joiner behind a splitter, which is started at once: beats as they came."""

    @property
    def _options(self) -> BeatSplitterConfiguration:
        options = {each.name: getattr(self.config, each.name) for each in fields(self.config)}
        return BeatSplitterConfiguration(**options)

    def ports(self) -> Ports:
        """Those of the splitter, but beats with their `tlast` come in and out."""
        joiner = BeatJoiner(columns=self.config.columns, parts=self.config.parts)
        ports = dict(BeatSplitter(self._options).ports())
        del ports["start"]
        return {
            **ports,
            "s_axis": In(AxiStream(self.config.beat)),
            "m_axis": joiner.ports()["m_axis"],
        }

    def elaborate(self, platform: object) -> Logic:
        m = Logic()
        config = self.config
        splitter: Any = BeatSplitter(self._options)
        joiner: Any = BeatJoiner(
            columns=config.columns, parts=config.parts, depth=config.depth, rows=config.rows
        )
        place(m, platform, "split", splitter)
        place(m, platform, "join", joiner)
        started = Signal(name="has_started")
        m.d.sync += started.eq(1)
        source: Any = self.s_axis
        m.d.comb += [
            splitter.start.eq(~started),
            splitter.beats.eq(self.beats),
            splitter.single.eq(self.single),
            splitter.s_axis.tdata.eq(source.tdata),
            splitter.s_axis.tvalid.eq(source.tvalid & started),
            source.tready.eq(splitter.s_axis.tready & started & ~ResetSignal()),
        ]
        if config.rows:
            m.d.comb += [splitter.by_rows.eq(self.by_rows), joiner.by_rows.eq(self.by_rows)]
        connect(m, splitter.m_axis, joiner.s_axis)
        connect(m, joiner.m_axis, flipped(self.m_axis))
        return m


@pytest.mark.parametrize("parts", typical([4, 2]))
@pytest.mark.parametrize("by_rows", [0, 1, None])
@pytest.mark.parametrize("single", [0, 1])
def test_beats_come_back(parts: int, by_rows: int | None, single: int) -> None:
    """Rows that just fit, or of any length, with pauses on both sides.

    Of single numbers the first lane of each part has them. Without rows part by part there is no
    such pin.
    """
    depth = 8
    rows = by_rows is not None
    both = Both(columns=COLUMNS, parts=parts, depth=depth, beats_bits=5, rows=rows)
    module = generated(both)
    beats = depth if by_rows else depth + 3
    _check(module, beats, 12, by_rows=by_rows, single=single)


@pytest.mark.full
@pytest.mark.parametrize(("by_rows", "rows"), [(1, 6), (0, 2)])
def test_published_ones(by_rows: int, rows: int) -> None:
    """Rows that just fit, and the longest; the joiner is made as the splitter is."""
    units = published(BeatSplitter)  # joiners are from the same file
    splitters = {name: unit for name, unit in units.items() if name.startswith("beat_splitter")}
    assert splitters
    for name, each in splitters.items():
        assert name.replace("splitter", "joiner") in units
        module = generated(Both(**each.parameters))
        beats = each.parameters["depth"] if by_rows else (1 << each.parameters["beats_bits"]) - 1
        _check(module, beats, rows, by_rows=by_rows, single=0)


def _check(module: Module, beats: int, rows: int, *, by_rows: int | None, single: int) -> None:
    """Rows of so many beats come as they went.

    `by_rows` is None if the units have no such pin.
    """
    parts, columns = module.parameters["parts"], module.parameters["columns"]
    rng = np.random.default_rng(3)
    values = rng.integers(0, 1 << 32, (rows * beats, columns), np.uint32)
    last = np.arange(len(values)) % beats == beats - 1
    steady = {"beats": beats, "single": single}
    steady |= {} if by_rows is None else {"by_rows": by_rows}
    streamed = check_stream(
        "icarus",
        module,
        {"s_axis_tdata": values, "s_axis_tlast": last},
        {"m_axis_tlast": last},
        steady=steady,
        clocks=(parts + 3) * len(values),
        stall_in=0.2,
        stall_out=0.2,
    )
    got = streamed.words["m_axis_tdata"].reshape(len(values), -1).view(np.uint32)
    width = columns // parts
    shown = slice(None, None, width if single else 1)
    expected = np.repeat(values[:, :1], parts, axis=1) if single else values
    assert_equal("beats", got[:, shown], expected)


@pytest.mark.parametrize(
    ("columns", "parts", "depth"), [(COLUMNS, 2, 8), (8, 8, 128)], ids=["small", "published"]
)
def test_parts_that_follow_at_once(columns: int, parts: int, depth: int) -> None:
    """The joiner lets the last part of a row wait until it has read the others."""
    beats, rows = 5, 12
    module = generated(BeatJoiner(columns=columns, parts=parts, depth=depth))
    assert lint(module) == ""
    shape = rows, parts, beats, columns // parts
    values = np.random.default_rng(4).integers(0, 1 << 32, shape, np.uint32)
    last = np.arange(rows * parts * beats) % beats == beats - 1
    check_stream(
        "icarus",
        module,
        {"s_axis_tdata": values.reshape(len(last), -1), "s_axis_tlast": last},
        {"m_axis_tdata": values.transpose(0, 2, 1, 3).reshape(rows * beats, columns)},
        steady={"by_rows": 1},
        probe=(2 * beats, 1),
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"parts": 1}, "parts must be from 2 to 16, not 1"),
        ({"parts": 3}, "parts must be a power of two, not 3"),
        ({"columns": 4, "parts": 8}, "parts must be from 2 to 4, not 8"),
        ({"depth": 1}, "depth must be 2 or more, not 1"),
    ],
)
def test_parts_that_there_cannot_be(options: dict[str, int], message: str) -> None:
    for unit in (BeatSplitter, BeatJoiner):
        with pytest.raises(ValueError, match=f"^{message}$"):
            unit(**options)


def test_a_folded_chain() -> None:
    chain = VectorChainConfiguration(columns=4, dividers=2)
    assert FoldedChain(chain=chain, parts=4).config.columns == 16
    with pytest.raises(ValueError, match=r"^parts must be from 2 to 4, not 1$"):
        FoldedChain(chain=chain, parts=1)
