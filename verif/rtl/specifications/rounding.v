// Rounding to nearest even, the `rne` of sections 3 to 5.

// The integer nearest to number / 2^drop; a tie goes to the even one.
module nearest_even #(parameter WIDTH = 8) (
  input [WIDTH-1:0] number,
  input [10:0] drop,
  output [WIDTH:0] nearest
);
  wire [WIDTH-1:0] whole = number >> drop;
  wire [WIDTH:0] below = ~({WIDTH+1{1'b1}} << drop);  // 2^drop - 1
  wire [WIDTH:0] rest = number & below;
  wire [WIDTH:0] half = below ^ below >> 1;  // 2^drop / 2, or 0 where nothing is dropped
  assign nearest = whole + (drop != 0 & (rest > half | rest == half & whole[0]));
endmodule

// Place of the highest bit that is set, but LEAST at least.
module leading_place #(parameter WIDTH = 8, LEAST = 0) (
  input [WIDTH-1:0] number,
  output reg [6:0] place
);
  integer bit;
  always @* begin
    place = LEAST;
    for (bit = LEAST + 1; bit < WIDTH; bit = bit + 1) if (number[bit]) place = bit;
  end
endmodule

// magnitude * 2^exponent as binary32 (section 5, `f32`): with subnormals, overflow gives Inf.
module float32_of #(parameter WIDTH = 24) (
  input negative,
  input [WIDTH-1:0] magnitude,
  input signed [10:0] exponent,
  output [31:0] number
);
  localparam WIDE = WIDTH + 23;  // so that 24 bits are there to be kept
  wire [WIDE-1:0] wide = {magnitude, 23'b0};
  wire [6:0] leading;
  leading_place #(WIDE, 23) find (wide, leading);
  // What is dropped: all below 24 bits, and all below 2^-149.
  wire signed [10:0] of_precision = $signed({4'b0, leading}) - 11'sd23;
  wire signed [10:0] of_range = -11'sd149 - (exponent - 11'sd23);
  wire [10:0] drop = of_precision > of_range ? of_precision : of_range;
  wire [WIDE:0] kept;
  nearest_even #(WIDE) round (wide, drop, kept);
  // The hidden bit adds itself to the exponent field, and so does a carry out of the mantissa.
  wire [10:0] field = drop - of_range;
  wire [34:0] bits = {field, 23'b0} + kept[24:0];
  assign number = {
    negative, magnitude == 0 ? 31'b0 : bits >= 35'h7f800000 ? 31'h7f800000 : bits[30:0]};
endmodule
