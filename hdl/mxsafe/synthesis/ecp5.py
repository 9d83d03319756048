"""DSP blocks of Lattice ECP5, for tools that do not put registers into them by themselves.

Yosys maps a multiplication to a MULT18X18D and leaves the registers around it outside, where the
block alone takes 3.9 ns. `dsp_sources` writes modules that instantiate the block with its input,
pipeline and output registers, under the names of the `DspMultiplier` units that they replace;
``python -m mxsafe.synthesis.ecp5`` prints them all.
"""

from collections.abc import Iterable

from mxsafe.rtl.arithmetic.dsp_multiplier import (
    DSP_BITS,
    DspMultiplier,
    DspMultiplierConfiguration,
)

__all__ = ["FLATTEN", "dsp_source", "dsp_sources", "dsp_units", "multipliers"]


FLATTEN = ("setattr -mod -unset keep_hierarchy *", "flatten", "opt_clean -purge")
"""What Yosys runs behind its synthesis: ABC9 fails on a block with registers among its logic."""


def multipliers() -> str:
    """Verilog of all multipliers that can be replaced."""
    return "\n".join(dsp_source(unit) for unit in dsp_units())


def dsp_units() -> list[DspMultiplier]:
    """All multipliers that can be replaced."""
    return [
        DspMultiplier(DspMultiplierConfiguration(signed=signed, reset=reset))
        for signed in (False, True)
        for reset in (False, True)
    ]


def dsp_sources(names: Iterable[str]) -> dict[str, str]:
    """By file name the Verilog of those files that hold such a multiplier."""
    known = {f"{unit.module_name}.v": unit for unit in dsp_units()}
    return {name: dsp_source(known[name]) for name in names if name in known}


def dsp_source(unit: DspMultiplier) -> str:
    """Verilog of a multiplier made of one MULT18X18D."""
    number = "signed " if unit.config.signed else ""
    last = DSP_BITS - 1
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
// {unit.module_name}: a MULT18X18D of Lattice ECP5 with all its registers.
(* keep_hierarchy *)
module {unit.module_name} (
  input clk, input rst, input en,
  input {number}[{last}:0] a, input {number}[{last}:0] b,
  output {number}[{2 * DSP_BITS - 1}:0] product
);
  MULT18X18D #(
    {clocked},
    .SOURCEB_MODE("B_SHIFT"), .RESETMODE("SYNC")
  ) block (
    .CLK0(clk), .CE0(en), .RST0({reset}), .SIGNEDA({signs}), .SIGNEDB({signs}),
    .SOURCEA(1'b0), .SOURCEB(1'b0), {pins}
  );
endmodule
"""


if __name__ == "__main__":
    print(multipliers(), end="")
