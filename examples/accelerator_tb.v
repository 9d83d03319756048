// Runs a program on accelerator_top, with a memory beside it, and compares the result in memory.
//
// The program loads two matrices of 8 x 64 and 64 x 8, multiplies them and stores 8 x 8 numbers.
// `python -m verif.machine.example_image` writes memory and result; the first line of the memory's
// file says what is where in it.
//
// +dump writes a waveform to accelerator.fst; it is one if vvp is called with -fst.
`timescale 1ns / 1ps
`default_nettype none

module accelerator_tb;
  parameter MEMORY = "examples/accelerator_memory.hex";
  parameter EXPECTED = "examples/accelerator_result.hex";
  localparam BEATS = 188;  // of 64 bits, in memory
  localparam PROGRAM = 64'h520, DESCRIPTORS = 6, RESULT = 32'h420, WORDS = 32;

  // Registers: docs/accelerator.md.
  localparam CONTROL = 8'h40, STATUS = 8'h44, ERROR = 8'h48, INTERRUPT_ENABLE = 8'h50,
             INTERRUPT = 8'h54, PROGRAM_LOW = 8'h58, PROGRAM_HIGH = 8'h5c, LENGTH = 8'h60;

  reg aclk = 0, aresetn = 0;
  always #1 aclk = ~aclk;

  reg [7:0] awaddr = 0, araddr = 0;
  reg [31:0] wdata = 0;
  reg awvalid = 0, wvalid = 0, bready = 0, arvalid = 0, rready = 0;
  wire awready, wready, bvalid, arready, rvalid, irq;
  wire [31:0] rdata;
  wire [1:0] bresp, rresp;

  wire axi_arvalid, axi_arready, axi_rlast, axi_rvalid, axi_rready, axi_awvalid, axi_awready,
       axi_wlast, axi_wvalid, axi_wready, axi_bvalid, axi_bready;
  wire [1:0] axi_arburst, axi_rresp, axi_awburst, axi_bresp;
  wire [2:0] axi_arsize, axi_arprot, axi_awsize, axi_awprot;
  wire [3:0] axi_arcache, axi_awcache;
  wire [7:0] axi_arlen, axi_awlen, axi_wstrb;
  wire [63:0] axi_araddr, axi_rdata, axi_awaddr, axi_wdata;
  accelerator_top dut (
    .aclk(aclk), .aresetn(aresetn), .irq(irq),
    .s_axi_awaddr(awaddr), .s_axi_awprot(3'b000), .s_axi_awvalid(awvalid), .s_axi_awready(awready),
    .s_axi_wdata(wdata), .s_axi_wstrb(4'hf), .s_axi_wvalid(wvalid), .s_axi_wready(wready),
    .s_axi_bresp(bresp), .s_axi_bvalid(bvalid), .s_axi_bready(bready),
    .s_axi_araddr(araddr), .s_axi_arprot(3'b000), .s_axi_arvalid(arvalid), .s_axi_arready(arready),
    .s_axi_rdata(rdata), .s_axi_rresp(rresp), .s_axi_rvalid(rvalid), .s_axi_rready(rready),
    .m_axi_araddr(axi_araddr), .m_axi_arlen(axi_arlen), .m_axi_arsize(axi_arsize),
    .m_axi_arburst(axi_arburst), .m_axi_arcache(axi_arcache), .m_axi_arprot(axi_arprot),
    .m_axi_arvalid(axi_arvalid), .m_axi_arready(axi_arready), .m_axi_rdata(axi_rdata),
    .m_axi_rresp(axi_rresp), .m_axi_rlast(axi_rlast), .m_axi_rvalid(axi_rvalid),
    .m_axi_rready(axi_rready), .m_axi_awaddr(axi_awaddr), .m_axi_awlen(axi_awlen),
    .m_axi_awsize(axi_awsize), .m_axi_awburst(axi_awburst), .m_axi_awcache(axi_awcache),
    .m_axi_awprot(axi_awprot), .m_axi_awvalid(axi_awvalid), .m_axi_awready(axi_awready),
    .m_axi_wdata(axi_wdata), .m_axi_wstrb(axi_wstrb), .m_axi_wlast(axi_wlast),
    .m_axi_wvalid(axi_wvalid), .m_axi_wready(axi_wready), .m_axi_bresp(axi_bresp),
    .m_axi_bvalid(axi_bvalid), .m_axi_bready(axi_bready),
    .m_axi_rid(4'd0), .m_axi_bid(4'd0)
  );

  // The model of a memory that the tests use too; it watches the rules of AXI4 and one of the machine.
  wire [13:0] broken;
  wire [31:0] outside;
  axi_memory #(.DATA_BITS(64), .BEATS(BEATS)) memory (
    .clk(aclk), .rst(!aresetn), .load(1'b0), .dump(1'b0), .latency(16'd20), .spread(16'd8),
    .pause(8'd32), .seed(32'd1), .start(64'd0), .errors_from(64'd0), .errors_to(64'd0),
    .most_reads(16'd32), .most_read_beats(16'd159), .most_writes(16'd32),
    .broken(broken), .outside(outside),
    .araddr(axi_araddr), .arlen(axi_arlen), .arsize(axi_arsize), .arburst(axi_arburst),
    .arvalid(axi_arvalid), .arready(axi_arready), .rdata(axi_rdata), .rresp(axi_rresp),
    .rlast(axi_rlast), .rvalid(axi_rvalid), .rready(axi_rready), .awaddr(axi_awaddr),
    .awlen(axi_awlen), .awsize(axi_awsize), .awburst(axi_awburst), .awvalid(axi_awvalid),
    .awready(axi_awready), .wdata(axi_wdata), .wstrb(axi_wstrb), .wlast(axi_wlast),
    .wvalid(axi_wvalid), .wready(axi_wready), .bresp(axi_bresp), .bvalid(axi_bvalid),
    .bready(axi_bready)
  );

  reg [63:0] expected [0:WORDS-1];
  integer cycles = 0, word, wrong = 0;
  reg [31:0] status, error;
  always @(posedge aclk) cycles = cycles + 1;

  task write(input [7:0] address, input [31:0] value);
    begin
      @(negedge aclk);
      awaddr = address;
      wdata = value;
      awvalid = 1;
      wvalid = 1;
      bready = 1;
      while (awvalid || wvalid) begin
        @(posedge aclk);
        if (awready && wready) begin
          @(negedge aclk) {awvalid, wvalid} = 2'b00;
        end else if (awready) begin
          @(negedge aclk) awvalid = 0;
        end else if (wready) begin
          @(negedge aclk) wvalid = 0;
        end
      end
      while (!bvalid) @(negedge aclk);
      @(negedge aclk) bready = 0;
    end
  endtask

  task read(input [7:0] address, output [31:0] value);
    begin
      @(negedge aclk);
      araddr = address;
      arvalid = 1;
      rready = 1;
      @(posedge aclk);
      while (!arready) @(posedge aclk);
      @(negedge aclk) arvalid = 0;
      while (!rvalid) @(negedge aclk);
      value = rdata;
      @(negedge aclk) rready = 0;
    end
  endtask

  initial begin
    if ($test$plusargs("dump")) begin
      $dumpfile("accelerator.fst");
      $dumpvars(2, accelerator_tb);
    end
    $readmemh(MEMORY, memory.beats);
    $readmemh(EXPECTED, expected);
    repeat (4) @(negedge aclk);
    aresetn = 1;
    repeat (2) @(negedge aclk);

    write(PROGRAM_LOW, PROGRAM[31:0]);
    write(PROGRAM_HIGH, PROGRAM[63:32]);
    write(LENGTH, DESCRIPTORS);
    write(INTERRUPT_ENABLE, 32'd3);
    write(CONTROL, 32'd1);
    while (!irq && cycles < 2000) @(negedge aclk);
    read(STATUS, status);
    read(ERROR, error);
    write(INTERRUPT, 32'd3);

    for (word = 0; word < WORDS; word = word + 1)
      if (memory.beats[RESULT / 8 + word] !== expected[word] || ^expected[word] === 1'bx) begin
        wrong = wrong + 1;
        $display("word %0d: %h, not %h", word, memory.beats[RESULT / 8 + word], expected[word]);
      end
    if (wrong != 0 || status !== 2 || error !== 0 || irq !== 0 || broken !== 0 || outside !== 0)
      $fatal(1, "wrong %0d, status %0d, error %0d, irq %b, rules broken %b",
             wrong, status, error, irq, broken);
    $display("accelerator_tb: %0d cycles, %0d words, all right", cycles, word);
    $finish;
  end
endmodule

`default_nettype wire
