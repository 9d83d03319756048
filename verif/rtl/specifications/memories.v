// Memories and units around them. Of all words of a memory one is watched, which may be any one and stays
// the same; what is said of it holds of all.

// A bit of a word: what was written there last, from the first time on, and what was last read, if that
// was the word. A reset changes nothing; what is read while it is written may be anything.
module beat_memory_specification #(parameter DEPTH = 512) (
  input clk,
  input rst,
  input write_en,
  input [$clog2(DEPTH)-1:0] write_address,
  input write_data,
  input read_en,
  input [$clog2(DEPTH)-1:0] read_address,
  input read_data,
  // The unit's own words, for a proof by induction.
  input [DEPTH-1:0] inside_beats,
  output holds
);
  reg [$clog2(DEPTH)-1:0] watched;
  reg is_known = 0, shows = 0, word, shown;
  wire is_written = write_en & write_address == watched;
  always @(posedge clk) begin
    watched <= watched;
    if (is_written) {is_known, word} <= {1'b1, write_data};
    if (read_en) {shows, shown} <= {is_known & ~is_written & read_address == watched, word};
  end
  assign holds = (~is_known | inside_beats[watched] == word) & (~shows | read_data == shown);
endmodule

// What stands for a memory inside a unit: it knows that word, from the first time on that it is written
// after a reset, and what was read if it was that. All else may be anything at any time.
module watched_memory #(parameter BEAT_BITS = 512, DEPTH = 512) (
  input clk,
  input rst,
  input [31:0] watched,
  input write_en,
  input [$clog2(DEPTH)-1:0] write_address,
  input [BEAT_BITS-1:0] write_data,
  input read_en,
  input [$clog2(DEPTH)-1:0] read_address,
  output [BEAT_BITS-1:0] read_data,
  output reg known,
  output reg [BEAT_BITS-1:0] word,
  output reg shows,
  output reg [BEAT_BITS-1:0] shown
);
  (* anyseq *) wire [BEAT_BITS-1:0] anything;
  wire [$clog2(DEPTH)-1:0] place = watched;
  wire is_written = write_en & write_address == place;
  always @(posedge clk) begin
    known <= ~rst & (known | is_written);
    if (is_written) word <= write_data;
    if (rst) shows <= 0;
    else if (read_en) {shows, shown} <= {known & ~is_written & read_address == place, word};
  end
  assign read_data = shows ? shown : anything;
endmodule

// A word with two writers, by parts of so many bits. The first writer goes first. What is written may wait
// in registers for a cycle, and is not defined while it does.
module written_word #(parameter ADDRESS = 11, PARTS = 2, BITS = 256, HELD = 0) (
  input clk,
  input rst,
  input [ADDRESS-1:0] watched,
  input first_valid,
  input [ADDRESS-1:0] first_address,
  input [PARTS-1:0] first_halves,
  input [PARTS*BITS-1:0] first_data,
  input second_valid,
  input [ADDRESS-1:0] second_address,
  input [PARTS-1:0] second_halves,
  input [PARTS*BITS-1:0] second_data,
  output reg [PARTS-1:0] known,
  output reg [PARTS*BITS-1:0] word,
  output [PARTS-1:0] settled,
  // For a proof by induction: what waits.
  output reg waits,
  output reg [ADDRESS-1:0] address_held,
  output reg [PARTS-1:0] halves_held,
  output reg [PARTS*BITS-1:0] data_held
);
  wire comes = first_valid | second_valid;
  wire [ADDRESS-1:0] address = first_valid ? first_address : second_address;
  wire [PARTS-1:0] halves = first_valid ? first_halves : second_halves;
  wire [PARTS*BITS-1:0] data = first_valid ? first_data : second_data;
  wire [PARTS-1:0] hit = {PARTS{comes & address == watched}} & halves;
  wire [PARTS-1:0] hit_held = {PARTS{waits & address_held == watched}} & halves_held;
  wire [PARTS-1:0] writes = HELD ? hit_held : hit;
  integer part;
  always @(posedge clk) begin
    waits <= comes & ~rst;
    {address_held, halves_held, data_held} <= {address, halves, data};
    known <= rst ? 0 : known | writes;
    for (part = 0; part < PARTS; part = part + 1)
      if (writes[part])
        word[BITS*part +: BITS] <= HELD ? data_held[BITS*part +: BITS] : data[BITS*part +: BITS];
  end
  assign settled = known & ~writes & ~hit;
endmodule

// Beats of codes of WORDS words, and of scales, if there are any, entries of half a word: two writers to
// each, by words and by entries, and a port to read each, an entry at a time or two together.
module operand_buffer_specification #(
  parameter BITS = 256, BEATS = 2048, WORDS = 2, SCALED = 1, TOGETHER = 0, HELD = 0
) (
  input clk,
  input rst,
  input [31:0] watched,
  input vector_codes_valid,
  input vector_codes_ready,
  input [$clog2(BEATS)-1:0] vector_codes_address,
  input [WORDS-1:0] vector_codes_halves,
  input [WORDS*BITS-1:0] vector_codes_data,
  input load_codes_valid,
  input load_codes_ready,
  input [$clog2(BEATS)-1:0] load_codes_address,
  input [WORDS-1:0] load_codes_halves,
  input [WORDS*BITS-1:0] load_codes_data,
  input vector_scales_valid,
  input vector_scales_ready,
  input [$clog2(BEATS/4)-1:0] vector_scales_address,
  input [1:0] vector_scales_halves,
  input [BITS-1:0] vector_scales_data,
  input load_scales_valid,
  input load_scales_ready,
  input [$clog2(BEATS/4)-1:0] load_scales_address,
  input [1:0] load_scales_halves,
  input [BITS-1:0] load_scales_data,
  input codes_en,
  input [$clog2(BEATS)-1:0] codes_address,
  input [WORDS*BITS-1:0] codes_data,
  input scales_en,
  input [$clog2(BEATS/(TOGETHER ? 4 : 2))-1:0] scales_address,
  input [BITS/(TOGETHER ? 1 : 2)-1:0] scales_data,
  // The unit's own memories and registers, for a proof by induction.
  input inside_known_0,
  input [BITS-1:0] inside_word_0,
  input inside_shows_0,
  input [BITS-1:0] inside_shown_0,
  input inside_known_1,
  input [BITS-1:0] inside_word_1,
  input inside_shows_1,
  input [BITS-1:0] inside_shown_1,
  input inside_known_2,
  input [BITS-1:0] inside_word_2,
  input inside_shows_2,
  input [BITS-1:0] inside_shown_2,
  input inside_known_3,
  input [BITS-1:0] inside_word_3,
  input inside_shows_3,
  input [BITS-1:0] inside_shown_3,
  input inside_shows_odd_entry,
  input inside_codes_is_held,
  input [$clog2(BEATS)-1:0] inside_codes_0_write_address,
  input [WORDS-1:0] inside_codes_halves_held,
  input [WORDS*BITS-1:0] inside_codes_data_held,
  input inside_scales_is_held,
  input [$clog2(BEATS/4)-1:0] inside_scales_0_write_address,
  input [1:0] inside_scales_halves_held,
  input [BITS-1:0] inside_scales_data_held,
  output holds
);
  wire [$clog2(BEATS)-1:0] beat = watched;
  wire [WORDS-1:0] codes_known, codes_settled, codes_halves;
  wire [WORDS*BITS-1:0] codes, codes_held;
  wire [$clog2(BEATS)-1:0] codes_place;
  wire codes_wait;
  written_word #($clog2(BEATS), WORDS, BITS, HELD) of_codes (clk, rst, beat,
    vector_codes_valid, vector_codes_address, vector_codes_halves, vector_codes_data,
    load_codes_valid, load_codes_address, load_codes_halves, load_codes_data,
    codes_known, codes, codes_settled, codes_wait, codes_place, codes_halves, codes_held);
  // Two entries are a word, the even one its low half.
  wire [$clog2(BEATS/4)-1:0] pair = watched;
  wire [1:0] scales_known, scales_settled, scales_halves;
  wire [BITS-1:0] scales, scales_held;
  wire [$clog2(BEATS/4)-1:0] scales_place;
  wire scales_wait;
  written_word #($clog2(BEATS/4), 2, BITS/2, HELD) of_scales (clk, rst, pair,
    vector_scales_valid, vector_scales_address, vector_scales_halves, vector_scales_data,
    load_scales_valid, load_scales_address, load_scales_halves, load_scales_data,
    scales_known, scales, scales_settled, scales_wait, scales_place, scales_halves, scales_held);
  wire [1:0] is_pair = TOGETHER ? {2{scales_address == pair}}
    : {scales_address == {pair, 1'b1}, scales_address == {pair, 1'b0}};
  reg [WORDS-1:0] codes_show;
  reg [WORDS*BITS-1:0] codes_shown;
  reg [1:0] scales_show;
  reg [BITS-1:0] scales_shown;
  always @(posedge clk) begin
    if (rst) {codes_show, scales_show} <= 0;
    else begin
      if (codes_en) codes_show <= codes_settled & {WORDS{codes_address == beat}};
      if (scales_en) scales_show <= scales_settled & is_pair;
    end
    if (codes_en) codes_shown <= codes;
    if (scales_en) scales_shown <= scales;
  end

  wire [3:0] knowns = {inside_known_3, inside_known_2, inside_known_1, inside_known_0};
  wire [3:0] shows = {inside_shows_3, inside_shows_2, inside_shows_1, inside_shows_0};
  wire [4*BITS-1:0] words = {inside_word_3, inside_word_2, inside_word_1, inside_word_0};
  wire [4*BITS-1:0] shown = {inside_shown_3, inside_shown_2, inside_shown_1, inside_shown_0};
  wire [WORDS-1:0] codes_right;
  wire [1:0] scales_right;
  genvar part;
  generate for (part = 0; part < WORDS; part = part + 1) begin : of_word
    wire [BITS-1:0] word = codes[BITS*part +: BITS], word_shown = codes_shown[BITS*part +: BITS];
    assign codes_right[part] = knowns[part] == codes_known[part]
      & (~codes_known[part] | words[BITS*part +: BITS] == word)
      & (~codes_show[part] | shows[part] & shown[BITS*part +: BITS] == word_shown
        & codes_data[BITS*part +: BITS] == word_shown);
  end
  for (part = 0; part < 2; part = part + 1) begin : of_entry
    localparam HALF = BITS / 2;
    wire [HALF-1:0] entry = scales[HALF*part +: HALF], entry_shown = scales_shown[HALF*part +: HALF];
    if (SCALED) assign scales_right[part] = knowns[WORDS+part] == scales_known[part]
      & (~scales_known[part] | words[BITS*(WORDS+part) +: HALF] == entry)
      & (~scales_show[part] | shows[WORDS+part] & shown[BITS*(WORDS+part) +: HALF] == entry_shown
        & scales_data[TOGETHER ? HALF*part : 0 +: HALF] == entry_shown
        & (TOGETHER | inside_shows_odd_entry == part));
    else assign scales_right[part] = 1;
  end endgenerate
  wire waits_right = inside_codes_is_held == codes_wait & (~codes_wait
      | inside_codes_0_write_address == codes_place & inside_codes_halves_held == codes_halves
      & inside_codes_data_held == codes_held)
    & (!SCALED | inside_scales_is_held == scales_wait & (~scales_wait
      | inside_scales_0_write_address == scales_place & inside_scales_halves_held == scales_halves
      & inside_scales_data_held == scales_held));
  assign holds = &codes_right & &scales_right & (!HELD | waits_right)
    & (~vector_codes_valid | vector_codes_ready) & (~vector_scales_valid | vector_scales_ready)
    & (~load_codes_valid | load_codes_ready == ~vector_codes_valid)
    & (~load_scales_valid | load_scales_ready == ~vector_scales_valid);
endmodule

// Beats in banks, the bank at the top of an address, written by halves. Of those that want to write to a
// bank, and of those that want to read from one, the first of the list goes. A bank whose beat a reader
// looks at and holds is read by nobody; what was read stays while it is held.
module vector_buffer_specification #(parameter BANKS = 4, DEPTH = 1024, COLUMNS = 16) (
  input clk,
  input rst,
  input [31:0] watched,
  input gemm_valid,
  input gemm_ready,
  input [$clog2(BANKS*DEPTH)-1:0] gemm_address,
  input [1:0] gemm_halves,
  input [32*COLUMNS-1:0] gemm_data,
  input vector_valid,
  input vector_ready,
  input [$clog2(BANKS*DEPTH)-1:0] vector_address,
  input [1:0] vector_halves,
  input [32*COLUMNS-1:0] vector_data,
  input load_valid,
  input load_ready,
  input [$clog2(BANKS*DEPTH)-1:0] load_address,
  input [1:0] load_halves,
  input [32*COLUMNS-1:0] load_data,
  input x_valid,
  input x_ready,
  input [$clog2(BANKS*DEPTH)-1:0] x_address,
  input x_hold,
  input [32*COLUMNS-1:0] x_data,
  input y_valid,
  input y_ready,
  input [$clog2(BANKS*DEPTH)-1:0] y_address,
  input y_hold,
  input [32*COLUMNS-1:0] y_data,
  input store_valid,
  input store_ready,
  input [$clog2(BANKS*DEPTH)-1:0] store_address,
  input store_hold,
  input [32*COLUMNS-1:0] store_data,
  // The unit's own memories and registers, for a proof by induction.
  input inside_known_0,
  input [16*COLUMNS-1:0] inside_word_0,
  input inside_shows_0,
  input [16*COLUMNS-1:0] inside_shown_0,
  input inside_known_1,
  input [16*COLUMNS-1:0] inside_word_1,
  input inside_shows_1,
  input [16*COLUMNS-1:0] inside_shown_1,
  input inside_known_2,
  input [16*COLUMNS-1:0] inside_word_2,
  input inside_shows_2,
  input [16*COLUMNS-1:0] inside_shown_2,
  input inside_known_3,
  input [16*COLUMNS-1:0] inside_word_3,
  input inside_shows_3,
  input [16*COLUMNS-1:0] inside_shown_3,
  input inside_known_4,
  input [16*COLUMNS-1:0] inside_word_4,
  input inside_shows_4,
  input [16*COLUMNS-1:0] inside_shown_4,
  input inside_known_5,
  input [16*COLUMNS-1:0] inside_word_5,
  input inside_shows_5,
  input [16*COLUMNS-1:0] inside_shown_5,
  input inside_known_6,
  input [16*COLUMNS-1:0] inside_word_6,
  input inside_shows_6,
  input [16*COLUMNS-1:0] inside_shown_6,
  input inside_known_7,
  input [16*COLUMNS-1:0] inside_word_7,
  input inside_shows_7,
  input [16*COLUMNS-1:0] inside_shown_7,
  input [BANKS-1:0] inside_x_shows,
  input [BANKS-1:0] inside_y_shows,
  input [BANKS-1:0] inside_store_shows,
  output holds
);
  localparam ADDRESS = $clog2(BANKS*DEPTH), HALF = 16 * COLUMNS;
  wire [ADDRESS-1:0] beat = watched;
  // The first of a list is the lowest.
  wire [2:0] write_valid = {load_valid, vector_valid, gemm_valid};
  wire [2:0] write_ready = {load_ready, vector_ready, gemm_ready};
  wire [3*ADDRESS-1:0] write_addresses = {load_address, vector_address, gemm_address};
  wire [2:0] read_valid = {store_valid, y_valid, x_valid};
  wire [2:0] read_ready = {store_ready, y_ready, x_ready};
  wire [2:0] hold = {store_hold, y_hold, x_hold};
  wire [3*ADDRESS-1:0] read_addresses = {store_address, y_address, x_address};

  wire [2:0] writes, reads, write_right, read_right, writes_it, reads_it, bank_right;
  reg [2:0] looks;  // at what was read from its bank
  reg sane;         // nobody has held without having read
  wire [3*BANKS-1:0] own_looks = {inside_store_shows, inside_y_shows, inside_x_shows};
  genvar user, other;
  generate for (user = 0; user < 3; user = user + 1) begin : of
    wire [ADDRESS-1:0] write_address = write_addresses[ADDRESS*user +: ADDRESS];
    wire [ADDRESS-1:0] read_address = read_addresses[ADDRESS*user +: ADDRESS];
    wire [$clog2(BANKS)-1:0] write_bank = write_address / DEPTH, read_bank = read_address / DEPTH;
    reg [$clog2(BANKS)-1:0] bank;
    wire [2:0] write_before, read_before, is_held;
    for (other = 0; other < 3; other = other + 1) begin : and_of
      assign write_before[other] = other < user & write_valid[other] & of[other].write_bank == write_bank;
      assign read_before[other] = other < user & read_valid[other] & of[other].read_bank == read_bank;
      assign is_held[other] = hold[other] & of[other].bank == read_bank;
    end
    assign writes[user] = write_valid[user] & ~|write_before;
    assign reads[user] = read_valid[user] & ~|read_before & ~|is_held;
    assign write_right[user] = write_ready[user] == writes[user];
    assign read_right[user] = read_ready[user] == reads[user];
    assign writes_it[user] = writes[user] & write_address == beat;
    assign reads_it[user] = reads[user] & read_address == beat;
    wire [BANKS-1:0] banks = 1 << bank;
    assign bank_right[user] = ~looks[user] | own_looks[BANKS*user +: BANKS] == banks;
    always @(posedge clk) if (reads[user]) bank <= read_bank;
  end endgenerate
  always @(posedge clk) begin
    looks <= rst ? 0 : looks | reads;
    sane <= rst | sane & ~|(hold & ~looks);
  end

  wire [7:0] knowns = {inside_known_7, inside_known_6, inside_known_5, inside_known_4,
    inside_known_3, inside_known_2, inside_known_1, inside_known_0};
  wire [7:0] own_shows = {inside_shows_7, inside_shows_6, inside_shows_5, inside_shows_4,
    inside_shows_3, inside_shows_2, inside_shows_1, inside_shows_0};
  wire [8*HALF-1:0] words = {inside_word_7, inside_word_6, inside_word_5, inside_word_4,
    inside_word_3, inside_word_2, inside_word_1, inside_word_0};
  wire [8*HALF-1:0] own_shown = {inside_shown_7, inside_shown_6, inside_shown_5, inside_shown_4,
    inside_shown_3, inside_shown_2, inside_shown_1, inside_shown_0};
  wire [$clog2(BANKS)-1:0] bank = beat / DEPTH;
  wire [1:0] half_right;
  genvar half;
  generate for (half = 0; half < 2; half = half + 1) begin : of_half
    wire [2:0] halves = {load_halves[half], vector_halves[half], gemm_halves[half]};
    wire [2:0] parts = writes_it & halves;
    wire [HALF-1:0] came = parts[0] ? gemm_data[HALF*half +: HALF]
      : parts[1] ? vector_data[HALF*half +: HALF] : load_data[HALF*half +: HALF];
    reg known;
    reg [2:0] shows;
    reg [HALF-1:0] word, shown;
    always @(posedge clk) begin
      known <= ~rst & (known | |parts);
      if (|parts) word <= came;
      if (|reads_it) shown <= word;
      shows <= rst ? 0 : reads_it & {3{known & ~|parts}} | ~reads & shows & hold;
    end
    wire [2:0] memory = 2 * bank + half;
    wire [2:0] same = {store_data[HALF*half +: HALF] == shown, y_data[HALF*half +: HALF] == shown,
      x_data[HALF*half +: HALF] == shown};
    wire [2:0] looks_there = {of[2].bank == bank, of[1].bank == bank, of[0].bank == bank};
    assign half_right[half] = knowns[memory] == known & (~known | words[HALF*memory +: HALF] == word)
      & &(~shows | same & looks & looks_there)
      & (~|shows | own_shows[memory] & own_shown[HALF*memory +: HALF] == shown);
  end endgenerate
  assign holds = ~sane | |(hold & ~looks) | &write_right & &read_right & &bank_right & &half_right;
endmodule

// Rows of beats that are stored as they come, and given PASSES times in their order, each beat with the
// number of the pass, whether it is the first one of the row, whether the row was cut, and the row's
// summary. A beat makes room in the last pass. Without the first pass rows go while `skip` is set, with
// the first one alone while `stop` is, and beats as they come, once, while `stream` is: then nothing is
// said of summaries of rows that have not ended. What is known of a row may come a cycle LATER.
module row_replay_specification #(
  parameter BEAT = 512, DEPTH = 512, PASSES = 2, ROWS = 2, SUMMARY = 32, LATER = 0
) (
  input clk,
  input rst,
  input [31:0] watched,
  input skip,
  input stop,
  input stream,
  input [BEAT-1:0] s_axis_tdata,
  input s_axis_tlast,
  input [(SUMMARY?SUMMARY:1)-1:0] s_axis_tuser,
  input s_axis_tvalid,
  input s_axis_tready,
  input [BEAT-1:0] m_axis_tdata,
  input m_axis_tlast,
  input [SUMMARY+(PASSES>2?3:2):0] m_axis_tuser,
  input m_axis_tvalid,
  input m_axis_tready,
  // The unit's own memory and registers, the newest row first, for a proof by induction.
  input inside_known_0,
  input [BEAT-1:0] inside_word_0,
  input inside_shows_0,
  input [BEAT-1:0] inside_shown_0,
  input [$clog2(DEPTH):0] inside_beats_held,
  input [$clog2(DEPTH)-1:0] inside_beats_in_row,
  input [$clog2(DEPTH)-1:0] inside_memory_write_address,
  input [$clog2(DEPTH)-1:0] inside_memory_read_address,
  input [$clog2(DEPTH)-1:0] inside_row_start,
  input [1:0] inside_rows_complete,
  input [1:0] inside_rows_known,
  input [1:0] inside_pass,
  input inside_is_in_last_pass,
  input [SUMMARY+$clog2(DEPTH):0] inside_row_0,
  input [SUMMARY+$clog2(DEPTH):0] inside_row_1,
  input [SUMMARY+$clog2(DEPTH):0] inside_row_2,
  input inside_row_comes,
  input [SUMMARY+$clog2(DEPTH):0] inside_newest_row,
  output holds
);
  localparam ADDRESS = $clog2(DEPTH), ENTRY = SUMMARY + 1 + ADDRESS, NUMBER = PASSES > 2 ? 2 : 1;
  reg [ADDRESS:0] stored;
  reg [ADDRESS-1:0] in_row, write_at, read_at, start;
  reg [1:0] complete, known;
  reg [NUMBER-1:0] pass;
  reg [ROWS*ENTRY-1:0] rows;  // the oldest lowest
  reg comes, valid, last, first, of_row;
  reg [NUMBER-1:0] number;
  reg [ENTRY-1:0] newest, shown_row;
  wire takes = s_axis_tvalid & s_axis_tready, cut = in_row == DEPTH - 1 & ~stream;
  wire ends = takes & (s_axis_tlast | cut);
  wire [ENTRY-1:0] row = {s_axis_tuser, cut & ~s_axis_tlast, write_at};
  wire enters = LATER ? comes : ends;
  wire [1:0] there = LATER ? known : complete;
  wire waiting = there != 0 | stream & stored != 0;
  wire reads = waiting & (~valid | m_axis_tready);
  wire at_last = there != 0 & read_at == rows[ADDRESS-1:0];
  wire [NUMBER-1:0] now = skip & pass == 0 ? 1 : pass;
  wire in_last = now == PASSES - 1 | stop | stream;
  wire done = reads & in_last & at_last;
  wire [ROWS*ENTRY-1:0] rest = done ? rows >> ENTRY : rows;
  wire [1:0] left = there - done;
  always @(posedge clk) begin
    stored <= rst ? 0 : stored + takes - (reads & in_last);
    complete <= rst ? 0 : complete + ends - done;
    known <= rst ? 0 : left + comes;
    {comes, newest} <= {ends & ~rst, row};
    rows <= rest;
    if (enters) rows[ENTRY*left +: ENTRY] <= LATER ? newest : row;
    if (rst) {in_row, write_at} <= 0;
    else if (takes) {in_row, write_at} <= {ends ? {ADDRESS{1'b0}} : in_row + 1'b1, write_at + 1'b1};
    valid <= ~rst & (waiting | valid & ~m_axis_tready);
    if (rst) {pass, read_at, start, last} <= 0;
    else if (reads) begin
      read_at <= at_last & ~in_last ? start : read_at + 1;
      if (at_last) pass <= in_last ? 0 : now + 1;
      if (done) start <= read_at + 1;
      last <= at_last;
    end
    if (reads) {number, first, shown_row, of_row} <= {now, read_at == start, rows[ENTRY-1:0], there != 0};
  end

  wire [ADDRESS-1:0] place = watched;
  wire writes_it = takes & write_at == place;
  reg is_known, shows;
  reg [BEAT-1:0] word, shown;
  always @(posedge clk) begin
    is_known <= ~rst & (is_known | writes_it);
    if (writes_it) word <= s_axis_tdata;
    if (rst) shows <= 0;
    else if (reads) {shows, shown} <= {is_known & ~writes_it & read_at == place, word};
  end

  wire [4*ENTRY-1:0] own = {{ENTRY{1'b0}}, inside_row_2, inside_row_1, inside_row_0};
  wire [ROWS-1:0] same;
  genvar index;
  generate for (index = 0; index < ROWS; index = index + 1) begin : of
    wire [1:0] age = there - 1 - index;
    assign same[index] = index >= there | own[ENTRY*age +: ENTRY] == rows[ENTRY*index +: ENTRY];
  end endgenerate
  wire own_right = inside_known_0 == is_known & (~is_known | inside_word_0 == word)
    & inside_shows_0 == shows & (~shows | inside_shown_0 == shown)
    & inside_beats_held == stored & inside_beats_in_row == in_row
    & inside_memory_write_address == write_at & inside_memory_read_address == read_at
    & inside_row_start == start & inside_rows_complete == complete
    & (PASSES == 2 ? inside_is_in_last_pass : inside_pass) == pass & &same & there <= ROWS
    & (!LATER | inside_rows_known == known & inside_row_comes == comes & known + comes <= complete
      & complete <= ROWS & (~comes | inside_newest_row == newest));
  wire has_room = stored != DEPTH & complete != ROWS;
  wire flags_right = m_axis_tuser[NUMBER:0] == {first, number}
    & (~of_row | m_axis_tuser[SUMMARY+NUMBER+1:NUMBER+1] == shown_row[ENTRY-1:ADDRESS]);
  assign holds = s_axis_tready == (has_room & (LATER | ~rst)) & m_axis_tvalid == valid
    & (~valid | m_axis_tlast == last & flags_right) & (~shows | m_axis_tdata == shown) & own_right;
endmodule

// The parts of each beat one after the other, or those of a row: first parts of all its beats first, the
// others from a memory, which shows a beat in the cycle behind the one in which its part began or the one
// before left. A number alone is in every part. Nothing is claimed before a start, once what shall be
// steady has changed behind it, or of a row that is longer than the memory.
module beat_splitter_specification #(parameter PARTS = 8, BITS = 32, DEPTH = 128) (
  input clk,
  input rst,
  input [31:0] watched,
  input start,
  input [12:0] beats,
  input by_rows,
  input single,
  input [PARTS*BITS-1:0] s_axis_tdata,
  input s_axis_tvalid,
  input s_axis_tready,
  input [BITS-1:0] m_axis_tdata,
  input m_axis_tlast,
  input m_axis_tvalid,
  input m_axis_tready,
  // The unit's own memory and registers, for a proof by induction.
  input inside_known_0,
  input [(PARTS-1)*BITS-1:0] inside_word_0,
  input inside_shows_0,
  input [(PARTS-1)*BITS-1:0] inside_shown_0,
  input [$clog2(PARTS)-1:0] inside_part,
  input [12:0] inside_beats_left,
  input [$clog2(DEPTH)-1:0] inside_index,
  input inside_is_shown,
  output holds
);
  reg sane, known, shown;
  reg [14:0] steady;
  reg [$clog2(PARTS)-1:0] part;
  reg [12:0] left;
  reg [$clog2(DEPTH)-1:0] beat;  // of a row that comes part by part
  reg [PARTS*BITS-1:0] word;
  wire [$clog2(DEPTH)-1:0] place = watched;
  wire stored = by_rows & part != 0, last = left == 1, last_part = part == PARTS - 1;
  wire moves = m_axis_tvalid & m_axis_tready, turns = moves & (last | ~by_rows);
  wire now_sane = sane & steady == {beats, by_rows, single};
  wire writes_it = moves & by_rows & part == 0 & beat == place;
  always @(posedge clk) begin
    sane <= ~rst & (start ? beats != 0 & (~by_rows | beats <= DEPTH) : now_sane);
    if (start) steady <= {beats, by_rows, single};
    part <= rst | start ? 0 : part + turns;
    left <= start ? beats : ~(moves & (by_rows | last_part)) ? left : last ? beats : left - 1;
    beat <= rst | start | turns ? 0 : beat + (moves & by_rows);
    shown <= ~rst & ~start & ~turns & stored;
    known <= ~rst & ~start & (known | writes_it) & ~(turns & last_part);  // the row's beat is
    if (writes_it) word <= s_axis_tdata;
  end
  wire [BITS-1:0] of_beat = s_axis_tdata[BITS*(single ? 0 : part) +: BITS];
  wire [BITS-1:0] of_word = word[BITS*(single ? 0 : part) +: BITS];
  wire [(PARTS-1)*BITS-1:0] others = {word[PARTS*BITS-1:2*BITS], word[BITS*(single ? 0 : 1) +: BITS]};
  wire given = shown & beat == place;
  wire data_right = stored ? ~given | m_axis_tdata == of_word : m_axis_tdata == of_beat;
  wire [12:0] gone = beats - left;
  wire [$clog2(DEPTH)-1:0] ahead = beat + shown;
  wire counts_right = inside_part == part & inside_beats_left == left & gone < beats
    & inside_index == ahead & inside_is_shown == shown & (stored | ~shown)
    & (by_rows ? beats <= DEPTH & beat == gone : beat == 0);
  wire word_right = (known == (by_rows & (part != 0 ? place < beats : place < beat)))
    & (~known | inside_known_0 & inside_word_0 == others)
    & (~given | inside_shows_0 & inside_shown_0 == others);
  assign holds = ~now_sane | m_axis_tvalid == (stored ? shown : s_axis_tvalid)
    & s_axis_tready == (m_axis_tready & (by_rows ? part == 0 : last_part))
    & (~m_axis_tvalid | m_axis_tlast == last & data_right) & counts_right & word_right;
endmodule

// Beats of PARTS parts, which come one after the other, or in rows: first parts of all beats of a row
// first. A beat leaves with its last part, with that of its row in the memory in a cycle more. Nothing is
// claimed of a row that is longer than the memory, or once `by_rows` has changed within a row.
module beat_joiner_specification #(parameter PARTS = 8, BITS = 32, DEPTH = 128, IN_ROWS = 1) (
  input clk,
  input rst,
  input [31:0] watched,
  input by_rows,
  input [BITS-1:0] s_axis_tdata,
  input s_axis_tlast,
  input s_axis_tvalid,
  input s_axis_tready,
  input [PARTS*BITS-1:0] m_axis_tdata,
  input m_axis_tlast,
  input m_axis_tvalid,
  input m_axis_tready,
  // The unit's own memories and registers, for a proof by induction.
  input inside_known_0,
  input [BITS-1:0] inside_word_0,
  input inside_shows_0,
  input [BITS-1:0] inside_shown_0,
  input inside_known_1,
  input [BITS-1:0] inside_word_1,
  input inside_shows_1,
  input [BITS-1:0] inside_shown_1,
  input inside_known_2,
  input [BITS-1:0] inside_word_2,
  input inside_shows_2,
  input [BITS-1:0] inside_shown_2,
  input inside_known_3,
  input [BITS-1:0] inside_word_3,
  input inside_shows_3,
  input [BITS-1:0] inside_shown_3,
  input inside_known_4,
  input [BITS-1:0] inside_word_4,
  input inside_shows_4,
  input [BITS-1:0] inside_shown_4,
  input inside_known_5,
  input [BITS-1:0] inside_word_5,
  input inside_shows_5,
  input [BITS-1:0] inside_shown_5,
  input inside_known_6,
  input [BITS-1:0] inside_word_6,
  input inside_shows_6,
  input [BITS-1:0] inside_shown_6,
  input [BITS-1:0] inside_part_0,
  input [BITS-1:0] inside_part_1,
  input [BITS-1:0] inside_part_2,
  input [BITS-1:0] inside_part_3,
  input [BITS-1:0] inside_part_4,
  input [BITS-1:0] inside_part_5,
  input [BITS-1:0] inside_part_6,
  input [$clog2(PARTS)-1:0] inside_part,
  input [$clog2(DEPTH)-1:0] inside_index,
  input inside_is_shown,
  output holds
);
  reg [$clog2(PARTS)-1:0] part;
  reg [$clog2(DEPTH)-1:0] beat;  // of the row
  reg shown, sane, was_by_rows;
  wire [$clog2(DEPTH)-1:0] place = watched;
  wire last = part == PARTS - 1, begins = part == 0 & beat == 0;
  wire moves = s_axis_tvalid & s_axis_tready, turns = moves & (s_axis_tlast | ~by_rows);
  wire there = ~by_rows | shown;
  wire now_sane = sane & (by_rows == was_by_rows | begins);
  always @(posedge clk) begin
    part <= rst ? 0 : part + turns;
    beat <= rst | turns ? 0 : beat + moves;
    shown <= ~rst & ~turns & last & by_rows;
    was_by_rows <= by_rows;
    sane <= rst | now_sane & ~(moves & ~turns & beat == DEPTH - 1);
  end
  wire [7*BITS-1:0] words = {
    inside_word_6, inside_word_5, inside_word_4, inside_word_3,
    inside_word_2, inside_word_1, inside_word_0};
  wire [7*BITS-1:0] own_shown = {
    inside_shown_6, inside_shown_5, inside_shown_4, inside_shown_3,
    inside_shown_2, inside_shown_1, inside_shown_0};
  wire [7*BITS-1:0] held = {
    inside_part_6, inside_part_5, inside_part_4, inside_part_3,
    inside_part_2, inside_part_1, inside_part_0};
  wire [6:0] knowns = {
    inside_known_6, inside_known_5, inside_known_4, inside_known_3,
    inside_known_2, inside_known_1, inside_known_0};
  wire [6:0] shows = {
    inside_shows_6, inside_shows_5, inside_shows_4, inside_shows_3,
    inside_shows_2, inside_shows_1, inside_shows_0};
  wire [PARTS-1:0] right;
  genvar index;
  generate for (index = 0; index < PARTS - 1; index = index + 1) begin : of
    reg known, filled;
    reg [BITS-1:0] word, of_beat;
    wire [BITS-1:0] found = m_axis_tdata[BITS*index +: BITS];
    wire comes = moves & part == index;
    always @(posedge clk) begin
      known <= ~rst & (known | comes & beat == place);
      if (comes & beat == place) word <= s_axis_tdata;
      filled <= ~rst & (filled | comes);
      if (comes) of_beat <= s_axis_tdata;
    end
    wire given = shown & beat == place & known;
    wire [BITS-1:0] own_word = words[BITS*index +: BITS];
    assign right[index] = (~filled | held[BITS*index +: BITS] == of_beat) & (by_rows
        ? ~given | found == word : ~m_axis_tvalid | filled & found == of_beat)
      & (by_rows | index >= part | filled)
      & (!IN_ROWS | knowns[index] == known & (~known | own_word == word)
        & (~given | shows[index] & own_shown[BITS*index +: BITS] == word));
  end endgenerate
  assign right[PARTS-1] = m_axis_tdata[BITS*(PARTS-1) +: BITS] == s_axis_tdata;
  wire [$clog2(DEPTH)-1:0] ahead = beat + shown;
  assign holds = ~now_sane | &right & s_axis_tready == (~rst & (~last | m_axis_tready & there))
    & m_axis_tvalid == (s_axis_tvalid & last & there) & m_axis_tlast == s_axis_tlast
    & inside_part == part & (by_rows | beat == 0 & ~shown) & (last | ~shown)
    & (!IN_ROWS | inside_index == ahead & inside_is_shown == shown);
endmodule

// Rows of operand beats, and of their scales with the last beat of a block, to that of three buffers which
// is the target: OUT, A and W beats, and half as many scale entries, of which two are a word. With an even
// entry of the first comes 0 for the one behind it. Codes and scales may be taken in different cycles; they
// are offered as a beat comes, or a cycle LATER. An address that the buffer does not have is said instead.
// Nothing is claimed of beats before a start or at one, or once a beat that waits has changed.
module operand_writer_specification #(
  parameter WIDTH = 16, CODE = 8, LANES = 4, SCALED = 1, OUT = 512, A = 2048, W = 4096, LATER = 0,
  CODES_ADDRESS = 16, CODES_STRIDE = 14, SCALES_ADDRESS = 15, SCALES_STRIDE = 10
) (
  input clk,
  input rst,
  input start,
  input [1:0] target,
  input [CODES_ADDRESS-1:0] codes_origin,
  input [CODES_STRIDE-1:0] codes_stride,
  input [SCALES_ADDRESS-1:0] scales_origin,
  input [SCALES_STRIDE-1:0] scales_stride,
  input [WIDTH*(CODE*LANES+8*SCALED)-1:0] s_axis_tdata,
  input s_axis_tuser,
  input s_axis_tlast,
  input s_axis_tvalid,
  input s_axis_tready,
  input out_codes_valid,
  input out_codes_ready,
  input [$clog2(OUT)-1:0] out_codes_address,
  input [CODE/4-1:0] out_codes_halves,
  input [WIDTH*CODE*LANES-1:0] out_codes_data,
  input a_codes_valid,
  input a_codes_ready,
  input [$clog2(A)-1:0] a_codes_address,
  input [CODE/4-1:0] a_codes_halves,
  input [WIDTH*CODE*LANES-1:0] a_codes_data,
  input w_codes_valid,
  input w_codes_ready,
  input [$clog2(W)-1:0] w_codes_address,
  input [CODE/4-1:0] w_codes_halves,
  input [WIDTH*CODE*LANES-1:0] w_codes_data,
  input out_scales_valid,
  input out_scales_ready,
  input [$clog2(OUT/4)-1:0] out_scales_address,
  input [1:0] out_scales_halves,
  input [16*WIDTH-1:0] out_scales_data,
  input a_scales_valid,
  input a_scales_ready,
  input [$clog2(A/4)-1:0] a_scales_address,
  input [1:0] a_scales_halves,
  input [16*WIDTH-1:0] a_scales_data,
  input w_scales_valid,
  input w_scales_ready,
  input [$clog2(W/4)-1:0] w_scales_address,
  input [1:0] w_scales_halves,
  input [16*WIDTH-1:0] w_scales_data,
  input row_written,
  input outside,
  // The unit's own registers, for a proof by induction.
  input [CODES_ADDRESS:0] inside_codes_walk_here,
  input [CODES_ADDRESS:0] inside_codes_walk_row,
  input [SCALES_ADDRESS:0] inside_scales_walk_here,
  input [SCALES_ADDRESS:0] inside_scales_walk_row,
  input inside_codes_written,
  input inside_scales_written,
  input [3:0] inside_codes_offered_or_outside,
  input [3:0] inside_scales_offered_or_outside,
  output inside_holds,
  output holds
);
  localparam BEAT = WIDTH * CODE * LANES, WORD = 8 * WIDTH;
  reg sane, waits, codes_written, scales_written;
  reg [3:0] was;
  reg [3:0] codes_later, scales_later;  // for each buffer, and for none
  wire codes_taken, scales_taken, codes_on, scales_on, codes_outside, scales_outside, done;
  wire [CODES_ADDRESS:0] codes_at, codes_row;
  wire [SCALES_ADDRESS:0] scales_at, scales_row;
  row_address_generator_specification #(.DEPTH(W), .BITS(CODES_ADDRESS), .STRIDE(CODES_STRIDE))
    codes_walk (.clk(clk), .rst(rst), .start(start), .origin(codes_origin), .stride(codes_stride),
    .step(codes_taken), .ends_row(s_axis_tlast), .on(codes_on), .is_outside(codes_outside),
    .at(codes_at), .row_at(codes_row));
  row_address_generator_specification #(.DEPTH(W/2), .BITS(SCALES_ADDRESS), .STRIDE(SCALES_STRIDE))
    scales_walk (.clk(clk), .rst(rst), .start(start), .origin(scales_origin), .stride(scales_stride),
    .step(scales_taken), .ends_row(s_axis_tlast), .on(scales_on), .is_outside(scales_outside),
    .at(scales_at), .row_at(scales_row));
  wire [3:0] says = {target, s_axis_tuser, s_axis_tlast};
  wire now_sane = sane & ~(s_axis_tvalid & (~codes_on | start)) & (~waits | s_axis_tvalid & says == was);
  wire [12:0] size = target == 0 ? OUT : target == 1 ? A : target == 2 ? W : 0;
  wire codes_fit = ~codes_outside & codes_at < size, scales_fit = ~scales_outside & scales_at < size / 2;
  wire codes_wanted = s_axis_tvalid & ~codes_written;
  wire scales_wanted = SCALED & s_axis_tvalid & s_axis_tuser & ~scales_written;
  wire [3:0] codes_now = codes_wanted << (codes_fit ? target : 3);
  wire [3:0] scales_now = scales_wanted << (scales_fit ? target : 3);
  wire [3:0] codes_offers = LATER ? codes_later : codes_now;
  wire [3:0] scales_offers = LATER ? scales_later : scales_now;
  assign codes_taken = |(codes_offers[2:0] & {w_codes_ready, a_codes_ready, out_codes_ready});
  assign scales_taken = |(scales_offers[2:0] & {w_scales_ready, a_scales_ready, out_scales_ready});
  assign done = (~codes_wanted | codes_taken) & (~scales_wanted | scales_taken);
  always @(posedge clk) begin
    sane <= rst | now_sane;
    {waits, was} <= {s_axis_tvalid & ~done & ~rst, says};
    codes_written <= ~rst & (codes_written | codes_taken) & ~done;
    scales_written <= ~rst & (scales_written | scales_taken) & ~done;
    codes_later <= rst | codes_taken | done ? 0 : codes_now;
    scales_later <= rst | scales_taken | done ? 0 : scales_now;
  end

  wire [2:0] codes_valid = {w_codes_valid, a_codes_valid, out_codes_valid};
  wire [2:0] scales_valid = {w_scales_valid, a_scales_valid, out_scales_valid};
  wire [BEAT-1:0] codes = s_axis_tdata;
  wire [WORD-1:0] scales = SCALED ? s_axis_tdata >> BEAT : 0;
  wire odd = scales_at[0];
  wire codes_right = codes_valid == codes_offers[2:0]
    & (~out_codes_valid | out_codes_address == codes_at & &out_codes_halves & out_codes_data == codes)
    & (~a_codes_valid | a_codes_address == codes_at & &a_codes_halves & a_codes_data == codes)
    & (~w_codes_valid | w_codes_address == codes_at & &w_codes_halves & w_codes_data == codes);
  wire out_right = out_scales_address == scales_at / 2 & out_scales_halves == {1'b1, ~odd}
    & (odd | out_scales_data == scales) & (~odd | out_scales_data[WORD +: WORD] == scales);
  wire a_right = a_scales_address == scales_at / 2 & a_scales_halves == {odd, ~odd}
    & a_scales_data[WORD*odd +: WORD] == scales;
  wire w_right = w_scales_address == scales_at / 2 & w_scales_halves == {odd, ~odd}
    & w_scales_data[WORD*odd +: WORD] == scales;
  wire scales_right = scales_valid == scales_offers[2:0] & (~out_scales_valid | out_right)
    & (~a_scales_valid | a_right) & (~w_scales_valid | w_right);
  assign inside_holds = ~now_sane | (~codes_on | inside_codes_walk_here == codes_at & inside_codes_walk_row == codes_row)
    & (!SCALED | scales_on == codes_on & inside_codes_written == codes_written
      & inside_scales_written == scales_written
      & (~scales_on | inside_scales_walk_here == scales_at & inside_scales_walk_row == scales_row))
    & (SCALED | ~codes_written) & (!LATER | inside_codes_offered_or_outside == codes_later
      & inside_scales_offered_or_outside == scales_later);
  assign holds = ~now_sane | s_axis_tready == done & row_written == (done & s_axis_tvalid & s_axis_tlast)
    & outside == (codes_offers[3] | scales_offers[3]) & codes_right & scales_right;
endmodule

// Rows of tiles to where the descriptors say whose tiles they are, the oldest first: tile (i, j) begins at
// result + i * result_stride_a + j * result_stride_w, i changing fastest, in a bit more than a descriptor
// has. Rows of the last strip of a from last_rows on are dropped, and all without write; a row outside the
// buffer stops all. If LATER a row goes a cycle after it and room for it were seen, both of which stay, and
// not in the two cycles after the last one of a descriptor. Nothing is claimed once a descriptor or a row has
// come that was not asked for; if LATER neither once a row has come in the cycle after another one went, or
// less than three after the only descriptor.
module result_rows_specification #(parameter ROWS = 16, BEATS = 4096, UNDER_WAY = 3, LATER = 0) (
  input clk,
  input rst,
  input enters,
  input [239:0] descriptor,
  input has_room,
  input is_only_one,
  input [32*ROWS-1:0] s_axis_tdata,
  input s_axis_tlast,
  input s_axis_tvalid,
  input s_axis_tready,
  input result_valid,
  input result_ready,
  input [$clog2(BEATS)-1:0] result_address,
  input [1:0] result_halves,
  input [32*ROWS-1:0] result_data,
  input done,
  input fault,
  input stop,
  // The unit's own registers, the newest descriptor first, for a proof by induction.
  input [65*UNDER_WAY-1:0] inside_descriptor_each,
  input [2:0] inside_descriptors,
  input inside_begins,
  input [14:0] inside_column_held,
  input [14:0] inside_tile_held,
  input [14:0] inside_row_held,
  input [$clog2(ROWS)-1:0] inside_row_number,
  input [7:0] inside_strips_a_done,
  input [7:0] inside_strips_w_done,
  input [1:0] inside_changes,
  input [64:0] inside_oldest_settled,
  input inside_is_wanted_settled,
  input inside_is_outside_settled,
  output inside_holds,
  output holds
);
  wire [255:0] fields = {descriptor, 16'b0};
  wire [64:0] entry = {fields[221], fields[177:172], fields[151:144], fields[143:136],
    fields[219:206], fields[205:192], fields[191:178]};
  reg sane, begun;
  reg [2:0] held;
  reg [UNDER_WAY*65-1:0] queue;  // the oldest lowest
  reg [7:0] i, j;
  reg [$clog2(ROWS)-1:0] number;
  reg [14:0] column, tile;  // where the column and the tile of the next row begin
  wire write;
  wire [5:0] last_rows;
  wire [7:0] strips_w, strips_a, next_i = i + 1, next_j = j + 1;
  wire [13:0] stride_w, stride_a, result;
  assign {write, last_rows, strips_w, strips_a, stride_w, stride_a, result} = queue[64:0];
  wire [14:0] column_now = begun ? column : result, tile_now = begun ? tile : result;
  wire [14:0] at = tile_now + number;
  wire ends_i = next_i == strips_a, ends_j = next_j == strips_w;
  wire [14:0] next_tile = ends_i ? column_now + stride_w : tile_now + stride_a;
  wire wanted = write & ~(ends_i & number >= last_rows), outside = wanted & at >= BEATS;
  reg goes, went, waited, ended;  // if LATER, what was in the cycle before
  reg [1:0] after_done, after_entry;  // in one of the two cycles after
  wire there = s_axis_tvalid & !(LATER & |after_done);
  wire may_go = ~stop & (wanted ? result_ready & ~outside : 1'b1);
  wire ready = LATER ? goes : may_go;
  wire taken = s_axis_tvalid & ready, ends_tile = taken & s_axis_tlast;
  wire is_done = ends_tile & ends_i & ends_j;
  wire now_sane = sane & ~(enters & held == UNDER_WAY) & ~(s_axis_tvalid & held == 0)
    & ~(s_axis_tvalid & ~s_axis_tlast & number == ROWS - 1)
    & !(LATER & (s_axis_tvalid & (went | |after_entry) | waited & {s_axis_tvalid, s_axis_tlast} != {1'b1, ended}));
  wire [2:0] left = held - is_done;
  wire [UNDER_WAY*65-1:0] rest = is_done ? queue >> 65 : queue;
  always @(posedge clk) begin
    sane <= rst | now_sane;
    held <= rst ? 0 : left + enters;
    queue <= rest;
    if (enters) queue[65*left +: 65] <= entry;
    begun <= ~rst & (taken ? ~is_done : begun);
    goes <= ~rst & there & may_go & ~goes;
    went <= ~rst & taken;
    waited <= ~rst & s_axis_tvalid & ~taken;
    ended <= s_axis_tlast;
    after_done <= rst ? 0 : {is_done, after_done[1]};
    after_entry <= rst ? 0 : {enters & left == 0, after_entry[1]};
    if (rst) {i, j, number} <= 0;
    else if (taken) begin
      number <= s_axis_tlast ? 0 : number + 1;
      if (s_axis_tlast) i <= ends_i ? 0 : next_i;
      if (s_axis_tlast & ends_i) j <= ends_j ? 0 : next_j;
    end
    if (taken) {column, tile} <= {ends_tile & ends_i ? next_tile : column_now,
      ends_tile ? next_tile : tile_now};
  end
  wire [UNDER_WAY-1:0] same;
  genvar place;
  generate for (place = 0; place < UNDER_WAY; place = place + 1) begin : of
    wire [2:0] age = held - 1 - place;
    assign same[place] = place >= held | inside_descriptor_each[65*age +: 65] == queue[65*place +: 65];
  end endgenerate
  assign inside_holds = ~now_sane | inside_descriptors == held & held <= UNDER_WAY & &same & inside_begins == ~begun
    & inside_row_number == number & inside_strips_a_done == i & inside_strips_w_done == j
    & (~begun | held != 0 & inside_column_held == column & inside_tile_held == tile
      & inside_row_held == at) & (begun | number == 0)
    & (!LATER | inside_changes == after_done & (~goes | waited & there)
      & (held == 0 | after_done[1] | after_entry[1] | inside_oldest_settled == queue[64:0])
      & (held == 0 | |after_done | |after_entry | went
        | inside_is_wanted_settled == wanted & inside_is_outside_settled == outside));
  assign holds = ~now_sane | has_room == (held != UNDER_WAY) & is_only_one == (held == 1)
    & (~s_axis_tvalid | s_axis_tready == ready) & done == is_done & fault == (there & outside)
    & result_valid == (LATER ? goes & wanted : s_axis_tvalid & wanted & ~outside & ~stop)
    & (~result_valid | result_address == at & &result_halves & result_data == s_axis_tdata);
endmodule

// A queue of descriptors, each {payload, number, signal, wait}. The oldest that has not started is shown
// from a memory, and starts when its tokens are there and, while others run, when counters have room for
// the signals of all; the engine then has it until it takes it. It keeps its place until it is done, which
// they are in order, and its signals are given. Nothing is claimed once the engine has said that it is done
// with what it has not taken.
module descriptor_queue_specification #(parameter DEPTH = 8, UNDER_WAY = 1) (
  input clk,
  input rst,
  input [31:0] watched,
  input entry_valid,
  input entry_ready,
  input [279:0] entry,
  input [3:0] available,
  input [3:0] take,
  input [3:0] has_room,
  input [3:0] has_room_for_all,
  input [3:0] give,
  input engine_valid,
  input [239:0] engine_descriptor,
  input engine_ready,
  input engine_done,
  input [3:0] engine_error,
  input engine_stop,
  input stop,
  input lacks_load,
  input lacks_gemm,
  input lacks_vector,
  input lacks_store,
  input is_empty,
  input is_stuck,
  input [3:0] error,
  input [31:0] number,
  // The unit's own memory and registers, the newest that runs first, for a proof by induction.
  input inside_known_0,
  input [279:0] inside_word_0,
  input inside_shows_0,
  input [279:0] inside_shown_0,
  input [279:0] inside_memory_read_data,
  input [$clog2(DEPTH):0] inside_places_taken,
  input [$clog2(DEPTH):0] inside_unread,
  input [$clog2(DEPTH)-1:0] inside_into,
  input [$clog2(DEPTH)-1:0] inside_memory_read_address,
  input inside_shows,
  input [UNDER_WAY-1:0] inside_is_oldest,
  input [2:0] inside_running,
  input [35:0] inside_running_0,
  input [35:0] inside_running_1,
  input [35:0] inside_running_2,
  input [35:0] inside_running_3,
  input [35:0] inside_running_4,
  input inside_oldest_is_done,
  input [3:0] inside_given,
  output holds
);
  localparam PLACE = $clog2(DEPTH);
  reg sane, shown, runs, is_done;
  reg [PLACE:0] places, unread;
  reg [PLACE-1:0] into, out_of, shown_at;
  reg [2:0] running;
  reg [3:0] given;
  reg [36*UNDER_WAY-1:0] queue;  // of those that run, the oldest lowest
  // What is shown of other places than the watched one may be anything.
  wire [279:0] head = inside_memory_read_data;
  wire [3:0] missing = head[3:0] & ~available, owed = is_done ? queue[3:0] & ~given : 0;
  wire waits = shown & ~runs;
  wire starts = waits & missing == 0 & running != UNDER_WAY & (running == 0 | &has_room_for_all) & ~stop;
  wire retires = is_done & (owed & ~has_room) == 0 & ~stop;
  wire comes = entry_valid & places != DEPTH, leaves = runs & engine_ready;
  wire reads = unread != 0 & (~shown | leaves);
  wire now_sane = sane & ~(engine_done & running <= retires + runs);
  wire [2:0] left = running - retires;
  wire [36*UNDER_WAY-1:0] rest = retires ? queue >> 36 : queue;
  always @(posedge clk) begin
    sane <= rst | now_sane;
    places <= rst ? 0 : places + comes - retires;
    unread <= rst ? 0 : unread + comes - reads;
    into <= rst ? 0 : into + comes;
    out_of <= rst ? 0 : out_of + reads;
    if (reads) shown_at <= out_of;
    shown <= ~rst & (reads | shown & ~leaves);
    runs <= ~rst & (starts | runs & ~engine_ready);
    is_done <= ~rst & (engine_done | is_done & ~retires);
    running <= rst ? 0 : left + starts;
    given <= rst | retires ? 0 : given | give;
    queue <= rest;
    if (starts) queue[36*left +: 36] <= head[39:4];
  end

  wire [PLACE-1:0] place = watched, ahead = place - out_of, next_out = out_of + unread;
  wire writes_it = comes & into == place;
  reg known, shows;
  reg [279:0] word, kept;
  always @(posedge clk) begin
    known <= ~rst & (known | writes_it);
    if (writes_it) word <= entry;
    if (rst) shows <= 0;
    else if (reads) {shows, kept} <= {known & ~writes_it & out_of == place, word};
  end
  wire memory_right = inside_known_0 == known & (~known | inside_word_0 == word)
    & inside_shows_0 == shows & (~shows | inside_shown_0 == kept & head == kept)
    & (ahead >= unread | known) & (~shown | shown_at != place | shows);

  wire [8*36-1:0] own = {108'b0, inside_running_4, inside_running_3, inside_running_2,
    inside_running_1, inside_running_0};
  wire [UNDER_WAY-1:0] same;
  genvar index;
  generate for (index = 0; index < UNDER_WAY; index = index + 1) begin : of
    wire [2:0] age = running - 1 - index;
    assign same[index] = index >= running | own[36*age +: 36] == queue[36*index +: 36];
  end endgenerate
  wire own_right = inside_places_taken == places & inside_unread == unread & inside_into == into
    & inside_memory_read_address == out_of & inside_shows == shown
    & (UNDER_WAY == 1 | inside_running == running) & inside_is_oldest == 1 << running >> 1
    & inside_oldest_is_done == is_done & inside_given == given & &same
    & running <= UNDER_WAY & running >= runs + is_done & (~runs | shown) & into == next_out
    & unread <= DEPTH & places <= DEPTH & places == unread + waits + running;
  wire stuck = running == 0 ? waits & missing != 0 : owed != 0 & (owed & has_room) == 0;
  assign holds = ~now_sane | own_right & memory_right
    & entry_ready == (places != DEPTH) & is_empty == (places == 0) & is_stuck == (places == 0 | stuck)
    & take == (starts ? head[3:0] : 0) & give == (stop ? 0 : owed & has_room)
    & {lacks_store, lacks_vector, lacks_gemm, lacks_load} == (waits & engine_ready ? missing : 0)
    & engine_valid == runs & engine_stop == stop & engine_descriptor == head[279:40]
    & error == (is_done ? 0 : engine_error) & number == (running == 0 ? head[39:8] : queue[35:4]);
endmodule

// Where the next entry of a strip is: those of a strip follow one another, and strips begin a stride behind
// one another. Those of w go on when the last strip of a ends, those of a begin again then.
module strip_entries #(parameter OF_W = 0, STRIDE = 12) (
  input clk,
  input enters,
  input [15:0] first,
  input [STRIDE-1:0] stride,
  input step,
  input ends_strip,
  input ends_inner,
  output reg [16:0] at,
  output reg [16:0] strip,
  output reg [15:0] kept_first,
  output reg [STRIDE-1:0] kept_stride
);
  wire [16:0] further = strip + kept_stride;
  wire [16:0] next = ends_inner == OF_W ? further : OF_W ? strip : kept_first;
  always @(posedge clk)
    if (enters) begin
      {kept_first, kept_stride} <= {first, stride};
      at <= first;
      strip <= first;
    end else if (step) begin
      at <= ends_strip ? next : at + 1;
      if (ends_strip) strip <= next;
    end
endmodule

// Scales of the tiles of a descriptor, an entry of each side for each block, the tiles in their order, and
// the largest of each row of them: those of the next tile are found while the present one passes, and are
// its anchors when it begins. An entry outside its memory is not read, and what comes instead is anything.
// Nothing is claimed once a tile begins that is not known, or a descriptor comes while one is left.
module anchor_scan_specification #(parameter ROWS = 16, A = 1024, W = 2048) (
  input clk,
  input rst,
  input enters,
  input is_free,
  input is_known,
  input begins,
  input [239:0] descriptor,
  input a_en,
  input [$clog2(A)-1:0] a_address,
  input [8*ROWS-1:0] a_scales,
  input [8*ROWS-1:0] a_anchors,
  input w_en,
  input [$clog2(W)-1:0] w_address,
  input [8*ROWS-1:0] w_scales,
  input [8*ROWS-1:0] w_anchors,
  // The unit's own registers, for a proof by induction.
  input inside_scans,
  input inside_tile_follows,
  input inside_scale_arrives,
  input inside_begins_anew,
  input [12:0] inside_beats,
  input [12:0] inside_beats_left,
  input [6:0] inside_block,
  input [7:0] inside_strips_a,
  input [7:0] inside_strips_a_left,
  input [7:0] inside_strips_w,
  input [7:0] inside_strips_w_left,
  input [16:0] inside_a_scales_address,
  input [16:0] inside_a_scales_strip,
  input [15:0] inside_a_scales_first,
  input [11:0] inside_a_scales_stride,
  input [16:0] inside_w_scales_address,
  input [16:0] inside_w_scales_strip,
  input [11:0] inside_w_scales_stride,
  input [8*ROWS-1:0] inside_a_largest_each,
  input [8*ROWS-1:0] inside_w_largest_each,
  // For the unit around it.
  output now_sane,
  output reg on,
  output reg known,
  output reg more,
  output reg [7:0] i,
  output reg [7:0] j,
  output reads,
  output [16:0] a_at,
  output [16:0] w_at,
  output reg [8*ROWS-1:0] a_right,
  output reg [8*ROWS-1:0] w_right,
  output inside_holds,
  output holds
);
  reg sane, came, arrives, fresh;
  reg [12:0] beats, done;
  reg [6:0] block;
  reg [7:0] strips_a, strips_w;
  wire scanning = on | begins & more;
  assign reads = is_free & scanning;
  wire ends_strip = reads & {1'b0, done} + block >= beats;
  wire ends_i = i + 1 >= strips_a, ends_j = j + 1 >= strips_w;
  assign now_sane = sane & ~(begins & ~known) & ~(enters & (on | known & (more | ~begins)));
  wire [16:0] a_strip, w_strip;
  wire [15:0] a_first, w_first;
  wire [11:0] a_stride, w_stride;
  strip_entries of_a (clk, enters, descriptor[47:32], descriptor[59:48], reads, ends_strip, ends_i,
    a_at, a_strip, a_first, a_stride);
  strip_entries #(.OF_W(1)) of_w (clk, enters, descriptor[107:92], descriptor[119:108], reads,
    ends_strip, ends_i, w_at, w_strip, w_first, w_stride);
  always @(posedge clk) begin
    sane <= rst | now_sane;
    came <= ~rst & (enters | came);
    on <= ~rst & (enters | scanning & ~ends_strip);
    known <= ~rst & (ends_strip | known & ~begins);
    arrives <= ~rst & reads;
    fresh <= enters | begins | fresh & ~arrives;
    if (ends_strip) more <= ~(ends_i & ends_j);
    if (enters) begin
      {block, beats, strips_w, strips_a} <= descriptor[155:120];
      {done, i, j} <= 0;
    end else if (reads) begin
      done <= ends_strip ? 0 : done + block;
      if (ends_strip) i <= ends_i ? 0 : i + 1;
      if (ends_strip & ends_i) j <= ends_j ? 0 : j + 1;
    end
  end

  reg [8*ROWS-1:0] a_largest, w_largest;
  wire [8*ROWS-1:0] a_now, w_now;
  genvar row;
  generate for (row = 0; row < 8 * ROWS; row = row + 8) begin : of
    wire [7:0] a = a_scales[row +: 8], w = w_scales[row +: 8];
    wire rises_a = fresh | a > a_largest[row +: 8], rises_w = fresh | w > w_largest[row +: 8];
    assign a_now[row +: 8] = arrives & rises_a ? a : a_largest[row +: 8];
    assign w_now[row +: 8] = arrives & rises_w ? w : w_largest[row +: 8];
  end endgenerate
  always @(posedge clk) begin
    {a_largest, w_largest} <= {a_now, w_now};
    if (rst) {a_right, w_right} <= 0;
    else if (begins) {a_right, w_right} <= {a_now, w_now};
  end

  wire a_same = inside_a_scales_address == a_at & inside_a_scales_strip == a_strip
    & inside_a_scales_first == a_first & inside_a_scales_stride == a_stride;
  wire w_same = inside_w_scales_address == w_at & inside_w_scales_strip == w_strip
    & inside_w_scales_stride == w_stride;
  wire counts_same = inside_beats == beats & inside_beats_left == beats - done & inside_block == block
    & inside_strips_a == strips_a & inside_strips_a_left == strips_a - i
    & inside_strips_w == strips_w & inside_strips_w_left == strips_w - j;
  assign inside_holds = ~now_sane | inside_scans == on & inside_scale_arrives == arrives
    & (came | ~on & ~known & ~arrives)
    & (~came | a_same & w_same & counts_same & inside_begins_anew == fresh
      & (done == 0 | done < beats) & (i == 0 | i < strips_a) & (j == 0 | j < strips_w)
      & (~known | inside_tile_follows == more & (~fresh | arrives))
      & (fresh | {inside_a_largest_each, inside_w_largest_each} == {a_largest, w_largest}));
  assign holds = ~now_sane | is_known == known
    & a_en == (reads & a_at < A) & (~a_en | a_address == a_at)
    & w_en == (reads & w_at < W) & (~w_en | w_address == w_at)
    & {a_anchors, w_anchors} == {a_right, w_right};
endmodule

// Beats of both operands out of their memories, those of a tile one after the other, the strips of a
// changing fastest. Of a block scales are read with its first beat, and without entries there are none. A
// beat stays until it is taken; one outside its memory, or whose scales are, is not read, and nothing comes
// behind it. If PACED a beat is read two cycles after another one or after its descriptor at the soonest,
// and a descriptor comes when the one before has ended. With ANCHORS, for so many rows, scales are read
// with the last beat of a block, and while none are those of the next tile: it begins when all are. Nothing
// is claimed once a descriptor comes that has no beats, blocks or strips.
module operand_feed_specification #(
  parameter A = 2048, W = 4096, AE = 1024, WE = 2048, PACED = 0, ANCHORS = 0
) (
  input clk,
  input rst,
  input valid,
  input ready,
  input [239:0] descriptor,
  input has_room,
  input enters,
  input a_codes_en,
  input [$clog2(A)-1:0] a_codes_address,
  input a_scales_en,
  input [$clog2(AE)-1+!AE:0] a_scales_address,
  input w_codes_en,
  input [$clog2(W)-1:0] w_codes_address,
  input w_scales_en,
  input [$clog2(WE)-1+!WE:0] w_scales_address,
  input beat_valid,
  input beat_ready,
  input first,
  input block_last,
  input last,
  input fault,
  input [8*ANCHORS-1+!ANCHORS:0] a_entry,
  input [8*ANCHORS-1+!ANCHORS:0] w_entry,
  input [8*ANCHORS-1+!ANCHORS:0] a_anchors,
  input [8*ANCHORS-1+!ANCHORS:0] w_anchors,
  // The unit's own nets, and those of its part, for a proof by induction.
  input inside_active,
  input inside_clear,
  input inside_starts_tile,
  input inside_starts_block,
  input [12:0] inside_beats,
  input [12:0] inside_beats_left,
  input [6:0] inside_block,
  input [6:0] inside_block_left,
  input [7:0] inside_strips_a,
  input [7:0] inside_strips_a_left,
  input [7:0] inside_strips_w_left,
  input [16:0] inside_a_codes_following,
  input [16:0] inside_a_codes_strip,
  input [15:0] inside_a_codes_first,
  input [15:0] inside_a_codes_stride,
  input [16:0] inside_a_scales_following,
  input [16:0] inside_a_scales_strip,
  input [15:0] inside_a_scales_first,
  input [11:0] inside_a_scales_stride,
  input [16:0] inside_w_codes_following,
  input [16:0] inside_w_codes_strip,
  input [15:0] inside_w_codes_stride,
  input [16:0] inside_w_scales_following,
  input [16:0] inside_w_scales_strip,
  input [11:0] inside_w_scales_stride,
  input inside_settled,
  input inside_is_outside_held,
  input inside_ends_tile,
  input inside_ends_inner_loop,
  input inside_is_last_of_block_held,
  input inside_is_last_of_strips_w_held,
  input inside_scan_is_known,
  input inside_scan_scans,
  input inside_scan_tile_follows,
  input inside_scan_scale_arrives,
  input inside_scan_begins_anew,
  input [12:0] inside_scan_beats,
  input [12:0] inside_scan_beats_left,
  input [6:0] inside_scan_block,
  input [7:0] inside_scan_strips_a,
  input [7:0] inside_scan_strips_a_left,
  input [7:0] inside_scan_strips_w,
  input [7:0] inside_scan_strips_w_left,
  input [16:0] inside_scan_a_scales_address,
  input [16:0] inside_scan_a_scales_strip,
  input [15:0] inside_scan_a_scales_first,
  input [11:0] inside_scan_a_scales_stride,
  input [16:0] inside_scan_w_scales_address,
  input [16:0] inside_scan_w_scales_strip,
  input [11:0] inside_scan_w_scales_stride,
  input [8*ANCHORS-1+!ANCHORS:0] inside_scan_a_largest_each,
  input [8*ANCHORS-1+!ANCHORS:0] inside_scan_w_largest_each,
  output inside_holds,
  output holds
);
  localparam SCALED = AE != 0;
  reg sane, on, settled, shown, is_first, ends, is_last;
  reg [7:0] strips_w, strips_a, i, j;
  reg [6:0] block, in_block;
  reg [12:0] beats, done;
  reg clear;
  wire begins_block = in_block == 0, ends_tile = done + 1 == beats;
  wire ends_block = ends_tile | SCALED & in_block + 1 == block;
  wire ends_i = i + 1 == strips_a, ends_j = j + 1 == strips_w;
  wire [16:0] a_at, a_strip, as_at, as_strip, w_at, w_strip, ws_at, ws_strip;
  wire [15:0] a_first, as_first, w_first, ws_first, a_stride, w_stride;
  wire [11:0] as_stride, ws_stride;
  wire uses_scales = SCALED & (ANCHORS ? ends_block : begins_block);
  wire outside = a_at >= A | w_at >= W | uses_scales & (as_at >= AE | ws_at >= WE);
  wire moves = ~shown | beat_ready, may = PACED ? settled : on, is_known;
  wire begun = done != 0, is_last_tile = ends_i & ends_j;
  wire goes = may & moves & ~outside & (begun | is_known), reads_scales = goes & uses_scales;
  wire ends_all = goes & ends_tile & is_last_tile;
  wire is_ready = has_room & (~on | !PACED & ends_all), comes = valid & is_ready;
  wire [155:120] counts = descriptor[155:120];
  wire now_sane = sane & ~(comes & (counts[127:120] == 0 | counts[135:128] == 0 | counts[148:136] == 0
    | SCALED & counts[155:149] == 0));
  wire ends_strip = goes & ends_tile, ends_scales = goes & ends_block;
  strip_entries #(.STRIDE(16)) of_a (clk, comes, descriptor[15:0], descriptor[31:16], goes, ends_strip,
    ends_i, a_at, a_strip, a_first, a_stride);
  strip_entries of_as (clk, comes, descriptor[47:32], descriptor[59:48], ends_scales, ends_strip,
    ends_i, as_at, as_strip, as_first, as_stride);
  strip_entries #(.OF_W(1), .STRIDE(16)) of_w (clk, comes, descriptor[75:60], descriptor[91:76], goes,
    ends_strip, ends_i, w_at, w_strip, w_first, w_stride);
  strip_entries #(.OF_W(1)) of_ws (clk, comes, descriptor[107:92], descriptor[119:108], ends_scales,
    ends_strip, ends_i, ws_at, ws_strip, ws_first, ws_stride);
  always @(posedge clk) begin
    sane <= rst | now_sane;
    on <= ~rst & (comes | on & ~ends_all);
    settled <= ~rst & on & ~goes;
    shown <= ~rst & (moves ? goes : shown);
    if (goes) {is_first, ends, is_last} <= {~begun & clear, ends_block, ends_tile};
    if (comes) begin
      {block, beats, strips_w, strips_a} <= counts;
      clear <= descriptor[204];
      {done, in_block, i, j} <= 0;
    end else if (goes) begin
      done <= ends_tile ? 0 : done + 1;
      in_block <= ends_block ? 0 : in_block + 1;
      if (ends_tile) i <= ends_i ? 0 : i + 1;
      if (ends_tile & ends_i) j <= j + 1;
    end
  end

  // The scan seeks the first tile that has not begun, or once that one is known the tile behind it.
  wire scan_sane, scans, more, scan_reads, scan_same;
  wire [7:0] scan_i, scan_j;
  wire [16:0] scan_a, scan_w;
  wire [8*ANCHORS-1+!ANCHORS:0] a_right, w_right;
  wire none_left = ~on | begun & is_last_tile;
  wire [7:0] first_i = ~begun ? i : ends_i ? 0 : i + 1, first_j = j + (begun & ends_i);
  wire first_ends_i = first_i + 1 == strips_a, first_ends_j = first_j + 1 == strips_w;
  wire [7:0] after_i = first_ends_i ? 0 : first_i + 1;
  wire [7:0] after_j = ~first_ends_i ? first_j : first_ends_j ? 0 : first_j + 1;
  wire in_order = none_left ? ~scans & ~is_known : scans != is_known
    & {scan_i, scan_j} == (is_known ? {after_i, after_j} : {first_i, first_j})
    & (~is_known | more == ~(first_ends_i & first_ends_j));
  generate if (ANCHORS) begin : anchored
    anchor_scan_specification #(.ROWS(ANCHORS), .A(AE), .W(WE)) scan (
      .clk(clk), .rst(rst), .enters(comes), .is_free(moves & ~(goes & ends_block)), .is_known(is_known),
      .begins(goes & ~begun), .descriptor(descriptor), .a_scales(a_entry), .w_scales(w_entry),
      .inside_scans(inside_scan_scans), .inside_tile_follows(inside_scan_tile_follows),
      .inside_scale_arrives(inside_scan_scale_arrives), .inside_begins_anew(inside_scan_begins_anew),
      .inside_beats(inside_scan_beats), .inside_beats_left(inside_scan_beats_left),
      .inside_block(inside_scan_block),
      .inside_strips_a(inside_scan_strips_a), .inside_strips_a_left(inside_scan_strips_a_left),
      .inside_strips_w(inside_scan_strips_w), .inside_strips_w_left(inside_scan_strips_w_left),
      .inside_a_scales_address(inside_scan_a_scales_address),
      .inside_a_scales_strip(inside_scan_a_scales_strip),
      .inside_a_scales_first(inside_scan_a_scales_first),
      .inside_a_scales_stride(inside_scan_a_scales_stride),
      .inside_w_scales_address(inside_scan_w_scales_address),
      .inside_w_scales_strip(inside_scan_w_scales_strip),
      .inside_w_scales_stride(inside_scan_w_scales_stride),
      .inside_a_largest_each(inside_scan_a_largest_each),
      .inside_w_largest_each(inside_scan_w_largest_each),
      .now_sane(scan_sane), .on(scans), .known(is_known), .more(more), .i(scan_i), .j(scan_j),
      .reads(scan_reads), .a_at(scan_a), .w_at(scan_w), .a_right(a_right), .w_right(w_right),
      .inside_holds(scan_same));
  end else begin
    assign {is_known, scan_reads} = 2'b10;
  end endgenerate

  wire a_same = inside_a_codes_following == a_at + 17'b1 & inside_a_codes_strip == a_strip
    & inside_a_codes_first == a_first & inside_a_codes_stride == a_stride;
  wire w_same = inside_w_codes_following == w_at + 17'b1 & inside_w_codes_strip == w_strip
    & inside_w_codes_stride == w_stride;
  wire as_same = inside_a_scales_following == as_at + 17'b1 & inside_a_scales_strip == as_strip
    & inside_a_scales_first == as_first & inside_a_scales_stride == as_stride;
  wire ws_same = inside_w_scales_following == ws_at + 17'b1 & inside_w_scales_strip == ws_strip
    & inside_w_scales_stride == ws_stride;
  wire blocks_same = inside_block == block & inside_block_left == block - in_block
    & (ANCHORS != 0 | inside_starts_block == begins_block) & in_block < block & as_same & ws_same;
  wire loops_same = inside_beats == beats & inside_beats_left == beats - done & done < beats
    & inside_strips_a == strips_a & inside_strips_a_left == strips_a - i & i < strips_a
    & inside_strips_w_left == strips_w - j & j < strips_w
    & inside_starts_tile == ~begun & inside_clear == clear & a_same & w_same;
  wire held_same = inside_is_outside_held == outside & inside_ends_tile == ends_tile
    & inside_ends_inner_loop == ends_i & inside_is_last_of_strips_w_held == ends_j
    & inside_is_last_of_block_held == (in_block + 1 == block);
  assign inside_holds = ~now_sane | inside_active == on & (~on | loops_same & (!SCALED | blocks_same))
    & (!PACED | inside_settled == settled & (~settled | on & held_same))
    & (!ANCHORS | scan_sane & scan_same & inside_scan_is_known == is_known & in_order
      & (~on | {inside_scan_strips_a, inside_scan_strips_w} == {strips_a, strips_w}));
  assign holds = ~now_sane | ready == is_ready & enters == comes & a_codes_en == goes & w_codes_en == goes
    & (~goes | a_codes_address == a_at & w_codes_address == w_at)
    & (!SCALED | a_scales_en == (reads_scales | scan_reads & scan_a < AE)
      & w_scales_en == (reads_scales | scan_reads & scan_w < WE)
      & (~a_scales_en | a_scales_address == (reads_scales ? as_at : scan_a))
      & (~w_scales_en | w_scales_address == (reads_scales ? ws_at : scan_w)))
    & (!ANCHORS | {a_anchors, w_anchors} == {a_right, w_right})
    & beat_valid == shown & (~shown | {first, block_last, last} == {is_first, ends, is_last})
    & fault == (may & outside);
endmodule
