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
      & (!GROUPS | m_axis_tuser == s_axis_tuser))
    & &same & inside_is_padding == pads & inside_lane == lane;
endmodule

// Rows of beats, read from a buffer as long as there is room for AHEAD of them here, each in the cycle
// behind the one in which its address was taken. An address outside is said, and not read.
module beat_reader_specification #(
  parameter DEPTH = 2048, ADDRESS = 14, BEAT = 512, ROWS = 8, AHEAD = 3
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
  input inside_arriving_is_last,
  input [AHEAD-1:0] inside_is_held,
  input inside_has_room,
  input [1:0] inside_room,
  input [BEAT:0] inside_beat_0,
  input [BEAT:0] inside_beat_1,
  input [BEAT:0] inside_beat_2,
  input [ADDRESS:0] inside_here,
  input [ADDRESS:0] inside_row,
  output holds
);
  reg [ROWS-1:0] rows_left;
  reg [12:0] beats_left;
  reg [$clog2(AHEAD+1)-1:0] held;
  reg coming, coming_last;
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
  always @(posedge clk) begin
    rows_left <= rst ? 0 : start ? rows : rows_left - (asked & last);
    if (start) beats_left <= beats;
    else if (asked) beats_left <= last ? beats : beats_left - 1;
    {coming, coming_last} <= {asked & ~rst, last};
    held <= rst ? 0 : left + coming;
    queue <= rest;
    if (coming) queue[(BEAT+1)*left +: BEAT+1] <= {coming_last, read_data};
  end
  wire wanted = rows_left != 0 & held + coming < AHEAD & ~stop;
  wire [AHEAD-1:0] places = (1 << held) - 1;
  wire [3*(BEAT+1)-1:0] own = {inside_beat_2, inside_beat_1, inside_beat_0};
  wire [AHEAD-1:0] same;
  genvar place;
  generate for (place = 0; place < AHEAD; place = place + 1) begin : of
    assign same[place] = place >= held
      | own[(BEAT+1)*place +: BEAT+1] == queue[(BEAT+1)*place +: BEAT+1];
  end endgenerate
  wire own_right = inside_rows_left == rows_left & (rows_left == 0 | inside_beats_left == beats_left
      & walk_on & inside_here == here & inside_row == row)
    & inside_beat_arrives == coming & (~coming | inside_arriving_is_last == coming_last)
    & held + coming <= AHEAD & &same & (AHEAD == 1 ? inside_has_room == (held + coming == 0)
      : inside_room == AHEAD - held - coming & inside_is_held == places);
  assign holds = read_valid == (wanted & ~is_outside) & outside == (wanted & is_outside) & ~read_hold
    & (~read_valid | read_address == here) & m_axis_tvalid == (held != 0)
    & (~m_axis_tvalid | {m_axis_tlast, m_axis_tdata} == queue[BEAT:0]) & own_right;
endmodule
