// Units that keep something from cycle to cycle: what they give, after a first cycle of reset.

// A queue with room for so many beats: what it shows is what came first, a cycle later or more, and it
// takes a beat while it has room, but not in the cycle after a reset.
module register_slice_specification #(parameter BITS = 64, HALVED = 0) (
  input clk,
  input rst,
  input [BITS-1:0] source_payload,
  input source_valid,
  input source_ready,
  input [BITS-1:0] sink_payload,
  input sink_valid,
  input sink_ready,
  output holds
);
  reg [1:0] held;
  reg was_reset;
  reg [BITS-1:0] first, second;
  wire comes = source_valid & source_ready, leaves = sink_valid & sink_ready;
  wire [1:0] left = held - leaves;
  always @(posedge clk) begin
    was_reset <= rst;
    held <= rst ? 0 : left + comes;
    first <= left ? (leaves ? second : first) : source_payload;
    if (comes) second <= source_payload;
  end
  assign holds = source_ready == (~was_reset & held < (HALVED ? 1 : 2))
    & sink_valid == (held != 0) & (held == 0 | sink_payload == first);
endmodule

// Distances of scales from their anchors, at most the largest of so many bits. An anchor is NaN, 255,
// from the end of a block on whose scale is above it, until a tile starts; then no distance counts.
module scale_distances_specification #(parameter COUNT = 4, BITS = 5) (
  input clk,
  input rst,
  input en,
  input valid,
  input first,
  input ends,
  input [8*COUNT-1:0] scales,
  input [8*COUNT-1:0] anchors,
  input [BITS*COUNT-1:0] distances,
  input [8*COUNT-1:0] guarded,
  output holds
);
  reg [COUNT-1:0] was_broken;
  wire [COUNT-1:0] broken, right;
  always @(posedge clk) if (rst) was_broken <= 0; else if (en & valid) was_broken <= broken;
  genvar index;
  generate for (index = 0; index < COUNT; index = index + 1) begin : side
    wire [7:0] scale = scales[8*index +: 8], anchor = anchors[8*index +: 8];
    wire [7:0] distance = anchor - scale, most = {BITS{1'b1}};
    assign broken[index] = valid & ends & scale > anchor | ~first & was_broken[index];
    assign right[index] = guarded[8*index +: 8] == (broken[index] ? 8'd255 : anchor)
      & (scale > anchor | distances[BITS*index +: BITS] == (distance > most ? most : distance));
  end endgenerate
  assign holds = &right;
endmodule

// Entries one after the other, in rows of which each begins a stride behind the one before. What has
// once been 2^BITS or more stays there; an address is said unless it is outside, DEPTH or more.
module row_address_generator_specification #(
  parameter DEPTH = 2048, BITS = 14, STRIDE = 14, LATER = 0
) (
  input clk,
  input rst,
  input start,
  input [BITS-1:0] origin,
  input [STRIDE-1:0] stride,
  input step,
  input ends_row,
  input [$clog2(DEPTH)-1:0] address,
  input outside,
  output holds
);
  reg on, was_on, was_outside, beyond, row_beyond;
  reg [BITS-1:0] here, row;
  wire [BITS:0] next = ends_row ? row + stride : here + 1;
  wire next_beyond = next[BITS] | (ends_row ? row_beyond : beyond);
  wire is_outside = beyond | here >= DEPTH;
  always @(posedge clk) begin
    was_outside <= is_outside;
    was_on <= on & ~rst;
    on <= start | on & ~rst;
    if (start) begin
      {beyond, here} <= origin;
      {row_beyond, row} <= origin;
    end else if (step) begin
      {beyond, here} <= {next_beyond, next[BITS-1:0]};
      if (ends_row) {row_beyond, row} <= {next_beyond, next[BITS-1:0]};
    end
  end
  assign holds = ~on | (is_outside | address == here)
    & (LATER ? ~was_on | outside == was_outside : outside == is_outside);
endmodule

// The addresses start + i0 * step_0 + i1 * step_1 + ..., i0 changing fastest. Each loop knows where its
// turn began: the innermost one with turns left goes on a step from there, those within it begin again.
// The top bit of an address stays set once a sum has reached it. Behind the last one, and when a loop
// has no turns, anything comes.
module address_generator_specification #(
  parameter LOOPS = 4, COUNT = 12, STEP = 15, START = 17, BITS = 18, PACED = 0
) (
  input clk,
  input rst,
  input begins,
  input [START-1:0] start,
  input [COUNT-1:0] count_0,
  input [COUNT-1:0] count_1,
  input [COUNT-1:0] count_2,
  input [COUNT-1:0] count_3,
  input [STEP-1:0] step_0,
  input [STEP-1:0] step_1,
  input [STEP-1:0] step_2,
  input [STEP-1:0] step_3,
  input advance,
  input [BITS-1:0] address,
  input ends_run,
  input last,
  input last_turn,
  // The unit's own registers, for a proof by induction.
  input [COUNT-1:0] inside_turns_left_0,
  input [COUNT-1:0] inside_turns_left_1,
  input [COUNT-1:0] inside_turns_left_2,
  input [COUNT-1:0] inside_turns_left_3,
  input [BITS-1:0] inside_turn_of_1,
  input [BITS-1:0] inside_turn_of_2,
  input [BITS-1:0] inside_turn_of_3,
  output holds
);
  wire [4*COUNT-1:0] counts = {count_3, count_2, count_1, count_0};
  wire [4*STEP-1:0] steps = {step_3, step_2, step_1, step_0};
  reg on, calm;  // paced, it advances in every second cycle at most, and says then what ends
  wire [4*COUNT-1:0] lefts = {
    inside_turns_left_3, inside_turns_left_2, inside_turns_left_1, inside_turns_left_0};
  wire [4*BITS-1:0] begans = {inside_turn_of_3, inside_turn_of_2, inside_turn_of_1, address};
  wire [LOOPS-1:0] ends, none, same;
  genvar index;
  generate for (index = 0; index < LOOPS; index = index + 1) begin : of
    assign none[index] = counts[COUNT*index +: COUNT] == 0;
    reg [COUNT-1:0] left;
    reg [BITS-1:0] began;
    assign ends[index] = left == 1;
    assign same[index] = left == lefts[COUNT*index +: COUNT] & began == begans[BITS*index +: BITS];
    wire [BITS-1:0] sum = began[BITS-2:0] + steps[STEP*index +: STEP];
    wire [BITS-1:0] own = {sum[BITS-1] | began[BITS-1], sum[BITS-2:0]}, next;
    if (index == LOOPS - 1) assign next = own;
    else assign next = ends[index] ? of[index+1].next : own;
    wire turns;
    if (index == 0) assign turns = advance;
    else assign turns = advance & &ends[index-1:0];
    always @(posedge clk)
      if (begins) {left, began} <= {counts[COUNT*index +: COUNT], {BITS{1'b0}} | start};
      else if (turns) {left, began} <= {ends[index] ? counts[COUNT*index +: COUNT] : left - 1'b1, next};
  end endgenerate
  always @(posedge clk) begin
    calm <= ~begins & ~advance;
    if (begins) on <= ~|none;
    else on <= ~rst & on & ~(advance & (&ends | |none | PACED & ~calm));
  end
  assign holds = ~on | address == of[0].began & &same & (PACED & ~calm
    | ends_run == ends[0] & last == &ends & last_turn == &ends[LOOPS-1:1]);
endmodule

// A row of operands, each a beat; or all the same beat; or each a number of it, which leaves from a
// register. The last beat of a row is done with the row.
module second_operand_specification #(parameter COLUMNS = 16, ONLY_NUMBERS = 0) (
  input clk,
  input rst,
  input start,
  input [12:0] beats,
  input numbers,
  input constant,
  input [32*COLUMNS-1:0] s_axis_tdata,
  input s_axis_tvalid,
  input s_axis_tready,
  input [32*(ONLY_NUMBERS ? 1 : COLUMNS)-1:0] m_axis_tdata,
  input m_axis_tvalid,
  input m_axis_tready,
  output holds
);
  wire by_number = ONLY_NUMBERS | numbers;
  reg on, held;
  reg [12:0] left;
  reg [$clog2(COLUMNS)-1:0] lane;
  reg [31:0] number;
  wire moves = m_axis_tready | by_number & ~held, step = moves & s_axis_tvalid;
  wire done = left == 1 | (by_number ? lane == COLUMNS - 1 : ~constant);
  always @(posedge clk) begin
    on <= ~rst & (start ? ~s_axis_tvalid & ~held : on);  // no beat is there when a row starts
    held <= ~rst & (step & by_number | held & ~m_axis_tready);
    if (step) number <= s_axis_tdata[32*lane +: 32];
    if (start) begin
      left <= beats;
      lane <= 0;
    end
    else if (step) begin
      left <= left == 1 ? beats : left - 1;
      lane <= left == 1 ? 0 : lane + 1;
    end
  end
  assign holds = ~on | s_axis_tready == (moves & done)
    & m_axis_tvalid == (by_number ? held : s_axis_tvalid)
    & (~m_axis_tvalid | (by_number ? m_axis_tdata[31:0] == number : m_axis_tdata == s_axis_tdata));
endmodule

// Beats in stages, each of which takes what stands before it when it moves. What is no beat may hold
// anything. The largest exponents are those of the one stage that is shown.
module beat_chain_specification #(parameter STAGES = 4, LANES = 192, LARGEST = 8) (
  input clk,
  input rst,
  input [STAGES-1:0] moves,
  input [LANES+LARGEST:0] beat,
  input beat_valid,
  input beat_ends,
  input [LANES+LARGEST:0] waiting,
  input [STAGES-1:0] valid,
  input [STAGES-1:0] ends,
  input [STAGES-1:0] shown,
  input [LARGEST-1:0] shown_largest,
  // The unit's own registers, for a proof by induction.
  input [LANES+LARGEST:0] inside_beat_0,
  input [LANES+LARGEST:0] inside_beat_1,
  input [LANES+LARGEST:0] inside_beat_2,
  input [LANES+LARGEST:0] inside_beat_3,
  input [LANES+LARGEST:0] inside_beat_4,
  input [LANES+LARGEST:0] inside_beat_5,
  input [LANES+LARGEST:0] inside_beat_6,
  output holds
);
  localparam WIDTH = LANES + LARGEST + 1;
  wire [7*WIDTH-1:0] own = {
    inside_beat_6, inside_beat_5, inside_beat_4, inside_beat_3,
    inside_beat_2, inside_beat_1, inside_beat_0};
  wire [STAGES-1:0] right;
  genvar index;
  generate for (index = 0; index < STAGES; index = index + 1) begin : stage
    reg there, ends_block;
    reg [LANES+LARGEST:0] held;
    if (index == 0) begin : first
      always @(posedge clk) if (moves[0]) held <= beat;
      always @(posedge clk) if (rst) {there, ends_block} <= 0;
        else if (moves[0]) {there, ends_block} <= {beat_valid, beat_ends};
    end else begin : later
      always @(posedge clk) if (moves[index]) held <= stage[index-1].held;
      always @(posedge clk) if (rst) {there, ends_block} <= 0;
        else if (moves[index]) {there, ends_block} <= {stage[index-1].there, stage[index-1].ends_block};
    end
    wire [WIDTH-1:0] found;
    if (index == STAGES - 1) assign found = waiting; else assign found = own[WIDTH*index +: WIDTH];
    assign right[index] = valid[index] == there & ends[index] == ends_block & (~there | found == held)
      & (~there | shown != 1 << index | shown_largest == held[LANES +: LARGEST]);
  end endgenerate
  assign holds = &right & (shown != 0 | shown_largest == 0);
endmodule

// A run of beats, cut where the number of a beat is a multiple of BURST; what the last burst carries.
module burst_splitter_specification #(parameter BYTES = 32, BURST = 32, BEATS = 12) (
  input clk,
  input rst,
  input [64-$clog2(BYTES)+BEATS:0] run_payload,
  input run_valid,
  input run_ready,
  input [64+$clog2(BURST):0] burst_payload,
  input burst_valid,
  input burst_ready,
  output holds
);
  localparam ADDRESS = 64 - $clog2(BYTES);
  reg active, carries;
  reg [ADDRESS-1:0] next;
  reg [BEATS-1:0] left;
  wire [BEATS:0] room = BURST - next % BURST;
  wire ends = left <= room;
  wire [BEATS:0] beats = ends ? left : room;
  wire [$clog2(BURST)-1:0] more = beats - 1;
  wire comes = run_valid & run_ready, leaves = burst_valid & burst_ready;
  always @(posedge clk) begin
    active <= ~rst & (comes | active & ~(leaves & ends));
    if (comes) {carries, left, next} <= run_payload;
    else if (leaves) {left, next} <= {left - beats[BEATS-1:0], next + beats};
  end
  assign holds = run_ready == (~active | burst_ready & ends) & burst_valid == active
    & (~active | burst_payload == {carries & ends, more, next, {$clog2(BYTES){1'b0}}});
endmodule

// A flag so many enabled cycles later; after a reset there was none.
module enabled_cycles_later #(parameter CYCLES = 1) (
  input clk,
  input rst,
  input en,
  input flag,
  output later
);
  reg [CYCLES:0] held;
  always @(posedge clk) if (rst) held <= 0; else if (en) held <= {held, flag};
  generate if (CYCLES == 0) assign later = flag; else assign later = held[CYCLES-1]; endgenerate
endmodule

// A beat's place: the first one of a block, and in the first block of a tile, is what its flag says or
// what is behind a block's end or a reset; a flag counts for its block. What ends is worth MACS steps,
// one an enabled cycle, the first at once.
module token_places #(parameter MACS = 16) (
  input clk,
  input rst,
  input en,
  input [3:0] token,  // valid, first, ends a block, ends a tile
  input ends,
  output starts,
  output is_first,
  output ends_block,
  output steps,
  output reg [$clog2(MACS)-1:0] step,
  output reg in_time  // what ends has waited for all steps of what ended before
);
  reg block_ended, tile_begins;
  assign ends_block = token[2] | token[3];
  assign starts = block_ended | token[1];
  assign is_first = tile_begins | token[1];
  assign steps = ends | step != 0;
  always @(posedge clk)
    if (rst) {block_ended, tile_begins, step, in_time} <= {2'b11, {$clog2(MACS){1'b0}}, 1'b1};
    else if (en) begin
      if (token[0]) {block_ended, tile_begins} <= {ends_block, is_first & ~ends_block};
      if (steps) step <= step == MACS - 1 ? 0 : step + 1;
      in_time <= in_time & ~(ends & step != 0);
    end
endmodule

// Section 6, `exact`: flags for the accumulators of a sub-matrix unit; a block that ends starts steps.
module block_sequencer_specification #(
  parameter MACS = 16, SHOWN = 4, DOT = 1, STEP = 3, RESULT = 6, EARLY = 0
) (
  input clk,
  input rst,
  input en,
  input [3:0] token,
  input [$clog2(MACS)-1:0] index,
  input valid,
  input starts,
  input copies,
  input [MACS-1:0] turn,
  input steps,
  input first,
  input done,
  output holds
);
  wire ends = token[0] & (token[2] | token[3]);
  wire starts_now, is_first, ends_block, steps_now, in_time;
  wire [$clog2(MACS)-1:0] step;
  token_places #(MACS) places (
    clk, rst, en, token, ends, starts_now, is_first, ends_block, steps_now, step, in_time);
  reg block_first, block_final;
  wire of_first = ends ? is_first : block_first, of_final = ends ? token[3] : block_final;
  always @(posedge clk) if (en) {block_first, block_final} <= {of_first, of_final};
  wire completes = steps_now & of_final & step % SHOWN == SHOWN - 1;
  wire right_valid, right_starts, right_copies, right_steps, right_first, right_done;
  enabled_cycles_later #(DOT - EARLY) of_valid (clk, rst, en, token[0], right_valid);
  enabled_cycles_later #(DOT - EARLY) of_starts (clk, rst, en, starts_now, right_starts);
  enabled_cycles_later #(DOT) of_copies (clk, rst, en, ends, right_copies);
  enabled_cycles_later #(DOT + STEP + 1) of_steps (clk, rst, en, steps_now, right_steps);
  enabled_cycles_later #(DOT + STEP + 1) of_firsts (clk, rst, en, of_first, right_first);
  enabled_cycles_later #(DOT + RESULT + 1) of_done (clk, rst, en, completes, right_done);
  wire [MACS-1:0] right_turn;
  genvar mac;
  generate for (mac = 0; mac < MACS; mac = mac + 1) begin : turns
    enabled_cycles_later #(DOT + 1 + mac) of_turn (clk, rst, en, ends, right_turn[mac]);
  end endgenerate
  assign holds = ~in_time | index == step & valid == right_valid & turn == right_turn
    & (~valid | starts == right_starts) & (!EARLY | copies == right_copies)
    & steps == right_steps & (~steps | first == right_first) & done == right_done;
endmodule

// Section 5b: the same for one that aligns sums; blocks end at any time, and a tile starts steps.
module window_sequencer_specification #(parameter MACS = 16, SHOWN = 4, DOT = 1, RESULT = 3) (
  input clk,
  input rst,
  input en,
  input [3:0] token,
  input [$clog2(MACS)-1:0] index,
  input valid,
  input [1:0] starts,
  input aligns,
  input first,
  input [MACS-1:0] turn,
  input done,
  output holds
);
  wire ends = token[0] & token[3];
  wire starts_now, is_first, ends_block, steps_now, in_time;
  wire [$clog2(MACS)-1:0] step;
  token_places #(MACS) places (
    clk, rst, en, token, ends, starts_now, is_first, ends_block, steps_now, step, in_time);
  wire right_valid, right_starts, right_aligns, right_first;
  enabled_cycles_later #(DOT) of_valid (clk, rst, en, token[0], right_valid);
  enabled_cycles_later #(DOT) of_starts (clk, rst, en, starts_now, right_starts);
  enabled_cycles_later #(DOT + 1) of_aligns (clk, rst, en, token[0] & ends_block, right_aligns);
  enabled_cycles_later #(DOT + 1) of_firsts (clk, rst, en, is_first, right_first);
  wire [MACS-1:0] right_turn, completed;
  genvar mac;
  generate for (mac = 0; mac < MACS; mac = mac + 1) begin : turns
    enabled_cycles_later #(DOT + 2 + mac) of_turn (clk, rst, en, ends, right_turn[mac]);
    if (mac % SHOWN == SHOWN - 1)
      enabled_cycles_later #(DOT + 2 + mac + RESULT) of_done (clk, rst, en, ends, completed[mac]);
    else assign completed[mac] = 0;
  end endgenerate
  assign holds = ~in_time | index == step & valid == right_valid & turn == right_turn
    & (~valid | starts == {2{right_starts}}) & aligns == right_aligns
    & (~aligns | first == right_first) & done == |completed;
endmodule
