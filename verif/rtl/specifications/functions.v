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

// Values of rows side by side, a row a lane, on their way into a memory of rows: keys, which are in the
// order of the values, 2's complement. NaN has no sign, and is the largest. Of a row as many values
// count as its length says, and with `causal` i more in lane i; the others have the key of -Inf. Values
// for a norm all count, by their magnitudes, and go on as they are. Behind the last beat of a row for
// softmax its largest keys stand until they are taken, with the factor of its last beat.
//
// Rows may come in sweeps. In one for the largest no beat goes on, and the largest keys stand behind
// the last beat only if it ends the sweep: else more of the row comes. In one that streams beats come
// once more, and change no largest key.
module softmax_entry_specification #(parameter LANES = 16, NORMS = 0) (
  input clk,
  input rst,
  input [5:0] sweep,
  input is_softmax,
  input [8*LANES-1:0] largest,
  input [8*LANES-1:0] largest_before,
  input [32*LANES-1:0] s_axis_tdata,
  input s_axis_tvalid,
  input s_axis_tready,
  input s_axis_tlast,
  input [45:0] s_axis_tuser,
  input [32*LANES-1:0] m_axis_tdata,
  input m_axis_tvalid,
  input m_axis_tready,
  input m_axis_tlast,
  input [32*LANES+31:0] m_axis_summary_tdata,
  input m_axis_summary_tvalid,
  input m_axis_summary_tready,
  input m_axis_summary_tlast,
  output holds
);
  localparam [31:0] LOWEST = 32'h807fffff;
  wire sweep_begins = sweep[0], for_largest = sweep[1], streams = sweep[2], sweep_ends = sweep[3];
  wire is_norm = NORMS & ~is_softmax;
  wire [31:0] factor = s_axis_tuser[31:0];
  wire [12:0] length = s_axis_tuser[44:32];
  wire causal = s_axis_tuser[45];

  reg waits, begins, known;
  reg [12:0] passed;
  reg [31:0] factor_kept;
  wire is_free = ~rst & (~waits | streams);
  wire is_ready = is_free & (m_axis_tready | for_largest), taken = is_ready & s_axis_tvalid;
  wire looked = taken & ~streams, ends = looked & s_axis_tlast & (sweep_ends | ~for_largest);
  always @(posedge clk) begin
    waits <= ~rst & ~sweep_begins & (ends & ~is_norm | waits & ~m_axis_summary_tready);
    begins <= rst | sweep_begins | (looked ? s_axis_tlast & ~for_largest : begins);
    known <= ~rst & (known | looked);
    if (rst | taken & s_axis_tlast) passed <= 0;
    else if (taken & passed != 8191) passed <= passed + 1;
    if (looked) factor_kept <= factor;
  end

  wire [LANES-1:0] right;
  genvar lane;
  generate for (lane = 0; lane < LANES; lane = lane + 1) begin : row
    wire [31:0] value = s_axis_tdata[32*lane +: 32];
    wire negative = value[31] & value[30:0] <= 31'h7f800000;
    wire counts = passed < length + (causal ? lane : 0);
    wire [31:0] magnitude = {1'b0, value[30:0]};
    wire [31:0] key = is_norm ? magnitude : ~counts ? LOWEST : negative ? ~magnitude : magnitude;
    reg [31:0] kept;
    wire [31:0] now = begins | $signed(key) > $signed(kept) ? key : kept;
    always @(posedge clk) if (looked) kept <= now;
    wire [31:0] shown = m_axis_summary_tdata[32 + 32*lane +: 32];
    assign right[lane] = (m_axis_tdata[32*lane +: 32] == (is_norm ? {negative, value[30:0]} : key))
      & (~known | shown == kept & $signed(kept) >= $signed(LOWEST))
      & (~is_norm | largest[8*lane +: 8] == (now[30:23] ? now[30:23] : 8'd1))
      & (~NORMS | ~known | largest_before[8*lane +: 8] == (kept[30:23] ? kept[30:23] : 8'd1));
  end endgenerate
  assign holds = &right & s_axis_tready == is_ready & m_axis_tlast == s_axis_tlast
    & m_axis_tvalid == (is_free & s_axis_tvalid & ~for_largest)
    & m_axis_summary_tvalid == waits & m_axis_summary_tlast
    & (~known | m_axis_summary_tdata[31:0] == factor_kept);
endmodule

// The same of one row at a time, whose values stand side by side in the lanes: no sweeps and no norms,
// and how many values count is what its first beat says. The largest key is complete a cycle later.
module softmax_row_entry_specification #(parameter LANES = 16) (
  input clk,
  input rst,
  input [32*LANES-1:0] s_axis_tdata,
  input s_axis_tvalid,
  input s_axis_tready,
  input s_axis_tlast,
  input [44:0] s_axis_tuser,
  input [32*LANES-1:0] m_axis_tdata,
  input m_axis_tvalid,
  input m_axis_tready,
  input m_axis_tlast,
  input [63:0] m_axis_summary_tdata,
  input m_axis_summary_tvalid,
  input m_axis_summary_tready,
  input m_axis_summary_tlast,
  input inside_row_begins,
  input inside_largest_follow,
  input [12:0] inside_values_left,
  input [LANES-1:0] inside_following_count,
  input [8*LANES-1:0] inside_largest_key_each,
  output inside_holds,
  output holds
);
  localparam [31:0] LOWEST = 32'h807fffff;
  function signed [31:0] larger(input signed [31:0] left, input signed [31:0] right);
    larger = left < right ? right : left;
  endfunction

  reg waits, follows, begins, known;
  reg [12:0] left_kept;
  reg [31:0] factor_kept, maximum;
  wire is_free = ~rst & ~waits, taken = is_free & m_axis_tready & s_axis_tvalid;
  wire given = waits & ~follows;
  wire [12:0] left = begins ? s_axis_tuser[44:32] : left_kept;

  wire [LANES-1:0] right, counted;
  wire [LANES/4-1:0] found;
  wire [31:0] key [0:LANES-1];
  genvar lane;
  generate for (lane = 0; lane < LANES; lane = lane + 1) begin : values
    wire [31:0] value = s_axis_tdata[32*lane +: 32];
    wire negative = value[31] & value[30:0] <= 31'h7f800000;
    wire [31:0] magnitude = {1'b0, value[30:0]};
    assign key[lane] = lane >= left ? LOWEST : negative ? ~magnitude : magnitude;
    assign counted[lane] = inside_following_count[lane] == (lane < left_kept);
    assign right[lane] = m_axis_tdata[32*lane +: 32] == key[lane];
  end endgenerate

  // A cycle behind a beat its four largest, each of four lanes, are compared with those before.
  wire [31:0] largest [0:LANES/4];
  assign largest[0] = maximum;
  generate for (lane = 0; lane < LANES; lane = lane + 4) begin : fours
    reg [31:0] largest_key;
    always @(posedge clk) if (taken)
      largest_key <= larger(larger(key[lane], key[lane+1]), larger(key[lane+2], key[lane+3]));
    assign found[lane/4] = inside_largest_key_each[8*lane +: 32] == largest_key;
    assign largest[lane/4+1] = larger(largest[lane/4], largest_key);
  end endgenerate
  always @(posedge clk) begin
    waits <= ~rst & (taken & s_axis_tlast | waits & ~(given & m_axis_summary_tready));
    follows <= ~rst & taken;
    begins <= rst | (taken ? s_axis_tlast : begins);
    known <= ~rst & (known | taken);
    if (taken) left_kept <= left > LANES ? left - LANES : 0;
    if (taken) factor_kept <= s_axis_tuser[31:0];
    if (taken & begins) maximum <= LOWEST;
    else if (follows) maximum <= largest[LANES/4];
  end
  assign inside_holds = inside_row_begins == begins & inside_largest_follow == follows
    & (begins | inside_values_left == left_kept & &counted) & (~follows | &found);
  assign holds = &right & s_axis_tready == (is_free & m_axis_tready)
    & m_axis_tvalid == (is_free & s_axis_tvalid) & m_axis_tlast == s_axis_tlast
    & m_axis_summary_tvalid == given & m_axis_summary_tlast
    & (~known | m_axis_summary_tdata == {maximum, factor_kept});
endmodule
