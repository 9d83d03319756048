// Units that gather, turn or cut beats.

// Beats of converted codes gathered into operand beats: for each column LANES codes, the first beat
// lowest, and then a scale for each column, that of its group in the last beat. Where a block ends within
// an operand beat code 0 takes the other lanes, in a cycle each, while the block's last beat waits.
module operand_packer_specification #(parameter WIDTH = 16, CODE = 8, GROUPS = 16, LANES = 4) (
  input clk,
  input rst,
  input [WIDTH*CODE+8*GROUPS-1:0] s_axis_tdata,
  input s_axis_tuser,
  input s_axis_tlast,
  input s_axis_tvalid,
  input s_axis_tready,
  input [WIDTH*CODE*LANES+(GROUPS?8*WIDTH:0)-1:0] m_axis_tdata,
  input m_axis_tuser,
  input m_axis_tlast,
  input m_axis_tvalid,
  input m_axis_tready,
  // The unit's own registers, the newest beat last, for a proof by induction.
  input [WIDTH*CODE-1:0] inside_beat_0,
  input [WIDTH*CODE-1:0] inside_beat_1,
  input [WIDTH*CODE-1:0] inside_beat_2,
  input inside_is_padding,
  input [1:0] inside_lane,
  output inside_holds,
  output holds
);
  localparam BEAT = WIDTH * CODE;
  reg [$clog2(LANES)-1:0] lane;
  reg pads;
  reg [LANES*BEAT-1:0] came;
  wire ends = s_axis_tlast | GROUPS != 0 & s_axis_tuser, full = lane == LANES - 1;
  wire step = s_axis_tvalid & (~full | m_axis_tready);
  wire [BEAT-1:0] now = pads ? 0 : s_axis_tdata[BEAT-1:0];
  always @(posedge clk) begin
    lane <= rst ? 0 : lane + step;
    if (rst) pads <= 0; else if (step) pads <= ~full & ends;
    if (step) came[BEAT*lane +: BEAT] <= now;
  end
  wire [4*BEAT-1:0] own = {{BEAT{1'b0}}, inside_beat_2, inside_beat_1, inside_beat_0};
  wire [LANES*WIDTH-1:0] right;
  wire [WIDTH-1:0] scales_right;
  wire [LANES-1:0] same;
  genvar column, index;
  generate for (column = 0; column < WIDTH; column = column + 1) begin : of
    for (index = 0; index < LANES; index = index + 1) begin : at
      wire [CODE-1:0] found = m_axis_tdata[CODE*(LANES*column + index) +: CODE];
      if (index == LANES - 1) assign right[LANES*column + index] = found == now[CODE*column +: CODE];
      else assign right[LANES*column + index] = found == came[BEAT*index + CODE*column +: CODE];
    end
    if (GROUPS)
      assign scales_right[column] = m_axis_tdata[LANES*BEAT + 8*column +: 8]
        == s_axis_tdata[BEAT + 8*(column / (WIDTH/GROUPS)) +: 8];
    else assign scales_right[column] = 1;
  end
  for (index = 0; index < LANES; index = index + 1) begin : of_lane
    if (index == LANES - 1) assign same[index] = 1;
    else begin
      wire [1:0] register = LANES - 1 - lane + index;
      assign same[index] = index >= lane | own[BEAT*register +: BEAT] == came[BEAT*index +: BEAT];
    end
  end endgenerate
  assign holds = s_axis_tready == (~rst & (full ? m_axis_tready : ~ends))
    & m_axis_tvalid == (s_axis_tvalid & full)
    & (~m_axis_tvalid | &right & &scales_right & m_axis_tlast == s_axis_tlast
      & (!GROUPS | m_axis_tuser == s_axis_tuser));
  assign inside_holds = &same & inside_is_padding == pads & inside_lane == lane;
endmodule

// A code of two operand beats of ROWS rows and four lanes, which may be any one and stays the same: in
// which word of 16 bits a row it comes, where there, and in which word it leaves as tiles of 8x8 codes
// are transposed. The upper tile leaves first, each as two operand beats of 8 rows.
module watched_code #(parameter ROWS = 16, CODE = 8) (
  input clk,
  output [2:0] from_word,
  output [$clog2(16*ROWS/CODE)-1:0] from,
  output [2:0] to_word,
  output [$clog2(16*ROWS/CODE)-1:0] to
);
  reg [2:0] column;
  reg [$clog2(ROWS)-1:0] row;
  always @(posedge clk) {column, row} <= {column, row};
  wire [$clog2(8*ROWS)-1:0] came_at = (column / 4 * ROWS + row) * 4 + column % 4;
  wire [$clog2(8*ROWS)-1:0] leaves_at = row / 8 * 64 + (row % 8 / 4 * 8 + column) * 4 + row % 4;
  assign {from_word, from} = came_at;
  assign {to_word, to} = leaves_at;
endmodule

// Groups of words that are gathered, and leave with their tiles transposed while the next one comes; the
// last word of a group enters as the last of the one before it leaves. Nothing enters while a group that
// is alone leaves. A code of a group is watched.
module wide_transposer_specification #(parameter ROWS = 16, CODE = 16) (
  input clk,
  input rst,
  input [16*ROWS-1:0] s_payload,
  input s_valid,
  input s_ready,
  input [16*ROWS-1:0] m_payload,
  input m_valid,
  input m_ready,
  input alone,
  // The unit's own registers, for a proof by induction.
  input [16*ROWS-1:0] inside_word_0,
  input [16*ROWS-1:0] inside_word_1,
  input [16*ROWS-1:0] inside_word_2,
  input [16*ROWS-1:0] inside_word_3,
  input [16*ROWS-1:0] inside_word_4,
  input [16*ROWS-1:0] inside_word_5,
  input [16*ROWS-1:0] inside_word_6,
  input [16*ROWS-1:0] inside_turned_1,
  input [16*ROWS-1:0] inside_turned_2,
  input [16*ROWS-1:0] inside_turned_3,
  input [16*ROWS-1:0] inside_turned_4,
  input [16*ROWS-1:0] inside_turned_5,
  input [16*ROWS-1:0] inside_turned_6,
  input [16*ROWS-1:0] inside_turned_7,
  input [2:0] inside_word_of_group,
  input [3:0] inside_words_left,
  output inside_holds,
  output holds
);
  localparam WORD = 16 * ROWS, WORDS = 8 * CODE / 16, PLACES = WORD / CODE;
  wire [2:0] from_word, to_word;
  wire [$clog2(PLACES)-1:0] from, to;
  watched_code #(ROWS, CODE) watch (clk, from_word, from, to_word, to);
  reg [2:0] came;
  reg [3:0] left;
  reg [CODE-1:0] coming, leaving;
  wire takes = s_valid & s_ready, gives = m_valid & m_ready, ends = takes & came == WORDS - 1;
  wire [CODE-1:0] now = came == from_word ? s_payload[CODE*from +: CODE] : coming;
  always @(posedge clk) begin
    came <= rst ? 0 : came + takes;
    left <= rst ? 0 : ends ? WORDS : left - gives;
    if (takes) coming <= now;
    if (ends) leaving <= now;
  end
  wire [8*WORD-1:0] own_coming = {{WORD{1'b0}}, inside_word_6, inside_word_5, inside_word_4,
    inside_word_3, inside_word_2, inside_word_1, inside_word_0};
  wire [8*WORD-1:0] own_leaving = {inside_turned_7, inside_turned_6, inside_turned_5, inside_turned_4,
    inside_turned_3, inside_turned_2, inside_turned_1, m_payload};
  wire [2:0] ahead = to_word - (WORDS - left);  // words that leave before it
  wire has_left = to_word < WORDS - left;
  assign holds = m_valid == (left != 0)
    & s_ready == ((came != WORDS - 1 | left == 0 | left == 1 & m_ready) & ~(alone & left != 0))
    & (has_left | ahead != 0 | m_payload[CODE*to +: CODE] == leaving);
  assign inside_holds = left <= WORDS & inside_word_of_group == came & inside_words_left == left
    & (from_word >= came | own_coming[CODE*{from_word, from} +: CODE] == coming)
    & (has_left | own_leaving[CODE*{ahead, to} +: CODE] == leaving);
endmodule

// The same for codes of a byte and groups of four words, which leave as soon as they can. With 16 rows two
// words of a group leave as the second beat enters, and two wait; a word of the next group takes the place
// of one, if it leaves or if only one is left and comes first. With 8 rows the words but the second leave
// as they come, or the one before them, and the last one waits: nothing enters then.
module tile_transposer_specification #(parameter ROWS = 16) (
  input clk,
  input rst,
  input [16*ROWS-1:0] s_payload,
  input s_valid,
  input s_ready,
  input [16*ROWS-1:0] m_payload,
  input m_valid,
  input m_ready,
  input alone,
  // The unit's own registers, for a proof by induction: squares of 4x4 codes.
  input [127:0] inside_first_square,
  input [127:0] inside_middle_0,
  input [127:0] inside_middle_1,
  input [127:0] inside_last_square,
  input [127:0] inside_held_square,
  input inside_is_swapped,
  input inside_word_waits,
  input [1:0] inside_word_of_group,
  input [1:0] inside_words_waiting,
  output inside_holds,
  output holds
);
  localparam PLACES = 2 * ROWS;
  wire [2:0] from_part, to_part;  // halves of words with 16 rows, and words with 8
  wire [$clog2(PLACES)-1:0] from, to;
  watched_code #(ROWS) watch (clk, from_part, from, to_part, to);
  wire [1:0] from_word = from_part, to_word = to_part;
  reg [1:0] came, waits;
  reg [7:0] coming, leaving;
  wire takes = s_valid & s_ready, gives = m_valid & m_ready, ends = takes & came == 3;
  wire [7:0] now = came == from_word ? s_payload[8*from +: 8] : coming;
  always @(posedge clk) begin
    came <= rst ? 0 : came + takes;
    waits <= rst ? 0 : ends ? (ROWS == 16 ? 2 : 1) : waits - (gives & waits != 0);
    if (takes) coming <= now;
    if (ends) leaving <= now;
  end
  wire ready = ROWS == 16
    ? (m_ready | came + waits <= 1) & ~(alone & waits != 0)
    : came == 1 | m_ready & waits == 0;
  wire valid = waits != 0 | s_valid & (ROWS == 16 ? came >= 2 : came != 1);
  wire [1:0] given = waits != 0 ? 4 - waits : ROWS == 16 ? came - 2 : came == 0 ? 0 : came - 1;

  wire [127:0] upper = inside_is_swapped ? inside_middle_1 : inside_middle_0;
  wire [127:0] lower = inside_is_swapped ? inside_middle_0 : inside_middle_1;
  wire [3:0] place = from;
  wire [7:0] in_first = inside_first_square[8*place +: 8], in_last = inside_last_square[8*place +: 8];
  wire [7:0] in_upper = upper[8*place +: 8], in_lower = lower[8*place +: 8];
  wire [7:0] in_held = inside_held_square[8*place +: 8];
  wire [2:0] square = {from_word, from} / 16;
  wire same_16 = inside_words_waiting == waits & (waits == 0 | came == 0 | waits == 1 & came == 1)
    & (square != 0 | came == 0 | came == 3 | in_first == coming)
    & (square != 1 | came == 0 | in_upper == coming)
    & (square != 2 | came < 2 | in_lower == coming)
    & (square != 3 | came < 2 | in_last == coming)
    & (square != 5 | came < 3 | in_first == coming)
    & (square != 2 | waits < 2 | in_upper == leaving)
    & (square != 3 | waits == 0 | in_last == leaving)
    & (square != 6 | waits < 2 | in_first == leaving)
    & (square != 7 | waits == 0 | in_lower == leaving);
  wire same_8 = inside_word_waits == waits & (waits == 0 | came == 0)
    & (from_word != 1 | came < 2 | in_held == coming)
    & (from_word != 3 | waits == 0 | in_held == leaving);
  assign holds = s_ready == ready & m_valid == valid
    & (~m_valid | given != to_word | m_payload[8*to +: 8] == (waits != 0 ? leaving : now));
  assign inside_holds = waits <= 2 & inside_word_of_group == came & (ROWS == 16 ? same_16 : same_8);
endmodule

// Square tiles, row by row, whose columns leave while the rows of the next tile come. A packet's last tile
// is filled up with rows of zeros, and leaves before a row of the next packet comes. An element of a tile
// is watched, which may be any one and stays the same.
module transposer_specification #(parameter SIZE = 8, BITS = 8) (
  input clk,
  input rst,
  input [SIZE*BITS-1:0] s_axis_tdata,
  input s_axis_tlast,
  input s_axis_tvalid,
  input s_axis_tready,
  input [SIZE*BITS-1:0] m_axis_tdata,
  input m_axis_tlast,
  input m_axis_tvalid,
  input m_axis_tready,
  // The unit's own registers, for a proof by induction.
  input [SIZE*BITS-1:0] inside_row_0,
  input [SIZE*BITS-1:0] inside_row_1,
  input [SIZE*BITS-1:0] inside_row_2,
  input [SIZE*BITS-1:0] inside_row_3,
  input [SIZE*BITS-1:0] inside_row_4,
  input [SIZE*BITS-1:0] inside_row_5,
  input [SIZE*BITS-1:0] inside_row_6,
  input [SIZE*BITS-1:0] inside_row_7,
  input inside_is_downwards,
  input inside_is_draining,
  input inside_is_full,
  input inside_is_padding,
  input [$clog2(SIZE)-1:0] inside_steps_done,
  output inside_holds,
  output holds
);
  localparam ROW = SIZE * BITS, INDEX = $clog2(SIZE);
  reg [INDEX-1:0] row, column;
  reg [INDEX-1:0] done;    // rows that have come, and columns that have left
  reg full, drains, pads;  // a tile leaves; no tile comes; its rows are zeros
  reg [BITS-1:0] coming, leaving;
  wire takes = ~drains & ~pads, open = ~full | m_axis_tready, there = ~takes | s_axis_tvalid;
  wire step = open & there, last = done == SIZE - 1, ends = pads | takes & s_axis_tlast;
  wire [BITS-1:0] comes = pads ? 0 : s_axis_tdata[BITS*column +: BITS];
  wire [BITS-1:0] now = done == row ? comes : coming;
  always @(posedge clk) begin
    {row, column} <= {row, column};
    if (rst) {full, drains, pads, done} <= 0;
    else if (step) begin
      done <= last ? 0 : done + 1;
      pads <= ends & ~last;
      if (last) {full, drains} <= {~drains, ends};
    end
    if (step) coming <= now;
    if (step & last) leaving <= now;
  end
  // A row enters at the top and moves down, or on the left and moves to the right, in turn.
  wire [SIZE*ROW-1:0] own = {inside_row_7, inside_row_6, inside_row_5, inside_row_4, inside_row_3,
    inside_row_2, inside_row_1, inside_row_0};
  wire [INDEX-1:0] across = SIZE - 1 - column, newer = done - 1 - row;
  wire [INDEX-1:0] oldest = SIZE - 1 - row, moved = across + done;
  wire [2*INDEX-1:0] came_to = inside_is_downwards ? {newer, across} : {across, newer};
  wire [2*INDEX-1:0] left_to = inside_is_downwards ? {moved, oldest} : {oldest, moved};
  wire same = (row >= done | drains | own[BITS*came_to +: BITS] == coming)
    & (column < done | ~full | own[BITS*left_to +: BITS] == leaving);
  assign holds = s_axis_tready == (open & takes & ~rst) & m_axis_tvalid == (full & there)
    & (~m_axis_tvalid | m_axis_tlast == (drains & last)
      & (column != done | m_axis_tdata[BITS*row +: BITS] == leaving));
  assign inside_holds = same & (full | ~drains) & (~drains | ~pads) & inside_is_draining == drains
    & inside_is_full == full & inside_is_padding == pads & inside_steps_done == done;
endmodule

// Rows of beats, read from a buffer as long as there is room for AHEAD of them here, each in the cycle
// behind the one in which its address was taken. An address outside is said, and not read. If LATER an
// address is offered, or said to be outside, a cycle after it was wanted, a beat comes a cycle later too,
// and in the cycle after one was taken none is shown.
module beat_reader_specification #(
  parameter DEPTH = 2048, ADDRESS = 14, BEAT = 512, ROWS = 8, AHEAD = 3, LATER = 0
) (
  input clk,
  input rst,
  input start,
  input [ADDRESS-1:0] origin,
  input [13:0] stride,
  input [12:0] beats,
  input [ROWS-1:0] rows,
  input stop,
  input read_valid,
  input read_ready,
  input [$clog2(DEPTH)-1:0] read_address,
  input read_hold,
  input [BEAT-1:0] read_data,
  input [BEAT-1:0] m_axis_tdata,
  input m_axis_tlast,
  input m_axis_tvalid,
  input m_axis_tready,
  input outside,
  // The unit's own registers, for a proof by induction.
  input [ROWS-1:0] inside_rows_left,
  input [12:0] inside_beats_left,
  input inside_beat_arrives,
  input inside_beat_arrives_later,
  input inside_beat_leaves,
  input inside_ends_row_held,
  input [1:0] inside_is_offered_or_outside,
  input inside_arriving_is_last,
  input [AHEAD-1:0] inside_is_held,
  input inside_has_room,
  input [1:0] inside_room,
  input [AHEAD*(BEAT+1)-1:0] inside_beat_each,
  input [ADDRESS:0] inside_here,
  input [ADDRESS:0] inside_row,
  output inside_holds,
  output holds
);
  reg [ROWS-1:0] rows_left;
  reg [12:0] beats_left;
  reg [$clog2(AHEAD+1)-1:0] held;
  reg coming, coming_last, came, came_last, was_taken, offers, was_outside;
  reg [AHEAD*(BEAT+1)-1:0] queue;  // the oldest lowest
  wire taken = m_axis_tvalid & m_axis_tready, asked = read_valid & read_ready;
  wire last = beats_left == 1;
  wire [$clog2(AHEAD+1)-1:0] left = held - taken;
  wire [AHEAD*(BEAT+1)-1:0] rest = taken ? queue >> BEAT + 1 : queue;
  wire walk_on, is_outside;
  wire [ADDRESS:0] here, row;
  row_address_generator_specification #(.DEPTH(DEPTH), .BITS(ADDRESS), .STRIDE(14)) walk (
    .clk(clk), .rst(rst), .start(start), .origin(origin), .stride(stride), .step(asked),
    .ends_row(last), .on(walk_on), .is_outside(is_outside), .at(here), .row_at(row));
  wire arrives = LATER ? came : coming, arriving_last = LATER ? came_last : coming_last;
  wire leaves = LATER & was_taken;
  wire [2:0] expected = held + coming + (LATER & came);
  wire wanted = rows_left != 0 & expected < AHEAD & ~stop;
  always @(posedge clk) begin
    rows_left <= rst ? 0 : start ? rows : rows_left - (asked & last);
    if (start) beats_left <= beats;
    else if (asked) beats_left <= last ? beats : beats_left - 1;
    {coming, coming_last} <= {asked & ~rst, last};
    {came, came_last} <= {coming & ~rst, coming_last};
    was_taken <= taken & ~rst;
    offers <= wanted & ~is_outside & ~asked & ~start & ~rst;
    was_outside <= wanted & is_outside & ~start & ~rst;
    held <= rst ? 0 : left + arrives;
    queue <= rest;
    if (arrives) queue[(BEAT+1)*left +: BEAT+1] <= {arriving_last, read_data};
  end
  wire [AHEAD-1:0] places = (1 << held + leaves) - 1, same;
  wire later_same = inside_beat_arrives_later == came & inside_beat_leaves == leaves
    & inside_is_offered_or_outside == {was_outside, offers} & (~came | inside_arriving_is_last == came_last)
    & (~offers | rows_left != 0 & ~is_outside & inside_ends_row_held == last)
    & ~(coming & (came | offers)) & expected + leaves + offers <= AHEAD;
  genvar place;
  generate for (place = 0; place < AHEAD; place = place + 1) begin : of
    assign same[place] = place >= held
      | inside_beat_each[(BEAT+1)*(place+leaves) +: BEAT+1] == queue[(BEAT+1)*place +: BEAT+1];
  end endgenerate
  assign inside_holds = inside_rows_left == rows_left & (rows_left == 0 | inside_beats_left == beats_left
      & walk_on & inside_here == here & inside_row == row)
    & inside_beat_arrives == coming & (~coming | inside_arriving_is_last == coming_last)
    & expected <= AHEAD & &same & (!LATER | later_same) & (AHEAD == 1 ? inside_has_room == (expected == 0)
      : inside_room == AHEAD - expected & inside_is_held == places);
  assign holds = read_valid == (LATER ? offers : wanted & ~is_outside)
    & outside == (LATER ? was_outside : wanted & is_outside) & ~read_hold
    & (~read_valid | read_address == here) & m_axis_tvalid == (held != 0 & ~leaves)
    & (~m_axis_tvalid | {m_axis_tlast, m_axis_tdata} == queue[BEAT:0]);
endmodule
