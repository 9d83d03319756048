// Units between streams whose lanes or parts are proved by themselves: what these get, and what becomes
// of what they give.

// Lanes of x * factor + addend, whose addend comes DUE steps after x. Added is y, multiplied by y or by
// the factor of the beat; what changes nothing is 1, and -0. A beat with y as its factor takes it along,
// once no beat waits for y. One whose sum is due takes y then, and all wait for it; a result leaves
// meanwhile. With BOTH one y may be for all lanes. Nothing is claimed once an operation comes that is none.
module vector_arithmetic_specification #(parameter LANES = 16, BOTH = 0, SCALES = 1, DUE = 3, LATENCY = 6) (
  input clk,
  input rst,
  input [32*LANES-1:0] s_axis_tdata,
  input s_axis_tvalid,
  input s_axis_tready,
  input s_axis_tlast,
  input [33+BOTH:0] s_axis_tuser,
  input [32*LANES-1:0] s_axis_operand_tdata,
  input s_axis_operand_tvalid,
  input s_axis_operand_tready,
  input [32*LANES-1:0] m_axis_tdata,
  input m_axis_tvalid,
  input m_axis_tready,
  input m_axis_tlast,
  input [LANES-1:0] inside_en_of_each,
  input [32*LANES-1:0] inside_x_of_each,
  input [32*LANES-1:0] inside_factor_of_each,
  input [32*LANES-1:0] inside_addend_of_each,
  input [32*LANES-1:0] inside_result_of_each,
  output holds
);
  localparam ADD = 0, MULTIPLY = 1, AXPY = 2, SCALE = 3;
  wire [1:0] operation = s_axis_tuser[1:0];
  wire is_sum = operation == ADD | operation == AXPY, single = BOTH & s_axis_tuser[2];
  wire is_none = operation == SCALE & !SCALES;
  reg sane;
  wire now_sane = sane & ~(s_axis_tvalid & is_none);
  reg [LATENCY:1] there, sums, lasts, singles;  // beats by the steps that they are behind their entry
  wire waits = |sums[DUE:1], has_room = ~there[LATENCY] | m_axis_tready;
  wire moves = has_room & (~sums[DUE] | s_axis_operand_tvalid);
  wire goes = moves & (operation != MULTIPLY | ~waits & s_axis_operand_tvalid);
  wire uses = sums[DUE] | s_axis_tvalid & operation == MULTIPLY & ~waits;
  wire enters = s_axis_tvalid & goes;
  always @(posedge clk) begin
    sane <= rst | now_sane;
    if (rst) {there, sums} <= 0;
    else if (moves) {there, sums} <= {there[LATENCY-1:1], enters, sums[LATENCY-1:1], enters & is_sum};
    else if (has_room) there[LATENCY] <= 0;
    if (moves) {lasts, singles} <= {lasts[LATENCY-1:1], s_axis_tlast, singles[LATENCY-1:1], single};
  end
  wire [LANES-1:0] right;
  genvar lane;
  generate for (lane = 0; lane < LANES; lane = lane + 1) begin : of
    wire [31:0] own = s_axis_operand_tdata[32*lane +: 32], first = s_axis_operand_tdata[31:0];
    wire [31:0] factor = operation == ADD ? 32'h3f800000
      : operation == MULTIPLY ? (single ? first : own) : s_axis_tuser[2+BOTH +: 32];
    wire [31:0] addend = ~sums[DUE] ? 32'h80000000 : singles[DUE] ? first : own;
    assign right[lane] = (~enters | inside_factor_of_each[32*lane +: 32] == factor)
      & (~moves | ~there[DUE] | inside_addend_of_each[32*lane +: 32] == addend);
  end endgenerate
  assign holds = ~now_sane | &right & inside_en_of_each == {LANES{moves}} & inside_x_of_each == s_axis_tdata
    & (is_none | s_axis_tready == (goes & ~rst)) & s_axis_operand_tready == (has_room & uses & ~rst)
    & m_axis_tvalid == there[LATENCY] & m_axis_tdata == inside_result_of_each
    & (~m_axis_tvalid | m_axis_tlast == lasts[LATENCY]);
endmodule

// Section 7: beats of floats to codes of MXSF and scales, in blocks of so many beats, GROUPS side by side,
// which tlast ends early. A beat waits in a chain, in pieces of eight stages, for the end of its block: a
// stage moves where one at or before it is empty or the first beat leaves. With it waits the largest
// exponent field of the block up to it, and of each number its place, 13 binades or less above nothing, 13
// for that exponent; when it leaves, it goes down by what the largest of the block has grown. What is below
// binade -2, half the smallest element, is zero in its code, and so are all of a block with NaN or Inf,
// without their signs. Parts may give anything, but nothing is claimed of a number above its largest.
// Parts stand in the order of their names: encoders, largest exponents, normalisers, pieces of the chain.
module mxsf_converter_specification #(parameter WIDTH = 16, GROUPS = 1, BEATS = 4) (
  input clk,
  input rst,
  input [32*WIDTH-1:0] s_axis_tdata,
  input s_axis_tvalid,
  input s_axis_tready,
  input s_axis_tlast,
  input [8*(WIDTH+GROUPS)-1:0] m_axis_tdata,
  input m_axis_tuser,
  input m_axis_tvalid,
  input m_axis_tready,
  input m_axis_tlast,
  input [32*WIDTH-1:0] inside_word_of_each,
  input [9*WIDTH-1:0] inside_exponent_of_each,
  input [WIDTH-1:0] inside_subnormal_of_each,
  input [2*7*WIDTH-1:0] inside_fraction_of_each,
  input [2*WIDTH-1:0] inside_sign_of_each,
  input [5*WIDTH-1:0] inside_binade_of_each,
  input [8*WIDTH-1:0] inside_code_of_each,
  input [8*(WIDTH+GROUPS)-1:0] inside_fields_of_each,
  input [8*GROUPS-1:0] inside_largest_of_each,
  input [(BEATS+7)/8*(12*WIDTH+8*GROUPS+1)-1:0] inside_beat_of_each,
  input [(BEATS+7)/8-1:0] inside_beat_valid_of_each,
  input [(BEATS+7)/8-1:0] inside_beat_ends_of_each,
  input [(BEATS+7)/8*(12*WIDTH+8*GROUPS+1)-1:0] inside_waiting_of_each,
  input [BEATS-1:0] inside_valid_of_each,
  input [BEATS-1:0] inside_ends_of_each,
  input [BEATS-1:0] inside_moves_of_each,
  input [BEATS-1:0] inside_shown_of_each,
  input [(BEATS+7)/8*8*GROUPS-1:0] inside_shown_largest_of_each,
  output holds
);
  localparam SPAN = WIDTH / GROUPS, BEAT = 12 * WIDTH + 8 * GROUPS + 1, PIECES = (BEATS + 7) / 8;
  wire [BEATS-1:0] valid = inside_valid_of_each, ends = inside_ends_of_each, right_stages;
  wire leaves = m_axis_tvalid & m_axis_tready, has_room = leaves | ~&valid;
  wire taken = s_axis_tvalid & has_room & ~rst;
  reg [$clog2(BEATS)-1:0] left;
  wire ends_block = s_axis_tlast | left == 0;
  always @(posedge clk) if (rst) left <= BEATS - 1; else if (taken) left <= ends_block ? BEATS - 1 : left - 1;

  wire [BEAT*PIECES-1:0] waiting = inside_waiting_of_each;
  wire [BEAT-1:0] enters = inside_beat_of_each[BEAT-1:0], first = waiting[BEAT*(PIECES-1) +: BEAT];
  wire [WIDTH-1:0] right;
  wire [GROUPS-1:0] right_groups;
  wire [PIECES-1:0] right_pieces;
  genvar stage, piece, group, lane;
  generate for (stage = 0; stage < BEATS; stage = stage + 1) begin : in_chain
    wire is_nearest = ends[stage] & ends >> stage + 1 == 0;
    assign right_stages[stage] = inside_shown_of_each[stage] == is_nearest
      & inside_moves_of_each[stage] == (leaves | ~&valid[BEATS-1:stage]);
  end
  for (piece = 0; piece < PIECES; piece = piece + 1) begin : of_chain
    if (piece == 0)
      assign right_pieces[0] = enters[BEAT-1] == s_axis_tlast & inside_beat_valid_of_each[0] == taken
        & inside_beat_ends_of_each[0] == (taken & ends_block);
    else
      assign right_pieces[piece] = inside_beat_of_each[BEAT*piece +: BEAT] == waiting[BEAT*(piece-1) +: BEAT]
        & inside_beat_valid_of_each[piece] == valid[8*piece-1]
        & inside_beat_ends_of_each[piece] == ends[8*piece-1];
  end
  for (group = 0; group < GROUPS; group = group + 1) begin : of_block
    reg [7:0] before;
    wire [7:0] largest = inside_largest_of_each[8*group +: 8], then = first[12*WIDTH + 8*group +: 8];
    always @(posedge clk) if (rst) before <= 0; else if (taken) before <= ends_block ? 0 : largest;
    wire [7:0] shown [PIECES:0];
    assign shown[0] = 0;
    for (piece = 0; piece < PIECES; piece = piece + 1) begin : one_of
      assign shown[piece+1] = shown[piece] | inside_shown_largest_of_each[8*(GROUPS*piece + group) +: 8];
    end
    wire [7:0] all = shown[PIECES];
    wire special = all == 255;
    wire [8*SPAN-1:0] fields;
    assign right_groups[group] = inside_fields_of_each[8*(SPAN+1)*group +: 8*(SPAN+1)] == {before, fields}
      & enters[12*WIDTH + 8*group +: 8] == largest & m_axis_tdata[8*(WIDTH+group) +: 8] == all;
    for (lane = SPAN * group; lane < SPAN * (group + 1); lane = lane + 1) begin : of
      assign fields[8*(lane-SPAN*group) +: 8] = s_axis_tdata[32*lane+23 +: 8];
      wire signed [8:0] exponent = inside_exponent_of_each[9*lane +: 9];
      wire signed [10:0] below = $signed({3'b0, largest}) - exponent
        - $signed({1'b0, inside_subnormal_of_each[lane]});
      wire [3:0] height = below > 13 ? 0 : 13 - below;
      wire same = inside_word_of_each[32*lane +: 32] == s_axis_tdata[32*lane +: 32]
        & enters[12*lane +: 7] == inside_fraction_of_each[7*(WIDTH+lane) +: 7]
        & (below < 0 | enters[12*lane+7 +: 4] == height)
        & enters[12*lane+11] == inside_sign_of_each[WIDTH+lane];
      wire [3:0] above = first[12*lane+7 +: 4];
      wire signed [4:0] binade = inside_binade_of_each[5*lane +: 5];
      wire signed [9:0] found = above - 3 - (all - then);
      wire is_right = special | found < -2 ? binade < -2 : binade == found;
      assign right[lane] = same & (above > 13 | all < then | is_right)
        & inside_sign_of_each[lane] == (first[12*lane+11] & ~special)
        & inside_fraction_of_each[7*lane +: 7] == first[12*lane +: 7];
    end
  end endgenerate
  assign holds = s_axis_tready == (has_room & ~rst) & &right_stages & &right_pieces & &right_groups & &right
    & m_axis_tvalid == (valid[BEATS-1] & ends != 0) & m_axis_tuser == ends[BEATS-1]
    & m_axis_tlast == first[BEAT-1] & m_axis_tdata[8*WIDTH-1:0] == inside_code_of_each;
endmodule
