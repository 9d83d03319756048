// What a DSP block of Lattice ECP5 does, as far as the generated multipliers use it: registers with
// a synchronous reset, which goes before the enable, behind factors, within, and behind the product.
/* verilator lint_off DECLFILENAME */
module MULT18X18D #(
  parameter REG_INPUTA_CLK = "NONE",
  parameter REG_INPUTA_CE = "CE0", parameter REG_INPUTA_RST = "RST0",
  parameter REG_INPUTB_CLK = "NONE", parameter REG_INPUTB_CE = "CE0", parameter REG_INPUTB_RST = "RST0",
  parameter REG_PIPELINE_CLK = "NONE", parameter REG_PIPELINE_CE = "CE0", parameter REG_PIPELINE_RST = "RST0",
  parameter REG_OUTPUT_CLK = "NONE", parameter REG_OUTPUT_CE = "CE0", parameter REG_OUTPUT_RST = "RST0",
  parameter SOURCEB_MODE = "B_SHIFT", parameter RESETMODE = "SYNC"
) (
  input CLK0, input CE0, input RST0, input SIGNEDA, input SIGNEDB, input SOURCEA, input SOURCEB,
  input A0, input A1, input A2, input A3, input A4, input A5, input A6, input A7, input A8,
  input A9, input A10, input A11, input A12, input A13, input A14, input A15, input A16,
  input A17, input B0, input B1, input B2, input B3, input B4, input B5, input B6, input B7,
  input B8, input B9, input B10, input B11, input B12, input B13, input B14, input B15,
  input B16, input B17,
  output P0, output P1, output P2, output P3, output P4, output P5, output P6, output P7,
  output P8, output P9, output P10, output P11, output P12, output P13, output P14,
  output P15, output P16, output P17, output P18, output P19, output P20, output P21,
  output P22, output P23, output P24, output P25, output P26, output P27, output P28,
  output P29, output P30, output P31, output P32, output P33, output P34, output P35
);
  wire [17:0] a = {A17, A16, A15, A14, A13, A12, A11, A10, A9, A8, A7, A6, A5, A4, A3, A2, A1, A0};
  wire [17:0] b = {B17, B16, B15, B14, B13, B12, B11, B10, B9, B8, B7, B6, B5, B4, B3, B2, B1, B0};
  reg [17:0] a_held, b_held;
  reg [35:0] inner, behind;
  wire signed [18:0] left = {SIGNEDA & a_held[17], a_held}, right = {SIGNEDB & b_held[17], b_held};
  wire signed [37:0] product = left * right;
  initial if (REG_INPUTA_CLK != "CLK0" || REG_INPUTB_CLK != "CLK0" || REG_PIPELINE_CLK != "CLK0"
              || REG_OUTPUT_CLK != "CLK0" || RESETMODE != "SYNC") $fatal(1, "a register is missing");
  always @(posedge CLK0)
    if (RST0) begin a_held <= 0; b_held <= 0; inner <= 0; behind <= 0; end
    else if (CE0) begin a_held <= a; b_held <= b; inner <= product[35:0]; behind <= inner; end
  assign {P35, P34, P33, P32, P31, P30, P29, P28, P27, P26, P25, P24, P23, P22, P21, P20, P19, P18,
  P17, P16, P15, P14, P13, P12, P11, P10, P9, P8, P7, P6, P5, P4, P3, P2, P1, P0} = behind;
endmodule
