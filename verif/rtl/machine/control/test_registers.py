"""The registers against the description: values, strobes, programs that end or fail, resets.

What is read, what starts and what interrupts is also proved: for every moment of a command and of
an event, and for counters of all 64 bits, which no simulation can count up to.
"""

from pathlib import Path

import pytest

from mxsafe.machine.configuration import FPGA_MACHINE, SMALL_MACHINE, MachineConfiguration
from mxsafe.machine.description import COUNTERS, ERRORS, REGISTERS, constant_registers
from mxsafe.rtl.machine.control.registers import Registers, RegistersConfiguration
from verif.rtl.machine.control.register_checks import check_registers
from verif.support.manifest import Module
from verif.support.proof import prove
from verif.support.tests import typical
from verif.support.units import generated, mutated

OTHER = MachineConfiguration(rows=8, unit_rows=2, arithmetic="fp12", a_beats=64, data_width=64)

MACHINES = {
    "default": MachineConfiguration(),
    "small": SMALL_MACHINE,
    "fpga": FPGA_MACHINE,
    "other": OTHER,
}


@pytest.mark.parametrize("name", MACHINES)
def test_registers(name: str, simulator: str) -> None:
    machine = MACHINES[name]
    module = generated(Registers(machine=machine))
    check_registers(simulator, module, machine, 5_000)


_RUN = """
  wire expected_stopped = stopped | expected_refused;
  wire expected_taken = expected_control_start & (expected_control_reset
    | ~expected_waits & (stop | ~expected_running & ~expected_stopped));
  wire expected_begins = expected_waits & ~stop & ~expected_control_reset;
  wire expected_ends = expected_running & is_done;
  reg expected_running, expected_done, expected_failed, expected_waits, expected_refused;
  reg expected_aligned;
  reg [63:0] expected_program_base, expected_base;
  reg [31:0] expected_length;
  always @(posedge clk)
    if (rst) begin
      {expected_running, expected_done, expected_failed} <= 0;
      {expected_waits, expected_refused} <= 0;
    end else begin
      expected_waits <= expected_taken | (expected_waits & ~expected_begins
        & ~expected_control_reset);
      expected_running <= expected_begins & expected_aligned
        | (expected_running & ~(expected_ends | expected_stopped | clear));
      expected_refused <= ~clear & (expected_begins & ~expected_aligned | expected_refused);
      expected_done <= ~clear & (expected_ends & ~expected_stopped
        | expected_done & ~expected_begins);
      expected_failed <= expected_stopped & ~clear;
    end
  // What a start keeps is not reset.
  always @(posedge clk)
    if (expected_taken) begin
      expected_program_base <= {expected_program_high, expected_program_low} & ~FINE;
      expected_base <= {expected_base_high, expected_base_low} & ~FINE;
      expected_length <= expected_program_length;
      expected_aligned <= ~|((expected_program_low | expected_base_low) & FINE);
    end
"""
_BUS = """
  wire expected_write = s_axi_awvalid & s_axi_wvalid & s_axi_awready;
  wire expected_read = s_axi_arvalid & s_axi_arready;
  reg expected_write_ready, expected_read_ready;
  always @(posedge clk) begin
    expected_write_ready <= ~rst & s_axi_awvalid & s_axi_wvalid & ~s_axi_awready & ~s_axi_bvalid;
    expected_read_ready <= ~rst & s_axi_arvalid & ~s_axi_arready & ~s_axi_rvalid;
  end
  // An address that is not taken stays.
  reg read_waits;
  reg [TOP:2] read_waits_for;
  always @(posedge clk) begin
    read_waits <= ~rst & s_axi_arvalid & ~s_axi_arready;
    if (rst) read_waits_for <= 0;
    else read_waits_for <= s_axi_araddr[TOP:2];
  end
"""
_STAYS = "assume (~read_waits | (s_axi_arvalid & s_axi_araddr[{top}:2] == read_waits_for));"
_STATES = {
    ("status", "running"): "expected_running | stop | expected_waits",
    ("status", "done"): "expected_done",
    ("status", "error"): "expected_stopped",
}
_EVENTS = {
    "done": "expected_ends & ~expected_stopped",
    "error": "expected_stopped & ~expected_failed & ~stop",
}
"""Events that set a bit of ``interrupt``."""


def _model(machine: MachineConfiguration) -> tuple[str, list[str]]:
    """The description in Verilog, and what is claimed: what is read is what it says."""
    text, claims = "", []
    values = {name: str(value) for name, value in constant_registers(machine).items()}
    top = max(register.address for register in REGISTERS).bit_length() - 1
    text += _BUS.replace("TOP", str(top))
    bits = ", ".join(f"{{8{{s_axi_wstrb[{byte}]}}}}" for byte in reversed(range(4)))
    text += f"  wire [31:0] expected_mask = {{{bits}}};\n"
    held = {}
    for register in REGISTERS:
        name, here = register.name, f"[{top}:2] == {register.address >> 2}"
        if register.access != "read":
            text += f"  wire expected_writes_{name} = expected_write & s_axi_awaddr{here};\n"
        ones = [field for field in register.fields if name in ("control", "interrupt")]
        for field in ones:
            bit = field.offset
            text += (
                f"  wire expected_{name}_{field.name} = expected_writes_{name}"
                f" & expected_mask[{bit}] & s_axi_wdata[{bit}];\n"
            )
        if (
            register.access == "read"
            and name not in values
            and not name.startswith(tuple(COUNTERS))
        ):
            shown = [(f.offset, _STATES.get((name, f.name), name)) for f in register.fields]
            values[name] = " | ".join(f"({what}) << {at}" for at, what in shown)
        if register.access != "read" and not ones:
            ends = [field.offset + field.width for field in register.fields]
            held[name] = (1 << max(ends, default=32)) - 1
    values["error"] = f"stopped ? error : expected_refused ? {ERRORS['alignment']} : 0"
    values["error_descriptor"] = "stopped ? error_number : 0"
    for name, most in held.items():
        kept = f"expected_{name}"
        text += f"  reg [31:0] {kept};\n  always @(posedge clk)\n    if (rst) {kept} <= 0;\n"
        text += f"    else if (expected_writes_{name}) {kept} <= {most} & "
        text += f"({kept} & ~expected_mask | s_axi_wdata & expected_mask);\n"
        values[name] = kept
        claims.append(f"{name}_held == {kept}")
    text += _RUN.replace("FINE", f"64'd{machine.word_bytes - 1}")
    (interrupt,) = (register for register in REGISTERS if register.name == "interrupt")
    for field in interrupt.fields:
        happened = f"expected_happened_{field.name}"
        text += f"  reg {happened};\n  always @(posedge clk) {happened} <= ~rst & ~clear & "
        text += f"({_EVENTS[field.name]} | {happened} & ~expected_interrupt_{field.name});\n"
        claims.append(f"happened[{field.offset}] == {happened}")
    values["interrupt"] = " | ".join(
        f"expected_happened_{field.name} << {field.offset}" for field in interrupt.fields
    )
    for name in COUNTERS:
        count, event = f"expected_{name}", "1" if name == "cycles" else name
        text += f"  reg [63:0] {count};\n  always @(posedge clk)\n"
        text += f"    if (rst | expected_begins) {count} <= 0;\n"
        text += f"    else if (expected_running & {event}) {count} <= {count} + 1;\n"
        values |= {f"{name}_low": f"{count}[31:0]", f"{name}_high": f"{count}[63:32]"}
        claims.append(f"{name}_counter == {count}")
    if machine.target == "fpga":
        claims.append("read_address == read_waits_for")
    text += (
        "  reg [31:0] expected_data;\n  always @(posedge clk)\n    if (rst) expected_data <= 0;\n"
    )
    text += f"    else if (expected_read)\n      case (s_axi_araddr[{top}:2])\n"
    for register in REGISTERS:
        if register.access != "write":
            value = values[register.name]
            text += f"        {register.address >> 2}: expected_data <= {value};\n"
    text += "        default: expected_data <= 0;\n      endcase\n"
    claims += [
        "start == (expected_begins & expected_aligned)",
        "start_waits == expected_waits",
        "is_aligned == expected_aligned",
        "refused == expected_refused",
        "running == expected_running",
        "done == expected_done",
        "failed == expected_failed",
        "s_axi_rdata == expected_data",
        "s_axi_awready == expected_write_ready",
        "s_axi_wready == expected_write_ready",
        "s_axi_arready == expected_read_ready",
        "read_waits | ~s_axi_arready",
        "irq == |(happened & interrupt_enable_held)",
        "program_base == expected_program_base",
        "program_length == expected_length",
        "base == expected_base",
    ]
    return text, [_STAYS.format(top=top), *(f"assert ({claim});" for claim in claims)]


def _prove_values(
    module: Module,
    machine: MachineConfiguration,
    folder: Path,
) -> None:
    """All that is read, all counters and what starts a program are as described, at any time."""
    text, claims = _model(machine)
    prove(module, folder, claims, free="beat_memory", declarations=text)


@pytest.mark.yosys
@pytest.mark.parametrize("name", typical(MACHINES, every=4))
def test_values_are_proved(name: str, tmp_path: Path) -> None:
    machine = MACHINES[name]
    module = generated(Registers(machine=machine))
    _prove_values(module, machine, tmp_path / "proof")


@pytest.mark.yosys
def test_wrong_values_are_not_proved(tmp_path: Path) -> None:
    """An event that is lost where it is cleared; the claim that it breaks is named."""
    machine = MachineConfiguration()
    module = mutated(
        generated(Registers(machine=machine)),
        "else happened <= ",
        "else happened <= ~{ interrupt_error_written, interrupt_done_written } & ",
    )
    claim = r"happened\[\d\] == expected_happened_\w+"
    named = rf"proof did fail: {module.name}: assert \({claim}\) is broken .* where "
    with pytest.raises(AssertionError, match=named):
        _prove_values(module, machine, tmp_path / "proof")


def test_machines_that_differ_have_names_that_differ() -> None:
    names = [
        RegistersConfiguration(machine=one).module_name for one in (MachineConfiguration(), OTHER)
    ]
    assert names[0] == "registers"
    assert names[1].startswith("registers_array")
