// Compares a MAC with test vectors, a new row every cycle. Names, widths, latency and the number of
// rows come from outside: macros MODULE, RESULT (the output port) and <COLUMN>_FILE, parameters
// COUNT, LATENCY and <COLUMN>_WIDTH.
`timescale 1ns / 1ps

module mac_vectors;
  parameter COUNT = 0;
  parameter LATENCY = 0;
  parameter A_WIDTH = 0;
  parameter W_WIDTH = 0;
  parameter RESULT_WIDTH = 0;

  reg [A_WIDTH-1:0] a_rows [0:COUNT-1];
  reg [W_WIDTH-1:0] w_rows [0:COUNT-1];
  reg [RESULT_WIDTH-1:0] result_rows [0:COUNT-1];

  reg clk, rst;
  reg [A_WIDTH-1:0] a;
  reg [W_WIDTH-1:0] w;
  wire [RESULT_WIDTH-1:0] result;
  integer cycle, row, compared, wrong;

  `MODULE dut (.clk(clk), .rst(rst), .en(1'b1), .a(a), .w(w), .`RESULT(result));

  task tick;
    begin
      #1 clk = 1;
      #1 clk = 0;
    end
  endtask

  initial begin
    $readmemh(`A_FILE, a_rows);
    $readmemh(`W_FILE, w_rows);
    $readmemh(`RESULT_FILE, result_rows);
    compared = 0;
    wrong = 0;
    clk = 0;
    rst = 1;
    tick;
    rst = 0;
    for (cycle = 0; cycle < COUNT + LATENCY - 1; cycle = cycle + 1) begin
      if (cycle < COUNT) begin
        a = a_rows[cycle];
        w = w_rows[cycle];
      end
      tick;
      row = cycle - (LATENCY - 1);
      if (row >= 0) begin
        compared = compared + 1;
        // A row that no file has filled is unknown, and never right.
        if (result !== result_rows[row] || ^result_rows[row] === 1'bx) begin
          wrong = wrong + 1;
          $display("row %0d, a %h, w %h: %h, not %h", row, a_rows[row], w_rows[row], result,
                   result_rows[row]);
        end
      end
    end
    $display("compared %0d, wrong %0d", compared, wrong);
    $finish;
  end
endmodule
