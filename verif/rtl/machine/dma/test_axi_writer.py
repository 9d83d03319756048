"""Writes to memory: random runs, errors, stops, speed, other sizes."""

from pathlib import Path
from typing import Any

import pytest

from mxsafe.rtl.machine.dma.axi_writer import AxiWriter
from verif.rtl.machine.dma.memory_port_checks import (
    LIVELY,
    START,
    Traffic,
    check_writer,
    separate_runs,
    writer,
)
from verif.support.manifest import Module
from verif.support.proof import not_proved, prove
from verif.support.tests import refused, some, typical
from verif.support.units import published

# Bursts that are not answered and beats that are not sent, counted apart from the unit; and what
# the beat on the bus must be.
_COUNTS = """
  reg [15:0] bursts;
  reg [15:0] owed;
  reg is_last;
  reg is_dropped;
  always @(posedge clk)
    if (rst) begin
      bursts <= 0;
      owed <= 0;
    end else begin
      bursts <= bursts + burst_begins - m_axi_bvalid;
      owed <= owed + (burst_begins ? splitter_burst_payload[{more_top}:{more_low}] + 16'd1 : 0)
              - beat_enters;
    end
  always @(posedge clk)
    if (beat_enters) begin
      is_last <= owed == 1;
      is_dropped <= stop;
    end
"""


def _prove_bursts(module: Module, folder: Path) -> None:
    """Each burst has its beats, the last one says so, and none writes that is to be dropped."""
    low, more = 64, (module.parameters["burst"] - 1).bit_length()
    claims = [
        "assume (!m_axi_bvalid || bursts != 0);",
        "assert (bursts == \\tags.tags_held );",
        f"assert (bursts <= {module.parameters['bursts']});",
        "assert (idle == (bursts == 0));",
        "assert (!stop || !burst_begins);",
        "assert (burst_is_active == (owed != 0));",
        "assert (!burst_is_active || owed == 16'd1 + beats_after_this);",
        "assert (!beat_enters || owed != 0);",
        "assert (!m_axi_wvalid || m_axi_wlast == is_last);",
        "assert (!m_axi_wvalid || !is_dropped || m_axi_wstrb == 0);",
    ]
    counts = _COUNTS.format(more_low=low, more_top=low + more - 1)
    prove(module, folder, claims, free="beat_memory", declarations=counts)


@pytest.mark.yosys
@pytest.mark.parametrize("name", typical(published(AxiWriter), every=3))
def test_bursts_are_proved(name: str, tmp_path: Path) -> None:
    _prove_bursts(published(AxiWriter)[name], tmp_path / "proof")


test_wrong_bursts_are_not_proved = not_proved(
    _prove_bursts,
    AxiWriter(),
    ("may_begin$not  = ~ tags_full", "may_begin$not  = 1'h1"),
)


@pytest.mark.parametrize("traffic", some([LIVELY, Traffic()]), ids=["lively", "calm"])
def test_runs(simulator: str, traffic: Traffic) -> None:
    module = writer()
    words = {"icarus": 1024, "verilator": 2048}[simulator]
    runs = separate_runs(1, 32, 90, words)
    result = check_writer(simulator, module, runs, traffic, memory_words=words)
    assert result["longest"] == module.parameters["burst"]
    assert not result["errors"]


def test_stops(simulator: str) -> None:
    """Bursts are completed whenever it is stopped, with nothing written wrongly."""
    module = writer()
    stops = (*range(1, 40, 3), 70, 120, 171)
    traffic = Traffic(**{**LIVELY.options, "stops": stops})
    runs = separate_runs(2, 32, 60, 512)
    check_writer(simulator, module, runs, traffic, memory_words=512)


def test_errors(simulator: str) -> None:
    """An error is told with the response to its burst."""
    module = writer(burst=16)
    runs = [(START // 32 + 32 * at, 32) for at in range(8)]
    wrong = [32 * 2 + 3, 32 * 2 + 31, 32 * 5]
    result = check_writer(simulator, module, runs, LIVELY, memory_words=256, wrong_beats=wrong)
    assert result["errors"] == [32 * 2 + 16, 32 * 2 + 32, 32 * 5 + 16]


@pytest.mark.parametrize(
    "options",
    [
        {"word_bytes": 16, "data_bits": 64, "target": "fpga"},
        pytest.param({"word_bytes": 16, "data_bits": 64}, marks=pytest.mark.variant),
        *typical(
            [
                {"data_bits": 64, "burst": 16},
                {"word_bytes": 16, "data_bits": 32, "burst": 256},
                {"word_bytes": 16, "data_bits": 128, "burst": 1, "bursts": 2},
            ],
            every=4,
        ),
    ],
    ids=lambda options: "_".join(f"{name}{value}" for name, value in options.items()),
)
@pytest.mark.parametrize("start", typical([LIVELY.start, START]))
def test_other_sizes(options: dict[str, Any], start: int) -> None:
    """Here or, in a variant, at addresses that differ from these in all upper bits.

    At one of them answers are so late that many bursts wait for theirs.
    """
    module = writer(**options)
    runs = separate_runs(3, module.parameters["word_bytes"], 90, 400)
    latest = 20 * module.parameters["bursts"]
    latency = (0, 40) if start == START else (latest, latest)
    changed = {"stops": (*range(9, 60, 7), 77), "start": start, "latency": latency}
    traffic = Traffic(**LIVELY.options | changed)
    check_writer("icarus", module, runs, traffic, memory_words=400)


@pytest.mark.parametrize("words", [1, 500])
def test_a_word_a_clock(words: int) -> None:
    """Runs of one word and of many, with responses that take a while."""
    module = writer()
    runs = [(START // 32 + at, words) for at in range(3, 503, words)]
    result = check_writer("verilator", module, runs, Traffic(latency=(20, 20)))
    assert result["clocks"] <= 500 + 20 + module.latency + 6


test_configurations_that_cannot_work = refused(
    AxiWriter,
    [
        ({"word_bytes": 24}, "word_bytes must be a power of two, not 24"),
        ({"data_bits": 512}, "data_bits must be at most 256, the bits of a word, not 512"),
        ({"burst": 256}, "burst must be at most 128 beats of 32 bytes, not 256"),
        ({"bursts": 12}, "bursts must be a power of two, not 12"),
    ],
)
