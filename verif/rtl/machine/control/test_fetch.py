"""Fetch: programs in order, with late words, full queues and errors of every kind."""

from pathlib import Path

import numpy as np
import pytest

from mxsafe.machine.configuration import FPGA_MACHINE, MachineConfiguration
from mxsafe.machine.description import DESCRIPTOR_BYTES, ERRORS
from mxsafe.rtl.machine.control.descriptor_check import DescriptorCheckConfiguration
from mxsafe.rtl.machine.control.fetch import Fetch
from verif.rtl.machine.control.control_checks import (
    check_fetch,
    programs_at_the_top,
    random_programs,
)
from verif.rtl.machine.descriptor_cases import good_descriptor
from verif.support.manifest import Module
from verif.support.proof import not_proved, prove
from verif.support.tests import some, typical
from verif.support.units import generated, published

# Words that have been asked for and are not there, and what the program still has to give, kept
# apart from the unit.
_COUNTS = """
  reg [15:0] coming;
  always @(posedge clk)
    if (rst) coming <= 0;
    else coming <= coming + (run_taken ? {wanted} : 0) - word_valid;
  wire [{first_top}:0] wanted_first = run_payload[{first_top}:0];
  wire [15:0] wanted_words = {wanted};
  reg [{first_top}+1:0] expected_first;  // the top bit says that it is past the last address
  reg [31:0] expected_left, expected_number;
  // Addresses are not reset.
  always @(posedge clk)
    if (start) expected_first <= {{1'b0, address[63:{fine}]}};
    else if (run_valid & run_ready) expected_first <= expected_first + wanted_words;
  always @(posedge clk)
    if (rst) {{expected_left, expected_number}} <= 0;
    else if (start) begin
      expected_left <= length;
      expected_number <= 0;
    end else begin
      if (run_valid & run_ready) expected_left <= expected_left - wanted_words / {words};
      if (descriptor_valid & descriptor_ready) expected_number <= expected_number + 1;
    end
  reg [{verdict_top}:0] expected_verdict;
  always @(posedge clk)
    if (shows & ~judged) expected_verdict <= fetch_failed ? {fetch_error} : \\check.error ;
  // Close to the top one descriptor at a time, and only what is there as a whole.
  wire expected_close = expected_first[{first_top}:0] >= {close};
  wire expected_lost = expected_first > {last};
  wire run_is_wanted = expected_left != 0 && descriptors_ahead <= {most_ahead} && !stop
    && !expected_lost;
  wire is_lost_now = expected_left != 0 && expected_lost && descriptors_ahead == 0;
  wire all_asked = expected_left == 0;
  // For FPGAs a cycle later, and neither in the cycle after a start or a run that was taken.
  reg held_run_is_wanted, held_all_asked, held_is_lost_now;
  always @(posedge clk) held_is_lost_now <= ~rst & is_lost_now;
  always @(posedge clk)
    if (rst | start | (run_valid & run_ready)) {{held_run_is_wanted, held_all_asked}} <= 0;
    else {{held_run_is_wanted, held_all_asked}} <= {{run_is_wanted, all_asked}};
"""
MACHINES = {
    "word": MachineConfiguration(),
    "two words": MachineConfiguration(rows=8),
    "for an FPGA": FPGA_MACHINE,
}


@pytest.mark.parametrize("size", some(MACHINES))
def test_random_programs(size: str, simulator: str) -> None:
    machine = MACHINES[size]
    rng = np.random.default_rng(7)
    programs = random_programs(rng, 40 if simulator == "verilator" else 15, machine)
    word = good_descriptor(rng, "load", machine).to_bytes(DESCRIPTOR_BYTES, "little")
    length = machine.word_bytes
    split = [int.from_bytes(word[i : i + length], "little") for i in range(0, len(word), length)]
    programs.append({"words": split, "address": 5, "errors": []})
    module = generated(Fetch(check=DescriptorCheckConfiguration(machine=machine)))
    check_fetch(simulator, module, machine, programs)


@pytest.mark.parametrize("size", some(MACHINES))
def test_programs_at_the_top(size: str, simulator: str) -> None:
    """Up to the last word of all addresses, and beyond: nothing is asked for at 0."""
    machine = MACHINES[size]
    programs = programs_at_the_top(np.random.default_rng(8), machine)
    module = generated(Fetch(check=DescriptorCheckConfiguration(machine=machine)))
    check_fetch(simulator, module, machine, programs)


def _prove_room(module: Module, folder: Path) -> None:
    """All words of any program are asked for in order, find room, and leave as they came."""
    ahead = module.parameters["ahead"]
    run, word = (
        {name: (low, width) for name, low, width in module.ports[port].fields}
        for port in ("run_payload", "word")
    )
    low, width = run["words"]
    words = 8 * DESCRIPTOR_BYTES // word["data"][1]
    which = "which_word" if words > 1 else "0"
    held = "held_" if module.parameters.get("target") == "fpga" else ""
    claims = [
        "assume (!word_valid || coming != 0);",
        "assume (!start || ended);",
        f"assert (descriptors_ahead <= {ahead});",
        f"assert ({words} * descriptors_ahead == coming + {which} + {words} * (waiting + shows));",
        f"assert (((memory_0_read_address + waiting) & {ahead - 1}) == into);",
        "assert (!judged || shows);",
        "assert (descriptors_left == expected_left);",
        "if (expected_left != 0) assert "
        "({next_word_is_past, next_word_high, next_word_low} == expected_first);",
        "assert (number == expected_number);",
        f"assert (run_valid == {held}run_is_wanted);",
        f"if (run_valid) assert (expected_left != 0 && descriptors_ahead <= {ahead // 2});",
        "if (run_valid) assert (wanted_first == expected_first);",
        "if (run_valid) assert (!expected_lost);",
        f"if (run_valid) assert (wanted_words == {words} * (expected_close ? 1 : "
        f"expected_left < {ahead // 2} ? expected_left : {ahead // 2}));",
        *(["if (run_valid) assert (held_close_to_top == is_close_to_top);"] if held else []),
        f"assert (ended == ({held}all_asked && descriptors_ahead == 0));",
        "assert (\\check.descriptor == descriptor);",
        "assert (verdict == expected_verdict);",
        "assert (descriptor_valid == (judged && verdict == 0 && !stop));",
        f"assert (error == (judged ? verdict : {held}is_lost_now ? {ERRORS['fetch']} : 0));",
    ]
    top = 1 << run["first"][1]
    counts = _COUNTS.format(
        wanted=f"run_payload[{low + width - 1}:{low}]",
        first_top=run["first"][1] - 1,
        fine=64 - run["first"][1],
        words=words,
        close=f"{run['first'][1]}'d{top - words * ahead // 2}",
        last=f"{run['first'][1] + 1}'d{top - words}",
        most_ahead=ahead // 2,
        verdict_top=module.ports["error"].width - 1,
        fetch_error=ERRORS["fetch"],
    )
    prove(module, folder, claims, free="beat_memory", declarations=counts)


@pytest.mark.yosys
@pytest.mark.parametrize("name", typical(published(Fetch), every=3))
def test_room_is_proved(name: str, tmp_path: Path) -> None:
    _prove_room(published(Fetch)[name], tmp_path / "proof")


test_wrong_room_is_not_proved = not_proved(
    _prove_room,
    Fetch(),
    ("assign has_room = descriptors_ahead <= 5'h08", "assign has_room = descriptors_ahead < 10"),
    (
        "descriptors_left - { 27'h0000000, descriptors_asked }",
        "(descriptors_left - { 27'h0000000, descriptors_asked }) & 32'h7fffffff",
    ),
)
