module beat_memory #(
  parameter BEAT_BITS = 512,  // bits of a beat
  parameter DEPTH = 512       // beats, at least 2
) (
  input wire clk,
  // It belongs to the interface; nothing is reset.
  /* verilator lint_off UNUSEDSIGNAL */
  input wire rst,
  /* verilator lint_on UNUSEDSIGNAL */
  input wire write_en,                           // the beat is stored
  input wire [$clog2(DEPTH)-1:0] write_address,  // where
  input wire [BEAT_BITS-1:0] write_data,         // the beat
  input wire read_en,                            // read_data changes
  input wire [$clog2(DEPTH)-1:0] read_address,   // what it shows then
  output reg [BEAT_BITS-1:0] read_data           // what stood at the address that was read last
);
  // No port has a reset: tools infer block RAM, and its output register.
  reg [BEAT_BITS-1:0] beats [0:DEPTH-1];

  always @(posedge clk)
    if (write_en) beats[write_address] <= write_data;

  // What it gives of the address that is written in the same cycle is not defined.
  always @(posedge clk)
    if (read_en) read_data <= beats[read_address];
endmodule
