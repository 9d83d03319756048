// E4M7 (section 4, arithmetic `fp12`): bias 12, no Inf, no NaN. All values are multiples of 2^-18.

module fp12_magnitude (input [10:0] code, output [21:0] magnitude);
  assign magnitude = code[10:7] == 0 ? code[6:0] : {1'b1, code[6:0]} << code[10:7] - 1;
endmodule

// The nearest code of a number, and how much it stands for: eight bits from the leading one on.
module fp12_nearest #(parameter WIDTH = 22) (
  input [WIDTH-1:0] number,
  output [15:0] code,
  output [WIDTH:0] value
);
  wire [6:0] leading;
  leading_place #(WIDTH, 7) find (number, leading);
  wire [10:0] drop = leading - 7;
  wire [WIDTH:0] kept;
  nearest_even #(WIDTH) round (number, drop, kept);
  assign code = {drop[4:0], 7'b0} + kept[8:0];
  assign value = kept << drop;
endmodule

module fp12_unpacker_specification (
  input [11:0] code,
  input sign,
  input [21:0] magnitude,
  output holds
);
  wire [21:0] value;
  fp12_magnitude of_code (code[10:0], value);
  assign holds = sign == code[11] & magnitude == value;
endmodule

module fp12_packer_specification (
  input signed [22:0] value,
  input negate,
  input zero_sign,
  input [11:0] code,
  output holds
);
  wire [22:0] magnitude = value < 0 ? -value : value;
  wire [15:0] nearest;
  wire [23:0] unused;
  fp12_nearest #(23) round (magnitude, nearest, unused);
  wire sign = value == 0 ? zero_sign : (value < 0) ^ negate;
  // What rounds beyond the largest code does not come.
  assign holds = nearest >= 2048 | code == {sign, nearest[10:0]};
endmodule

module fp12_rounder_specification (
  input signed [21:0] value,
  input signed [21:0] rounded,
  output holds
);
  wire [21:0] magnitude = value < 0 ? -value : value;
  wire [15:0] unused;
  wire [22:0] nearest;
  fp12_nearest #(22) round (magnitude, unused, nearest);
  // What rounds up to 2^21 does not come.
  assign holds = nearest >= 1 << 21 | rounded == (value < 0 ? -nearest[21:0] : nearest[21:0]);
endmodule

// The sum, rounded. Beyond the largest value it saturates, where no sum of four products of MXSF
// gets.
module fp12_sum (
  input [11:0] a,
  input [11:0] b,
  output [11:0] sum
);
  wire [21:0] a_magnitude, b_magnitude;
  fp12_magnitude of_a (a[10:0], a_magnitude);
  fp12_magnitude of_b (b[10:0], b_magnitude);
  wire signed [23:0] total =
    (a[11] ? -{2'b0, a_magnitude} : {2'b0, a_magnitude})
    + (b[11] ? -{2'b0, b_magnitude} : {2'b0, b_magnitude});
  wire [22:0] magnitude = total < 0 ? -total : total;
  wire [15:0] nearest;
  wire [23:0] unused;
  fp12_nearest #(23) round (magnitude, nearest, unused);
  wire sign = total == 0 ? a[11] & b[11] : total < 0;
  assign sum = {sign, nearest >= 2048 ? 11'h7ff : nearest[10:0]};
endmodule

module fp12_adder_specification (
  input [11:0] a,
  input [11:0] b,
  input [11:0] sum,
  output holds
);
  wire [11:0] right;
  fp12_sum of_both (a, b, right);
  assign holds = sum == right;
endmodule
