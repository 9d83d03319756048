// Compares a decoder with test vectors. Names, widths and the number of rows come from outside:
// macros MODULE and <COLUMN>_FILE, parameters COUNT and <COLUMN>_WIDTH.
`timescale 1ns / 1ps

module decoder_vectors;
  parameter COUNT = 0;
  parameter CODE_WIDTH = 0;
  parameter SIGN_WIDTH = 0;
  parameter EXPONENT_WIDTH = 0;
  parameter SIGNIFICAND_WIDTH = 0;

  reg [CODE_WIDTH-1:0] code_rows [0:COUNT-1];
  reg [SIGN_WIDTH-1:0] sign_rows [0:COUNT-1];
  reg [EXPONENT_WIDTH-1:0] exponent_rows [0:COUNT-1];
  reg [SIGNIFICAND_WIDTH-1:0] significand_rows [0:COUNT-1];

  reg [CODE_WIDTH-1:0] code;
  wire [SIGN_WIDTH-1:0] sign;
  wire [EXPONENT_WIDTH-1:0] exponent;
  wire [SIGNIFICAND_WIDTH-1:0] significand;
  integer row, compared, wrong;

  `MODULE dut (.code(code), .sign(sign), .exponent(exponent), .significand(significand));

  initial begin
    $readmemh(`CODE_FILE, code_rows);
    $readmemh(`SIGN_FILE, sign_rows);
    $readmemh(`EXPONENT_FILE, exponent_rows);
    $readmemh(`SIGNIFICAND_FILE, significand_rows);
    compared = 0;
    wrong = 0;
    for (row = 0; row < COUNT; row = row + 1) begin
      code = code_rows[row];
      #1;
      compared = compared + 1;
      // A row that no file has filled is unknown, and never right.
      if ({sign, exponent, significand}
          !== {sign_rows[row], exponent_rows[row], significand_rows[row]}
          || ^{sign_rows[row], exponent_rows[row], significand_rows[row]} === 1'bx) begin
        wrong = wrong + 1;
        $display("row %0d, code %h: %h %h %h, not %h %h %h", row, code, sign, exponent,
                 significand, sign_rows[row], exponent_rows[row], significand_rows[row]);
      end
    end
    $display("compared %0d, wrong %0d", compared, wrong);
    $finish;
  end
endmodule
