// Units around lanes of functions. A lane stands for any function of its operands: it gives one of them,
// which VARIANT says, and so each of them has to come to it as it should.

module lane_operand #(parameter CHOSEN = 1, CODE = 1) (
  input [31:0] value,
  input [CHOSEN-1:0] chosen,
  input [CODE-1:0] code,
  input [CODE-1:0] code_next,
  output [31:0] result
);
  assign result = `VARIANT == 0 ? value : `VARIANT == 1 ? (CHOSEN > 1 ? chosen : code_next) : code;
endmodule

// A function on every number of a beat: a lane for each, all with the same code.
module activation_specification #(parameter COUNT = 16, CHOSEN = 1, CODE = 2) (
  input [CODE-1:0] code,
  input [32*COUNT-1:0] values,
  input [32*COUNT-1:0] results,
  output holds
);
  wire [COUNT-1:0] same;
  wire [CHOSEN-1:0] chosen = 1 << code;
  genvar index;
  generate for (index = 0; index < COUNT; index = index + 1) begin : of
    wire [31:0] right;
    lane_operand #(.CHOSEN(CHOSEN), .CODE(CODE)) lane (values[32*index +: 32], chosen, code, code, right);
    assign same[index] = right == results[32*index +: 32];
  end endgenerate
  assign holds = &same;
endmodule

module lanes_operand #(parameter COUNT = 16, CODE = 2) (
  input [CODE-1:0] code,
  input [32*COUNT-1:0] values,
  output [32*COUNT-1:0] results
);
  assign results = `VARIANT ? code : values;
endmodule

// Beats through lanes: a result LATENCY steps after its beat, and a step wherever no result has to wait.
module function_stream_specification #(parameter COUNT = 16, CODE = 2, LATENCY = 3) (
  input clk,
  input rst,
  input [32*COUNT-1:0] s_axis_tdata,
  input [CODE-1:0] s_axis_tuser,
  input s_axis_tlast,
  input s_axis_tvalid,
  input s_axis_tready,
  input [32*COUNT-1:0] m_axis_tdata,
  input m_axis_tlast,
  input m_axis_tvalid,
  input m_axis_tready,
  output holds
);
  localparam BEAT = 32 * COUNT;
  reg [LATENCY-1:0] valid, last;
  reg [LATENCY*BEAT-1:0] beats;
  wire step = ~valid[LATENCY-1] | m_axis_tready;
  wire [BEAT-1:0] right;
  lanes_operand #(.COUNT(COUNT), .CODE(CODE)) lanes (s_axis_tuser, s_axis_tdata, right);
  always @(posedge clk) begin
    if (rst) valid <= 0; else if (step) valid <= {valid, s_axis_tvalid};
    if (step) last <= {last, s_axis_tlast};
    if (step) beats <= {beats, right};
  end
  assign holds = s_axis_tready == (step & ~rst) & m_axis_tvalid == valid[LATENCY-1]
    & (~m_axis_tvalid | m_axis_tdata == beats[LATENCY*BEAT-1 -: BEAT] & m_axis_tlast == last[LATENCY-1]);
endmodule
