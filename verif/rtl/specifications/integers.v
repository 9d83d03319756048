// Arithmetic on integers.

module register_copy_specification #(parameter BITS = 1) (
  input [BITS-1:0] value,
  input [BITS-1:0] copy,
  output holds
);
  assign holds = copy == value;
endmodule

// Three numbers as two, of which the second weighs twice as much.
module full_adders_specification #(parameter BITS = 25) (
  input [BITS-1:0] a,
  input [BITS-1:0] b,
  input [BITS-1:0] c,
  input [BITS-1:0] sums,
  input [BITS-1:0] carries,
  output holds
);
  wire [BITS+1:0] given = a + b + c, found = sums + 2 * carries;
  assign holds = given == found;
endmodule

// It is one of the numbers, and none is larger.
module largest_exponent_specification #(parameter COUNT = 17, BITS = 8) (
  input [BITS*COUNT-1:0] fields,
  input [BITS-1:0] largest,
  output holds
);
  wire [COUNT-1:0] reached, exceeded;
  genvar index;
  generate for (index = 0; index < COUNT; index = index + 1) begin : numbers
    assign reached[index] = fields[BITS*index +: BITS] == largest;
    assign exceeded[index] = fields[BITS*index +: BITS] > largest;
  end endgenerate
  assign holds = |reached & ~|exceeded;
endmodule

module multiplier_18x18_specification #(parameter SIGNED = 0) (
  input [17:0] a,
  input [17:0] b,
  input [35:0] product,
  output holds
);
  wire [35:0] of_unsigned = a * b, of_signed = $signed(a) * $signed(b);
  assign holds = product == (SIGNED ? of_signed : of_unsigned);
endmodule

// The products of two numbers with a third, side by side.
module mxsf_paired_multiplier_specification (
  input [11:0] a,
  input [5:0] w,
  input [23:0] products,
  output holds
);
  wire [11:0] low = a[5:0] * w, high = a[11:6] * w;
  assign holds = products == {high, low};
endmodule

// The product of an integer with the digits of another one, by long multiplication in base 4.
module long_multiplication #(parameter BITS = 12, WIDTH = 24) (
  input [BITS-1:0] digits,
  input [WIDTH-1:0] number,
  output [BITS+WIDTH-1:0] product
);
  wire [WIDTH+1:0] triple = number + {number, 1'b0};
  genvar place;
  generate for (place = 0; place < BITS / 2; place = place + 1) begin : row
    wire [1:0] digit = digits[2*place +: 2];
    wire [WIDTH+1:0] times = digit == 3 ? triple : digit == 2 ? {number, 1'b0} : digit ? number : 0;
    wire [BITS+WIDTH-1:0] before, after = before + (times << 2 * place);
    if (place == 0) assign before = 0;
    else assign before = row[place-1].after;
  end endgenerate
  assign product = row[BITS/2-1].after;
endmodule
