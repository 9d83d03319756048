// Compares the sums of mac_top with test vectors, while the enable pauses now and then:
//
//   mxsafe vectors --unit mac --arithmetic exact --count 5000
//
// +dump writes a waveform to mac.fst; it is one if vvp is called with -fst.
`timescale 1ns / 1ps
`default_nettype none

module mac_tb;
  parameter COUNT = 5000, FPGA = 0;

  reg [31:0] a_rows [0:COUNT-1], w_rows [0:COUNT-1];
  reg [26:0] dot_rows [0:COUNT-1];

  reg clk = 0, rst = 1, en = 0, in_valid = 0;
  reg [31:0] a, w;
  wire out_valid;
  wire signed [26:0] dot;
  integer given = 0, compared = 0, wrong = 0, cycles = 0;

  mac_top #(.FPGA(FPGA)) dut (
    .clk(clk), .rst(rst), .en(en), .in_valid(in_valid), .a(a), .w(w),
    .out_valid(out_valid), .dot(dot)
  );

  always #1 clk = ~clk;

  initial begin
    if ($test$plusargs("dump")) begin
      $dumpfile("mac.fst");
      $dumpvars(0, mac_tb);
    end
    $readmemh("vectors/a.hex", a_rows);
    $readmemh("vectors/w.hex", w_rows);
    $readmemh("vectors/dot.hex", dot_rows);
    repeat (2) @(negedge clk);
    rst = 0;
    // Inputs change while the clock is low, and outputs are looked at then.
    while (compared < COUNT && cycles < 2 * COUNT + 100) begin
      en = cycles % 5 != 4;
      in_valid = given < COUNT && cycles % 7 != 6;
      a = in_valid ? a_rows[given] : 32'hx;
      w = in_valid ? w_rows[given] : 32'hx;
      if (en && in_valid) given = given + 1;
      @(negedge clk);
      cycles = cycles + 1;
      if (en && out_valid) begin
        // A row that no file has filled is unknown, and never right.
        if (dot !== dot_rows[compared] || ^dot_rows[compared] === 1'bx) begin
          wrong = wrong + 1;
          $display("row %0d, a %h, w %h: %h, not %h", compared, a_rows[compared],
                   w_rows[compared], dot, dot_rows[compared]);
        end
        compared = compared + 1;
      end
    end
    if (wrong != 0 || compared != COUNT) $fatal(1, "compared %0d, wrong %0d", compared, wrong);
    $display("mac_tb: %0d sums in %0d cycles, all right", compared, cycles);
    $finish;
  end
endmodule

`default_nettype wire
