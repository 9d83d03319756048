// Descriptors: 256 bits, of which no field has some. An error is 1 for an opcode that is none, 2 for a
// value or a combination that is not allowed.

module descriptor_check_specification #(
  parameter ROWS = 16, LANES = 16, WORD = 32, REDUCED = 512, FUNCTIONS = 13'h1fff, SCALED = 1,
  SWEEPS = 1, WINDOW = 0
) (
  input [255:0] descriptor,
  input [3:0] error,
  output holds
);
  wire [3:0] opcode = descriptor[3:0], waits = descriptor[7:4], signals = descriptor[11:8];
  wire is_load = opcode == 1, is_gemm = opcode == 2, is_vector = opcode == 3, is_store = opcode == 4;
  // A queue neither waits for itself nor signals to itself.
  wire own_token = is_load & (waits[0] | signals[0]) | is_gemm & (waits[1] | signals[1])
    | is_vector & (waits[2] | signals[2]) | is_store & (waits[3] | signals[3]);

  // LOAD and STORE
  wire [2:0] buffer = descriptor[18:16];
  wire [1:0] packing = descriptor[22:21];
  wire [31:0] address = descriptor[54:23];
  wire [11:0] count_0 = descriptor[66:55];
  wire no_count = count_0 == 0 | descriptor[76:67] == 0 | descriptor[86:77] == 0 | descriptor[94:87] == 0;
  wire bad_words = no_count | address % WORD != 0;

  // LOAD: transpose, widen, part
  wire transpose = descriptor[19], widen = descriptor[20];
  wire [2:0] part = descriptor[234:232];
  wire to_codes = buffer == 0 | buffer == 2, to_scales = SCALED & (buffer == 1 | buffer == 3);
  wire to_vector_buffer = buffer == 4;
  wire bad_load = bad_words | descriptor[255:235] != 0 | ~(to_codes | to_scales | to_vector_buffer)
    | packing != 0 & ~(packing == 2 & to_scales) | part >= (SCALED ? (ROWS < 8 ? ROWS : 8) : 1)
    | transpose & (ROWS < 8 | to_vector_buffer | to_codes & count_0 != (SCALED ? 4 : 8)
      | to_scales & (ROWS == 8 | packing != 2))
    | widen & ~to_vector_buffer;

  // STORE: narrow
  wire narrow = descriptor[20];
  wire of_codes = buffer == 0, of_scales = SCALED & buffer == 1, of_vectors = buffer == 2;
  wire bad_store = bad_words | descriptor[255:232] != 0 | descriptor[19]
    | ~(of_codes | of_scales | of_vectors) | packing != 0 & ~(packing == 2 & of_scales)
    | narrow & ~of_vectors;

  // GEMM
  wire [15:0] a_scales = descriptor[63:48], w_scales = descriptor[123:108];
  wire [11:0] a_scale_stride = descriptor[75:64], w_scale_stride = descriptor[135:124];
  wire [7:0] strips_a = descriptor[143:136], strips_w = descriptor[151:144];
  wire [12:0] product_beats = descriptor[164:152];
  wire [6:0] block = descriptor[171:165];
  wire [5:0] last_rows = descriptor[177:172];
  wire clears = descriptor[220];
  wire bad_gemm = descriptor[255:222] != 0 | strips_a == 0 | strips_w == 0 | product_beats == 0
    | WINDOW & product_beats > 1024 | block == 0 | block > (SCALED ? 16 : 1)
    | last_rows == 0 | last_rows > ROWS | ~clears & (strips_a != 1 | strips_w != 1 | WINDOW)
    | !SCALED & (a_scales != 0 | a_scale_stride != 0 | w_scales != 0 | w_scale_stride != 0);

  // VECTOR
  wire [14:0] out_scales = descriptor[144:130];
  wire [9:0] out_scale_stride = descriptor[154:145];
  wire [12:0] beats = descriptor[167:155];
  wire [7:0] rows = descriptor[175:168];
  wire [31:0] parameter_number = descriptor[207:176];
  wire [2:0] arithmetic = descriptor[210:208];
  wire [1:0] y_mode = descriptor[212:211];
  wire [3:0] function_number = descriptor[216:213];
  wire [2:0] reduction = descriptor[219:217];
  wire causal = descriptor[220], to_vector = descriptor[221];
  wire [1:0] convert = descriptor[223:222], target = descriptor[225:224];
  wire [5:0] lanes = descriptor[231:226];
  wire affine = descriptor[232], clear = descriptor[236], ends = descriptor[237];
  wire [2:0] sweep = descriptor[235:233];
  wire softmax = reduction == 1, layer_norm = reduction == 2, rms_norm = reduction == 3, sum = reduction == 4;
  wire norm = layer_norm | rms_norm;
  wire whole = sweep == 0, largest = sweep == 1, sums = sweep == 2, squares = sweep == 3;
  wire has_results = whole | sweep == 4 | sums & sum & ends;
  wire no_value = arithmetic > 4 | y_mode > 2 | function_number > 12
    | ~(FUNCTIONS >> function_number & 1'b1) | reduction > 4 | target > 2 | sweep > (SWEEPS ? 4 : 0)
    | (SCALED ? convert == 3 : convert == 1 | convert == 2) | lanes == 0 | lanes > LANES | beats == 0
    | rows == 0 | !SCALED & (out_scales != 0 | out_scale_stride != 0);
  // A factor of softmax is from 2^-120 to below 2^121, an epsilon finite and not negative.
  wire [7:0] exponent = parameter_number[30:23];
  wire bad_parameter = softmax & (parameter_number[31] | exponent < 127 - 120 | exponent >= 127 + 121)
    | norm & (parameter_number[31] | exponent == 255);
  wire bad_sweep = ~whole & (reduction == 0 | rows != 1) | softmax & squares | rms_norm & sums
    | sum & (squares | sweep == 4) | clear & ~largest | ends & ~(largest | sums | squares)
    | ~has_results & (to_vector | convert != 0 | affine);
  wire bad_vector = descriptor[255:238] != 0 | no_value | bad_parameter | bad_sweep
    | (arithmetic == 3 | arithmetic == 4) & (softmax | norm) | causal & (~softmax | arithmetic != 0)
    | (whole | sweep == 4) & ~to_vector & convert == 0 | whole & reduction != 0 & beats > REDUCED
    | affine & (~norm | arithmetic != 0);

  wire bad = descriptor[15:12] != 0 | own_token
    | (is_load ? bad_load : is_gemm ? bad_gemm : is_vector ? bad_vector : bad_store);
  assign holds = error == (is_load | is_gemm | is_vector | is_store ? (bad ? 2 : 0) : 1);
endmodule
