"""Cutting runs into bursts: proved for every run, and the proof is shown to be able to fail.

Those of all machines are simulated too: with registers behind them the claims do not hold as they
stand.
"""

from pathlib import Path

import numpy as np
import pytest

from mxsafe.rtl.machine.dma.burst_splitter import BurstSplitter
from verif.support.checkers import assert_equal
from verif.support.manifest import Module
from verif.support.proof import prove_text
from verif.support.simulators import run_lockstep
from verif.support.tests import typical
from verif.support.units import generated, published

_RESET = {"burst_valid": 0}
_CLAIMS = """
  // What the run still has to give, kept apart from the unit.
  reg [{first_top}:0] next_beat;
  reg [{count_top}:0] remaining;
  wire [{count_top}:0] beats = burst_payload[{more_top}:{more_low}] + 1'b1;
  always @(posedge clk) begin
    if (run_valid & run_ready) begin
      next_beat <= run_payload[{first_top}:0];
      remaining <= run_payload[{run_count_top}:{run_count_low}];
    end else if (burst_valid & burst_ready) begin
      next_beat <= next_beat + beats;
      remaining <= remaining - beats;
    end
  end
  always @* begin
    if (run_valid) assume (run_payload[{run_count_top}:{run_count_low}] != 0);
    if (burst_valid) begin
      // What the unit holds is what the run still has to give.
      assert (beats_left != 0);
      assert (beats_left == remaining);
      assert ({{upper_address, lower_address, place}} == next_beat);
      // Bursts follow one another and end with the run.
      assert (burst_payload[63:{byte_bits}] == next_beat);
      assert (beats <= remaining);
      assert ((beats == remaining) == run_ends);
      // None crosses an address that is a multiple of 4 KiB, nor is it too long.
      assert (beats <= {burst});
      assert (({{1'b0, burst_payload[11:0]}} + {beat_bytes} * beats) <= 4096);
      // A burst is as long as it can be.
      assert (run_ends || ((next_beat + beats) & {burst_mask}) == 0);
      assert (burst_payload[{last}] == (run_is_last && run_ends));
    end
    if (burst_valid && !run_ends) assert (!run_ready);
  end
endmodule
"""


def _claims(module: Module) -> str:
    """The unit's text with what is claimed of it."""
    parameters = module.parameters
    run = {name: (offset, width) for name, offset, width in module.ports["run_payload"].fields}
    burst = {name: (at, width) for name, at, width in module.ports["burst_payload"].fields}
    low, width = run["beats"]
    claims = _CLAIMS.format(
        first_top=run["first"][1] - 1,
        count_top=width - 1,
        run_count_low=low,
        run_count_top=low + width - 1,
        more_low=burst["more"][0],
        more_top=sum(burst["more"]) - 1,
        last=burst["last"][0],
        byte_bits=parameters["beat_bytes"].bit_length() - 1,
        beat_bytes=parameters["beat_bytes"],
        burst=parameters["burst"],
        burst_mask=parameters["burst"] - 1,
    )
    return module.sources[0].read_text().replace("endmodule\n", claims)


@pytest.mark.yosys
@pytest.mark.parametrize(
    "options",
    [{}, {"beat_bytes": 4, "burst": 256, "beats_bits": 14}],
    ids=["256 bits", "32 bits"],
)
def test_every_run_is_proved(options: dict[str, int], tmp_path: Path) -> None:
    module = generated(BurstSplitter(**options))
    prove_text(tmp_path, _claims(module), module.name, after_reset=_RESET)


@pytest.mark.yosys
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("beats_left <= { 6'h00, room }", "beats_left < { 6'h00, room }"),
        ("more_to_end = ~ place", "more_to_end = 0"),
        ("next_lower = lower_address + 27'h0000001", "next_lower = lower_address"),
        ("lower_is_full = & lower_address", "lower_is_full = & lower_address[1:0]"),
        ("6'h20 - { 1'h0, place }", "6'h1f - { 1'h0, place }"),
        ("beats_left - { 6'h00, room }", "beats_left - { 7'h00, more_to_end }"),
        ("run_is_last & run_ends", "run_is_last"),
    ],
)
def test_a_wrong_one_is_not_proved(right: str, wrong: str, tmp_path: Path) -> None:
    module = generated(BurstSplitter())
    text = _claims(module)
    assert text.count(right) == 1, f"burst_splitter no longer holds {right!r} once"
    with pytest.raises(AssertionError, match="proof did fail"):
        prove_text(tmp_path, text.replace(right, wrong), module.name, after_reset=_RESET)


@pytest.mark.parametrize("name", typical(published(BurstSplitter), every=3))
def test_runs_of_the_machines(name: str, modules: dict[str, Module]) -> None:
    """Short runs and long ones from any address, with pauses on both sides and resets."""
    module, count, unknown = modules[name], 20_000, 20
    rng = np.random.default_rng(1)
    ports, p = module.ports, module.parameters
    widths = {field: width for field, _, width in ports["run_payload"].fields}
    beats = rng.integers(1, 1 << widths["beats"], count) >> rng.integers(0, widths["beats"], count)
    first = rng.integers(0, 1 << widths["first"], count, np.uint64)
    # Some runs begin a little before a multiple of a power of two, where carries go far.
    powers = np.uint64(1) << rng.integers(1, widths["first"], count, np.uint64)
    before = rng.integers(1, 2 * p["burst"], count, np.uint64)
    first = np.where(rng.random(count) < 0.3, (first | powers - np.uint64(1)) - before, first)
    first = np.where(first >> np.uint64(widths["first"]) > 0, 0, first).astype(object)
    run = {"beats": np.maximum(beats, 1), "first": first, "last": rng.integers(0, 2, count)}
    slow = np.repeat(rng.random((2, count // 50)) < 0.3, 50, axis=1)
    rst = rng.random(count) < 0.002
    rst[:unknown], slow[:, :unknown] = np.arange(unknown) < 2, False
    flags = {
        "rst": rst,
        "run_valid": rng.random(count) < np.where(slow[0], 0.05, 0.9),
        "burst_ready": rng.random(count) < np.where(slow[1], 0.1, 0.95),
    }
    payload = np.stack([run[name] for name, _, _ in ports["run_payload"].fields], axis=1)
    pins = {**flags, "run_payload": payload}
    log = run_lockstep("verilator", module, pins, unsettled=unknown)
    valid, ready = (ports[n].numbers(log[n]) for n in ("burst_valid", "run_ready"))

    waiting: list[tuple[int, int, int]] = []
    clocks: list[int] = []
    expected: list[tuple[int, int, int]] = []
    for clock in range(2, count):
        if valid[clock] and not rst[clock]:
            assert waiting, f"a burst of no run in cycle {clock}"
            clocks.append(clock)
            expected.append(waiting[0])
            if flags["burst_ready"][clock]:
                waiting.pop(0)
        if rst[clock]:
            waiting = []
        elif flags["run_valid"][clock] and ready[clock]:
            at, left = int(run["first"][clock]), int(run["beats"][clock])
            while left:
                beats_here = min(left, p["burst"] - at % p["burst"])
                left -= beats_here
                is_last = int(run["last"][clock] and not left)
                waiting.append((at % (1 << widths["first"]), beats_here - 1, is_last))
                at += beats_here
    known = np.array(clocks) >= unknown
    names = [name for name, _, _ in ports["burst_payload"].fields]
    got = ports["burst_payload"].split(log["burst_payload"])[clocks][known]
    address, more, last = (
        np.array([burst[at] for burst in expected], np.uint64)[known] for at in range(3)
    )
    wanted = {"address": address * np.uint64(p["beat_bytes"]), "more": more, "last": last}
    sum(
        assert_equal(name, got[:, at].astype(np.uint64), wanted[name])
        for at, name in enumerate(names)
    )
