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

// Functions by fewer lanes than a beat has numbers: parts of a beat, lowest first, each from a register;
// their results are joined. A beat is taken with its last part, which ends a row if the beat does.
module narrow_function_specification #(parameter PARTS = 4, BITS = 128) (
  input clk,
  input rst,
  input [PARTS*BITS-1:0] s_axis_tdata,
  input s_axis_tvalid,
  input s_axis_tready,
  input s_axis_tlast,
  input [1:0] s_axis_tuser,
  input [PARTS*BITS-1:0] m_axis_tdata,
  input m_axis_tvalid,
  input m_axis_tready,
  input m_axis_tlast,
  input [1:0] inside_rst_of_each,
  input [BITS-1:0] inside_function_s_axis_tdata,
  input inside_function_s_axis_tvalid,
  input inside_function_s_axis_tready,
  input inside_function_s_axis_tlast,
  input [1:0] inside_function_s_axis_tuser,
  input [BITS-1:0] inside_function_m_axis_tdata,
  input inside_function_m_axis_tvalid,
  input inside_function_m_axis_tready,
  input inside_function_m_axis_tlast,
  input [BITS-1:0] inside_join_s_axis_tdata,
  input inside_join_s_axis_tvalid,
  input inside_join_s_axis_tready,
  input inside_join_s_axis_tlast,
  input [PARTS*BITS-1:0] inside_join_m_axis_tdata,
  input inside_join_m_axis_tvalid,
  input inside_join_m_axis_tready,
  input inside_join_m_axis_tlast,
  output holds
);
  reg held, last;
  reg [BITS-1:0] numbers;
  reg [1:0] chosen;
  reg [$clog2(PARTS)-1:0] part;
  wire moves = ~held | inside_function_s_axis_tready, ends = part == PARTS - 1;
  always @(posedge clk) begin
    held <= ~rst & (moves ? s_axis_tvalid : held);
    part <= rst ? 0 : part + (moves & s_axis_tvalid);
    if (moves) {chosen, last} <= {s_axis_tuser, s_axis_tlast & ends};
    if (moves) numbers <= s_axis_tdata[BITS*part +: BITS];
  end
  wire given = inside_function_s_axis_tvalid == held & (~held | inside_function_s_axis_tdata == numbers
    & inside_function_s_axis_tlast == last & inside_function_s_axis_tuser == chosen);
  wire joined = {inside_join_s_axis_tvalid, inside_join_s_axis_tlast, inside_join_s_axis_tdata}
    == {inside_function_m_axis_tvalid, inside_function_m_axis_tlast, inside_function_m_axis_tdata}
    & inside_function_m_axis_tready == inside_join_s_axis_tready;
  wire leaves = {m_axis_tvalid, m_axis_tlast, m_axis_tdata}
    == {inside_join_m_axis_tvalid, inside_join_m_axis_tlast, inside_join_m_axis_tdata}
    & inside_join_m_axis_tready == m_axis_tready;
  assign holds = s_axis_tready == (moves & ends & ~rst) & given & joined & leaves
    & inside_rst_of_each == {2{rst}};
endmodule

// A chain of units whose beats are parts of those outside, with one number; of rows that are reduced parts
// are rows of their own. Behind the splitters, and behind the chain, parts pass a slice.
module folded_chain_specification (
  input clk,
  input rst,
  input start,
  input [58:0] controls,
  input [12:0] beats,
  input [255:0] s_axis_tdata,
  input s_axis_tvalid,
  input s_axis_tready,
  input [255:0] s_axis_operand_tdata,
  input s_axis_operand_tvalid,
  input s_axis_operand_tready,
  input [31:0] s_axis_gain_tdata,
  input s_axis_gain_tvalid,
  input s_axis_gain_tready,
  input [31:0] s_axis_bias_tdata,
  input s_axis_bias_tvalid,
  input s_axis_bias_tready,
  input [255:0] m_axis_tdata,
  input m_axis_tvalid,
  input m_axis_tready,
  input m_axis_tlast,
  input [6:0] inside_rst_of_each,
  input [2:0] inside_start_of_each,
  input [2:0] inside_by_rows_of_each,
  input [25:0] inside_beats_of_each,
  input [1:0] inside_single_of_each,
  input [255:0] inside_split_beats_s_axis_tdata,
  input inside_split_beats_s_axis_tvalid,
  input inside_split_beats_s_axis_tready,
  input [31:0] inside_split_beats_m_axis_tdata,
  input inside_split_beats_m_axis_tvalid,
  input inside_split_beats_m_axis_tready,
  input inside_split_beats_m_axis_tlast,
  input [255:0] inside_split_operands_s_axis_tdata,
  input inside_split_operands_s_axis_tvalid,
  input inside_split_operands_s_axis_tready,
  input [31:0] inside_split_operands_m_axis_tdata,
  input inside_split_operands_m_axis_tvalid,
  input inside_split_operands_m_axis_tready,
  input [32:0] inside_slice_beats_source_payload,
  input inside_slice_beats_source_valid,
  input inside_slice_beats_source_ready,
  input [32:0] inside_slice_beats_sink_payload,
  input inside_slice_beats_sink_valid,
  input inside_slice_beats_sink_ready,
  input [31:0] inside_slice_operands_source_payload,
  input inside_slice_operands_source_valid,
  input inside_slice_operands_source_ready,
  input [31:0] inside_slice_operands_sink_payload,
  input inside_slice_operands_sink_valid,
  input inside_slice_operands_sink_ready,
  input [32:0] inside_slice_results_source_payload,
  input inside_slice_results_source_valid,
  input inside_slice_results_source_ready,
  input [32:0] inside_slice_results_sink_payload,
  input inside_slice_results_sink_valid,
  input inside_slice_results_sink_ready,
  input [58:0] inside_chain_controls,
  input [31:0] inside_chain_s_axis_tdata,
  input inside_chain_s_axis_tvalid,
  input inside_chain_s_axis_tready,
  input inside_chain_s_axis_tlast,
  input [31:0] inside_chain_s_axis_operand_tdata,
  input inside_chain_s_axis_operand_tvalid,
  input inside_chain_s_axis_operand_tready,
  input [31:0] inside_chain_s_axis_gain_tdata,
  input inside_chain_s_axis_gain_tvalid,
  input inside_chain_s_axis_gain_tready,
  input [31:0] inside_chain_s_axis_bias_tdata,
  input inside_chain_s_axis_bias_tvalid,
  input inside_chain_s_axis_bias_tready,
  input [31:0] inside_chain_m_axis_tdata,
  input inside_chain_m_axis_tvalid,
  input inside_chain_m_axis_tready,
  input inside_chain_m_axis_tlast,
  input [31:0] inside_join_s_axis_tdata,
  input inside_join_s_axis_tvalid,
  input inside_join_s_axis_tready,
  input inside_join_s_axis_tlast,
  input [255:0] inside_join_m_axis_tdata,
  input inside_join_m_axis_tvalid,
  input inside_join_m_axis_tready,
  input inside_join_m_axis_tlast,
  output holds
);
  wire single = controls[3];
  wire [2:0] reduction = controls[10:8];
  reg by_rows;
  always @(posedge clk) by_rows <= reduction != 0;
  wire controlled = inside_rst_of_each == {7{rst}} & inside_start_of_each == {3{start}}
    & inside_by_rows_of_each == {3{by_rows}} & inside_beats_of_each == {beats, beats}
    & inside_single_of_each == {single, 1'b0} & inside_chain_controls == controls;
  wire enter = {inside_split_beats_s_axis_tvalid, inside_split_beats_s_axis_tdata, s_axis_tready}
      == {s_axis_tvalid, s_axis_tdata, inside_split_beats_s_axis_tready}
    & {inside_split_operands_s_axis_tvalid, inside_split_operands_s_axis_tdata, s_axis_operand_tready}
      == {s_axis_operand_tvalid, s_axis_operand_tdata, inside_split_operands_s_axis_tready};
  wire to_slices = {inside_slice_beats_source_valid, inside_slice_beats_source_payload}
      == {inside_split_beats_m_axis_tvalid, inside_split_beats_m_axis_tlast, inside_split_beats_m_axis_tdata}
    & inside_split_beats_m_axis_tready == inside_slice_beats_source_ready
    & {inside_slice_operands_source_valid, inside_slice_operands_source_payload}
      == {inside_split_operands_m_axis_tvalid, inside_split_operands_m_axis_tdata}
    & inside_split_operands_m_axis_tready == inside_slice_operands_source_ready;
  wire to_chain = {inside_chain_s_axis_tvalid, inside_chain_s_axis_tlast, inside_chain_s_axis_tdata}
      == {inside_slice_beats_sink_valid, inside_slice_beats_sink_payload}
    & inside_slice_beats_sink_ready == inside_chain_s_axis_tready
    & {inside_chain_s_axis_operand_tvalid, inside_chain_s_axis_operand_tdata}
      == {inside_slice_operands_sink_valid, inside_slice_operands_sink_payload}
    & inside_slice_operands_sink_ready == inside_chain_s_axis_operand_tready
    & {inside_chain_s_axis_gain_tvalid, inside_chain_s_axis_gain_tdata, s_axis_gain_tready}
      == {s_axis_gain_tvalid, s_axis_gain_tdata, inside_chain_s_axis_gain_tready}
    & {inside_chain_s_axis_bias_tvalid, inside_chain_s_axis_bias_tdata, s_axis_bias_tready}
      == {s_axis_bias_tvalid, s_axis_bias_tdata, inside_chain_s_axis_bias_tready};
  wire leave = {inside_slice_results_source_valid, inside_slice_results_source_payload}
      == {inside_chain_m_axis_tvalid, inside_chain_m_axis_tlast, inside_chain_m_axis_tdata}
    & inside_chain_m_axis_tready == inside_slice_results_source_ready
    & {inside_join_s_axis_tvalid, inside_join_s_axis_tlast, inside_join_s_axis_tdata}
      == {inside_slice_results_sink_valid, inside_slice_results_sink_payload}
    & inside_slice_results_sink_ready == inside_join_s_axis_tready
    & {m_axis_tvalid, m_axis_tlast, m_axis_tdata}
      == {inside_join_m_axis_tvalid, inside_join_m_axis_tlast, inside_join_m_axis_tdata}
    & inside_join_m_axis_tready == m_axis_tready;
  assign holds = controlled & enter & to_slices & to_chain & leave;
endmodule

// A layer: results of an array are rows of features, 16 a tile; of the last tile of a strip no rows follow
// last_row, which ends the strip: they are dropped. The others, +0 where they are negative, are converted
// and packed. What is said with the last beat of a tile is kept for its rows, of two tiles at most. Flags
// are those of the array when a beat comes to be offered. Nothing is claimed once the array takes a beat
// that is not there, gives a row too much, or has more tiles under way.
module layer_specification #(parameter GROUPS = 16) (
  input clk,
  input rst,
  input [639:0] s_axis_a_tdata,
  input s_axis_a_tvalid,
  input s_axis_a_tready,
  input s_axis_a_tlast,
  input [6:0] s_axis_a_tuser,
  input [639:0] s_axis_w_tdata,
  input s_axis_w_tvalid,
  input s_axis_w_tready,
  input s_axis_w_tlast,
  input [639:0] m_axis_tdata,
  input m_axis_tvalid,
  input m_axis_tready,
  input m_axis_tlast,
  input [2:0] m_axis_tuser,
  input [2:0] inside_rst_of_each,
  input [639:0] inside_array_s_axis_a_tdata,
  input inside_array_s_axis_a_tvalid,
  input inside_array_s_axis_a_tready,
  input inside_array_s_axis_a_tlast,
  input [1:0] inside_array_s_axis_a_tuser,
  input [639:0] inside_array_s_axis_w_tdata,
  input inside_array_s_axis_w_tvalid,
  input inside_array_s_axis_w_tready,
  input inside_array_s_axis_w_tlast,
  input [511:0] inside_array_m_axis_c_tdata,
  input inside_array_m_axis_c_tvalid,
  input inside_array_m_axis_c_tready,
  input inside_array_m_axis_c_tlast,
  input [1:0] inside_array_m_axis_c_tuser,
  input [511:0] inside_converter_s_axis_tdata,
  input inside_converter_s_axis_tvalid,
  input inside_converter_s_axis_tready,
  input inside_converter_s_axis_tlast,
  input [128+8*GROUPS-1:0] inside_converter_m_axis_tdata,
  input inside_converter_m_axis_tvalid,
  input inside_converter_m_axis_tready,
  input inside_converter_m_axis_tlast,
  input inside_converter_m_axis_tuser,
  input [128+8*GROUPS-1:0] inside_pack_s_axis_tdata,
  input inside_pack_s_axis_tvalid,
  input inside_pack_s_axis_tready,
  input inside_pack_s_axis_tlast,
  input inside_pack_s_axis_tuser,
  input [639:0] inside_pack_m_axis_tdata,
  input inside_pack_m_axis_tvalid,
  input inside_pack_m_axis_tready,
  input inside_pack_m_axis_tlast,
  input inside_pack_m_axis_tuser,
  // The unit's own registers, for a proof by induction.
  input [4:0] inside_tile_0,
  input [4:0] inside_tile_1,
  input [1:0] inside_tiles_under_way,
  input [3:0] inside_row,
  input inside_drops_rows,
  output holds
);
  reg sane;
  reg [1:0] tiles, flags;
  reg [3:0] row, last_row, next_last_row;
  reg strip_last, next_strip_last;
  wire enters = s_axis_a_tvalid & s_axis_a_tready & s_axis_a_tlast;
  wire row_is_there = inside_array_m_axis_c_tvalid, ends_tile = inside_array_m_axis_c_tlast;
  wire row_leaves = row_is_there & inside_array_m_axis_c_tready, leaves = row_leaves & ends_tile;
  wire drops = strip_last & row > last_row, ends_strip = strip_last & (row == last_row | ends_tile);
  wire [1:0] left = tiles - leaves;
  wire now_sane = sane & ~(inside_array_s_axis_a_tready & ~s_axis_a_tvalid)
    & ~(row_is_there & (tiles == 0 | row == 15 & ~ends_tile)) & ~(enters & left == 2);
  always @(posedge clk) begin
    sane <= rst | now_sane;
    tiles <= rst ? 0 : left + enters;
    row <= rst ? 0 : ~row_leaves ? row : ends_tile ? 0 : row + 1;
    if (leaves) {last_row, strip_last} <= {next_last_row, next_strip_last};
    if (enters & left == 0) {last_row, strip_last} <= s_axis_a_tuser[6:2];
    if (enters) {next_last_row, next_strip_last} <= s_axis_a_tuser[6:2];
    if (rst) flags <= 0; else if (~m_axis_tvalid | m_axis_tready) flags <= inside_array_m_axis_c_tuser;
  end
  wire to_array = {inside_array_s_axis_a_tvalid, inside_array_s_axis_a_tlast, inside_array_s_axis_a_tdata}
      == {s_axis_a_tvalid, s_axis_a_tlast, s_axis_a_tdata}
    & inside_array_s_axis_a_tuser == s_axis_a_tuser[1:0] & s_axis_a_tready == inside_array_s_axis_a_tready
    & {inside_array_s_axis_w_tvalid, inside_array_s_axis_w_tlast, inside_array_s_axis_w_tdata}
      == {s_axis_w_tvalid, s_axis_w_tlast, s_axis_w_tdata}
    & s_axis_w_tready == inside_array_s_axis_w_tready;
  wire is_relu;
  relu_specification #(16) numbers (.values(inside_array_m_axis_c_tdata),
    .results(inside_converter_s_axis_tdata), .holds(is_relu));
  wire to_converter = is_relu & inside_converter_s_axis_tvalid == (row_is_there & ~drops)
    & (~row_is_there | inside_array_m_axis_c_tready == (drops | inside_converter_s_axis_tready))
    & (~inside_converter_s_axis_tvalid | inside_converter_s_axis_tlast == ends_strip);
  wire to_pack = {inside_pack_s_axis_tvalid, inside_pack_s_axis_tlast, inside_pack_s_axis_tuser}
      == {inside_converter_m_axis_tvalid, inside_converter_m_axis_tlast, inside_converter_m_axis_tuser}
    & inside_pack_s_axis_tdata == inside_converter_m_axis_tdata
    & inside_converter_m_axis_tready == inside_pack_s_axis_tready;
  wire same = inside_tiles_under_way == tiles & inside_row == row
    & (tiles != 0 ? inside_drops_rows == drops : row == 0 & ~inside_drops_rows)
    & (tiles != 1 | {last_row, strip_last} == inside_tile_0)
    & (tiles != 2 | {last_row, strip_last} == inside_tile_1)
    & (tiles == 0 | {next_last_row, next_strip_last} == inside_tile_0) & tiles != 3;
  assign holds = ~now_sane | same & inside_rst_of_each == {3{rst}}
    & to_array & to_converter & to_pack
    & {m_axis_tvalid, m_axis_tlast, m_axis_tdata}
      == {inside_pack_m_axis_tvalid, inside_pack_m_axis_tlast, inside_pack_m_axis_tdata}
    & inside_pack_m_axis_tready == m_axis_tready & m_axis_tuser == {flags, inside_pack_m_axis_tuser};
endmodule

// Section 7: beats of floats to codes of MXSF and scales, in blocks of 64 beats of a lane each, or in tiles
// of 8 beats and 8 lanes; tlast ends either early. Beats wait in a memory with their signs, exponents, less
// than 0 for one below a subnormal's, and fractions, until their block is complete; its largest exponent
// fields, of a tile in all its lanes, come along then. A beat leaves from a register. What is so far below
// the largest that its binade is less than -2, half the smallest element, is zero in its code, and so are
// all of a block with NaN or Inf, without their signs. LATER there are slices in front of the memory, with
// the largest of four lanes each, and behind it. Parts may give anything, but nothing is claimed of a
// number above its largest. Parts stand in the order of their names: encoders, largest exponents,
// normalisers.
module mxsf_block_converter_specification #(parameter WIDTH = 16, LATER = 0) (
  input clk,
  input rst,
  input tiles,
  input [32*WIDTH-1:0] s_axis_tdata,
  input s_axis_tvalid,
  input s_axis_tready,
  input s_axis_tlast,
  input [16*WIDTH-1:0] m_axis_tdata,
  input m_axis_tuser,
  input m_axis_tvalid,
  input m_axis_tready,
  input m_axis_tlast,
  input [(LATER?3:1)-1:0] inside_rst_of_each,
  input [32*WIDTH-1:0] inside_word_of_each,
  input [9*WIDTH-1:0] inside_exponent_of_each,
  input [2*7*WIDTH-1:0] inside_fraction_of_each,
  input [2*WIDTH-1:0] inside_sign_of_each,
  input [5*WIDTH-1:0] inside_binade_of_each,
  input [8*WIDTH-1:0] inside_code_of_each,
  input [(LATER?11:9)*WIDTH-1:0] inside_fields_of_each,
  input [(LATER?3:1)*WIDTH-1:0] inside_largest_of_each,
  input [(LATER?27:25)*WIDTH:0] inside_slice_entry_source_payload,
  input inside_slice_entry_source_valid,
  input inside_slice_entry_source_ready,
  input [(LATER?27:25)*WIDTH:0] inside_slice_entry_sink_payload,
  input inside_slice_entry_sink_valid,
  input inside_slice_entry_sink_ready,
  input [17*WIDTH-1:0] inside_waiting_s_axis_tdata,
  input [8*WIDTH:0] inside_waiting_s_axis_tuser,
  input inside_waiting_s_axis_tvalid,
  input inside_waiting_s_axis_tready,
  input inside_waiting_s_axis_tlast,
  input [17*WIDTH-1:0] inside_waiting_m_axis_tdata,
  input [8*WIDTH+3:0] inside_waiting_m_axis_tuser,
  input inside_waiting_m_axis_tvalid,
  input inside_waiting_m_axis_tready,
  input inside_waiting_m_axis_tlast,
  input [25*WIDTH+4:0] inside_slice_waiting_source_payload,
  input inside_slice_waiting_source_valid,
  input inside_slice_waiting_source_ready,
  input [25*WIDTH+4:0] inside_slice_waiting_sink_payload,
  input inside_slice_waiting_sink_valid,
  input inside_slice_waiting_sink_ready,
  // The unit's own registers, for a proof by induction.
  input [5:0] inside_beat_of_block,
  input [8*WIDTH-1:0] inside_largest_before_each,
  output holds
);
  localparam GROUPED = LATER ? 2 * WIDTH : 0;  // bits of the largest exponents of groups
  wire [17*WIDTH-1:0] own, lanes, leaving;
  wire [8*WIDTH-1:0] own_fields, fields, before, largest;
  wire [2*WIDTH-1:0] groups;
  wire [8*WIDTH+3:0] with;
  wire valid, last, entry_right, there, ends_there, exit_right;
  reg is_valid, is_last, ends_block;
  wire moves = ~is_valid | m_axis_tready;
  generate if (LATER) begin : with_slices
    assign {last, groups, fields, lanes} = inside_slice_entry_sink_payload;
    assign valid = inside_slice_entry_sink_valid;
    assign entry_right = inside_slice_entry_source_valid == s_axis_tvalid
      & inside_slice_entry_source_payload
        == {s_axis_tlast, inside_largest_of_each[2*WIDTH-1:0], own_fields, own}
      & s_axis_tready == (inside_slice_entry_source_ready & ~rst)
      & inside_slice_entry_sink_ready == inside_waiting_s_axis_tready;
    assign {with, ends_there, leaving} = inside_slice_waiting_sink_payload;
    assign there = inside_slice_waiting_sink_valid;
    assign exit_right = inside_slice_waiting_source_valid == inside_waiting_m_axis_tvalid
      & inside_slice_waiting_source_payload
        == {inside_waiting_m_axis_tuser, inside_waiting_m_axis_tlast, inside_waiting_m_axis_tdata}
      & inside_waiting_m_axis_tready == inside_slice_waiting_source_ready
      & inside_slice_waiting_sink_ready == moves;
  end else begin : without
    assign {valid, last, fields, lanes} = {s_axis_tvalid, s_axis_tlast, own_fields, own};
    assign entry_right = s_axis_tready == inside_waiting_s_axis_tready;
    assign {there, with} = {inside_waiting_m_axis_tvalid, inside_waiting_m_axis_tuser};
    assign {ends_there, leaving} = {inside_waiting_m_axis_tlast, inside_waiting_m_axis_tdata};
    assign exit_right = inside_waiting_m_axis_tready == (moves & ~rst);
  end endgenerate

  reg [5:0] count;
  wire taken = valid & inside_waiting_s_axis_tready, ends = last | count == (tiles ? 7 : 63);
  always @(posedge clk) begin
    count <= rst ? 0 : ~taken ? count : ends ? 0 : count + 1;
    is_valid <= ~rst & (moves ? there : is_valid);
    if (moves) {is_last, ends_block} <= {ends_there & with[8*WIDTH+3], ends_there};
  end
  wire to_memory = inside_waiting_s_axis_tvalid == valid & inside_waiting_s_axis_tlast == ends
    & inside_waiting_s_axis_tdata == lanes & inside_waiting_s_axis_tuser == {last, largest};

  wire [WIDTH-1:0] right;
  wire [WIDTH/8-1:0] right_tiles;
  wire [WIDTH/4-1:0] right_groups;
  genvar tile, group, lane;
  generate for (tile = 0; tile < WIDTH / 8; tile = tile + 1) begin : of_tile
    if (LATER) assign right_tiles[tile] = inside_fields_of_each[8*WIDTH + 24*tile +: 24]
      == {before[64*tile +: 8], groups[16*tile +: 16]};
    else assign right_tiles[tile] = inside_fields_of_each[72*tile +: 72]
      == {before[64*tile +: 8], own_fields[64*tile +: 64]};
  end
  for (group = 0; group < WIDTH / 4; group = group + 1) begin : of_group
    assign right_groups[group] = !LATER
      | inside_fields_of_each[32*group +: 32] == own_fields[32*group +: 32];
  end
  for (lane = 0; lane < WIDTH; lane = lane + 1) begin : of
    assign own_fields[8*lane +: 8] = s_axis_tdata[32*lane+23 +: 8];
    assign own[17*lane +: 17] = {inside_sign_of_each[WIDTH+lane], inside_exponent_of_each[9*lane +: 9],
      inside_fraction_of_each[7*(WIDTH+lane) +: 7]};
    reg [7:0] so_far;
    wire [7:0] field = fields[8*lane +: 8], of_lane = field > so_far ? field : so_far;
    wire [7:0] of_tile = inside_largest_of_each[GROUPED + lane/8*8 +: 8];
    assign largest[8*lane +: 8] = tiles ? of_tile : of_lane;
    assign before[8*lane +: 8] = so_far;
    always @(posedge clk)
      if (rst) so_far <= 0; else if (taken) so_far <= ends ? 0 : largest[8*lane +: 8];

    reg [6:0] fraction;
    reg signed [8:0] exponent;
    reg sign;
    reg [7:0] most;
    always @(posedge clk) if (moves) {sign, exponent, fraction, most}
      <= {leaving[17*lane +: 17], with[8*lane+3 +: 8]};
    wire special = most == 255;
    wire signed [10:0] below = $signed({3'b0, most}) - exponent - $signed({1'b0, exponent < 0});
    wire signed [4:0] binade = inside_binade_of_each[5*lane +: 5];
    wire is_right = special | below > 12 ? binade < -2 : binade == 10 - below;
    assign right[lane] = inside_word_of_each[32*lane +: 32] == s_axis_tdata[32*lane +: 32]
      & (~is_valid | below < 0 | is_right)
      & (~is_valid | inside_sign_of_each[lane] == (sign & ~special)
        & inside_fraction_of_each[7*lane +: 7] == fraction & m_axis_tdata[8*(WIDTH+lane) +: 8] == most);
  end endgenerate
  assign holds = inside_rst_of_each == {1 + 2*LATER{rst}} & entry_right & to_memory & exit_right & &right
    & &right_tiles & &right_groups & m_axis_tvalid == is_valid
    & (~is_valid | {m_axis_tlast, m_axis_tuser} == {is_last, ends_block})
    & m_axis_tdata[8*WIDTH-1:0] == inside_code_of_each
    & inside_beat_of_block == count & inside_largest_before_each == before;
endmodule

// Arithmetic, a function and a reduction along lanes, each if it is wanted, else beats pass it by; behind a
// norm that is affine the unit of arithmetic stands instead, with a gain as its factor and a bias that is
// added. NARROW functions, the last four, have a unit of their own; the others are eight then, else four.
// Numbers of lane 0 that count are all, 8191, or if causal one more than are before the first row, and with
// each row COLUMNS more. LATER units are told a cycle later what to do, and a slice stands behind each.
// Nothing is claimed once controls want what there is not, nor of a length before rows have begun.
module vector_chain_specification #(parameter COLUMNS = 16, NARROW = 0, SWEEPS = 0, LATER = 0) (
  input clk,
  input rst,
  input start,
  input [(SWEEPS?64:59)-1:0] controls,
  input [32*COLUMNS-1:0] s_axis_tdata,
  input s_axis_tvalid,
  input s_axis_tready,
  input s_axis_tlast,
  input [32*COLUMNS-1:0] s_axis_operand_tdata,
  input s_axis_operand_tvalid,
  input s_axis_operand_tready,
  input [31:0] s_axis_gain_tdata,
  input s_axis_gain_tvalid,
  input s_axis_gain_tready,
  input [31:0] s_axis_bias_tdata,
  input s_axis_bias_tvalid,
  input s_axis_bias_tready,
  input [32*COLUMNS-1:0] m_axis_tdata,
  input m_axis_tvalid,
  input m_axis_tready,
  input m_axis_tlast,
  input [2+NARROW+4*LATER:0] inside_rst_of_each,
  input [32*COLUMNS-1:0] inside_arithmetic_s_axis_tdata,
  input inside_arithmetic_s_axis_tvalid,
  input inside_arithmetic_s_axis_tready,
  input inside_arithmetic_s_axis_tlast,
  input [35-1:0] inside_arithmetic_s_axis_tuser,
  input [32*COLUMNS-1:0] inside_arithmetic_s_axis_operand_tdata,
  input inside_arithmetic_s_axis_operand_tvalid,
  input inside_arithmetic_s_axis_operand_tready,
  input [32*COLUMNS-1:0] inside_arithmetic_m_axis_tdata,
  input inside_arithmetic_m_axis_tvalid,
  input inside_arithmetic_m_axis_tready,
  input inside_arithmetic_m_axis_tlast,
  input [32*COLUMNS-1:0] inside_function_s_axis_tdata,
  input inside_function_s_axis_tvalid,
  input inside_function_s_axis_tready,
  input inside_function_s_axis_tlast,
  input [NARROW+1:0] inside_function_s_axis_tuser,
  input [32*COLUMNS-1:0] inside_function_m_axis_tdata,
  input inside_function_m_axis_tvalid,
  input inside_function_m_axis_tready,
  input inside_function_m_axis_tlast,
  input [32*COLUMNS-1:0] inside_narrow_s_axis_tdata,
  input inside_narrow_s_axis_tvalid,
  input inside_narrow_s_axis_tready,
  input inside_narrow_s_axis_tlast,
  input [2-1:0] inside_narrow_s_axis_tuser,
  input [32*COLUMNS-1:0] inside_narrow_m_axis_tdata,
  input inside_narrow_m_axis_tvalid,
  input inside_narrow_m_axis_tready,
  input inside_narrow_m_axis_tlast,
  input [32*COLUMNS-1:0] inside_rows_s_axis_tdata,
  input inside_rows_s_axis_tvalid,
  input inside_rows_s_axis_tready,
  input inside_rows_s_axis_tlast,
  input [46-1:0] inside_rows_s_axis_tuser,
  input [32*COLUMNS-1:0] inside_rows_m_axis_tdata,
  input inside_rows_m_axis_tvalid,
  input inside_rows_m_axis_tready,
  input inside_rows_m_axis_tlast,
  input inside_rows_is_softmax,
  input inside_rows_centred,
  input inside_rows_summing,
  input [31:0] inside_rows_epsilon,
  input [5:0] inside_rows_sweep,
  input [32*COLUMNS:0] inside_slice_operated_source_payload,
  input inside_slice_operated_source_valid,
  input inside_slice_operated_source_ready,
  input [32*COLUMNS:0] inside_slice_operated_sink_payload,
  input inside_slice_operated_sink_valid,
  input inside_slice_operated_sink_ready,
  input [32*COLUMNS:0] inside_slice_functions_source_payload,
  input inside_slice_functions_source_valid,
  input inside_slice_functions_source_ready,
  input [32*COLUMNS:0] inside_slice_functions_sink_payload,
  input inside_slice_functions_sink_valid,
  input inside_slice_functions_sink_ready,
  input [32*COLUMNS:0] inside_slice_scaled_source_payload,
  input inside_slice_scaled_source_valid,
  input inside_slice_scaled_source_ready,
  input [32*COLUMNS:0] inside_slice_scaled_sink_payload,
  input inside_slice_scaled_sink_valid,
  input inside_slice_scaled_sink_ready,
  input [32*COLUMNS:0] inside_slice_reduced_source_payload,
  input inside_slice_reduced_source_valid,
  input inside_slice_reduced_source_ready,
  input [32*COLUMNS:0] inside_slice_reduced_sink_payload,
  input inside_slice_reduced_sink_valid,
  input inside_slice_reduced_sink_ready,
  output holds
);
  localparam W = 32 * COLUMNS, AXPY = 2, SOFTMAX = 1, LAYER_NORM = 2, RMS_NORM = 3, SUM = 4;
  localparam LARGEST = 1, SQUARES = 3, RESULTS = 4, MOST = 8191;
  wire [2:0] operation = controls[2:0], reduction = controls[10:8];
  wire [3:0] number = controls[7:4];
  wire single = controls[3], causal = controls[11], affine = controls[12];
  wire [13:0] before = controls[26:13];
  wire [31:0] argument = controls[58:27];
  wire [2:0] sweep = SWEEPS ? controls >> 59 : 0;
  wire clear = SWEEPS & controls >> 62, ends = SWEEPS & controls >> 63;
  wire there = operation <= 4 & reduction <= SUM & sweep <= RESULTS
    & (NARROW ? number <= 12 : number <= 5 & number != 2)
    & (~affine | operation == 0 & (reduction == LAYER_NORM | reduction == RMS_NORM));
  reg sane;
  wire now_sane = sane & there;
  always @(posedge clk) sane <= (rst | sane) & there;

  // What units are told, and which of them are wanted.
  wire [2:0] operation_now;
  wire [3:0] number_now;
  wire [31:0] factor;
  wire operates, has_function, has_narrow, reduces, scales, single_now;
  value_later #(3 + 4 + 32 + 1 + 1 + 1, LATER, 0) told (clk, 1'b0,
    {operation, number, argument, single, affine, reduction != 0},
    {operation_now, number_now, factor, single_now, scales, reduces});
  assign operates = operation_now != 0, has_narrow = NARROW & number_now > 8;
  assign has_function = number_now != 0 & ~has_narrow;

  // Beats on their way: whether one is there, whether it ends its row, and its numbers.
  wire [W+1:0] enters = {s_axis_tvalid, s_axis_tlast, s_axis_tdata};
  wire [W+1:0] added = {inside_arithmetic_m_axis_tvalid, inside_arithmetic_m_axis_tlast,
    inside_arithmetic_m_axis_tdata};
  wire [W+1:0] to_operated = operates ? added : enters;
  wire [W+1:0] operated = !LATER ? to_operated
    : {inside_slice_operated_sink_valid, inside_slice_operated_sink_payload};
  wire [W+1:0] to_functions = has_function
      ? {inside_function_m_axis_tvalid, inside_function_m_axis_tlast, inside_function_m_axis_tdata}
    : has_narrow ? {inside_narrow_m_axis_tvalid, inside_narrow_m_axis_tlast, inside_narrow_m_axis_tdata}
    : operated;
  wire [W+1:0] functions = !LATER ? to_functions
    : {inside_slice_functions_sink_valid, inside_slice_functions_sink_payload};
  wire [W+1:0] of_rows = {inside_rows_m_axis_tvalid, inside_rows_m_axis_tlast, inside_rows_m_axis_tdata};
  wire [W+1:0] to_scaled = scales ? added : of_rows;
  wire [W+1:0] scaled = !LATER ? to_scaled
    : {inside_slice_scaled_sink_valid, inside_slice_scaled_sink_payload};
  wire [W+1:0] to_reduced = reduces ? scaled : functions;
  wire [W+1:0] leaves = !LATER ? to_reduced
    : {inside_slice_reduced_sink_valid, inside_slice_reduced_sink_payload};

  // Whether they are taken there.
  wire takes_reduced = LATER ? inside_slice_reduced_source_ready : m_axis_tready;
  wire takes_scaled = LATER ? inside_slice_scaled_source_ready : takes_reduced & reduces;
  wire leaves_functions = reduces ? inside_rows_s_axis_tready : takes_reduced;
  wire takes_functions = LATER ? inside_slice_functions_source_ready : leaves_functions;
  wire leaves_operated = has_function ? inside_function_s_axis_tready
    : has_narrow ? inside_narrow_s_axis_tready : takes_functions;
  wire takes_operated = LATER ? inside_slice_operated_source_ready : leaves_operated;
  wire takes_sum = inside_arithmetic_s_axis_tready, takes_addend = inside_arithmetic_s_axis_operand_tready;

  wire to_arithmetic = (scales
      ? inside_arithmetic_s_axis_tvalid == (of_rows[W+1] & s_axis_gain_tvalid)
        & {inside_arithmetic_s_axis_tlast, inside_arithmetic_s_axis_tdata} == of_rows[W:0]
        & inside_arithmetic_s_axis_tuser == {s_axis_gain_tdata, 1'b1, 2'd2}
        & inside_arithmetic_s_axis_operand_tdata[31:0] == s_axis_bias_tdata
        & inside_arithmetic_s_axis_operand_tvalid == s_axis_bias_tvalid
      : inside_arithmetic_s_axis_tvalid == (s_axis_tvalid & operates)
        & {inside_arithmetic_s_axis_tlast, inside_arithmetic_s_axis_tdata} == enters[W:0]
        & (~operates | inside_arithmetic_s_axis_tuser[1:0] == operation_now - 3'd1)
        & inside_arithmetic_s_axis_tuser[34:2] == {factor, single_now}
        & inside_arithmetic_s_axis_operand_tdata == s_axis_operand_tdata
        & inside_arithmetic_s_axis_operand_tvalid == s_axis_operand_tvalid)
    & s_axis_gain_tready == (scales & takes_sum & of_rows[W+1])
    & s_axis_bias_tready == (scales & takes_addend) & s_axis_operand_tready == (~scales & takes_addend)
    & s_axis_tready == (operates ? takes_sum : takes_operated)
    & inside_arithmetic_m_axis_tready == (scales ? takes_scaled : takes_operated & (operates | LATER));
  wire [3:0] code = NARROW ? number_now - 1 : number_now == 1 ? 0 : number_now - 2;
  wire [3:0] narrow_code = number_now - 9;
  wire to_function = {inside_function_s_axis_tlast, inside_function_s_axis_tdata} == operated[W:0]
    & inside_function_s_axis_tvalid == (operated[W+1] & has_function)
    & (~has_function | inside_function_s_axis_tuser == code)
    & inside_function_m_axis_tready == (takes_functions & (has_function | LATER));
  wire to_narrow = !NARROW
    | {inside_narrow_s_axis_tlast, inside_narrow_s_axis_tdata} == operated[W:0]
    & inside_narrow_s_axis_tvalid == (operated[W+1] & has_narrow)
    & (~has_narrow | inside_narrow_s_axis_tuser == narrow_code)
    & inside_narrow_m_axis_tready == (takes_functions & has_narrow);

  reg [12:0] length;
  reg known;
  wire [14:0] first = before + 1, next = length + COLUMNS;
  wire row_enters = inside_rows_s_axis_tvalid & inside_rows_s_axis_tready & inside_rows_s_axis_tlast;
  always @(posedge clk) begin
    known <= start | known & ~rst;
    if (start) length <= causal & first < MOST ? first : MOST;
    else if (row_enters) length <= next > MOST ? MOST : next;
  end
  wire [1:0] sweep_number = sweep == RESULTS ? 2 : sweep == SQUARES;
  wire to_rows = {inside_rows_s_axis_tlast, inside_rows_s_axis_tdata} == functions[W:0]
    & inside_rows_s_axis_tvalid == (functions[W+1] & reduces)
    & {inside_rows_s_axis_tuser[45], inside_rows_s_axis_tuser[31:0]} == {causal, argument}
    & (~known | inside_rows_s_axis_tuser[44:32] == length)
    & inside_rows_is_softmax == (reduction == SOFTMAX) & inside_rows_centred == (reduction != RMS_NORM)
    & inside_rows_summing == (reduction == SUM) & inside_rows_epsilon == argument
    & (!SWEEPS | inside_rows_sweep
      == {sweep_number, ends, sweep > LARGEST, sweep == LARGEST, start & clear})
    & inside_rows_m_axis_tready == (scales ? takes_sum & s_axis_gain_tvalid : takes_scaled);
  wire slices = !LATER
    | {inside_slice_operated_source_valid, inside_slice_operated_source_payload} == to_operated
    & {inside_slice_functions_source_valid, inside_slice_functions_source_payload} == to_functions
    & {inside_slice_scaled_source_valid, inside_slice_scaled_source_payload} == to_scaled
    & {inside_slice_reduced_source_valid, inside_slice_reduced_source_payload} == to_reduced
    & inside_slice_operated_sink_ready == leaves_operated
    & inside_slice_functions_sink_ready == leaves_functions
    & inside_slice_scaled_sink_ready == takes_reduced & inside_slice_reduced_sink_ready == m_axis_tready;
  assign holds = ~now_sane | inside_rst_of_each == {3 + NARROW + 4*LATER{rst}}
    & to_arithmetic & to_function & to_narrow & to_rows & slices
    & {m_axis_tvalid, m_axis_tlast, m_axis_tdata} == leaves;
endmodule
