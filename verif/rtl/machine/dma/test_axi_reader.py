"""Reads of memory: random runs of two clients, errors, stops, latency, other sizes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxsafe.rtl.machine.dma.axi_reader import AxiReader
from verif.rtl.machine.dma.memory_port_checks import (
    LIVELY,
    START,
    Traffic,
    check_reader,
    random_runs,
    reader,
)
from verif.support.manifest import Module
from verif.support.proof import not_proved, prove
from verif.support.tests import refused, some, typical
from verif.support.units import published

# Beats that are to come and the bursts that they belong to, counted apart from the unit.
_COUNTS = """
  reg [15:0] beats;
  reg [15:0] bursts;
  always @(posedge clk)
    if (rst) begin
      beats <= 0;
      bursts <= 0;
    end else begin
      beats <= beats + (burst_asked ? burst_from_0[{more_top}:{more_low}] + 16'd1 : 0) - beat_taken;
      bursts <= bursts + burst_asked - (beat_taken & m_axi_rlast);
    end
"""


def _prove_window(module: Module, folder: Path) -> None:
    """The window and the queue of clients hold what is in flight, at any time."""
    low = 64
    more = (module.parameters["burst"] - 1).bit_length()
    window, burst = module.parameters["window"], module.parameters["burst"]
    claims = [
        "assume (!m_axi_rvalid || bursts != 0);",
        "assume (!m_axi_rvalid || beats != 0);",
        f"assert (beats <= {window + burst - 1});",
        "assert (beats == beats_under_way);",
        "assert (bursts == \\tags.tags_held );",
        f"assert (bursts <= {module.parameters['bursts']});",
        "assert (idle == (beats == 0));",
        "assert (!stop || !burst_asked);",
    ]
    counts = _COUNTS.format(more_low=low, more_top=low + more - 1)
    prove(module, folder, claims, free="beat_memory", declarations=counts)


@pytest.mark.yosys
@pytest.mark.parametrize("name", typical(published(AxiReader), every=3))
def test_the_window_is_proved(name: str, tmp_path: Path) -> None:
    _prove_window(published(AxiReader)[name], tmp_path / "proof")


test_a_wrong_window_is_not_proved = not_proved(
    _prove_window,
    AxiReader(),
    (
        "assign window_is_open = ~ beats_under_way[7]",
        "assign window_is_open = ~ tags_full",
    ),
)


def _runs(seed: int, count: int, word_bytes: int) -> list[list[tuple[int, int]]]:
    return [random_runs(seed + at, count, word_bytes, 90, 1024) for at in range(2)]


@pytest.mark.parametrize("traffic", some([LIVELY, Traffic()]), ids=["lively", "calm"])
def test_runs_of_two_clients(simulator: str, traffic: Traffic) -> None:
    module = reader()
    runs = _runs(1, {"icarus": 20, "verilator": 100}[simulator], 32)
    result = check_reader(simulator, module, runs, traffic)
    assert result["longest"] == module.parameters["burst"]


def test_stops_and_errors(simulator: str) -> None:
    """Bursts are completed whenever it is stopped, and the unit runs again after a reset."""
    module = reader()
    stops = (*range(1, 40, 3), 70, 120, 171)
    traffic = Traffic(**{**LIVELY.options, "stops": stops})
    wrong = np.random.default_rng(5).choice(1024, 60, replace=False).tolist()
    check_reader(simulator, module, _runs(2, 20, 32), traffic, wrong_beats=wrong)


@pytest.mark.parametrize(
    "options",
    [
        {"word_bytes": 16, "data_bits": 64, "target": "fpga"},
        pytest.param({"word_bytes": 16, "data_bits": 64}, marks=pytest.mark.variant),
        *typical(
            [
                {"data_bits": 64, "burst": 16},
                {"word_bytes": 16, "data_bits": 32, "burst": 256},
                {"word_bytes": 16, "data_bits": 128, "burst": 1, "window": 16},
            ],
            every=3,
        ),
    ],
    ids=lambda options: "_".join(f"{name}{value}" for name, value in options.items()),
)
@pytest.mark.parametrize("start", typical([LIVELY.start, START]))
def test_other_sizes(options: dict[str, Any], start: int) -> None:
    """Here or, in a variant, at addresses that differ from these in all upper bits."""
    module = reader(**options)
    word_bytes = module.parameters["word_bytes"]
    runs = _runs(3, 25, word_bytes)
    beats = 1024 * word_bytes * 8 // module.parameters["data_bits"]
    wrong = np.random.default_rng(6).choice(beats, 100, replace=False).tolist()
    traffic = Traffic(**{**LIVELY.options, "stops": (9, 30, 77), "start": start})
    check_reader("icarus", module, runs, traffic, wrong_beats=wrong)


def test_latency_of_100_clocks_is_hidden() -> None:
    """A word a cycle, after the first one has come."""
    module = reader()
    traffic = Traffic(latency=(100, 100))
    words = 1000
    run = (START // 32 + 5, words)
    result = check_reader("verilator", module, [[], [run]], traffic)
    assert words + 100 < result["clocks"] <= words + 100 + module.latency + 5


def test_short_runs_take_a_clock_a_word() -> None:
    """Runs of four words, as tiles that are transposed want them, hide the latency too."""
    module = reader()
    traffic = Traffic(latency=(100, 100))
    runs = [(START // 32 + 8 * at, 4) for at in range(120)]
    result = check_reader("verilator", module, [[], runs], traffic)
    assert result["clocks"] <= 480 + 100 + module.latency + 5


def test_first_client_goes_first() -> None:
    """A run of the first client waits for what is in flight, not for the other's whole run."""
    module = reader()
    first = START // 32
    runs = [[(first, 1)], [(first + at, 900) for at in (0, 100)]]
    result = check_reader("verilator", module, runs, Traffic(latency=(20, 20), stall_in=0.4))
    whose = module.ports["words_payload"].split_words(result["words"])["client"][:, 0]
    waited = int(np.flatnonzero(whose == 0)[0])
    assert waited <= module.parameters["window"] + module.parameters["burst"]


test_configurations_that_cannot_work = refused(
    AxiReader,
    [
        ({"word_bytes": 24}, "word_bytes must be a power of two, not 24"),
        ({"data_bits": 512}, "data_bits must be at most 256, the bits of a word, not 512"),
        ({"data_bits": 96}, "data_bits must be a power of two, not 96"),
        ({"data_bits": 4}, "data_bits must be an integer from 8 to 1024, not 4"),
        ({"burst": 256}, "burst must be at most 128 beats of 32 bytes, not 256"),
        ({"burst": 24}, "burst must be a power of two, not 24"),
        ({"burst": 512}, "burst must be an integer from 1 to 256, not 512"),
        ({"window": 100}, "window must be a power of two, not 100"),
        ({"bursts": 1}, "bursts must be 2 or more, not 1"),
    ],
)
