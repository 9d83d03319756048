// MXSF elements (section 2), and their products (section 4).

// Every value is a multiple of 2^-11: significand * 2^(shift - 12), as the fields have them.
module mxsf_fields (
  input [7:0] code,
  output sign,
  output [5:0] significand,
  output [2:0] shift
);
  wire [1:0] ee = code[6:5];
  wire [2:0] eee = code[4:2];
  assign sign = code[7];
  // 2^(ee - 3) * (1 + mmmmm / 32), 2^(eee - 10) * (1 + mm / 4) or 2^-9 * mm / 4
  assign significand = ee != 0 ? 32 + code[4:0] : eee != 0 ? 4 + code[1:0] : code[1:0];
  assign shift = ee != 0 ? ee + 4 : eee != 0 ? eee : 1;
endmodule

module mxsf_magnitude (input [6:0] code, output [11:0] magnitude);
  wire unused;
  wire [5:0] significand;
  wire [2:0] shift;
  mxsf_fields of_code ({1'b0, code}, unused, significand, shift);
  assign magnitude = significand << shift - 1;
endmodule

// E4M5: 15 is the exponent of 2^0, the hidden bit is there, zero is all zeros.
module mxsf_decoder_specification (
  input [7:0] code,
  input sign,
  input [3:0] exponent,
  input [5:0] significand,
  output holds
);
  wire [11:0] magnitude;
  mxsf_magnitude of_code (code[6:0], magnitude);
  wire [20:0] value = significand << exponent;  // a multiple of 2^-20
  wire normalised = magnitude == 0 ? exponent == 0 : significand >= 32;
  assign holds = sign == code[7] & value == {magnitude, 9'b0} & normalised;
endmodule

// Digits of two bits of a significand as flags: it is 1, 2, 3. The top one is never 1.
module mxsf_digits (input [5:0] significand, output [7:0] gates);
  assign gates = {
    significand[5:4] == 3, significand[5:4] == 2,
    significand[3:2] == 3, significand[3:2] == 2, significand[3:2] == 1,
    significand[1:0] == 3, significand[1:0] == 2, significand[1:0] == 1};
endmodule

// Operands of multipliers, of several codes: with the shift, or as digits or with the upper bits of
// the triple and the shift less one.
module mxsf_operands #(parameter COUNT = 1, DIGITS = 0, TRIPLE = 0, BITS = 10) (
  input [8*COUNT-1:0] codes,
  output [BITS*COUNT-1:0] operands
);
  genvar index;
  generate for (index = 0; index < COUNT; index = index + 1) begin : element
    wire sign;
    wire [5:0] significand;
    wire [2:0] shift, distance = shift - 1;
    wire [7:0] gates, triple = 3 * significand;
    mxsf_fields of_code (codes[8*index +: 8], sign, significand, shift);
    mxsf_digits digits (significand, gates);
    if (DIGITS) assign operands[BITS*index +: BITS] = {sign, distance, gates};
    else if (TRIPLE)
      assign operands[BITS*index +: BITS] = {sign, distance, triple[7:1], significand};
    else assign operands[BITS*index +: BITS] = {sign, shift, significand};
  end endgenerate
endmodule

module mxsf_lane_decoder_specification #(parameter COUNT = 1, DIGITS = 0, TRIPLE = 0, BITS = 10) (
  input [8*COUNT-1:0] codes,
  input [BITS*COUNT-1:0] operands,
  output holds
);
  wire [BITS*COUNT-1:0] right;
  mxsf_operands #(COUNT, DIGITS, TRIPLE, BITS) of_codes (codes, right);
  assign holds = operands == right;
endmodule

module mxsf_operand_decoder_specification (
  input [7:0] code,
  input [5:0] significand,
  input [2:0] shift,
  input sign,
  output holds
);
  wire [9:0] right;
  mxsf_operands of_code (code, right);
  assign holds = {sign, shift, significand} == right;
endmodule

module mxsf_operand_decoder_digits_specification (
  input [7:0] code,
  input [7:0] gates,
  input [2:0] distance,
  input sign,
  output holds
);
  wire [11:0] right;
  mxsf_operands #(.DIGITS(1), .BITS(12)) of_code (code, right);
  assign holds = {sign, distance, gates} == right;
endmodule

module mxsf_operand_decoder_triple_specification (
  input [7:0] code,
  input [5:0] significand,
  input [6:0] triple,
  input [2:0] distance,
  input sign,
  output holds
);
  wire [16:0] right;
  mxsf_operands #(.TRIPLE(1), .BITS(17)) of_code (code, right);
  assign holds = {sign, distance, triple, significand} == right;
endmodule

// The nearest element (section 3): none of its neighbours is nearer, and of two the even one.
// A value is 1.fraction * 2^(binade - 10), a bit below the fraction tells whether more follows; so
// it stands for a number in the middle between those that the other bits leave open.
module mxsf_encoder_specification (
  input sign,
  input signed [4:0] binade,
  input [6:0] fraction,
  input [7:0] code,
  output holds
);
  // In units of 2^-20. Below 2^-12 it is zero whatever it is. Above binade 10 nothing comes.
  wire [21:0] value = binade < -3 ? 1 : {1'b1, fraction} << binade + 3;
  wire [11:0] here, below, above;
  mxsf_magnitude of_code (code[6:0], here);
  mxsf_magnitude of_lower (code[6:0] - 7'd1, below);
  mxsf_magnitude of_higher (code[6:0] + 7'd1, above);
  wire [22:0] down = {here, 9'b0} + {below, 9'b0}, up = {here, 9'b0} + {above, 9'b0};
  wire [22:0] twice = {value, 1'b0};
  wire not_lower = code[6:0] == 0 | twice > down | twice == down & ~code[0];
  wire not_higher = code[6:0] == 127 | twice < up | twice == up & ~code[0];
  assign holds = binade > 10 | code[7] == sign & not_lower & not_higher;
endmodule

// A product of two codes, exactly, in units of 2^-22.
module mxsf_product (
  input [7:0] a,
  input [7:0] w,
  output sign,
  output [23:0] magnitude
);
  wire a_sign, w_sign;
  wire [5:0] a_significand, w_significand;
  wire [2:0] a_shift, w_shift;
  mxsf_fields of_a (a, a_sign, a_significand, a_shift);
  mxsf_fields of_w (w, w_sign, w_significand, w_shift);
  wire [11:0] significands;
  long_multiplication #(6, 6) multiply (a_significand, w_significand, significands);
  wire [3:0] shift = a_shift + w_shift - 2;
  assign sign = a_sign ^ w_sign;
  assign magnitude = significands << shift;
endmodule

// Rounded to E4M7: a multiple of 2^-18 where it is in place.
module mxsf_fp12_product (
  input [7:0] a,
  input [7:0] w,
  output sign,
  output [19:0] magnitude
);
  wire [23:0] exact;
  mxsf_product of_codes (a, w, sign, exact);
  wire [6:0] leading;
  leading_place #(24, 11) find (exact, leading);  // eight bits, and nothing below 2^-18
  wire [10:0] drop = leading - 7;
  wire [24:0] kept;
  nearest_even #(24) round (exact, drop, kept);
  assign magnitude = kept << drop - 4;
endmodule

module mxsf_fp12_multiplier_specification (
  input [7:0] a,
  input [7:0] w,
  input sign,
  input [19:0] magnitude,
  output holds
);
  wire right_sign;
  wire [19:0] right;
  mxsf_fp12_product of_codes (a, w, right_sign, right);
  assign holds = sign == right_sign & magnitude == right;
endmodule

module mxsf_operand_multiplier_specification (
  input [7:0] code_a,
  input [7:0] code_w,
  input sign,
  input [23:0] magnitude,
  output holds
);
  wire right_sign;
  wire [23:0] right;
  mxsf_product of_codes (code_a, code_w, right_sign, right);
  assign holds = sign == right_sign & magnitude == right;
endmodule

// Products of significands alone.
module mxsf_significands #(parameter COUNT = 1) (
  input [8*COUNT-1:0] a,
  input [8*COUNT-1:0] w,
  output [12*COUNT-1:0] products
);
  genvar index;
  generate for (index = 0; index < COUNT; index = index + 1) begin : element
    wire [1:0] unused;
    wire [5:0] of_a, of_w;
    wire [2:0] shift_a, shift_w;
    mxsf_fields fields_a (a[8*index +: 8], unused[0], of_a, shift_a);
    mxsf_fields fields_w (w[8*index +: 8], unused[1], of_w, shift_w);
    long_multiplication #(6, 6) multiply (of_a, of_w, products[12*index +: 12]);
  end endgenerate
endmodule

// The sum of LANES products, exactly, in units of 2^-22: of the sums of both halves of the lanes. It
// is -number where `negative` is set; so is each half of it.
module mxsf_dot #(parameter LANES = 4, BITS = 27) (
  input [8*LANES-1:0] a,
  input [8*LANES-1:0] w,
  output negative,
  output [BITS-1:0] number
);
  generate if (LANES == 1) begin : one
    wire [23:0] magnitude;
    mxsf_product of_codes (a, w, negative, magnitude);
    assign number = magnitude;
  end else begin : more
    wire right_negative;
    wire [BITS-1:0] left, right;
    mxsf_dot #(LANES / 2, BITS) of_low (a[4*LANES-1:0], w[4*LANES-1:0], negative, left);
    mxsf_dot #(LANES / 2, BITS) of_high (
      a[8*LANES-1:4*LANES], w[8*LANES-1:4*LANES], right_negative, right);
    assign number = negative != right_negative ? left - right : left + right;
  end endgenerate
endmodule

// It comes in parts, of so many lanes each. Each part is subtracted where `negate` says so, and has
// `plus` to be added.
module mxsf_operand_dot_specification #(parameter LANES = 4, PARTS = 2, BITS = 26) (
  input [8*LANES-1:0] code_a,
  input [8*LANES-1:0] code_w,
  input [BITS*PARTS-1:0] halves,
  input [PARTS-1:0] negate,
  input [PARTS-1:0] plus,
  output holds
);
  localparam EACH = LANES / PARTS;
  wire [PARTS-1:0] right;
  genvar index;
  generate for (index = 0; index < PARTS; index = index + 1) begin : part
    wire negative;
    wire [BITS-1:0] number, half = halves[BITS*index +: BITS];
    mxsf_dot #(EACH, BITS) of_codes (
      code_a[8*EACH*index +: 8*EACH], code_w[8*EACH*index +: 8*EACH], negative, number);
    wire [BITS-1:0] found = (negate[index] ? -half : half) + plus[index];
    assign right[index] = found == (negative ? -number : number);
  end endgenerate
  assign holds = &right;
endmodule

// The same product as that of two fixed-point numbers, the first of which has the sign.
module mxsf_signed_product (
  input [7:0] a,
  input [7:0] w,
  output signed [25:0] product
);
  wire a_sign, w_sign;
  wire [5:0] a_significand, w_significand;
  wire [2:0] a_shift, w_shift;
  mxsf_fields of_a (a, a_sign, a_significand, a_shift);
  mxsf_fields of_w (w, w_sign, w_significand, w_shift);
  wire [17:0] number = a_significand << a_shift - 1;
  wire signed [17:0] left = a_sign ^ w_sign ? -number : number;
  wire signed [17:0] right = w_significand << w_shift - 1;
  wire signed [35:0] whole = left * right;
  assign product = whole[25:0];
endmodule

// As a signed number, of which `plus` is a part. With BLOCKS it is made by such a multiplication.
module mxsf_signed_multiplier_specification #(parameter BLOCKS = 0) (
  input [7:0] code_a,
  input [7:0] code_w,
  input [24:0] term,
  input plus,
  output holds
);
  wire sign;
  wire [23:0] magnitude;
  mxsf_product of_codes (code_a, code_w, sign, magnitude);
  wire [25:0] product;
  mxsf_signed_product of_numbers (code_a, code_w, product);
  wire [24:0] found = term + plus, number = magnitude;
  assign holds = found == (BLOCKS ? product[24:0] : sign ? -number : number);
endmodule

// Parts of so many lanes each.
module mxsf_signed_dot_specification #(parameter LANES = 4, PARTS = 2, BITS = 26) (
  input [8*LANES-1:0] code_a,
  input [8*LANES-1:0] code_w,
  input [BITS*PARTS-1:0] halves,
  input [PARTS-1:0] plus,
  output holds
);
  localparam EACH = LANES / PARTS;
  wire [LANES-1:0] right;
  genvar index;
  generate for (index = 0; index < LANES; index = index + 1) begin : lane
    wire signed [25:0] product;
    mxsf_signed_product of_codes (code_a[8*index +: 8], code_w[8*index +: 8], product);
    wire signed [BITS-1:0] before, sum = before + product;
    if (index % EACH == 0) assign before = 0;
    else assign before = lane[index-1].sum;
    wire [BITS-1:0] found = halves[BITS*(index/EACH) +: BITS] + plus[index/EACH];
    assign right[index] = index % EACH != EACH - 1 | found == sum;
  end endgenerate
  assign holds = &right;
endmodule

module safe_mac_exact_blocks_specification (
  input [31:0] a,
  input [31:0] w,
  input [26:0] dot,
  output holds
);
  wire signed [25:0] p0, p1, p2, p3;
  mxsf_signed_product of_0 (a[7:0], w[7:0], p0);
  mxsf_signed_product of_1 (a[15:8], w[15:8], p1);
  mxsf_signed_product of_2 (a[23:16], w[23:16], p2);
  mxsf_signed_product of_3 (a[31:24], w[31:24], p3);
  wire signed [26:0] low = p0 + p1, high = p2 + p3, sum = low + high;
  assign holds = dot == sum;
endmodule

module safe_mac_exact_specification (
  input [31:0] a,
  input [31:0] w,
  input [26:0] dot,
  output holds
);
  wire low_negative, high_negative;
  wire [26:0] low, high;
  mxsf_dot #(2) of_low (a[15:0], w[15:0], low_negative, low);
  mxsf_dot #(2) of_high (a[31:16], w[31:16], high_negative, high);
  // -x is ~x + 1.
  wire [26:0] right = (low_negative ? ~low : low) + (high_negative ? ~high : high)
    + ({1'b0, low_negative} + {1'b0, high_negative});
  assign holds = dot == right;
endmodule

// Section 4, `fp12`: products, sums of two and the sum of these are rounded, each to E4M7. All are
// multiples of 2^-18. A sum of two has the sign of the first one beside it, as in `mxsf_dot`.
module fp12_pair (
  input [15:0] a,
  input [15:0] w,
  output negative,
  output all_negative,
  output signed [21:0] rounded
);
  wire other_negative;
  wire [19:0] left, right;
  mxsf_fp12_product of_low (a[7:0], w[7:0], negative, left);
  mxsf_fp12_product of_high (a[15:8], w[15:8], other_negative, right);
  assign all_negative = negative & other_negative;
  wire signed [21:0] sum = negative != other_negative ? left - right : left + right;
  wire [21:0] magnitude = sum < 0 ? -sum : sum;
  wire [15:0] unused;
  wire [22:0] nearest;
  fp12_nearest #(22) round (magnitude, unused, nearest);
  assign rounded = sum < 0 ? -nearest[21:0] : nearest[21:0];
endmodule

module safe_mac_specification (
  input [31:0] a,
  input [31:0] w,
  input [11:0] partial_sum,
  output holds
);
  wire negative, other_negative, low_all, high_all;
  wire signed [21:0] low, high;
  fp12_pair of_low (a[15:0], w[15:0], negative, low_all, low);
  fp12_pair of_high (a[31:16], w[31:16], other_negative, high_all, high);
  wire signed [22:0] sum = negative != other_negative ? low - high : low + high;
  wire [22:0] magnitude = sum < 0 ? -sum : sum;
  wire [15:0] nearest;
  wire [23:0] unused;
  fp12_nearest #(23) round (magnitude, nearest, unused);
  // Exactly zero is +0, unless all products are -0.
  wire sign = sum == 0 ? low_all & high_all : (sum < 0) ^ negative;
  assign holds = partial_sum == {sign, nearest[10:0]};
endmodule

// A binary32 word as 1.fraction * 2^(exponent + subnormal - 127), a bit below the fraction tells
// whether more follows. What is below 2^-139, half the smallest element under the smallest scale,
// has any fraction and an exponent that says so.
module mxsf_float32_normaliser_specification (
  input [31:0] word,
  input sign,
  input signed [8:0] exponent,
  input subnormal,
  input [6:0] fraction,
  output holds
);
  wire [6:0] place;
  leading_place #(23) find (word[22:0], place);
  wire is_subnormal = word[30:23] == 0;
  wire is_zero = word[30:0] == 0;
  wire [4:0] below = 22 - place;  // the top of the mantissa
  wire [22:0] bits = is_subnormal ? word[22:0] << below + 1 : word[22:0];
  wire signed [9:0] right = is_subnormal ? -$signed({5'b0, below}) : $signed({2'b0, word[30:23]});
  wire signed [9:0] found = exponent + $signed({1'b0, subnormal});
  wire none = is_zero | right < -12;
  assign holds = sign == word[31]
    & (none ? found < -12 : found == right & fraction == {bits[22:17], bits[16:0] != 0});
endmodule
