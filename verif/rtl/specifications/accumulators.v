// Accumulators: binary32 numbers to which what comes is added, after a first cycle of reset.

// acc = acc + partial_sum * 2^(scale_a - 127) * 2^(scale_w - 127), both rounded; the first of a sum is
// added to +0. A partial sum waits a step for the one before it.
module fp12_accumulator_specification (
  input clk,
  input rst,
  input en,
  input valid,
  input first,
  input [11:0] partial_sum,
  input [7:0] scale_a,
  input [7:0] scale_w,
  input [31:0] acc,
  output holds
);
  wire [21:0] magnitude;
  fp12_magnitude of (partial_sum[10:0], magnitude);
  wire [8:0] scales = scale_a + scale_w;
  wire nan = scale_a == 255 | scale_w == 255;
  wire [31:0] product, sum;
  scaler_product #(22, -18) scale (partial_sum[11], magnitude, 23'b0, scales, nan, product);
  reg waits, starts;
  reg [31:0] waiting, right;
  float32_sum #(1) add (starts, right, waiting, sum);
  always @(posedge clk) begin
    if (en) {starts, waiting} <= {first, product};
    if (rst) {waits, right} <= 0;
    else if (en) {waits, right} <= {valid, waits ? sum : right};
  end
  assign holds = acc == right;
endmodule

// acc = acc + partial_sum. A partial sum that is NaN is the one NaN that there is.
module bf16_accumulator_specification (
  input clk,
  input rst,
  input en,
  input valid,
  input first,
  input [31:0] partial_sum,
  input [31:0] acc,
  output holds
);
  wire [31:0] sum;
  reg [31:0] right;
  reg broken;
  float32_sum #(1) add (first, right, partial_sum, sum);
  wire breaks = partial_sum[30:0] > 31'h7f800000 & partial_sum != 32'h7fc00000;
  always @(posedge clk)
    if (rst) {broken, right} <= 0;
    else if (en & valid) {broken, right} <= {broken | breaks, sum};
  assign holds = broken | acc == right;
endmodule
