// Arrays of MACs. What MACs, accumulators and sequencers give may be anything: a specification says what
// each of them gets, in which cycle, and where that goes which they give.

// A register: what came in the last cycle, if it was enabled, and what it held otherwise.
module enabled_register #(parameter BITS = 1, RESET = 0) (
  input clk,
  input rst,
  input en,
  input [BITS-1:0] came,
  input [BITS-1:0] held,
  output right
);
  reg [BITS-1:0] expected;
  always @(posedge clk) expected <= RESET & rst ? 0 : en ? came : held;
  assign right = held == expected;
endmodule

// Flags so many enabled cycles later; none are on the way after a reset.
module delayed_flags #(parameter BITS = 1, CYCLES = 1) (
  input clk,
  input rst,
  input en,
  input [BITS-1:0] flags,
  output [BITS-1:0] later
);
  reg [BITS*(CYCLES+1)-1:0] under_way;
  always @(posedge clk) if (rst) under_way <= 0; else if (en) under_way <= {under_way, flags};
  assign later = CYCLES == 0 ? flags : under_way >> BITS * (CYCLES - 1);
endmodule

// Rows of a tile of results that is complete in one cycle. The first leaves in that cycle, each other one
// INTERVAL enabled cycles after the one before, as it was when the tile was complete. A tile that is
// complete earlier than its rows have left takes their places: nothing is claimed of two rows at once.
module leaving_rows #(parameter ROWS = 4, BITS = 128, INTERVAL = 4) (
  input clk,
  input rst,
  input en,
  input complete,
  input [ROWS*BITS-1:0] tile,
  input done,
  input [BITS-1:0] results,
  input [(ROWS-1)*BITS-1:0] held,
  output holds
);
  wire [ROWS-1:0] leaves, right;
  wire kept;
  reg after_reset;  // no row waits
  always @(posedge clk) after_reset <= rst;
  enabled_register #((ROWS-1)*BITS) of_rows (clk, 1'b0, en & complete, tile[ROWS*BITS-1:BITS], held, kept);
  assign leaves[0] = complete;
  assign right[0] = ~complete | leaves != 1 | results == tile[BITS-1:0];
  genvar row;
  generate for (row = 1; row < ROWS; row = row + 1) begin : of
    delayed_flags #(1, INTERVAL) turn (clk, rst, en, leaves[row-1], leaves[row]);
    assign right[row] = leaves != 1 << row | results == held[BITS*(row-1) +: BITS];
  end endgenerate
  assign holds = (kept | after_reset) & &right & done == |leaves;
endmodule

// Rows and columns of MACs, with an accumulator behind each. A beat goes to all MACs, row by row and column
// by column, and on to the next unit, a cycle later. Its flags and scales come to the accumulators with its
// sums, DOT cycles later; the tile is complete LATENCY cycles after its last beat. Cycles are enabled ones.
module pu_specification #(
  parameter ROWS = 4, COLUMNS = 4, LANES = 4, CODE = 8, SCALED = 1, PARTIAL = 12, INTERVAL = 4, DOT = 3,
  LATENCY = 6
) (
  input clk,
  input rst,
  input en,
  input [3:0] token,
  input [ROWS*LANES*CODE-1:0] a,
  input [COLUMNS*LANES*CODE-1:0] w,
  input [8*ROWS-1:0] scale_a,
  input [8*COLUMNS-1:0] scale_w,
  input [3:0] token_next,
  input [ROWS*LANES*CODE-1:0] a_next,
  input [COLUMNS*LANES*CODE-1:0] w_next,
  input [8*ROWS-1:0] scale_a_next,
  input [8*COLUMNS-1:0] scale_w_next,
  input done,
  input [32*COLUMNS-1:0] results,
  // Of the accumulators, row by row, and of the MACs behind them.
  input [2*ROWS*COLUMNS-1:0] inside_en_of_each,
  input [ROWS*COLUMNS*LANES*CODE-1:0] inside_a_of_each,
  input [ROWS*COLUMNS*LANES*CODE-1:0] inside_w_of_each,
  input [2*ROWS*COLUMNS*PARTIAL-1:0] inside_partial_sum_of_each,
  input [2*ROWS*COLUMNS-1:0] inside_rst_of_each,
  input [ROWS*COLUMNS-1:0] inside_valid_of_each,
  input [ROWS*COLUMNS-1:0] inside_first_of_each,
  input [8*ROWS*COLUMNS-1:0] inside_scale_a_of_each,
  input [8*ROWS*COLUMNS-1:0] inside_scale_w_of_each,
  input [32*ROWS*COLUMNS-1:0] inside_acc_of_each,
  // Registers of scales, and of rows that wait.
  input [8*ROWS-1:0] inside_scale_a_after_1,
  input [8*ROWS-1:0] inside_scale_a_after_2,
  input [8*ROWS-1:0] inside_scale_a_after_3,
  input [8*COLUMNS-1:0] inside_scale_w_after_1,
  input [8*COLUMNS-1:0] inside_scale_w_after_2,
  input [8*COLUMNS-1:0] inside_scale_w_after_3,
  input [32*COLUMNS-1:0] inside_row_1_held,
  input [32*COLUMNS-1:0] inside_row_2_held,
  input [32*COLUMNS-1:0] inside_row_3_held,
  output holds
);
  localparam MACS = ROWS * COLUMNS, LINE = LANES * CODE;
  wire [3:0] enters;
  wire flags_enter, rows_leave, scales_come;
  enabled_register #(4, 1) of_token (clk, rst, en, token, token_next, flags_enter);
  enabled_register #(ROWS*LINE) of_a (clk, rst, en, a, a_next, enters[0]);
  enabled_register #(COLUMNS*LINE) of_w (clk, rst, en, w, w_next, enters[1]);
  enabled_register #(8*ROWS) of_scale_a (clk, rst, en, scale_a, scale_a_next, enters[2]);
  enabled_register #(8*COLUMNS) of_scale_w (clk, rst, en, scale_w, scale_w_next, enters[3]);
  enabled_register #(24*ROWS+24*COLUMNS) of_scales (clk, rst, en,
    {scale_a_next, inside_scale_a_after_1, inside_scale_a_after_2,
      scale_w_next, inside_scale_w_after_1, inside_scale_w_after_2},
    {inside_scale_a_after_1, inside_scale_a_after_2, inside_scale_a_after_3,
      inside_scale_w_after_1, inside_scale_w_after_2, inside_scale_w_after_3}, scales_come);

  wire [3:0] flags;
  wire complete;
  delayed_flags #(4, DOT) of_flags (clk, rst, en, token_next, flags);
  delayed_flags #(1, LATENCY-1-DOT) of_ends (clk, rst, en, flags[0] & flags[3], complete);
  wire [MACS-1:0] right;
  genvar at;
  generate for (at = 0; at < MACS; at = at + 1) begin : of
    localparam ROW = at / COLUMNS, COLUMN = at % COLUMNS;
    assign right[at] = inside_a_of_each[LINE*at +: LINE] == a_next[LINE*ROW +: LINE]
      & inside_w_of_each[LINE*at +: LINE] == w_next[LINE*COLUMN +: LINE]
      & inside_partial_sum_of_each[PARTIAL*at +: PARTIAL]
        == inside_partial_sum_of_each[PARTIAL*(MACS+at) +: PARTIAL]
      & (!SCALED | inside_scale_a_of_each[8*at +: 8] == inside_scale_a_after_3[8*ROW +: 8]
        & inside_scale_w_of_each[8*at +: 8] == inside_scale_w_after_3[8*COLUMN +: 8]);
  end endgenerate
  leaving_rows #(ROWS, 32*COLUMNS, INTERVAL) of_rows (clk, rst, en, complete, inside_acc_of_each,
    done, results, {inside_row_3_held, inside_row_2_held, inside_row_1_held}, rows_leave);
  assign holds = flags_enter & &enters[1:0] & (!SCALED | &enters[3:2] & scales_come) & rows_leave & &right
    & inside_en_of_each == {2*MACS{en}} & inside_rst_of_each[MACS-1:0] == {MACS{rst}}
    & inside_valid_of_each == {MACS{flags[0]}} & inside_first_of_each == {MACS{flags[1]}};
endmodule

// Rows and columns of MACs whose dot products one accumulator adds up, one MAC after the other. A beat goes
// to all MACs and on to the next unit, a cycle later; NEAR the MACs get it one more cycle later. Scales stay
// from the end of a block to that of the next. Those of the MAC that the sequencer names come to the
// accumulator as the sum of both, or as NaN, STAGES + 1 cycles later, with NEAR STAGES + 2. If SHARED, one
// multiplier takes the significands of a lane of two MACs above each other. Cycles are enabled ones.
module exact_pu_specification #(
  parameter ROWS = 4, COLUMNS = 4, LANES = 4, A = 12, W = 17, DOT = 27, STAGES = 1, NEAR = 0, SHARED = 0
) (
  input clk,
  input rst,
  input en,
  input [3:0] token,
  input [ROWS*LANES*A-1:0] a,
  input [COLUMNS*LANES*W-1:0] w,
  input [8*ROWS-1:0] scale_a,
  input [8*COLUMNS-1:0] scale_w,
  input [3:0] token_next,
  input [ROWS*LANES*A-1:0] a_next,
  input [COLUMNS*LANES*W-1:0] w_next,
  input [8*ROWS-1:0] scale_a_next,
  input [8*COLUMNS-1:0] scale_w_next,
  input done,
  input [32*COLUMNS-1:0] results,
  // Of the accumulator, the MACs, row by row, the multipliers and the sequencer, in this order.
  input [1+ROWS*COLUMNS*(1+SHARED*LANES/2):0] inside_en_of_each,
  input [1+ROWS*COLUMNS*(1+SHARED*LANES/2):0] inside_rst_of_each,
  input [ROWS*COLUMNS*LANES*(A+SHARED*6)-1:0] inside_a_of_each,
  input [ROWS*COLUMNS*LANES*(W+SHARED*3)-1:0] inside_w_of_each,
  input [ROWS*COLUMNS*LANES*12-1:0] inside_significands_of_each,
  input [ROWS*COLUMNS*LANES*12-1:0] inside_products_of_each,
  input [ROWS*COLUMNS*DOT-1:0] inside_halves_of_each,
  input [ROWS*COLUMNS*DOT-1:0] inside_dots_of_each,
  input [2*ROWS*COLUMNS-1:0] inside_negate_of_each,
  input [2*ROWS*COLUMNS-1:0] inside_plus_of_each,
  input [1:0] inside_valid_of_each,
  input [1:0] inside_first_of_each,
  input [1:0] inside_starts_of_each,
  input [1:0] inside_steps_of_each,
  input [1:0] inside_copies_of_each,
  input [2*ROWS*COLUMNS-1:0] inside_turn_of_each,
  input [3:0] inside_token_of_each,
  input [$clog2(ROWS*COLUMNS)-1:0] inside_index_of_each,
  input inside_done_of_each,
  input [32*COLUMNS-1:0] inside_acc_of_each,
  input [8:0] inside_block_exponent_of_each,
  input inside_nan_of_each,
  // Registers of scales on their way.
  input [7:0] inside_scale_a_0_chosen_1,
  input [7:0] inside_scale_w_0_chosen_1,
  input [8:0] inside_exponent_0_1,
  input [8:0] inside_exponent_0_2,
  input [8:0] inside_exponent_0_3,
  input [8:0] inside_exponent_0_4,
  input [8:0] inside_exponent_0_5,
  input [8:0] inside_exponent_0_6,
  input [8:0] inside_exponent_0_7,
  input inside_nan_0_1,
  input inside_nan_0_2,
  input inside_nan_0_3,
  input inside_nan_0_4,
  input inside_nan_0_5,
  input inside_nan_0_6,
  input inside_nan_0_7,
  output holds
);
  localparam MACS = ROWS * COLUMNS, LINE_A = LANES * A, LINE_W = LANES * W;
  wire [4:0] enters;
  wire ends = token[0] & (token[2] | token[3]);
  enabled_register #(4, 1) of_token (clk, rst, en, token, token_next, enters[0]);
  enabled_register #(ROWS*LINE_A) of_a (clk, rst, en, a, a_next, enters[1]);
  enabled_register #(COLUMNS*LINE_W) of_w (clk, rst, en, w, w_next, enters[2]);
  enabled_register #(8*ROWS) of_scale_a (clk, rst, en & ends, scale_a, scale_a_next, enters[3]);
  enabled_register #(8*COLUMNS) of_scale_w (clk, rst, en & ends, scale_w, scale_w_next, enters[4]);

  wire [MACS-1:0] right;
  genvar at, lane;
  generate for (at = 0; at < MACS; at = at + 1) begin : of
    localparam ROW = at / COLUMNS, COLUMN = at % COLUMNS;
    wire [LINE_A+LINE_W-1:0] operands = {a_next[LINE_A*ROW +: LINE_A], w_next[LINE_W*COLUMN +: LINE_W]};
    wire [LINE_A+LINE_W-1:0] gets
      = {inside_a_of_each[LINE_A*at +: LINE_A], inside_w_of_each[LINE_W*at +: LINE_W]};
    wire moves;
    wire [LANES-1:0] multiplies;
    enabled_register #(LINE_A+LINE_W) of_operands (clk, rst, en, operands, gets, moves);
    for (lane = 0; lane < LANES; lane = lane + 1) begin : of_lane
      // The multiplier of this MAC and of the one above or below: that of the upper one is lower.
      localparam OF = (ROW / 2 * COLUMNS + COLUMN) * LANES + lane, LOWER = ROW % 2;
      if (SHARED) assign multiplies[lane] =
          inside_a_of_each[MACS*LINE_A + 12*OF + 6*LOWER +: 6] == gets[LINE_W + A*lane +: 6]
          & inside_w_of_each[MACS*LINE_W + 6*OF +: 6] == gets[W*lane +: 6]
          & inside_significands_of_each[12*(LANES*at + lane) +: 12]
            == inside_products_of_each[24*OF + 12*LOWER +: 12];
      else assign multiplies[lane] = 1;
    end
    assign right[at] = &multiplies & (NEAR ? moves : gets == operands);
  end endgenerate

  wire [7:0] row_scale = scale_a_next >> 8*(inside_index_of_each/COLUMNS);
  wire [7:0] column_scale = scale_w_next >> 8*(inside_index_of_each%COLUMNS);
  wire chosen, comes;
  enabled_register #(16) of_chosen (clk, rst, en, {row_scale, column_scale},
    {inside_scale_a_0_chosen_1, inside_scale_w_0_chosen_1}, chosen);
  wire [7:0] scale_of_row = NEAR ? inside_scale_a_0_chosen_1 : row_scale;
  wire [7:0] scale_of_column = NEAR ? inside_scale_w_0_chosen_1 : column_scale;
  wire [9:0] sum = {scale_of_row == 255 | scale_of_column == 255, 9'd0 + scale_of_row + scale_of_column};
  wire [79:0] stages = {
    inside_nan_0_7, inside_exponent_0_7, inside_nan_0_6, inside_exponent_0_6,
    inside_nan_0_5, inside_exponent_0_5, inside_nan_0_4, inside_exponent_0_4,
    inside_nan_0_3, inside_exponent_0_3, inside_nan_0_2, inside_exponent_0_2,
    inside_nan_0_1, inside_exponent_0_1, sum};
  enabled_register #(10*STAGES+10) of_sum (clk, rst, en, stages[10*STAGES+9:0],
    {inside_nan_of_each, inside_block_exponent_of_each, stages[10*STAGES+9:10]}, comes);

  localparam PARTS = 2 + MACS * (1 + SHARED * LANES / 2);
  assign holds = &enters & &right & (!NEAR | chosen) & comes
    & inside_en_of_each == {PARTS{en}} & inside_rst_of_each[0] == rst & inside_rst_of_each[PARTS-1] == rst
    & inside_dots_of_each == inside_halves_of_each
    & inside_negate_of_each[MACS-1:0] == inside_negate_of_each[2*MACS-1:MACS]
    & inside_plus_of_each[MACS-1:0] == inside_plus_of_each[2*MACS-1:MACS]
    & inside_turn_of_each[MACS-1:0] == inside_turn_of_each[2*MACS-1:MACS]
    & ^inside_valid_of_each == 0 & ^inside_first_of_each == 0 & ^inside_starts_of_each == 0
    & ^inside_steps_of_each == 0 & ^inside_copies_of_each == 0
    & inside_token_of_each == token_next & done == inside_done_of_each & results == inside_acc_of_each;
endmodule

// Rows and columns of MACs that serve two columns each, COLUMNS apart, with an accumulator each. Operands of
// the rows stay for two cycles, from phase 1 on, while those of the first and the second column come. Scales
// stay from the end of a block to that of the next. Those of the column that the sequencer names come to an
// accumulator with those of its row as the sum of both, or as NaN, two cycles later. Rows of the tile leave
// from its completion on: all first columns come before all second ones. Cycles are enabled ones.
module interleaved_pu_specification #(
  parameter ROWS = 4, COLUMNS = 4, LANES = 8, A = 12, W = 17, DOT = 56, INTERVAL = 4
) (
  input clk,
  input rst,
  input en,
  input [3:0] token,
  input phase,
  input [ROWS*LANES*A-1:0] a,
  input [COLUMNS*LANES*W-1:0] w,
  input [8*ROWS-1:0] scale_a,
  input [16*COLUMNS-1:0] scale_w,
  input [3:0] token_next,
  input phase_next,
  input [ROWS*LANES*A-1:0] a_next,
  input [COLUMNS*LANES*W-1:0] w_next,
  input [8*ROWS-1:0] scale_a_next,
  input [16*COLUMNS-1:0] scale_w_next,
  input done,
  input [64*COLUMNS-1:0] results,
  // Of the accumulators, row by row, the MACs, row by row, and the sequencer, in this order.
  input [2*ROWS*COLUMNS:0] inside_en_of_each,
  input [2*ROWS*COLUMNS:0] inside_rst_of_each,
  input [ROWS*COLUMNS*LANES*A-1:0] inside_a_of_each,
  input [ROWS*COLUMNS*LANES*W-1:0] inside_w_of_each,
  input [ROWS*COLUMNS*DOT-1:0] inside_halves_of_each,
  input [ROWS*COLUMNS*DOT-1:0] inside_dots_of_each,
  input [4*ROWS*COLUMNS-1:0] inside_plus_of_each,
  input [ROWS*COLUMNS:0] inside_first_of_each,
  input [ROWS*COLUMNS+1:0] inside_starts_of_each,
  input [ROWS*COLUMNS:0] inside_steps_of_each,
  input [9*ROWS*COLUMNS-1:0] inside_block_exponent_of_each,
  input [ROWS*COLUMNS-1:0] inside_nan_of_each,
  input [64*ROWS*COLUMNS-1:0] inside_acc_of_each,
  input [3:0] inside_token_of_each,
  input inside_phase_of_each,
  input inside_index_of_each,
  input inside_done_of_each,
  // Registers of scales, and of rows that wait.
  input inside_index_later_1,
  input [7:0] inside_scale_a_0_later_1,
  input [7:0] inside_scale_a_1_later_1,
  input [7:0] inside_scale_a_2_later_1,
  input [7:0] inside_scale_a_3_later_1,
  input [7:0] inside_scale_w_0_later_1,
  input [7:0] inside_scale_w_1_later_1,
  input [7:0] inside_scale_w_2_later_1,
  input [7:0] inside_scale_w_3_later_1,
  input [7:0] inside_scale_w_4_later_1,
  input [7:0] inside_scale_w_5_later_1,
  input [7:0] inside_scale_w_6_later_1,
  input [7:0] inside_scale_w_7_later_1,
  input [64*COLUMNS-1:0] inside_row_1_held,
  input [64*COLUMNS-1:0] inside_row_2_held,
  input [64*COLUMNS-1:0] inside_row_3_held,
  output holds
);
  localparam MACS = ROWS * COLUMNS, LINE_A = LANES * A, LINE_W = LANES * W;
  wire [6:0] enters;
  wire ends = token[0] & (token[2] | token[3]);
  enabled_register #(4, 1) of_token (clk, rst, en, token, token_next, enters[0]);
  enabled_register #(1) of_phase (clk, rst, en, phase, phase_next, enters[1]);
  enabled_register #(ROWS*LINE_A) of_a (clk, rst, en & phase, a, a_next, enters[2]);
  enabled_register #(COLUMNS*LINE_W) of_w (clk, rst, en, w, w_next, enters[3]);
  enabled_register #(8*ROWS) of_scale_a (clk, rst, en & ends, scale_a, scale_a_next, enters[4]);
  enabled_register #(16*COLUMNS) of_scale_w (clk, rst, en & ends, scale_w, scale_w_next, enters[5]);
  wire [8*ROWS-1:0] row_scales = {inside_scale_a_3_later_1, inside_scale_a_2_later_1,
    inside_scale_a_1_later_1, inside_scale_a_0_later_1};
  wire [16*COLUMNS-1:0] column_scales = {inside_scale_w_7_later_1, inside_scale_w_6_later_1,
    inside_scale_w_5_later_1, inside_scale_w_4_later_1, inside_scale_w_3_later_1, inside_scale_w_2_later_1,
    inside_scale_w_1_later_1, inside_scale_w_0_later_1};
  enabled_register #(1+8*ROWS+16*COLUMNS) of_scales (clk, rst, en, {inside_index_of_each, scale_a_next, scale_w_next},
    {inside_index_later_1, row_scales, column_scales}, enters[6]);

  wire [MACS-1:0] right;
  wire [64*MACS-1:0] tile;
  genvar at, turn;
  generate for (at = 0; at < MACS; at = at + 1) begin : of
    localparam ROW = at / COLUMNS, COLUMN = at % COLUMNS;
    wire [7:0] row_scale = row_scales[8*ROW +: 8];
    wire [7:0] column_scale = column_scales[8*(COLUMN + COLUMNS*inside_index_later_1) +: 8];
    wire comes;
    enabled_register #(10) of_sum (clk, rst, en,
      {row_scale == 255 | column_scale == 255, 9'd0 + row_scale + column_scale},
      {inside_nan_of_each[at], inside_block_exponent_of_each[9*at +: 9]}, comes);
    assign right[at] = comes & inside_a_of_each[LINE_A*at +: LINE_A] == a_next[LINE_A*ROW +: LINE_A]
      & inside_w_of_each[LINE_W*at +: LINE_W] == w_next[LINE_W*COLUMN +: LINE_W]
      & inside_starts_of_each[at] == inside_starts_of_each[MACS + at*2/MACS];
    for (turn = 0; turn < 2; turn = turn + 1) begin : of_column
      assign tile[32*(2*COLUMNS*ROW + COLUMNS*turn + COLUMN) +: 32]
        = inside_acc_of_each[64*at + 32*turn +: 32];
    end
  end endgenerate
  wire rows_leave;
  leaving_rows #(ROWS, 64*COLUMNS, INTERVAL) of_rows (clk, rst, en, inside_done_of_each, tile,
    done, results, {inside_row_3_held, inside_row_2_held, inside_row_1_held}, rows_leave);
  assign holds = &enters & &right & rows_leave & inside_en_of_each == {2*MACS+1{en}}
    & inside_rst_of_each[MACS-1:0] == {MACS{rst}} & inside_rst_of_each[2*MACS] == rst
    & inside_dots_of_each == inside_halves_of_each
    & inside_plus_of_each[2*MACS-1:0] == inside_plus_of_each[4*MACS-1:2*MACS]
    & inside_first_of_each[MACS-1:0] == {MACS{inside_first_of_each[MACS]}}
    & inside_steps_of_each[MACS-1:0] == {MACS{inside_steps_of_each[MACS]}}
    & inside_token_of_each == token_next & inside_phase_of_each == phase_next;
endmodule

// Rows and columns of MACs whose dot products one accumulator adds up relative to anchors. With two TURNS a
// MAC serves two columns, COLUMNS apart, with a group of lanes for each; operands of the rows come to a group
// in its phase and stay for both, those of the columns come in each cycle. Scales are distances from the
// anchors, and stay from the end of a block on; anchors stay from the end of a tile on. A distance of a row
// and that of a column, of the one whose turn it is, make one of 31 at most, a cycle later. Anchors of the
// MAC that the sequencer names come to the accumulator as their sum, or as NaN, TURNS + 2 cycles later.
module window_pu_specification #(
  parameter ROWS = 4, COLUMNS = 4, LANES = 4, A = 12, W = 17, DOT = 27, TURNS = 1
) (
  input clk,
  input rst,
  input en,
  input [3:0] token,
  input phase,
  input [ROWS*LANES*A-1:0] a,
  input [ROWS*LANES*A-1:0] a_0,
  input [ROWS*LANES*A-1:0] a_1,
  input [COLUMNS*LANES*W-1:0] w,
  input [COLUMNS*LANES*W-1:0] w_0,
  input [COLUMNS*LANES*W-1:0] w_1,
  input [5*ROWS-1:0] scale_a,
  input [5*TURNS*COLUMNS-1:0] scale_w,
  input [8*ROWS-1:0] anchor_a,
  input [8*TURNS*COLUMNS-1:0] anchor_w,
  input [3:0] token_next,
  input phase_next,
  input [ROWS*LANES*A-1:0] a_next,
  input [ROWS*LANES*A-1:0] a_0_next,
  input [ROWS*LANES*A-1:0] a_1_next,
  input [COLUMNS*LANES*W-1:0] w_next,
  input [COLUMNS*LANES*W-1:0] w_0_next,
  input [COLUMNS*LANES*W-1:0] w_1_next,
  input [5*ROWS-1:0] scale_a_next,
  input [5*TURNS*COLUMNS-1:0] scale_w_next,
  input [8*ROWS-1:0] anchor_a_next,
  input [8*TURNS*COLUMNS-1:0] anchor_w_next,
  input done,
  input [32*TURNS*COLUMNS-1:0] results,
  // Of the accumulator, the groups of MACs, row by row, and the sequencer, in this order.
  input [1+TURNS*ROWS*COLUMNS:0] inside_en_of_each,
  input [1+TURNS*ROWS*COLUMNS:0] inside_rst_of_each,
  input [TURNS*ROWS*COLUMNS*LANES*A-1:0] inside_a_of_each,
  input [TURNS*ROWS*COLUMNS*LANES*W-1:0] inside_w_of_each,
  input [TURNS*ROWS*COLUMNS*DOT-1:0] inside_halves_of_each,
  input [TURNS*ROWS*COLUMNS*DOT-1:0] inside_dots_of_each,
  input [2*TURNS*ROWS*COLUMNS-1:0] inside_negate_of_each,
  input [5*ROWS*COLUMNS-1:0] inside_distances_of_each,
  input [1:0] inside_aligns_of_each,
  input [1:0] inside_valid_of_each,
  input [1:0] inside_first_of_each,
  input [3:0] inside_starts_of_each,
  input [2*ROWS*COLUMNS-1:0] inside_turn_of_each,
  input [9*TURNS-1:0] inside_anchor_exponent_of_each,
  input [TURNS-1:0] inside_nan_of_each,
  input [3:0] inside_token_of_each,
  input inside_phase_of_each,
  input [$clog2(ROWS*COLUMNS)-1:0] inside_index_of_each,
  input inside_done_of_each,
  input [32*TURNS*COLUMNS-1:0] inside_results_of_each,
  // Registers of distances, and of anchors on their way.
  input [5*ROWS-1:0] inside_distance_a_1,
  input [5*COLUMNS-1:0] inside_distance_w_1,
  input [8:0] inside_anchor_exponent_1,
  input [8:0] inside_anchor_exponent_2,
  input [8:0] inside_anchor_exponent_3,
  input [8:0] inside_anchor_exponent_1_1,
  input [8:0] inside_anchor_exponent_1_2,
  input [8:0] inside_anchor_exponent_1_3,
  input inside_anchor_nan_1,
  input inside_anchor_nan_2,
  input inside_anchor_nan_3,
  input inside_anchor_nan_1_1,
  input inside_anchor_nan_1_2,
  input inside_anchor_nan_1_3,
  output holds
);
  localparam MACS = ROWS * COLUMNS, LINE_A = LANES * A, LINE_W = LANES * W, BEAT_A = ROWS * LINE_A;
  localparam BEAT_W = COLUMNS * LINE_W;
  wire [7:0] enters;
  wire ends = token[0] & (token[2] | token[3]), ends_tile = token[0] & token[3];
  enabled_register #(4, 1) of_token (clk, rst, en, token, token_next, enters[0]);
  enabled_register #(1) of_phase (clk, rst, en, phase, phase_next, enters[1]);
  enabled_register #(5*ROWS) of_scale_a (clk, rst, en & ends, scale_a, scale_a_next, enters[2]);
  enabled_register #(5*TURNS*COLUMNS) of_scale_w (clk, rst, en & ends, scale_w, scale_w_next, enters[3]);
  enabled_register #(8*ROWS) of_anchor_a (clk, rst, en & ends_tile, anchor_a, anchor_a_next, enters[4]);
  enabled_register #(8*TURNS*COLUMNS) of_anchor_w (clk, rst, en & ends_tile, anchor_w, anchor_w_next, enters[5]);
  enabled_register #(5*ROWS) of_distance_a (clk, rst, en, scale_a_next, inside_distance_a_1, enters[6]);
  wire [5*COLUMNS-1:0] distances_w = scale_w_next >> (TURNS == 2 & ~phase_next ? 5 * COLUMNS : 0);
  enabled_register #(5*COLUMNS) of_distance_w (clk, rst, en, distances_w, inside_distance_w_1, enters[7]);

  // Operands and anchors of the groups.
  wire [TURNS*BEAT_A-1:0] rows_come = TURNS == 1 ? a : {a_1, a_0};
  wire [TURNS*BEAT_A-1:0] rows = TURNS == 1 ? a_next : {a_1_next, a_0_next};
  wire [TURNS*BEAT_W-1:0] columns_come = TURNS == 1 ? w : {w_1, w_0};
  wire [TURNS*BEAT_W-1:0] columns = TURNS == 1 ? w_next : {w_1_next, w_0_next};
  wire [59:0] stages = {
    inside_anchor_nan_1_3, inside_anchor_exponent_1_3, inside_anchor_nan_1_2, inside_anchor_exponent_1_2,
    inside_anchor_nan_1_1, inside_anchor_exponent_1_1, inside_anchor_nan_3, inside_anchor_exponent_3,
    inside_anchor_nan_2, inside_anchor_exponent_2, inside_anchor_nan_1, inside_anchor_exponent_1};
  wire [7:0] row_anchor = anchor_a_next >> 8 * (inside_index_of_each / COLUMNS);
  wire [3*TURNS-1:0] of_group;
  wire [TURNS*MACS-1:0] right;
  wire [MACS-1:0] right_distance;
  genvar group, at;
  generate for (group = 0; group < TURNS; group = group + 1) begin : of
    enabled_register #(BEAT_A) of_a (clk, rst, en & (TURNS == 1 | phase == group), rows_come[BEAT_A*group +: BEAT_A],
      rows[BEAT_A*group +: BEAT_A], of_group[3*group]);
    enabled_register #(BEAT_W) of_w (clk, rst, en, columns_come[BEAT_W*group +: BEAT_W],
      columns[BEAT_W*group +: BEAT_W], of_group[3*group+1]);
    wire [7:0] column_anchor = anchor_w_next >> 8 * (COLUMNS*group + inside_index_of_each % COLUMNS);
    wire [9:0] sum = {row_anchor == 255 | column_anchor == 255, 9'd0 + row_anchor + column_anchor};
    wire [10*TURNS+9:0] own = stages >> 30 * group;
    enabled_register #(10*TURNS+20) of_sum (clk, rst, en, {own, sum},
      {inside_nan_of_each[group], inside_anchor_exponent_of_each[9*group +: 9], own}, of_group[3*group+2]);
  end
  for (at = 0; at < TURNS*MACS; at = at + 1) begin : of_mac
    localparam ROW = at / TURNS / COLUMNS, COLUMN = at / TURNS % COLUMNS, GROUP = at % TURNS;
    assign right[at] = inside_a_of_each[LINE_A*at +: LINE_A] == rows[BEAT_A*GROUP + LINE_A*ROW +: LINE_A]
      & inside_w_of_each[LINE_W*at +: LINE_W] == columns[BEAT_W*GROUP + LINE_W*COLUMN +: LINE_W];
  end
  for (at = 0; at < MACS; at = at + 1) begin : of_sum
    wire [5:0] distance = inside_distance_a_1[5*(at/COLUMNS) +: 5] + inside_distance_w_1[5*(at%COLUMNS) +: 5];
    assign right_distance[at] = inside_distances_of_each[5*at +: 5] == (distance > 31 ? 31 : distance);
  end endgenerate

  localparam DOTS = TURNS * MACS;
  assign holds = &enters & &of_group & &right & &right_distance & inside_en_of_each == {DOTS+2{en}}
    & inside_rst_of_each[0] == rst & inside_rst_of_each[DOTS+1] == rst
    & inside_dots_of_each == inside_halves_of_each
    & inside_negate_of_each[DOTS-1:0] == inside_negate_of_each[2*DOTS-1:DOTS]
    & inside_turn_of_each[MACS-1:0] == inside_turn_of_each[2*MACS-1:MACS]
    & inside_starts_of_each[1:0] == inside_starts_of_each[3:2]
    & ^inside_aligns_of_each == 0 & ^inside_valid_of_each == 0 & ^inside_first_of_each == 0
    & inside_token_of_each == token_next & inside_phase_of_each == phase_next
    & done == inside_done_of_each & results == inside_results_of_each;
endmodule

// An engine of products: what is between buffers, the feed of operands, the array and the rows of results. A
// beat of codes, of scales and anchors if there are such, comes from both buffers in one cycle, and the array
// takes both; with anchors the feed sees all scales. The feed and the rows get the same descriptors. An
// address outside a buffer is error 3; the feed is ahead, so its error waits until no older descriptor is
// left. The array's flags of errors reach nobody.
module gemm_engine_specification #(
  parameter PU_ROWS = 4, PU_COLUMNS = 4, ROWS = 4, COLUMNS = 4, LANES = 4, CODE = 8, SCALED = 1, ANCHORED = 0
) (
  input clk,
  input rst,
  input engine_valid,
  input [239:0] engine_descriptor,
  input engine_ready,
  input engine_done,
  input [3:0] engine_error,
  input engine_stop,
  input a_codes_en,
  input [31:0] a_codes_address,
  input [PU_ROWS*ROWS*LANES*CODE-1:0] a_codes_data,
  input a_scales_en,
  input [31:0] a_scales_address,
  input [8*PU_ROWS*ROWS-1:0] a_scales_data,
  input w_codes_en,
  input [31:0] w_codes_address,
  input [PU_COLUMNS*COLUMNS*LANES*CODE-1:0] w_codes_data,
  input w_scales_en,
  input [31:0] w_scales_address,
  input [8*PU_COLUMNS*COLUMNS-1:0] w_scales_data,
  input result_valid,
  input result_ready,
  input [31:0] result_address,
  input [1:0] result_halves,
  input [32*PU_COLUMNS*COLUMNS-1:0] result_data,
  input array_busy,
  // Of the array, the feed, and the rows, in this order.
  input [2:0] inside_rst_of_each,
  input [PU_ROWS*ROWS*(LANES*CODE+16)-1:0] inside_s_axis_a_tdata_of_each,
  input [1:0] inside_s_axis_a_tuser_of_each,
  input inside_s_axis_a_tvalid_of_each,
  input inside_s_axis_a_tready_of_each,
  input inside_s_axis_a_tlast_of_each,
  input [PU_COLUMNS*COLUMNS*(LANES*CODE+16)-1:0] inside_s_axis_w_tdata_of_each,
  input inside_s_axis_w_tvalid_of_each,
  input inside_s_axis_w_tlast_of_each,
  input [32*PU_COLUMNS*COLUMNS-1:0] inside_m_axis_c_tdata_of_each,
  input inside_m_axis_c_tvalid_of_each,
  input inside_m_axis_c_tready_of_each,
  input inside_m_axis_c_tlast_of_each,
  input inside_valid_of_each,
  input inside_ready_of_each,
  input [479:0] inside_descriptor_of_each,
  input [1:0] inside_enters_of_each,
  input [1:0] inside_has_room_of_each,
  input [1:0] inside_fault_of_each,
  input inside_a_codes_en_of_each,
  input [31:0] inside_a_codes_address_of_each,
  input inside_w_codes_en_of_each,
  input [31:0] inside_w_codes_address_of_each,
  input inside_a_scales_en_of_each,
  input [31:0] inside_a_scales_address_of_each,
  input inside_w_scales_en_of_each,
  input [31:0] inside_w_scales_address_of_each,
  input [8*PU_ROWS*ROWS-1:0] inside_a_entry_of_each,
  input [8*PU_COLUMNS*COLUMNS-1:0] inside_w_entry_of_each,
  input [8*PU_ROWS*ROWS-1:0] inside_a_anchors_of_each,
  input [8*PU_COLUMNS*COLUMNS-1:0] inside_w_anchors_of_each,
  input inside_beat_valid_of_each,
  input inside_beat_ready_of_each,
  input inside_first_of_each,
  input inside_block_last_of_each,
  input inside_last_of_each,
  input [32*PU_COLUMNS*COLUMNS-1:0] inside_s_axis_tdata_of_each,
  input inside_s_axis_tvalid_of_each,
  input inside_s_axis_tready_of_each,
  input inside_s_axis_tlast_of_each,
  input inside_is_only_one_of_each,
  input inside_stop_of_each,
  input inside_done_of_each,
  input inside_result_valid_of_each,
  input inside_result_ready_of_each,
  input [31:0] inside_result_address_of_each,
  input [1:0] inside_result_halves_of_each,
  input [32*PU_COLUMNS*COLUMNS-1:0] inside_result_data_of_each,
  output holds
);
  wire [PU_ROWS*ROWS*(LANES*CODE+16)-1:0] a = {inside_a_anchors_of_each, a_scales_data, a_codes_data};
  wire [PU_COLUMNS*COLUMNS*(LANES*CODE+16)-1:0] w = {inside_w_anchors_of_each, w_scales_data, w_codes_data};
  wire descriptors_come = inside_valid_of_each == engine_valid & engine_ready == inside_ready_of_each
    & inside_descriptor_of_each == {2{engine_descriptor}} & ^inside_enters_of_each == 0
    & ^inside_has_room_of_each == 0 & engine_done == inside_done_of_each & inside_stop_of_each == engine_stop
    & engine_error
      == (inside_fault_of_each[1] | inside_fault_of_each[0] & inside_is_only_one_of_each ? 3 : 0);
  wire buffers_are_read = a_codes_en == inside_a_codes_en_of_each & w_codes_en == inside_w_codes_en_of_each
    & a_codes_address == inside_a_codes_address_of_each & w_codes_address == inside_w_codes_address_of_each
    & (!SCALED | a_scales_en == inside_a_scales_en_of_each & w_scales_en == inside_w_scales_en_of_each
      & a_scales_address == inside_a_scales_address_of_each
      & w_scales_address == inside_w_scales_address_of_each);
  wire scales_come = !ANCHORED
    | inside_a_entry_of_each == a_scales_data & inside_w_entry_of_each == w_scales_data;
  wire beats_come = scales_come & inside_s_axis_a_tdata_of_each == a & inside_s_axis_w_tdata_of_each == w
    & inside_s_axis_a_tvalid_of_each == inside_beat_valid_of_each
    & inside_s_axis_w_tvalid_of_each == inside_beat_valid_of_each
    & inside_beat_ready_of_each == inside_s_axis_a_tready_of_each
    & inside_s_axis_a_tuser_of_each == {inside_block_last_of_each, inside_first_of_each}
    & inside_s_axis_a_tlast_of_each == inside_last_of_each
    & inside_s_axis_w_tlast_of_each == inside_last_of_each
    & array_busy == (inside_beat_valid_of_each & inside_s_axis_a_tready_of_each);
  wire rows_leave = inside_s_axis_tdata_of_each == inside_m_axis_c_tdata_of_each
    & inside_s_axis_tvalid_of_each == inside_m_axis_c_tvalid_of_each
    & inside_m_axis_c_tready_of_each == inside_s_axis_tready_of_each
    & inside_s_axis_tlast_of_each == inside_m_axis_c_tlast_of_each
    & result_valid == inside_result_valid_of_each & inside_result_ready_of_each == result_ready
    & result_address == inside_result_address_of_each & result_halves == inside_result_halves_of_each
    & result_data == inside_result_data_of_each;
  assign holds = inside_rst_of_each == {3{rst}} & descriptors_come & buffers_are_read & beats_come
    & rows_leave;
endmodule
