// Masters of AXI4: what they ask of memory, and what they make of its answers.

// Bursts of runs of words, of beats with so many bits.
module axi_runs_specification #(parameter WORD = 32, BITS = 256, BURST = 32, LATER = 0) (
  input clk,
  input rst,
  input [76-$clog2(WORD):0] run_payload,
  input run_valid,
  input run_ready,
  input [64+$clog2(BURST):0] burst_payload,
  input burst_valid,
  input burst_ready,
  input [11+$clog2(8*WORD/BITS):0] inside_beats_left,
  input [$clog2(BURST)-1:0] inside_place,
  input [(64-$clog2(BITS/8*BURST))/2-1:0] inside_lower_address,
  input [(65-$clog2(BITS/8*BURST))/2-1:0] inside_upper_address,
  input inside_run_is_last,
  input inside_cut__ready,
  output holds
);
  localparam BYTES = BITS / 8, FINE = $clog2(8 * WORD / BITS), FIRST = 64 - $clog2(WORD);
  wire [63-$clog2(BYTES):0] first = run_payload[FIRST-1:0] << FINE;
  wire [11+FINE:0] beats = run_payload[FIRST +: 12] << FINE;
  wire right, same;
  burst_splitter_specification #(.BYTES(BYTES), .BURST(BURST), .BEATS(12 + FINE), .LATER(LATER)) splitter (
    .clk(clk), .rst(rst), .run_payload({run_payload[FIRST+12], beats, first}), .run_valid(run_valid),
    .run_ready(run_ready), .burst_payload(burst_payload), .burst_valid(burst_valid),
    .burst_ready(burst_ready), .inside_beats_left(inside_beats_left), .inside_place(inside_place),
    .inside_lower_address(inside_lower_address), .inside_upper_address(inside_upper_address),
    .inside_run_is_last(inside_run_is_last), .inside_cut__ready(inside_cut__ready),
    .inside_holds(same), .holds(right));
  assign holds = right & same;
endmodule

// Runs of words into memory. Addresses of bursts are offered one after the other, the next one with the
// last beat of the burst before, or with LATER a cycle after it, while fewer than DEPTH are outstanding;
// beats come from words, the lowest bits first. While all is to end no burst begins, and
// beats that are still owed write nothing. A response without a burst breaks the rules of the bus.
module axi_writer_specification #(
  parameter WORD = 32, BITS = 256, BURST = 32, DEPTH = 32, LATER = 0
) (
  input clk,
  input rst,
  input [76-$clog2(WORD):0] run_payload,
  input run_valid,
  input run_ready,
  input [8*WORD-1:0] words_payload,
  input words_valid,
  input words_ready,
  input done,
  input error,
  input stop,
  input idle,
  input [63:0] m_axi_awaddr,
  input [7:0] m_axi_awlen,
  input [2:0] m_axi_awsize,
  input [1:0] m_axi_awburst,
  input [3:0] m_axi_awcache,
  input [2:0] m_axi_awprot,
  input m_axi_awvalid,
  input m_axi_awready,
  input [BITS-1:0] m_axi_wdata,
  input [BITS/8-1:0] m_axi_wstrb,
  input m_axi_wlast,
  input m_axi_wvalid,
  input m_axi_wready,
  input [1:0] m_axi_bresp,
  input m_axi_bvalid,
  input m_axi_bready,
  // What its splitter and its queue of tags give, and registers of all three, for a proof by induction.
  input [64+$clog2(BURST):0] inside_splitter_burst_payload,
  input inside_splitter_burst_valid,
  input inside_tags_full,
  input inside_tags_oldest,
  input [11+$clog2(8*WORD/BITS):0] inside_beats_left,
  input [$clog2(BURST)-1:0] inside_place,
  input [(64-$clog2(BITS/8*BURST))/2-1:0] inside_lower_address,
  input [(65-$clog2(BITS/8*BURST))/2-1:0] inside_upper_address,
  input inside_run_is_last,
  input inside_cut__ready,
  input [DEPTH-1:0] inside_tag_each,
  input [$clog2(DEPTH):0] inside_tags_tags_held,
  input inside_burst_is_active,
  input [$clog2(BURST)-1:0] inside_beats_after_this,
  input inside_beat_of_word,
  input [BITS-1:0] inside_rest_of_word,
  output holds
);
  localparam BYTES = BITS / 8, PARTS = WORD / BYTES;
  wire [64+$clog2(BURST):0] burst = inside_splitter_burst_payload;
  wire [$clog2(BURST)-1:0] more = burst[64 +: $clog2(BURST)];

  reg offers, active, sent, writes, is_last, was_done, was_error, was_broken;
  reg [63:0] address;
  reg [7:0] length;
  reg [$clog2(DEPTH):0] bursts;
  reg [$clog2(BURST)-1:0] left;
  reg [1:0] part;
  reg [8*WORD-1:0] word;
  reg [BITS-1:0] beat;
  wire begins_word = part == 0, there = words_valid | ~begins_word;
  wire sends = (~sent | m_axi_wready) & active & (there | stop);
  wire is_free = ~active | ~LATER & sends & left == 0;
  wire may = (~offers | m_axi_awready) & is_free & ~inside_tags_full & ~stop;
  wire begins = may & inside_splitter_burst_valid;
  wire [8*WORD-1:0] rest = begins_word ? words_payload : word;
  wire broken = was_broken | m_axi_bvalid & bursts == 0;
  always @(posedge clk) begin
    was_broken <= ~rst & broken;
    bursts <= rst ? 0 : bursts + begins - m_axi_bvalid;
    offers <= ~rst & (begins | offers & ~m_axi_awready);
    if (begins) {address, length} <= {burst[63:0], {8-$clog2(BURST){1'b0}}, more};
    active <= ~rst & (begins | active & ~(sends & left == 0));
    left <= begins ? more : left - sends;
    part <= rst ? 0 : (part + sends) % PARTS;
    if (sends) begin
      {word, beat} <= {{BITS{1'b0}}, rest};
      {is_last, writes} <= {left == 0, ~stop};
    end
    sent <= ~rst & (sends | sent & ~m_axi_wready);
    was_done <= ~rst & m_axi_bvalid & inside_tags_oldest;
    was_error <= ~rst & m_axi_bvalid & m_axi_bresp[1];
  end

  wire splitter_right, tags_right, tags_same;
  axi_runs_specification #(.WORD(WORD), .BITS(BITS), .BURST(BURST), .LATER(LATER)) splitter (
    .clk(clk), .rst(rst), .run_payload(run_payload), .run_valid(run_valid), .run_ready(run_ready),
    .burst_payload(burst), .burst_valid(inside_splitter_burst_valid), .burst_ready(may),
    .inside_beats_left(inside_beats_left), .inside_place(inside_place),
    .inside_lower_address(inside_lower_address), .inside_upper_address(inside_upper_address),
    .inside_run_is_last(inside_run_is_last), .inside_cut__ready(inside_cut__ready),
    .holds(splitter_right));
  tag_queue_specification #(.DEPTH(DEPTH)) tags (
    .clk(clk), .rst(rst), .push(begins), .tag(burst[64+$clog2(BURST)]), .pop(m_axi_bvalid),
    .oldest(inside_tags_oldest), .empty(idle), .full(inside_tags_full),
    .inside_tag_each(inside_tag_each),
    .inside_tags_held(inside_tags_tags_held), .inside_holds(tags_same), .holds(tags_right));
  wire same = inside_tags_tags_held == bursts & inside_burst_is_active == active & (~active | inside_beats_after_this == left)
    & (PARTS == 1 | inside_beat_of_word == part & (begins_word | inside_rest_of_word == word));
  assign holds = broken | splitter_right & tags_right & tags_same & same
    & idle == (bursts == 0) & words_ready == (sends & begins_word | stop) & done == was_done & error == was_error
    & m_axi_awvalid == offers & (~offers | {m_axi_awaddr, m_axi_awlen} == {address, length})
    & m_axi_awsize == $clog2(BYTES) & {m_axi_awburst, m_axi_awcache, m_axi_awprot} == 9'b01_0011_000
    & m_axi_wvalid == sent & (~sent | m_axi_wlast == is_last & m_axi_wstrb == {BYTES{writes}})
    & (~sent | ~writes | m_axi_wdata == beat) & m_axi_bready;
endmodule

// Runs of words out of memory, for two clients: where both have a burst that of client 0 goes first. An
// address is offered while fewer beats than WINDOW are outstanding, and fewer bursts than DEPTH. A word
// is made of beats, the first one lowest; one of them with an error makes it wrong, and it is of the
// client whose burst is the oldest. While all is to end no address is offered and words are dropped.
// A beat whose address was not taken, or that has no burst, breaks the rules of the bus.
module axi_reader_specification #(
  parameter WORD = 32, BITS = 256, BURST = 32, DEPTH = 32, WINDOW = 128, LATER = 0
) (
  input clk,
  input rst,
  input [75-$clog2(WORD):0] run_0_payload,
  input run_0_valid,
  input run_0_ready,
  input [75-$clog2(WORD):0] run_1_payload,
  input run_1_valid,
  input run_1_ready,
  input [8*WORD+1:0] words_payload,
  input words_valid,
  input words_ready,
  input stop,
  input idle,
  input [63:0] m_axi_araddr,
  input [7:0] m_axi_arlen,
  input [2:0] m_axi_arsize,
  input [1:0] m_axi_arburst,
  input [3:0] m_axi_arcache,
  input [2:0] m_axi_arprot,
  input m_axi_arvalid,
  input m_axi_arready,
  input [BITS-1:0] m_axi_rdata,
  input [1:0] m_axi_rresp,
  input m_axi_rlast,
  input m_axi_rvalid,
  input m_axi_rready,
  // What its splitters and its queue of tags give, and registers of all, for a proof by induction.
  input [64+$clog2(BURST):0] inside_splitter_0_burst_payload,
  input inside_splitter_0_burst_valid,
  input [11+$clog2(8*WORD/BITS):0] inside_splitter_0_beats_left,
  input [$clog2(BURST)-1:0] inside_splitter_0_place,
  input [(64-$clog2(BITS/8*BURST))/2-1:0] inside_splitter_0_lower_address,
  input [(65-$clog2(BITS/8*BURST))/2-1:0] inside_splitter_0_upper_address,
  input inside_splitter_0_run_is_last,
  input inside_splitter_0_cut__ready,
  input [64+$clog2(BURST):0] inside_splitter_1_burst_payload,
  input inside_splitter_1_burst_valid,
  input [11+$clog2(8*WORD/BITS):0] inside_splitter_1_beats_left,
  input [$clog2(BURST)-1:0] inside_splitter_1_place,
  input [(64-$clog2(BITS/8*BURST))/2-1:0] inside_splitter_1_lower_address,
  input [(65-$clog2(BITS/8*BURST))/2-1:0] inside_splitter_1_upper_address,
  input inside_splitter_1_run_is_last,
  input inside_splitter_1_cut__ready,
  input inside_tags_full,
  input inside_tags_oldest,
  input [DEPTH-1:0] inside_tag_each,
  input [$clog2(DEPTH):0] inside_tags_tags_held,
  input [$clog2(WINDOW+BURST)-1:0] inside_beats_under_way,
  input inside_beat_of_word,
  output holds
);
  localparam BYTES = BITS / 8, PARTS = WORD / BYTES;
  reg offers, there, wrong, client, was_broken;
  reg [63:0] address;
  reg [7:0] length;
  reg [$clog2(WINDOW+BURST)-1:0] owed, accepted;  // beats, all and those whose address was taken
  reg [$clog2(DEPTH):0] bursts;
  reg [1:0] part;
  reg [8*WORD-1:0] word;
  wire may = (~offers | m_axi_arready) & owed < WINDOW & ~inside_tags_full & ~stop;
  wire goes_0 = may & inside_splitter_0_burst_valid;
  wire goes_1 = may & ~inside_splitter_0_burst_valid & inside_splitter_1_burst_valid;
  wire asks = goes_0 | goes_1;
  wire [64+$clog2(BURST):0] burst = inside_splitter_0_burst_valid
    ? inside_splitter_0_burst_payload : inside_splitter_1_burst_payload;
  wire [7:0] more = burst[64 +: $clog2(BURST)];
  wire moves = ~there | words_ready | stop, takes = m_axi_rvalid & moves;
  wire broken = was_broken | takes & (accepted == 0 | bursts == 0);
  always @(posedge clk) begin
    was_broken <= ~rst & broken;
    offers <= ~rst & (asks | offers & ~m_axi_arready);
    if (asks) {address, length} <= {burst[63:0], more};
    owed <= rst ? 0 : owed + (asks ? more + 1 : 0) - takes;
    accepted <= rst ? 0 : accepted + (offers & m_axi_arready ? length + 1 : 0) - takes;
    bursts <= rst ? 0 : bursts + asks - (takes & m_axi_rlast);
    part <= rst ? 0 : (part + takes) % PARTS;
    there <= ~rst & (moves ? takes & part == PARTS - 1 : there);
    if (takes) begin
      word <= {m_axi_rdata, word} >> BITS;
      wrong <= m_axi_rresp[1] | wrong & part != 0;
      client <= inside_tags_oldest;
    end
  end

  wire right_0, right_1, tags_right, tags_same;
  axi_runs_specification #(.WORD(WORD), .BITS(BITS), .BURST(BURST), .LATER(LATER)) splitter_0 (
    .clk(clk), .rst(rst), .run_payload({1'b0, run_0_payload}), .run_valid(run_0_valid),
    .run_ready(run_0_ready), .burst_payload(inside_splitter_0_burst_payload),
    .burst_valid(inside_splitter_0_burst_valid), .burst_ready(may),
    .inside_beats_left(inside_splitter_0_beats_left), .inside_place(inside_splitter_0_place),
    .inside_lower_address(inside_splitter_0_lower_address),
    .inside_upper_address(inside_splitter_0_upper_address),
    .inside_run_is_last(inside_splitter_0_run_is_last),
    .inside_cut__ready(inside_splitter_0_cut__ready), .holds(right_0));
  axi_runs_specification #(.WORD(WORD), .BITS(BITS), .BURST(BURST), .LATER(LATER)) splitter_1 (
    .clk(clk), .rst(rst), .run_payload({1'b0, run_1_payload}), .run_valid(run_1_valid),
    .run_ready(run_1_ready), .burst_payload(inside_splitter_1_burst_payload),
    .burst_valid(inside_splitter_1_burst_valid), .burst_ready(may & ~inside_splitter_0_burst_valid),
    .inside_beats_left(inside_splitter_1_beats_left), .inside_place(inside_splitter_1_place),
    .inside_lower_address(inside_splitter_1_lower_address),
    .inside_upper_address(inside_splitter_1_upper_address),
    .inside_run_is_last(inside_splitter_1_run_is_last),
    .inside_cut__ready(inside_splitter_1_cut__ready), .holds(right_1));
  tag_queue_specification #(.DEPTH(DEPTH)) tags (
    .clk(clk), .rst(rst), .push(asks), .tag(goes_1), .pop(takes & m_axi_rlast),
    .oldest(inside_tags_oldest), .empty(bursts == 0), .full(inside_tags_full),
    .inside_tag_each(inside_tag_each),
    .inside_tags_held(inside_tags_tags_held), .inside_holds(tags_same), .holds(tags_right));
  wire same = inside_beats_under_way == owed & bursts == inside_tags_tags_held
    & owed == accepted + (offers ? length + 1 : 0)
    & (PARTS == 1 | inside_beat_of_word == part);
  assign holds = broken | right_0 & right_1 & tags_right & tags_same & same
    & idle == (accepted == 0 & ~offers) & m_axi_rready == moves & words_valid == (there & ~stop)
    & m_axi_arvalid == offers & (~offers | {m_axi_araddr, m_axi_arlen} == {address, length})
    & m_axi_arsize == $clog2(BYTES) & {m_axi_arburst, m_axi_arcache, m_axi_arprot} == 9'b01_0011_000
    & (~there & part == 0 | words_payload[8*WORD+1:8*WORD] == {client, wrong})
    & (~there | words_payload[8*WORD-1:0] == word)
    & (part == 0 | words_payload[8*WORD-1 -: BITS] == word[8*WORD-1 -: BITS]);
endmodule
