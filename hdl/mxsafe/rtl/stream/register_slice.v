module register_slice #(
  parameter BITS = 64,  // bits of a beat
  parameter HALVED = 0  // 1: a beat every second cycle at most, and half the registers
) (
  input wire clk,
  input wire rst,                       // synchronous, active high
  input wire [BITS-1:0] source_payload, // a beat
  input wire source_valid,              // it is there
  output reg source_ready,              // it is taken, if it is there
  output reg [BITS-1:0] sink_payload,   // the beat that came first
  output reg sink_valid,                // it is there
  input wire sink_ready                 // it is taken, if it is there
);
  wire arrives = source_valid & source_ready;
  wire fills;  // no room is left for another beat

  // Not during a reset, and from a register of its own, because it goes far.
  always @(posedge clk)
    if (rst) source_ready <= 1'b0;
    else source_ready <= ~fills;

  generate
    if (HALVED != 0) begin : halved
      assign fills = sink_valid ? ~sink_ready : arrives;

      always @(posedge clk)
        if (!sink_valid) sink_payload <= source_payload;

      always @(posedge clk)
        if (rst) sink_valid <= 1'b0;
        else sink_valid <= fills;
    end else begin : whole
      // A beat that comes while the first one stays waits behind it.
      reg [BITS-1:0] behind;
      reg is_full;
      wire moves = ~sink_valid | sink_ready;
      assign fills = sink_valid & ~sink_ready & (is_full | arrives);

      always @(posedge clk)
        if (rst) is_full <= 1'b0;
        else is_full <= fills;

      always @(posedge clk)
        if (!is_full) behind <= source_payload;

      always @(posedge clk)
        if (moves) sink_payload <= is_full ? behind : source_payload;

      always @(posedge clk)
        if (rst) sink_valid <= 1'b0;
        else if (moves) sink_valid <= is_full | arrives;
    end
  endgenerate
endmodule
