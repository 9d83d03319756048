// Multiplies two pairs of matrices on stream_top, and compares the operands that come out.
//
// All codes of A are 1 and all of W are 1/2, over K = 8. The scale of row i of A is 2^(i mod 4), so
// row i of A W is 4 * 2^(i mod 4). A tile of 8 x 8 has 32 as its largest number, and its scale is
// that over the largest power of two of an element, which is 1: 2^5. Row i holds 2^(i mod 4) / 8.
// The second product is with -W: each code gets its sign bit.
//
// +dump writes a waveform to stream.fst; it is one if vvp is called with -fst.
`timescale 1ns / 1ps
`default_nettype none

module stream_tb;
  localparam ONE = 8'h60, HALF = 8'h40, SIGN = 8'h80;  // codes of MXSF
  localparam BEATS = 2, TILES = 2, ROWS = 16;          // K = 8 is two beats of four

  reg aclk = 0, aresetn = 0;
  always #1 aclk = ~aclk;

  reg [639:0] a_tdata, w_tdata;
  reg a_tvalid = 0, w_tvalid = 0;
  reg a_tlast, w_tlast;
  reg [1:0] a_tuser;
  wire a_tready, w_tready;
  wire [143:0] tdata;
  wire tvalid, tlast, tuser, out_of_step, overlong;
  reg tready = 0;

  stream_top dut (
    .aclk(aclk), .aresetn(aresetn),
    .s_axis_a_tdata(a_tdata), .s_axis_a_tvalid(a_tvalid), .s_axis_a_tready(a_tready),
    .s_axis_a_tlast(a_tlast), .s_axis_a_tuser(a_tuser),
    .s_axis_w_tdata(w_tdata), .s_axis_w_tvalid(w_tvalid), .s_axis_w_tready(w_tready),
    .s_axis_w_tlast(w_tlast),
    .m_axis_tdata(tdata), .m_axis_tvalid(tvalid), .m_axis_tready(tready),
    .m_axis_tlast(tlast), .m_axis_tuser(tuser),
    .out_of_step(out_of_step), .overlong(overlong)
  );

  // What a waveform shows: of each stream the first code or number, and the first scale.
  wire [7:0] a_code = a_tdata[7:0], a_scale = a_tdata[519:512];
  wire [7:0] w_code = w_tdata[7:0], w_scale = w_tdata[519:512];
  wire [31:0] c_number = dut.c_tdata[31:0];
  wire [7:0] code = tdata[7:0], scale = tdata[135:128];
  wire first = a_tuser[0], block_last = a_tuser[1];

  // The code of 2^(row mod 4) / 8: an E2M5 exponent field of 1 or more holds 1/4 and up; 1/8 is a
  // number of the small mode E3M2, 2^-3 with the exponent field 7 of bias 10.
  function [7:0] expected(input integer row);
    case (row % 4)
      0: expected = 8'h1c;
      1: expected = 8'h20;
      2: expected = 8'h40;
      default: expected = 8'h60;
    endcase
  endfunction

  integer lane, tile_a, beat_a, tile_w, beat_w, row, wrong, cycles;

  always @(posedge aclk) cycles = cycles + 1;

  // Each stream has a process of its own: a source shows tvalid without waiting for tready.
  initial begin : stream_a
    wait (aresetn);
    for (tile_a = 0; tile_a < TILES; tile_a = tile_a + 1)
      for (beat_a = 0; beat_a < BEATS; beat_a = beat_a + 1) begin
        @(negedge aclk);
        a_tdata = {ROWS * 4{ONE}};
        for (lane = 0; lane < ROWS; lane = lane + 1)
          a_tdata[512 + 8 * lane +: 8] = 8'd127 + lane % 4;
        a_tuser = {beat_a == BEATS - 1, beat_a == 0};
        a_tlast = beat_a == BEATS - 1;
        a_tvalid = 1;
        @(posedge aclk);
        while (!a_tready) @(posedge aclk);
      end
    @(negedge aclk) a_tvalid = 0;
  end

  initial begin : stream_w
    wait (aresetn);
    for (tile_w = 0; tile_w < TILES; tile_w = tile_w + 1)
      for (beat_w = 0; beat_w < BEATS; beat_w = beat_w + 1) begin
        @(negedge aclk);
        w_tdata = {{ROWS{8'd127}}, {ROWS * 4{tile_w == 0 ? HALF : HALF | SIGN}}};
        w_tlast = beat_w == BEATS - 1;
        w_tvalid = 1;
        @(posedge aclk);
        while (!w_tready) @(posedge aclk);
      end
    @(negedge aclk) w_tvalid = 0;
  end

  initial begin
    if ($test$plusargs("dump")) begin
      $dumpfile("stream.fst");
      $dumpvars(2, stream_tb);
    end
    cycles = 0;
    wrong = 0;
    repeat (3) @(negedge aclk);
    aresetn = 1;
    row = 0;
    while (row < TILES * ROWS) begin
      @(negedge aclk);
      tready = cycles % 3 != 0;  // it pauses now and then
      @(posedge aclk);
      if (tvalid && tready) begin
        if (tdata !== {{2{8'd132}}, {16{expected(row) | (row < ROWS ? 8'h00 : SIGN)}}}
            || tuser !== (row % 8 == 7) || tlast !== (row % ROWS == ROWS - 1)) begin
          wrong = wrong + 1;
          $display("row %0d: %h, last %b, block_last %b", row, tdata, tlast, tuser);
        end
        row = row + 1;
      end
      if (cycles > 400) begin
        $display("rows never came out");
        wrong = wrong + 1;
        row = TILES * ROWS;
      end
    end
    if (out_of_step !== 0 || overlong !== 0) begin
      $display("flagged: out_of_step %b, overlong %b", out_of_step, overlong);
      wrong = wrong + 1;
    end
    if (wrong != 0) $fatal(1, "wrong: %0d", wrong);
    $display("stream_tb: %0d rows, all right", row);
    $finish;
  end
endmodule

`default_nettype wire
