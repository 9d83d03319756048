// The PLL of an ECP5 for simulations: its output is its input, and it locks after some clocks.
module EHXPLLL #(
  parameter CLKI_DIV = 1, CLKFB_DIV = 1, CLKOP_DIV = 8, CLKOP_CPHASE = 0, CLKOP_FPHASE = 0,
  parameter CLKOP_ENABLE = "", FEEDBK_PATH = "", PLLRST_ENA = "", INTFB_WAKE = "",
  parameter STDBY_ENABLE = "", DPHASE_SOURCE = "", OUTDIVIDER_MUXA = "", OUTDIVIDER_MUXB = "",
  parameter OUTDIVIDER_MUXC = "", OUTDIVIDER_MUXD = ""
) (
  input CLKI, input CLKFB, input RST, input STDBY, input PHASESEL0, input PHASESEL1,
  input PHASEDIR, input PHASESTEP, input PHASELOADREG, input PLLWAKESYNC, input ENCLKOP,
  output CLKOP, output LOCK
);
  reg [4:0] clocks = 0;
  assign CLKOP = CLKI;
  assign LOCK = clocks[4];
  always @(posedge CLKI) if (!LOCK) clocks <= clocks + 1;
endmodule
