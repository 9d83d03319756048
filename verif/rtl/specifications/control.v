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
  // For units around it.
  output reg on,
  output is_outside,
  output [BITS:0] at,
  output [BITS:0] row_at,
  output holds
);
  reg was_on, was_outside, beyond, row_beyond;
  reg [BITS-1:0] here, row;
  wire [BITS:0] next = ends_row ? row + stride : here + 1;
  wire next_beyond = next[BITS] | (ends_row ? row_beyond : beyond);
  assign is_outside = beyond | here >= DEPTH;
  assign {at, row_at} = {beyond, here, row_beyond, row};
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
  // For units around it.
  output [LOOPS-1:0] ends,
  output [BITS-1:0] at,
  output reg on,
  output reg calm,  // paced, it advances in every second cycle at most, and says then what ends
  output inside_holds,
  output holds
);
  wire [4*COUNT-1:0] counts = {count_3, count_2, count_1, count_0};
  wire [4*STEP-1:0] steps = {step_3, step_2, step_1, step_0};
  wire [4*COUNT-1:0] lefts = {
    inside_turns_left_3, inside_turns_left_2, inside_turns_left_1, inside_turns_left_0};
  wire [4*BITS-1:0] begans = {inside_turn_of_3, inside_turn_of_2, inside_turn_of_1, address};
  wire [LOOPS-1:0] none, same;
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
  assign at = of[0].began;
  always @(posedge clk) begin
    calm <= ~begins & ~advance;
    if (begins) on <= ~|none;
    else on <= ~rst & on & ~(advance & (&ends | |none | PACED & ~calm));
  end
  assign holds = ~on | address == at & (PACED & ~calm
    | ends_run == ends[0] & last == &ends & last_turn == &ends[LOOPS-1:1]);
  assign inside_holds = ~on | &same;
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
  output inside_holds,
  output holds
);
  localparam WIDTH = LANES + LARGEST + 1;
  wire [7*WIDTH-1:0] own = {
    inside_beat_6, inside_beat_5, inside_beat_4, inside_beat_3,
    inside_beat_2, inside_beat_1, inside_beat_0};
  wire [STAGES-1:0] right, same;
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
    assign right[index] = valid[index] == there & ends[index] == ends_block
      & (~there | index != STAGES - 1 | waiting == held)
      & (~there | shown != 1 << index | shown_largest == held[LANES +: LARGEST]);
    assign same[index] = ~there | index == STAGES - 1 | own[WIDTH*index +: WIDTH] == held;
  end endgenerate
  assign holds = &right & (shown != 0 | shown_largest == 0);
  assign inside_holds = &same;
endmodule

// A run of beats, cut where the number of a beat is a multiple of BURST; what the last burst carries. With
// LATER a burst waits in a register, which takes one while it is empty, but not behind a reset.
module burst_splitter_specification #(parameter BYTES = 32, BURST = 32, BEATS = 12, LATER = 0) (
  input clk,
  input rst,
  input [64-$clog2(BYTES)+BEATS:0] run_payload,
  input run_valid,
  input run_ready,
  input [64+$clog2(BURST):0] burst_payload,
  input burst_valid,
  input burst_ready,
  // The unit's own registers, for a proof by induction.
  input [BEATS-1:0] inside_beats_left,
  input [$clog2(BURST)-1:0] inside_place,
  input [(64-$clog2(BYTES*BURST))/2-1:0] inside_lower_address,
  input [(65-$clog2(BYTES*BURST))/2-1:0] inside_upper_address,
  input inside_run_is_last,
  input inside_cut__ready,
  output inside_holds,
  output holds
);
  localparam ADDRESS = 64 - $clog2(BYTES), PAYLOAD = 65 + $clog2(BURST);
  reg active, carries, held, was_reset;
  reg [ADDRESS-1:0] next;
  reg [BEATS-1:0] left;
  reg [PAYLOAD-1:0] kept;
  wire [BEATS:0] room = BURST - next % BURST;
  wire ends = left <= room;
  wire [BEATS:0] beats = ends ? left : room;
  wire [$clog2(BURST)-1:0] more = beats - 1;
  wire [PAYLOAD-1:0] burst = {carries & ends, more, next, {$clog2(BYTES){1'b0}}};
  wire has_room = LATER ? ~held & ~was_reset : burst_ready;
  wire comes = run_valid & run_ready, leaves = active & has_room;
  always @(posedge clk) begin
    was_reset <= rst;
    active <= ~rst & (comes | active & ~(leaves & ends));
    held <= ~rst & (held ? ~burst_ready : leaves);
    if (leaves) kept <= burst;
    if (comes) {carries, left, next} <= run_payload;
    else if (leaves) {left, next} <= {left - beats[BEATS-1:0], next + beats};
  end
  assign holds = run_ready == (~active | !LATER & leaves & ends)
    & burst_valid == (LATER ? held : active) & (~burst_valid | burst_payload == (LATER ? kept : burst));
  assign inside_holds = (!LATER | inside_cut__ready == has_room)
    & (~active | inside_beats_left == left & inside_run_is_last == carries
      & {inside_upper_address, inside_lower_address, inside_place} == next);
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

// Beats of rounds, one for each phase, which goes on in every enabled cycle: blocks end in the last one.
module in_rounds #(parameter TURNS = 2) (
  input clk,
  input rst,
  input en,
  input [3:0] token,
  input [$clog2(TURNS+(TURNS==1))-1:0] phase,
  output sane
);
  reg was_sane, known;
  reg [$clog2(TURNS+(TURNS==1))-1:0] next;
  wire last = TURNS == 1 | phase == TURNS - 1;
  assign sane = was_sane & (~known | TURNS == 1 | phase == next)
    & ~(token[0] & (token[2] | token[3]) & ~last);
  always @(posedge clk) begin
    was_sane <= rst | sane;
    known <= ~rst;
    next <= ~en ? phase : last ? 0 : phase + 1;
  end
endmodule

// Section 6, `exact`: flags for the accumulators of a sub-matrix unit; a block that ends starts steps. In
// two turns the flag of a round's start is there for its last phase and in the cycle behind that.
module block_sequencer_specification #(
  parameter MACS = 16, SHOWN = 4, DOT = 1, STEP = 3, RESULT = 6, EARLY = 0, TURNS = 1, GROUPS = 1
) (
  input clk,
  input rst,
  input en,
  input [3:0] token,
  input phase,
  input [$clog2(MACS)-1:0] index,
  input valid,
  input [GROUPS-1:0] starts,
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
  wire in_rounds_too, started_before;
  reg begun, round_starts, round_came;
  wire now_starts = TURNS == 1 ? starts_now : phase ? starts_now | begun : round_starts;
  always @(posedge clk) begin
    round_came <= ~rst & (round_came | en & phase);
    if (en) begun <= token[0] & starts_now & ~phase;
    if (en & phase) round_starts <= now_starts;
  end
  in_rounds #(TURNS) rounds (clk, rst, en, token, phase, in_rounds_too);
  enabled_cycles_later #(DOT - EARLY) of_came (
    clk, rst, en, TURNS == 1 | phase | round_came, started_before);
  enabled_cycles_later #(DOT - EARLY) of_valid (clk, rst, en, token[0], right_valid);
  enabled_cycles_later #(DOT - EARLY) of_starts (clk, rst, en, now_starts, right_starts);
  enabled_cycles_later #(DOT) of_copies (clk, rst, en, ends, right_copies);
  enabled_cycles_later #(DOT + STEP + 1) of_steps (clk, rst, en, steps_now, right_steps);
  enabled_cycles_later #(DOT + STEP + 1) of_firsts (clk, rst, en, of_first, right_first);
  enabled_cycles_later #(DOT + RESULT + 1) of_done (clk, rst, en, completes, right_done);
  wire [MACS-1:0] right_turn;
  genvar mac;
  generate for (mac = 0; mac < MACS; mac = mac + 1) begin : turns
    enabled_cycles_later #(DOT + 1 + mac) of_turn (clk, rst, en, ends, right_turn[mac]);
  end endgenerate
  wire is_right = TURNS == 1 ? valid == right_valid & turn == right_turn
      & (~valid | starts == {GROUPS{right_starts}}) & (!EARLY | copies == right_copies)
    : ~started_before | starts == {GROUPS{right_starts}};
  assign holds = ~in_time | ~in_rounds_too | is_right & index == step
    & steps == right_steps & (~steps | first == right_first) & done == right_done;
endmodule

// Section 5b: the same for one that aligns sums; blocks end at any time, and a tile starts steps. In turns
// the flags of a round are there for all its phases: that of its start is what the first beat says.
module window_sequencer_specification #(
  parameter MACS = 16, SHOWN = 4, DOT = 1, RESULT = 3, TURNS = 1
) (
  input clk,
  input rst,
  input en,
  input [3:0] token,
  input [$clog2(TURNS+(TURNS==1))-1:0] phase,
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
  wire in_rounds_too, started_before, begins = TURNS == 1 | phase == 0;
  wire block_ends = token[0] & ends_block;
  reg round_starts, round_came, block_first;
  wire now_starts = begins ? starts_now : round_starts, now_first = block_ends ? is_first : block_first;
  reg [TURNS:0] ended;  // so many enabled cycles ago
  wire [TURNS-1:0] aligning = {ended, block_ends};
  always @(posedge clk) begin
    round_came <= ~rst & (round_came | en & begins);
    if (en & begins) round_starts <= now_starts;
    if (en) block_first <= now_first;
    if (rst) ended <= 0; else if (en) ended <= aligning;
  end
  in_rounds #(TURNS) rounds (clk, rst, en, token, phase, in_rounds_too);
  enabled_cycles_later #(DOT) of_came (clk, rst, en, begins | round_came, started_before);
  enabled_cycles_later #(DOT) of_starts (clk, rst, en, now_starts, right_starts);
  enabled_cycles_later #(DOT + 1) of_aligns (clk, rst, en, |aligning, right_aligns);
  enabled_cycles_later #(DOT + 1) of_firsts (clk, rst, en, now_first, right_first);
  wire [MACS-1:0] right_turn, completed;
  genvar mac;
  generate for (mac = 0; mac < MACS; mac = mac + 1) begin : turns
    enabled_cycles_later #(DOT + TURNS + 1 + mac) of_turn (clk, rst, en, ends, right_turn[mac]);
    if (mac % SHOWN == SHOWN - 1)
      enabled_cycles_later #(DOT + TURNS + 1 + mac + RESULT) of_done (clk, rst, en, ends, completed[mac]);
    else assign completed[mac] = 0;
  end endgenerate
  wire start_right = TURNS == 1 ? valid == right_valid & (~valid | starts == {2{right_starts}})
    : ~started_before | starts == {2{right_starts}};
  assign holds = ~in_time | ~in_rounds_too | index == step & start_right & turn == right_turn
    & aligns == right_aligns & (~aligns | first == right_first) & done == |completed;
endmodule

// The places of the words of a descriptor in a buffer: loops whose counts and steps, its fields, are kept
// when it comes. Words that are joined stand side by side, TOGETHER of them at each address of the loops.
module buffer_address_generator_specification #(parameter PACED = 0, TOGETHER = 1) (
  input clk,
  input rst,
  input take,
  input [16:0] start,
  input [99:0] fields,
  input joins,
  input active,
  input [17:0] place,
  input ends_run,
  input last,
  input last_turn,
  input settled,
  input advance,
  // The unit's own registers, for a proof by induction.
  input inside_word_beside,
  input inside_joins_words,
  input [99:0] inside_kept,
  input [17:0] inside_address,
  input [11:0] inside_turns_left_0,
  input [9:0] inside_turns_left_1,
  input [9:0] inside_turns_left_2,
  input [7:0] inside_turns_left_3,
  input [17:0] inside_turn_of_1,
  input [17:0] inside_turn_of_2,
  input [17:0] inside_turn_of_3,
  output inside_holds,
  output holds
);
  reg [99:0] kept;
  reg joined, on, calm;
  reg [$clog2(TOGETHER):0] beside;
  wire [99:0] now = take ? fields : kept;
  wire joined_now = TOGETHER > 1 & (take ? joins : joined);
  wire [11:0] turns = joined_now ? now[11:0] / TOGETHER : now[11:0];
  wire ends = TOGETHER == 1 | ~joined | beside == TOGETHER - 1;
  always @(posedge clk) begin
    if (take) {joined, kept} <= {joins, fields};
    on <= ~rst & (take | on & ~(advance & last));
    calm <= ~take & ~advance;
    beside <= take | rst | advance & ends ? 0 : beside + advance;
  end
  wire [3:0] loop_ends;
  wire walk_right, walk_same, walk_on;
  wire [17:0] at, sum = at[16:0] + beside;
  address_generator_specification #(.PACED(PACED)) walk (
    .clk(clk), .rst(rst), .begins(take & ~rst), .start(start), .count_0(turns), .count_1(now[21:12]),
    .count_2(now[31:22]), .count_3(now[39:32]), .step_0(kept[54:40]), .step_1(kept[69:55]),
    .step_2(kept[84:70]), .step_3(kept[99:85]), .advance(advance & ends), .address(at),
    // Of words beside each other the last one says what ends.
    .ends_run(ends ? ends_run : loop_ends[0]), .last(ends ? last : &loop_ends),
    .last_turn(last_turn), .ends(loop_ends), .at(at), .on(walk_on),
    .inside_turns_left_0(inside_turns_left_0), .inside_turns_left_1({2'b0, inside_turns_left_1}),
    .inside_turns_left_2({2'b0, inside_turns_left_2}),
    .inside_turns_left_3({4'b0, inside_turns_left_3}), .inside_turn_of_1(inside_turn_of_1),
    .inside_turn_of_2(inside_turn_of_2), .inside_turn_of_3(inside_turn_of_3),
    .inside_holds(walk_same), .holds(walk_right));
  assign holds = active == on & walk_right & (!PACED | settled == (on & calm))
    & (~walk_on | place == {at[17] | sum[17], sum[16:0]}) & (~on | ends | ~ends_run & ~last);
  assign inside_holds = walk_same & (on | ~walk_on) & (~walk_on | inside_address == at)
    & (~on | inside_kept == kept & inside_word_beside == beside
      & (TOGETHER == 1 | inside_joins_words == joined));
endmodule

// The runs of words of a descriptor in memory: as many words as its innermost count, at the base plus
// the address of each turn of the other loops; fields are an address, counts and strides. A run with a
// word at 2^64 or more stops all. Nothing is claimed once a descriptor has left too soon, or one with a
// count of 0 has come.
module memory_address_generator_specification #(parameter BYTES = 32, LAST = 1, PACED = 0) (
  input clk,
  input rst,
  input [63-$clog2(BYTES):0] base,
  input [131:0] fields,
  input valid,
  input asked,
  input past,
  input leaves,
  input [75-$clog2(BYTES)+LAST:0] run_payload,
  input run_valid,
  input run_ready,
  // The unit's own registers, for a proof by induction.
  input inside_is_walking,
  input inside_all_are_asked,
  input inside_run_is_valid,
  input inside_run_is_past,
  input [75-$clog2(BYTES)+LAST:0] inside_run_payload,
  input inside_walk_is_settled,
  input inside_was_past,
  input inside_past_is_known,
  input [32:0] inside_address,
  input inside_ends_run,
  input inside_loop_1_ended,
  input inside_loop_2_ended,
  input [9:0] inside_turns_left_0,
  input [9:0] inside_turns_left_1,
  input [7:0] inside_turns_left_2,
  input [32:0] inside_turn_of_1,
  input [32:0] inside_turn_of_2,
  output inside_holds,
  output holds
);
  localparam ADDRESS = 64 - $clog2(BYTES);
  reg walks, all, held, sane, settled, known, was_past;
  reg [ADDRESS:0] first;
  reg [11:0] words;
  reg last;
  wire begins = ~rst & valid & ~walks & ~all;
  wire moves = ~held | run_ready & run_valid;
  wire steps = moves & (PACED ? settled : walks);
  wire [ADDRESS+1:0] end_of_run = first + words;
  wire is_past = end_of_run > 1 << ADDRESS;
  wire [2:0] loop_ends;
  wire ends = &loop_ends, walk_on, walk_calm, walk_right, walk_same;
  wire [32:0] at;
  wire is_none = ~|fields[43:32] | ~|fields[53:44] | ~|fields[63:54] | ~|fields[71:64];
  always @(posedge clk) begin
    walks <= ~rst & (begins | walks & ~(steps & ends));
    all <= ~rst & (steps & ends | all & ~leaves);
    held <= ~rst & (moves ? steps : held);
    settled <= ~rst & walks & ~steps;
    known <= ~rst & held & ~moves;
    was_past <= is_past;
    if (steps) {last, words, first} <= {ends, fields[43:32], {1'b0, base} + at};
    sane <= rst | sane & ~((begins | steps) & is_none) & ~(leaves & ~asked);
  end
  address_generator_specification #(
    .LOOPS(3), .COUNT(10), .STEP(20), .START(32 - $clog2(BYTES)), .BITS(33), .PACED(PACED)) walk (
    .clk(clk), .rst(rst), .begins(begins), .start(fields[31:$clog2(BYTES)]), .count_0(fields[53:44]),
    .count_1(fields[63:54]), .count_2({2'b0, fields[71:64]}), .count_3(10'd1),
    .step_0(fields[91:72]), .step_1(fields[111:92]), .step_2(fields[131:112]), .step_3(20'd0),
    .advance(steps), .address(at), .at(at),
    .ends_run(PACED ? inside_ends_run : loop_ends[0]),
    .last(PACED ? inside_ends_run & inside_loop_1_ended & inside_loop_2_ended : ends),
    .last_turn(PACED ? inside_loop_1_ended & inside_loop_2_ended : &loop_ends[2:1]),
    .ends(loop_ends), .on(walk_on), .calm(walk_calm),
    .inside_turns_left_0(inside_turns_left_0), .inside_turns_left_1(inside_turns_left_1),
    .inside_turns_left_2({2'b0, inside_turns_left_2}), .inside_turns_left_3(10'd0),
    .inside_turn_of_1(inside_turn_of_1), .inside_turn_of_2(inside_turn_of_2),
    .inside_turn_of_3(33'd0), .inside_holds(walk_same), .holds(walk_right));
  wire gives = PACED ? known & ~was_past : held & ~is_past;
  wire stops = PACED ? known & was_past : held & is_past;
  wire [75-$clog2(BYTES)+LAST:0] run = {last, words, first[ADDRESS-1:0]};
  wire same = inside_is_walking == walks & inside_all_are_asked == all & inside_run_is_valid == held
    & (~walks | walk_on) & (~held | inside_run_payload == run & inside_run_is_past == first[ADDRESS])
    & (!PACED | inside_walk_is_settled == settled & inside_past_is_known == known
      & (~known | inside_was_past == was_past) & (~settled | walks & walk_calm));
  assign inside_holds = ~sane | walk_right & walk_same & same & (~walk_on | inside_address == at);
  assign holds = ~sane | run_valid == gives & past == stops & asked == (all & (~held | gives)) & (~gives | run_payload == run);
endmodule

// A queue: the oldest tag leaves. Nothing is claimed once one has come without room, or left where there
// was none.
module tag_queue_specification #(parameter DEPTH = 32) (
  input clk,
  input rst,
  input push,
  input tag,
  input pop,
  input oldest,
  input empty,
  input full,
  // The unit's own registers, the newest tag first, for a proof by induction.
  input [DEPTH-1:0] inside_tag_each,
  input [$clog2(DEPTH):0] inside_tags_held,
  output inside_holds,
  output holds
);
  reg sane;
  reg [$clog2(DEPTH):0] held;
  reg [DEPTH-1:0] queue;  // the oldest lowest
  wire [$clog2(DEPTH):0] left = held - pop;
  wire [DEPTH-1:0] rest = queue >> pop;
  always @(posedge clk) begin
    sane <= rst | sane & ~(push & held == DEPTH) & ~(pop & held == 0);
    held <= rst ? 0 : left + push;
    queue <= push ? rest & ~({{DEPTH-1{1'b0}}, 1'b1} << left) | {{DEPTH-1{1'b0}}, tag} << left : rest;
  end
  wire [DEPTH-1:0] right;
  genvar place;
  generate for (place = 0; place < DEPTH; place = place + 1) begin : of
    wire [$clog2(DEPTH)-1:0] age = held - 1 - place;
    assign right[place] = place >= held | inside_tag_each[age] == queue[place];
  end endgenerate
  assign holds = ~sane | empty == (held == 0) & full == (held == DEPTH)
    & (held == 0 | oldest == queue[0]);
  assign inside_holds = ~sane | &right & held <= DEPTH & inside_tags_held == held;
endmodule

// What there is in a cycle, or a cycle later, also after a reset, or 0 then.
module value_later #(parameter BITS = 1, LATER = 1, RESET = 1) (
  input clk,
  input rst,
  input [BITS-1:0] value,
  output [BITS-1:0] shown
);
  reg [BITS-1:0] kept;
  always @(posedge clk) kept <= RESET & rst ? 0 : value;
  assign shown = LATER ? kept : value;
endmodule

// The lesser of two numbers that may be there, a cycle later or at once.
module least_of_two #(parameter LATER = 1) (
  input clk,
  input there_0,
  input there_1,
  input [31:0] number_0,
  input [31:0] number_1,
  output there,
  output [31:0] least
);
  wire first = there_0 & (~there_1 | number_0 < number_1);
  value_later #(33, LATER, 0) found (clk, 1'b0, {there_0 | there_1, first ? number_0 : number_1}, {there, least});
endmodule

// Four queues of descriptors with counters of tokens from each to each other one, whatever the queues do.
// The first of several errors counts, that of load before those of gemm, vector, store and of fetching. A
// deadlock comes last, with the least number that waits: no queue can do anything, and none gets more.
// LATER a queue gets a descriptor a cycle after it has been offered and has found a place, an error counts
// a cycle later, and a deadlock when all numbers are compared.
// Queues stand in the order of their names: gemm, load, store, vector.
module queues_specification #(parameter [31:0] LOAD = 2, GEMM = 3, VECTOR = 1, STORE = 2, TOKENS = 6, LATER = 0) (
  input clk,
  input rst,
  input start,
  input descriptor_valid,
  input descriptor_ready,
  input [255:0] descriptor,
  input [31:0] number,
  input ended,
  input [3:0] fetch_error,
  input load_valid,
  input [239:0] load_descriptor,
  input load_ready,
  input load_done,
  input [3:0] load_error,
  input load_stop,
  input gemm_valid,
  input [239:0] gemm_descriptor,
  input gemm_ready,
  input gemm_done,
  input [3:0] gemm_error,
  input gemm_stop,
  input vector_valid,
  input [239:0] vector_descriptor,
  input vector_ready,
  input vector_done,
  input [3:0] vector_error,
  input vector_stop,
  input store_valid,
  input [239:0] store_descriptor,
  input store_ready,
  input store_done,
  input [3:0] store_error,
  input store_stop,
  input stop,
  input is_done,
  input stopped,
  input [3:0] error,
  input [31:0] error_number,
  input [2:0] lacks,
  input [3:0] inside_rst_of_each,
  input [3:0] inside_entry_valid_of_each,
  input [3:0] inside_entry_ready_of_each,
  input [4*280-1:0] inside_entry_of_each,
  input [15:0] inside_available_of_each,
  input [15:0] inside_take_of_each,
  input [15:0] inside_has_room_of_each,
  input [15:0] inside_has_room_for_all_of_each,
  input [15:0] inside_give_of_each,
  input [3:0] inside_engine_valid_of_each,
  input [4*240-1:0] inside_engine_descriptor_of_each,
  input [3:0] inside_engine_ready_of_each,
  input [3:0] inside_engine_done_of_each,
  input [15:0] inside_engine_error_of_each,
  input [3:0] inside_engine_stop_of_each,
  input [3:0] inside_stop_of_each,
  input [3:0] inside_lacks_load_of_each,
  input [3:0] inside_lacks_vector_of_each,
  input [3:0] inside_lacks_store_of_each,
  input [3:0] inside_is_empty_of_each,
  input [3:0] inside_is_stuck_of_each,
  input [15:0] inside_error_of_each,
  input [127:0] inside_number_of_each,
  input inside_load_gemm_there,
  input [31:0] inside_load_gemm_held,
  input inside_vector_store_there,
  input [31:0] inside_vector_store_held,
  input [31:0] inside_load_gemm_vector_store_held,
  input [31:0] inside_error_5_2,
  output holds
);
  localparam [TOKENS-1:0] FULL = {TOKENS{1'b1}};
  wire [31:0] under_way = {VECTOR[7:0], STORE[7:0], LOAD[7:0], GEMM[7:0]};
  reg is_stopped;
  reg [3:0] code, turn;
  reg [31:0] failed;
  // In descriptors load is 0, gemm 1, vector 2, and store 3.
  wire [3:0] kind, right;
  wire [15:0] right_tokens;
  genvar at, of;
  generate for (at = 0; at < 4; at = at + 1) begin : queue
    assign kind[at] = descriptor[3:0] == (at ^ 1) + 1;
    assign right[at] = inside_entry_valid_of_each[at] 
      == (descriptor_valid & (LATER ? turn[at] : ~is_stopped & kind[at]))
      & inside_entry_of_each[280*at +: 280] == {descriptor[255:16], number, descriptor[11:4]};
    for (of = 0; of < 4; of = of + 1) begin : taker
      reg [TOKENS-1:0] tokens;
      wire gives = inside_give_of_each[4*at + (of ^ 1)], takes = inside_take_of_each[4*of + (at ^ 1)];
      always @(posedge clk) tokens <= rst | start | at == of ? 0 : tokens + gives - takes;
      assign right_tokens[4*at + of] = inside_available_of_each[4*of + (at ^ 1)] == (tokens != 0)
        & inside_has_room_of_each[4*at + (of ^ 1)] == (tokens != FULL)
        & inside_has_room_for_all_of_each[4*at + (of ^ 1)]
          == (at == of | tokens + under_way[8*at +: 8] <= FULL);
    end
  end endgenerate

  wire [3:0] fits = kind & inside_entry_ready_of_each;
  wire ready = LATER ? turn != 0 : fits != 0 & ~is_stopped;
  always @(posedge clk) turn <= {4{~rst & descriptor_valid & ~is_stopped & ~ready}} & fits;

  // Who waits has the least number, which is found in three steps.
  wire all_empty = &inside_is_empty_of_each;
  wire deadlock = &inside_is_stuck_of_each & ~all_empty & (ended | descriptor_valid & fits == 0);
  wire [3:0] there;
  wire [127:0] numbers;
  wire found, front_there, back_there, seen, seen_pairs, is_deadlock;
  wire [31:0] front, back, least;
  value_later #(4 + 128, LATER) own (clk, rst, {~inside_is_empty_of_each, inside_number_of_each}, {there, numbers});
  least_of_two #(LATER) of_front (clk, there[1], there[0], numbers[63:32], numbers[31:0], front_there, front);
  least_of_two #(LATER) of_back (clk, there[3], there[2], numbers[127:96], numbers[95:64], back_there, back);
  least_of_two #(LATER) of_both (clk, front_there, back_there, front, back, found, least);
  value_later #(1, LATER) step_1 (clk, rst, deadlock, seen);
  value_later #(1, LATER) step_2 (clk, rst, seen, seen_pairs);
  value_later #(1, LATER) step_3 (clk, rst, seen_pairs, is_deadlock);

  wire [5:0] failing = {is_deadlock, fetch_error != 0, inside_error_of_each[11:8] != 0,
    inside_error_of_each[15:12] != 0, inside_error_of_each[3:0] != 0, inside_error_of_each[7:4] != 0};
  wire [5:0] fails;
  wire [23:0] codes;
  wire [191:0] descriptors;
  value_later #(6, LATER) gates (clk, rst, failing, fails);
  value_later #(24, LATER) errors (clk, rst, {4'd6, fetch_error, inside_error_of_each[11:8],
    inside_error_of_each[15:12], inside_error_of_each[3:0], inside_error_of_each[7:4]}, codes);
  value_later #(192, LATER) places (clk, rst, {least, number, inside_number_of_each[95:64],
    inside_number_of_each[127:96], inside_number_of_each[31:0], inside_number_of_each[63:32]}, descriptors);
  reg [3:0] now_code;
  reg [31:0] now_failed;
  integer index;
  always @* begin
    {now_code, now_failed} = 0;
    for (index = 5; index >= 0; index = index - 1)
      if (fails[index]) {now_code, now_failed} = {codes[4*index +: 4], descriptors[32*index +: 32]};
  end
  reg is_over;
  always @(posedge clk) begin
    if (rst) {is_stopped, code} <= 0;
    else if (~is_stopped) {is_stopped, code, failed} <= {fails != 0, now_code, now_failed};
    is_over <= ~rst & ~start & all_empty & ended & ~is_stopped;
  end

  assign holds = &right & &right_tokens & descriptor_ready == ready & inside_rst_of_each == {4{rst}}
    & {vector_valid, store_valid, load_valid, gemm_valid} == inside_engine_valid_of_each
    & {vector_descriptor, store_descriptor, load_descriptor, gemm_descriptor}
      == inside_engine_descriptor_of_each
    & inside_engine_ready_of_each == {vector_ready, store_ready, load_ready, gemm_ready}
    & inside_engine_done_of_each == {vector_done, store_done, load_done, gemm_done}
    & inside_engine_error_of_each == {vector_error, store_error, load_error, gemm_error}
    & {vector_stop, store_stop, load_stop, gemm_stop} == inside_engine_stop_of_each
    & inside_stop_of_each == {4{is_stopped | stop}}
    & lacks == {inside_lacks_store_of_each[0], inside_lacks_vector_of_each[0], inside_lacks_load_of_each[0]}
    & is_done == (LATER ? is_over : all_empty & ended & ~is_stopped)
    & stopped == is_stopped & error == code & (~is_stopped | error_number == failed)
    & (~LATER | ~seen_pairs | inside_load_gemm_there == front_there & inside_load_gemm_held == front
      & inside_vector_store_there == back_there & inside_vector_store_held == back)
    & (~LATER | ~is_deadlock | inside_load_gemm_vector_store_held == least)
    & (~LATER | ~fails[5] | inside_error_5_2 == descriptors[191:160]);
endmodule

// Descriptors of a program from memory, in their order. Half of 16 places are asked for once they are free,
// but one at a time close to the top of memory, and none with a word past it. What memory did not give has
// error 7, and so has one that is not asked for, once all before it have left. Words wait in memories, one
// for each of a descriptor's WORDS; the oldest descriptor is shown, judged, and offered if it has no error.
// LATER what is wanted is known a cycle later, and the verdict, too. Nothing is claimed once a word comes
// that was not asked for, or a program starts before the one before has ended.
module fetch_specification #(parameter WORDS = 1, LATER = 0) (
  input clk,
  input rst,
  input start,
  input [63:0] address,
  input [31:0] length,
  input stop,
  input [69+WORDS:0] run_payload,
  input run_valid,
  input run_ready,
  input word_valid,
  input [256/WORDS:0] word,
  input descriptor_valid,
  input descriptor_ready,
  input [255:0] descriptor,
  input [31:0] number,
  input [3:0] error,
  input ended,
  input [WORDS-1:0] inside_write_en_of_each,
  input [4*WORDS-1:0] inside_write_address_of_each,
  input [(256/WORDS+1)*WORDS-1:0] inside_write_data_of_each,
  input [WORDS-1:0] inside_read_en_of_each,
  input [4*WORDS-1:0] inside_read_address_of_each,
  input [(256/WORDS+1)*WORDS-1:0] inside_read_data_of_each,
  input [255:0] inside_check_descriptor,
  input [3:0] inside_check_error,
  // The unit's own registers, for a proof by induction.
  input [31:0] inside_descriptors_left,
  input [27+WORDS:0] inside_next_word_low,
  input [29:0] inside_next_word_high,
  input inside_next_word_is_past,
  input [4:0] inside_descriptors_ahead,
  input [4:0] inside_waiting,
  input inside_shows,
  input inside_judged,
  input [3:0] inside_verdict,
  input inside_which_word,
  input inside_held_close_to_top,
  input inside_held_lost,
  input [1:0] inside_is_wanted_or_all_asked,
  input inside_is_checked,
  output holds
);
  localparam FIRST = 58 + WORDS, PLACES = 16, BITS = 256 / WORDS;
  localparam [FIRST:0] LAST = {FIRST{1'b1}};
  reg [FIRST:0] first;  // the top bit says that it is past the last address
  reg [31:0] left, index;
  reg [4:0] ahead, waiting;
  reg [3:0] into, out_of, verdict;
  reg which, shows, judged, checked, was_wanted, was_all, was_close, was_lost;

  // What is wanted: words of so many descriptors from the next address on.
  wire close = first[FIRST-1:0] > LAST - PLACES / 2 * WORDS, lost = first > LAST - (WORDS - 1);
  wire is_close = LATER ? was_close : close;
  wire wanted = left != 0 & ahead <= PLACES / 2 & ~stop & ~lost;
  wire wants = LATER ? was_wanted : wanted;
  wire [4:0] asked = is_close ? 1 : left < PLACES / 2 ? left : PLACES / 2;
  wire taken = wants & run_ready;
  wire lost_now = left != 0 & lost & ahead == 0;
  wire all_asked = LATER ? was_all : left == 0;

  // What comes, and what leaves.
  wire complete = word_valid & which == WORDS - 1;
  wire leaves = descriptor_valid & descriptor_ready;
  wire reads = waiting != 0 & (~shows | leaves);
  wire stays = shows & ~leaves;
  wire [255:0] oldest;
  wire [WORDS-1:0] failed, stored;
  genvar index_of;
  generate for (index_of = 0; index_of < WORDS; index_of = index_of + 1) begin : of
    wire [BITS:0] shown = inside_read_data_of_each[(BITS+1)*index_of +: BITS+1];
    assign {failed[index_of], oldest[BITS*index_of +: BITS]} = shown;
    assign stored[index_of] = inside_write_en_of_each[index_of] == (word_valid & which == index_of)
      & inside_write_address_of_each[4*index_of +: 4] == into
      & inside_write_data_of_each[(BITS+1)*index_of +: BITS+1] == word
      & inside_read_en_of_each[index_of] == reads
      & inside_read_address_of_each[4*index_of +: 4] == out_of;
  end endgenerate

  reg sane;
  reg [15:0] coming;
  wire now_sane = sane & ~(word_valid & coming == 0) & ~(start & ~ended);
  always @(posedge clk) begin
    sane <= rst | now_sane;
    coming <= rst ? 0 : coming + (taken ? asked * WORDS : 0) - word_valid;
    left <= rst ? 0 : start ? length : left - (taken ? asked : 0);
    index <= rst | start ? 0 : index + leaves;
    if (start) first <= address >> 6 - WORDS;
    else if (taken) first <= first + (is_close ? 1 : PLACES / 2) * WORDS;
    ahead <= rst ? 0 : ahead + (taken ? asked : 0) - leaves;
    waiting <= rst ? 0 : waiting + complete - reads;
    which <= ~rst & (WORDS == 2) & (which ^ word_valid);
    into <= rst ? 0 : into + complete;
    out_of <= rst ? 0 : out_of + reads;
    shows <= ~rst & (reads | stays);
    checked <= ~rst & stays;
    judged <= ~rst & stays & (!LATER | checked);
    if (shows & ~judged) verdict <= failed != 0 ? 7 : inside_check_error;
    was_wanted <= ~rst & ~start & ~taken & wanted;
    was_all <= ~rst & ~start & ~taken & left == 0;
    was_close <= ~rst & close;
    was_lost <= ~rst & lost_now;
  end

  // An address counts while something is left to be asked for.
  wire own_right = inside_descriptors_left == left & inside_descriptors_ahead == ahead
    & (left == 0 | {inside_next_word_is_past, inside_next_word_high, inside_next_word_low} == first)
    & inside_waiting == waiting & inside_shows == shows & inside_judged == judged
    & (~judged | inside_verdict == verdict) & (WORDS == 1 | inside_which_word == which)
    & (!LATER | ~was_wanted | was_close == close & inside_held_close_to_top == close & left != 0 & ~lost)
    & (!LATER | inside_held_lost == was_lost & inside_is_checked == checked
      & inside_is_wanted_or_all_asked == {was_all, was_wanted});
  wire has_room = ahead <= PLACES & WORDS * ahead == coming + which + WORDS * (waiting + shows)
    & (out_of + waiting & 15) == into & (~judged | shows) & (~checked | shows)
    & (~was_wanted | ahead <= PLACES / 2) & (~was_all | left == 0);
  assign holds = ~now_sane | own_right & has_room & &stored
    & run_valid == wants & (~wants | run_payload == {12'b0 | asked * WORDS, first[FIRST-1:0]})
    & descriptor == oldest & inside_check_descriptor == oldest
    & descriptor_valid == (judged & verdict == 0 & ~stop) & number == index
    & error == (judged ? verdict : (LATER ? was_lost : lost_now) ? 7 : 0)
    & ended == (all_asked & ahead == 0);
endmodule
