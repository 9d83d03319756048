// Four products of MXSF elements a cycle, added without rounding, and a valid bit beside them.
//
// FPGA chooses the MAC that is built for FPGAs: its registers sit in DSP blocks.
`default_nettype none

module mac_top #(
  parameter FPGA = 0
) (
  input  wire               clk,
  input  wire               rst,       // synchronous, active high
  input  wire               en,        // low: all registers hold
  input  wire               in_valid,
  input  wire [31:0]        a,         // four codes, lane i in bits [8 * i +: 8]
  input  wire [31:0]        w,
  output wire               out_valid,
  output wire signed [26:0] dot        // the sum over 2^-22, before the scales of the blocks
);
  // Cycles from codes to their sum, as the head of the MAC's file says.
  localparam LATENCY = FPGA ? 7 : 2;

  reg [LATENCY-1:0] valid;
  always @(posedge clk)
    if (rst) valid <= {LATENCY{1'b0}};
    else if (en) valid <= {valid[LATENCY-2:0], in_valid};
  assign out_valid = valid[LATENCY-1];

  generate
    if (FPGA) begin : fpga
      safe_mac_exact_fpga mac (.clk(clk), .rst(rst), .en(en), .a(a), .w(w), .dot(dot));
    end else begin : cells
      safe_mac_exact mac (.clk(clk), .rst(rst), .en(en), .a(a), .w(w), .dot(dot));
    end
  endgenerate
endmodule

`default_nettype wire
