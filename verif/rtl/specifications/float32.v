// Arithmetic on binary32 (section 5): IEEE, nearest even, with subnormals; NaN is 0x7fc00000.

// What a number is: significand * 2^(exponent - 150) where it is finite.
module float32_value (
  input [31:0] number,
  output [23:0] significand,
  output [7:0] exponent,
  output infinite,
  output nan
);
  wire normal = number[30:23] != 0;
  assign significand = {normal, number[22:0]};
  assign exponent = normal ? number[30:23] : 8'd1;
  assign infinite = number[30:0] == 31'h7f800000;
  assign nan = number[30:0] > 31'h7f800000;
endmodule

// The sum in fixed point, in units of 2^-26 of an ulp of the larger operand: nothing is shifted out
// of one that is up to 26 places smaller. What is smaller still is below an eighth of an ulp, so the
// larger one is the nearest number.
module float32_sum #(parameter CLEARABLE = 0) (
  input clear_a,
  input [31:0] a,
  input [31:0] b,
  output [31:0] sum
);
  wire [31:0] left = CLEARABLE & clear_a ? 0 : a;
  wire swap = b[30:0] > left[30:0];
  wire [31:0] large = swap ? b : left, small = swap ? left : b;
  wire [23:0] large_significand, small_significand;
  wire [7:0] large_exponent, small_exponent;
  wire large_infinite, large_nan, small_infinite, small_nan;
  float32_value of_large (large, large_significand, large_exponent, large_infinite, large_nan);
  float32_value of_small (small, small_significand, small_exponent, small_infinite, small_nan);
  wire [7:0] distance = large_exponent - small_exponent;
  wire [50:0] large_units = {large_significand, 26'b0};
  wire [50:0] small_units = {small_significand, 26'b0} >> distance;
  wire subtract = large[31] != small[31];
  wire [50:0] total = subtract ? large_units - small_units : large_units + small_units;
  wire [31:0] rounded;
  float32_of #(51) round (large[31], total, $signed({3'b0, large_exponent}) - 11'sd176, rounded);
  wire nan = large_nan | small_nan | large_infinite & small_infinite & subtract;
  assign sum =
    nan ? 32'h7fc00000
    : large_infinite | distance > 26 ? large
    : total == 0 ? {large[31] & small[31], 31'b0}  // exactly zero: +0, unless both are -0
    : rounded;
endmodule

module float32_adder_specification #(parameter CLEARABLE = 0) (
  input clear_a,
  input [31:0] a,
  input [31:0] b,
  input [31:0] sum,
  output holds
);
  wire [31:0] right;
  float32_sum #(CLEARABLE) add (clear_a, a, b, right);
  assign holds = sum == right;
endmodule

// The exact product of the significands, rounded once. With BLOCKS it is made of products of 18 bits.
module float32_product #(parameter BLOCKS = 0) (
  input [31:0] a,
  input [31:0] b,
  output [31:0] product
);
  wire [23:0] a_significand, b_significand;
  wire [7:0] a_exponent, b_exponent;
  wire a_infinite, a_nan, b_infinite, b_nan;
  float32_value of_a (a, a_significand, a_exponent, a_infinite, a_nan);
  float32_value of_b (b, b_significand, b_exponent, b_infinite, b_nan);
  wire [35:0] low, high;
  wire [47:0] significands;
  generate if (BLOCKS) begin : blocks
    wire [17:0] a_high = a_significand[23:18], b_high = b_significand[23:18];
    wire [35:0] crossed = a_significand[17:0] * b_high, other = a_high * b_significand[17:0];
    assign low = a_significand[17:0] * b_significand[17:0];
    assign high = a_high * b_high;
    assign significands = {high, low} + {crossed + other, 18'b0};
  end else begin : digits
    long_multiplication #(12, 24) of_low (a_significand[11:0], b_significand, low);
    long_multiplication #(12, 24) of_high (a_significand[23:12], b_significand, high);
    assign significands = {12'b0, low} + {high, 12'b0};
  end endgenerate
  wire signed [10:0] exponent = $signed({3'b0, a_exponent}) + $signed({3'b0, b_exponent}) - 11'sd300;
  wire negative = a[31] ^ b[31];
  wire [31:0] rounded;
  float32_of #(48) round (negative, significands, exponent, rounded);
  wire zero = a_significand == 0 | b_significand == 0;
  wire infinite = a_infinite | b_infinite;
  assign product =
    a_nan | b_nan | infinite & zero ? 32'h7fc00000
    : infinite ? {negative, 31'h7f800000}
    : rounded;
endmodule

module float32_multiplier_specification #(parameter BLOCKS = 0) (
  input [31:0] a,
  input [31:0] b,
  input [31:0] product,
  output holds
);
  wire [31:0] right;
  float32_product #(BLOCKS) multiply (a, b, right);
  assign holds = product == right;
endmodule

// A sum behind a product, each rounded by itself.
module multiply_add_specification #(parameter BLOCKS = 0) (
  input [31:0] x,
  input [31:0] factor,
  input [31:0] addend,
  input [31:0] result,
  output holds
);
  wire [31:0] product, right;
  float32_product #(BLOCKS) multiply (factor, x, product);
  float32_sum add (1'b0, product, addend, right);
  assign holds = result == right;
endmodule

// Numbers as bfloat16: codes grow with their values, so the nearest one is the integer nearest to
// 2^-16 of the number's code. NaN is 0x7fc0. The handshake passes.
module number_rounder_specification #(parameter COUNT = 16) (
  input [32*COUNT-1:0] s_axis_tdata,
  input s_axis_tvalid,
  input s_axis_tready,
  input s_axis_tlast,
  input [16*COUNT-1:0] m_axis_tdata,
  input m_axis_tvalid,
  input m_axis_tready,
  input m_axis_tlast,
  output holds
);
  wire [COUNT-1:0] right;
  genvar index;
  generate for (index = 0; index < COUNT; index = index + 1) begin : numbers
    wire [31:0] number = s_axis_tdata[32*index +: 32];
    wire [15:0] code = m_axis_tdata[16*index +: 16];
    wire [31:0] nearest;
    nearest_even #(31) round (number[30:0], 11'd16, nearest);
    assign right[index] =
      code == (number[30:0] > 31'h7f800000 ? 16'h7fc0 : {number[31], nearest[14:0]});
  end endgenerate
  assign holds = &right & m_axis_tvalid == s_axis_tvalid & m_axis_tlast == s_axis_tlast
    & s_axis_tready == m_axis_tready;
endmodule

// Section 8: +0 where the sign is set, else the number. A NaN of either sign stays as it is, as
// docs/vector.md says.
module relu_specification #(parameter COUNT = 16) (
  input [32*COUNT-1:0] values,
  input [32*COUNT-1:0] results,
  output holds
);
  wire [COUNT-1:0] right;
  genvar index;
  generate for (index = 0; index < COUNT; index = index + 1) begin : numbers
    wire [31:0] number = values[32*index +: 32];
    assign right[index] = results[32*index +: 32] == (
      number[30:0] <= 31'h7f800000 & number[31] ? 0 : number);
  end endgenerate
  assign holds = &right;
endmodule

// A fixed-point number times the scales of two blocks, whose exponents have been added, as binary32
// (section 5). The number is a magnitude and a sign, or one signed number.
module scaler_product #(parameter WIDTH = 22, QUANTUM_EXPONENT = 0, SIGNED = 0) (
  input negative,
  input [WIDTH-1:0] magnitude,
  input signed [WIDTH:0] value,
  input [8:0] block_exponent,
  input nan,
  output [31:0] product
);
  wire is_negative = SIGNED ? value < 0 : negative;
  wire [WIDTH:0] size = !SIGNED ? magnitude : value < 0 ? -value : value;
  wire signed [10:0] exponent = $signed({2'b0, block_exponent}) - 254 + QUANTUM_EXPONENT;
  wire [31:0] rounded;
  float32_of #(WIDTH + 1) round (is_negative, size, exponent, rounded);
  assign product = nan ? 32'h7fc00000 : rounded;
endmodule

module scaler_specification #(parameter WIDTH = 22, QUANTUM_EXPONENT = 0, SIGNED = 0) (
  input negative,
  input [WIDTH-1:0] magnitude,
  input signed [WIDTH:0] value,
  input [8:0] block_exponent,
  input nan,
  input [31:0] product,
  output holds
);
  wire [31:0] right;
  scaler_product #(WIDTH, QUANTUM_EXPONENT, SIGNED) scale (
    negative, magnitude, value, block_exponent, nan, right);
  assign holds = product == right;
endmodule

// In place of a scaler, which is proved by itself: its operands side by side, and no Inf or NaN but its
// own. Units that give the same with it on both sides give the same with any function in its place.
module scaler_operands (
  input negative,
  input [15:0] magnitude,
  input [8:0] block_exponent,
  input nan,
  output [31:0] product
);
  assign product = nan ? 32'h7fc00000 : {5'b0, negative, magnitude, block_exponent};
endmodule

// The product of two bfloat16 numbers, the upper halves of binary32 ones: that of the significands, of
// eight bits each, scaled as by blocks with the exponents; with ANY by what stands for a scaler.
module bf16_product #(parameter ANY = 0) (
  input [15:0] a,
  input [15:0] w,
  output [31:0] product
);
  wire [23:0] a_significand, w_significand;
  wire [7:0] a_exponent, w_exponent;
  wire a_infinite, a_nan, w_infinite, w_nan;
  float32_value of_a ({a, 16'b0}, a_significand, a_exponent, a_infinite, a_nan);
  float32_value of_w ({w, 16'b0}, w_significand, w_exponent, w_infinite, w_nan);
  wire [15:0] significands = a_significand[23:16] * w_significand[23:16];
  wire [8:0] exponents = a_exponent + w_exponent;
  wire negative = a[15] ^ w[15];
  wire [31:0] scaled;
  generate if (ANY) scaler_operands scale (negative, significands, exponents, 1'b0, scaled);
  else scaler_product #(16, -14) scale (negative, significands, 17'b0, exponents, 1'b0, scaled);
  endgenerate
  wire zero = a_significand == 0 | w_significand == 0;
  wire infinite = a_infinite | w_infinite;
  assign product =
    a_nan | w_nan | infinite & zero ? 32'h7fc00000
    : infinite ? {negative, 31'h7f800000}
    : scaled;
endmodule

module bf16_multiplier_specification (
  input [15:0] a,
  input [15:0] w,
  input [31:0] product,
  output holds
);
  wire [31:0] right;
  bf16_product #(1) multiply (a, w, right);
  assign holds = product == right;
endmodule

// Products are added in pairs, then pairs of pairs.
module bf16_mac_specification (
  input [63:0] a,
  input [63:0] w,
  input [31:0] partial_sum,
  output holds
);
  wire [31:0] p0, p1, p2, p3, low, high, right;
  bf16_product of_0 (a[15:0], w[15:0], p0);
  bf16_product of_1 (a[31:16], w[31:16], p1);
  bf16_product of_2 (a[47:32], w[47:32], p2);
  bf16_product of_3 (a[63:48], w[63:48], p3);
  float32_sum of_low (1'b0, p0, p1, low);
  float32_sum of_high (1'b0, p2, p3, high);
  float32_sum of_all (1'b0, low, high, right);
  assign holds = partial_sum == right;
endmodule
