"""DSP blocks of Lattice ECP5, for tools that do not put registers into them by themselves.

Yosys maps a multiplication to a MULT18X18D and leaves the registers around it outside, where the
block alone takes 3.9 ns. `dsp_sources` writes modules that instantiate the block with its input,
pipeline and output registers, under the names of the `DspMultiplier` units that they replace.
Generated files hold both, see `either`.
"""

from collections.abc import Iterable

from mxsafe.rtl.arithmetic.dsp_multiplier import DSP_BITS, DspMultiplier, DspMultiplierConfiguration
from mxsafe.validation import checked

DEFINE = "MXSAFE_ECP5"
"""Macro that generated multipliers test."""
FLATTEN = ("setattr -mod -unset keep_hierarchy *", "flatten", "opt_clean -purge")
"""Commands for Yosys behind synthesis: ABC9 fails on a block with registers among its logic."""


def dsp_units() -> list[DspMultiplier]:
    """All multipliers that can be replaced."""
    return [
        DspMultiplier(DspMultiplierConfiguration(signed=signed, reset=reset))
        for signed in (False, True)
        for reset in (False, True)
    ]


@checked
def dsp_sources(names: Iterable[str]) -> dict[str, str]:
    """By file the Verilog of those files that hold such a multiplier, under its own name."""
    known = {f"{unit.module_name}.v": unit for unit in dsp_units()}
    return {
        name: _source(known[file])
        for name in names
        if (file := str(name).rpartition("/")[2]) in known
    }


@checked
def _source(unit: DspMultiplier) -> str:
    """Verilog of a multiplier made of one MULT18X18D."""
    number = "signed " if unit.config.signed else ""
    last = DSP_BITS - 1
    return f"""\
// {unit.module_name}: a MULT18X18D of Lattice ECP5 with all its registers.
(* keep_hierarchy *)
module {unit.module_name} (
  input clk, input rst, input en,
  input {number}[{last}:0] a, input {number}[{last}:0] b,
  output {number}[{2 * DSP_BITS - 1}:0] product
);
{_block(unit)}endmodule
"""


@checked
def either(unit: DspMultiplier, text: str) -> str:
    """Verilog of a multiplier that is a MULT18X18D where `DEFINE` is defined.

    Parameters
    ----------
    unit : DspMultiplier
    text : str
        Its module, as it is generated.
    """
    head, _, body = text.removesuffix("endmodule\n").partition(";\n")
    number = "signed " if unit.config.signed else ""
    last = DSP_BITS - 1
    return f"""\
`ifdef {DEFINE}
(* keep_hierarchy *)
`endif
{head};
`ifdef {DEFINE}
    input clk, rst, en;
    input {number}[{last}:0] a, b;
    output {number}[{2 * DSP_BITS - 1}:0] product;
{_block(unit)}`else
{body}`endif
endmodule
"""


def _block(unit: DspMultiplier) -> str:
    """A MULT18X18D between the ports of a multiplier."""
    clocked = ",\n    ".join(
        f'.{register}_CLK("CLK0"), .{register}_CE("CE0"), .{register}_RST("RST0")'
        for register in ("REG_INPUTA", "REG_INPUTB", "REG_PIPELINE", "REG_OUTPUT")
    )
    pins = ", ".join(
        f".{port}{bit}({value}[{bit}])"
        for port, value, bits in (
            ("A", "a", DSP_BITS),
            ("B", "b", DSP_BITS),
            ("P", "product", 2 * DSP_BITS),
        )
        for bit in range(bits)
    )
    signs = f"1'b{int(unit.config.signed)}"
    reset = "rst" if unit.config.reset else "1'b0"
    return f"""\
  MULT18X18D #(
    {clocked},
    .SOURCEB_MODE("B_SHIFT"), .RESETMODE("SYNC")
  ) block (
    .CLK0(clk), .CE0(en), .RST0({reset}), .SIGNEDA({signs}), .SIGNEDB({signs}),
    .SOURCEA(1'b0), .SOURCEB(1'b0), {pins}
  );
"""
