// The registers of the machine on AXI4-Lite: what they hold, what they start, and what they count.

// One that is written byte by byte, and keeps so many bits.
module written_register #(parameter BITS = 32) (
  input clk,
  input rst,
  input written,
  input [31:0] mask,
  input [31:0] data,
  output reg [BITS-1:0] value
);
  always @(posedge clk) value <= rst ? 0 : written ? value & ~mask | data & mask : value;
endmodule

// A counter from the beginning of a program on.
module event_counter (input clk, input rst, input begins, input counts, output reg [63:0] value);
  always @(posedge clk) value <= rst | begins ? 0 : value + counts;
endmodule

// Programs that are started, end or fail, and resets, which begin once memory is quiet, and wait for STAGES
// registers on their way. A master holds an address until it is taken; if it does
// not, nothing is claimed any more.
module registers_specification #(parameter [383:0] CONSTANTS = 0, parameter STAGES = 0) (
  input clk,
  input rst,
  input [7:0] s_axi_awaddr,
  input s_axi_awvalid,
  input s_axi_awready,
  input [31:0] s_axi_wdata,
  input [3:0] s_axi_wstrb,
  input s_axi_wvalid,
  input s_axi_wready,
  input [1:0] s_axi_bresp,
  input s_axi_bvalid,
  input s_axi_bready,
  input [7:0] s_axi_araddr,
  input s_axi_arvalid,
  input s_axi_arready,
  input [31:0] s_axi_rdata,
  input [1:0] s_axi_rresp,
  input s_axi_rvalid,
  input s_axi_rready,
  input irq,
  input start,
  input [63:0] program_base,
  input [31:0] program_length,
  input [63:0] base,
  input stop,
  input quiet,
  input clear,
  input is_done,
  input stopped,
  input [3:0] error,
  input [31:0] error_number,
  input array_busy,
  input wait_load,
  input wait_vector,
  input wait_store,
  input words_read,
  input words_written,
  input inside_is_aligned,
  output inside_holds,
  output holds
);
  // The bus: an access is taken in the cycle after it is offered, if the answer before has left.
  reg write_ready, write_answered, read_ready, read_answered, sane, waited;
  reg [7:0] waited_for;
  reg [31:0] answer, read;
  wire write = s_axi_awvalid & s_axi_wvalid & write_ready, reads = s_axi_arvalid & read_ready;
  wire now_sane = sane & (~waited | s_axi_arvalid & s_axi_araddr == waited_for);
  always @(posedge clk) begin
    write_ready <= ~rst & s_axi_awvalid & s_axi_wvalid & ~write_ready & ~write_answered;
    write_answered <= ~rst & (write | write_answered & ~s_axi_bready);
    read_ready <= ~rst & s_axi_arvalid & ~read_ready & ~read_answered;
    read_answered <= ~rst & (reads | read_answered & ~s_axi_rready);
    if (rst) answer <= 0; else if (reads) answer <= read;
    sane <= rst | now_sane;
    waited <= ~rst & s_axi_arvalid & ~read_ready;
    waited_for <= rst ? 0 : s_axi_araddr;
  end

  wire [31:0] mask = {{8{s_axi_wstrb[3]}}, {8{s_axi_wstrb[2]}}, {8{s_axi_wstrb[1]}}, {8{s_axi_wstrb[0]}}};
  wire [31:0] ones = s_axi_wdata & mask;
  wire [5:0] to = s_axi_awaddr[7:2];
  wire [1:0] commands = write & to == 8'h40 >> 2 ? ones : 0;
  wire [1:0] cleared = write & to == 8'h54 >> 2 ? ones : 0;
  wire [1:0] enabled;
  wire [31:0] program_low, program_high, length, base_low, base_high;
  written_register #(2) at_50 (clk, rst, write & to == 8'h50 >> 2, mask, s_axi_wdata, enabled);
  written_register at_58 (clk, rst, write & to == 8'h58 >> 2, mask, s_axi_wdata, program_low);
  written_register at_5c (clk, rst, write & to == 8'h5c >> 2, mask, s_axi_wdata, program_high);
  written_register at_60 (clk, rst, write & to == 8'h60 >> 2, mask, s_axi_wdata, length);
  written_register at_68 (clk, rst, write & to == 8'h68 >> 2, mask, s_axi_wdata, base_low);
  written_register at_6c (clk, rst, write & to == 8'h6c >> 2, mask, s_axi_wdata, base_high);

  // A program: it waits for the end of a reset, runs, and ends or has failed.
  reg waits, running, done, failed, refused, resetting, clears;
  reg [1:0] happened;
  reg [7:0] left;  // cycles of a reset
  wire starts = commands[0], resets = commands[1], fails = stopped | refused;
  wire taken = starts & (resets | ~waits & (resetting | ~running & ~fails));
  wire begins = waits & ~resetting & ~resets;
  wire ends = running & is_done;
  wire now_clear = STAGES ? clears : resetting & quiet;
  wire reset_ends = STAGES ? left == 1 : now_clear;
  always @(posedge clk) begin
    resetting <= ~rst & (resets | resetting & ~reset_ends);
    left <= rst ? 0 : left != 0 ? left - 1 : resetting & quiet ? 2 * STAGES + 1 : 0;
    clears <= ~rst & (left != 0 ? left > STAGES + 1 : resetting & quiet);
    waits <= ~rst & (taken | waits & ~begins & ~resets);
    running <= ~rst & (start | running & ~ends & ~fails & ~now_clear);
    refused <= ~rst & ~now_clear & (refused | begins & ~start);
    done <= ~rst & ~now_clear & (ends & ~fails | done & ~begins);
    failed <= ~rst & ~now_clear & fails;
    happened <= rst | now_clear ? 0 : happened & ~cleared | {fails & ~failed & ~resetting, ends & ~fails};
  end
  // What a start keeps is not reset: it is what it is after the first cycle without.
  localparam [63:0] IN_WORD = CONSTANTS[8 * 8'h10 +: 16] - 1;  // bytes of a word
  reg aligned, was_reset;
  reg [63:0] kept_program, kept_base;
  reg [31:0] kept_length;
  always @(posedge clk) begin
    was_reset <= rst;
    if (was_reset) {kept_program, kept_length, kept_base} <= {program_base, program_length, base};
    else if (taken) begin
      aligned <= ((program_low | base_low) & IN_WORD) == 0;
      kept_program <= {program_high, program_low} & ~IN_WORD;
      kept_base <= {base_high, base_low} & ~IN_WORD;
      kept_length <= length;
    end
  end

  wire [63:0] cycles, busy, load, vector, store, read_words, written_words;
  event_counter at_80 (clk, rst, begins, running, cycles);
  event_counter at_88 (clk, rst, begins, running & array_busy, busy);
  event_counter at_90 (clk, rst, begins, running & wait_load, load);
  event_counter at_98 (clk, rst, begins, running & wait_vector, vector);
  event_counter at_a0 (clk, rst, begins, running & wait_store, store);
  event_counter at_a8 (clk, rst, begins, running & words_read, read_words);
  event_counter at_b0 (clk, rst, begins, running & words_written, written_words);

  // An address has been there for a cycle when it is taken.
  wire [7:0] from = {STAGES ? waited_for[7:2] : s_axi_araddr[7:2], 2'b0};
  always @*
    case (from)
      8'h44: read = {fails, done, running | resetting | waits};
      8'h48: read = stopped ? error : refused ? 8 : 0;
      8'h4c: read = stopped ? error_number : 0;
      8'h50: read = enabled;
      8'h54: read = happened;
      8'h58: read = program_low;
      8'h5c: read = program_high;
      8'h60: read = length;
      8'h68: read = base_low;
      8'h6c: read = base_high;
      8'h80: read = cycles[31:0];
      8'h84: read = cycles[63:32];
      8'h88: read = busy[31:0];
      8'h8c: read = busy[63:32];
      8'h90: read = load[31:0];
      8'h94: read = load[63:32];
      8'h98: read = vector[31:0];
      8'h9c: read = vector[63:32];
      8'ha0: read = store[31:0];
      8'ha4: read = store[63:32];
      8'ha8: read = read_words[31:0];
      8'hac: read = read_words[63:32];
      8'hb0: read = written_words[31:0];
      8'hb4: read = written_words[63:32];
      default: read = from < 8'h30 ? CONSTANTS >> 8 * from : 0;
    endcase

  assign inside_holds = ~waits | inside_is_aligned == aligned;
  assign holds = ~now_sane | s_axi_awready == write_ready & s_axi_wready == write_ready
    & s_axi_bvalid == write_answered & s_axi_bresp == 0
    & s_axi_arready == read_ready & s_axi_rvalid == read_answered & s_axi_rresp == 0
    & (~read_answered | s_axi_rdata == answer)
    & irq == |(happened & enabled) & start == (begins & aligned) & stop == resetting & clear == now_clear
    & (was_reset | program_base == kept_program & program_length == kept_length & base == kept_base);
endmodule
