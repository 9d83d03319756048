// Memory behind AXI4 without identifiers: answers in order, after a latency that varies, with pauses
// on each channel, and with errors for a range of addresses. If it pauses at all, there are times in
// which it takes addresses of writes only while a beat is offered. It watches the rules of the bus
// all the time and keeps which of them were broken, and beside them one of the machine's own: it
// writes whole words, so a beat has all its strobes set or none.
//
// `load` and `dump` read and write the files memory_in.hex and memory_out.hex of the run's folder.
module axi_memory #(
  parameter DATA_BITS = 256,
  parameter BEATS = 1024,   // beats of the data channel that the memory holds
  parameter QUEUE = 64      // requests that wait, in each direction
) (
  input clk,
  input rst,
  input load,
  input dump,
  input [15:0] latency,     // fewest cycles from a request to its answer
  input [15:0] spread,      // at most so many cycles more, another number for each request
  input [7:0] pause,        // of 256 cycles, how many each channel pauses
  input [31:0] seed,
  input [63:0] start,       // address of the first beat, a multiple of those of a beat
  input [63:0] errors_from, // addresses from here on, and below errors_to, are answered with errors
  input [63:0] errors_to,
  input [15:0] most_reads,      // bursts of reads, beats of them and bursts of writes that may be
  input [15:0] most_read_beats, // in flight; 0 is any number
  input [15:0] most_writes,
  output reg [13:0] broken,  // a bit for each rule, in the order of RULES of the bench
  output reg [31:0] outside, // beats that would have been written outside the memory
  output pending,            // something is offered, or not yet answered
  output in_burst,           // a beat of a write is offered after which more follow

  input [63:0] araddr,
  input [7:0] arlen,
  input [2:0] arsize,
  input [1:0] arburst,
  input arvalid,
  output reg arready,
  output reg [DATA_BITS-1:0] rdata,
  output reg [1:0] rresp,
  output reg rlast,
  output reg rvalid,
  input rready,

  input [63:0] awaddr,
  input [7:0] awlen,
  input [2:0] awsize,
  input [1:0] awburst,
  input awvalid,
  output reg awready,
  input [DATA_BITS-1:0] wdata,
  input [DATA_BITS/8-1:0] wstrb,
  input wlast,
  input wvalid,
  output wready,
  output reg [1:0] bresp,
  output reg bvalid,
  input bready
);
  localparam BYTES = DATA_BITS / 8;
  localparam SIZE = $clog2(BYTES);
  localparam INDEX = $clog2(QUEUE);

  reg [DATA_BITS-1:0] beats [0:BEATS-1];
  reg [31:0] random, more_random;
  reg [31:0] now;
  reg was_reset;
  reg started;

  // What has been asked for and not yet answered.
  reg [63:0] read_address [0:QUEUE-1];
  reg [7:0] read_left [0:QUEUE-1];
  reg [31:0] read_due [0:QUEUE-1];
  reg [INDEX:0] reads_in, reads_out;
  reg [63:0] write_address [0:QUEUE-1];
  reg [7:0] write_left [0:QUEUE-1];
  reg [INDEX:0] writes_in, writes_out;
  reg [31:0] answer_due [0:QUEUE-1];
  reg answer_error [0:QUEUE-1];
  reg [INDEX:0] answers_in, answers_out;
  reg write_error;
  reg data_open;
  // From the address that is taken to the last answer that is.
  reg [15:0] reads_under_way, beats_under_way, writes_under_way;

  // Requests on offer, to see that they stay as they are.
  reg [76:0] offered_read, offered_write;
  reg [DATA_BITS+DATA_BITS/8:0] offered_data;
  reg read_waits, write_waits, data_waits;
  wire [76:0] read_request = {araddr, arlen, arsize, arburst};
  wire [76:0] write_request = {awaddr, awlen, awsize, awburst};
  wire [DATA_BITS+DATA_BITS/8:0] data_request = {wdata, wstrb, wlast};

  wire [INDEX:0] reads_waiting = reads_in - reads_out;
  wire [INDEX:0] writes_waiting = writes_in - writes_out;
  wire [INDEX:0] answers_waiting = answers_in - answers_out;
  wire [INDEX-1:0] read_at = reads_out[INDEX-1:0];
  wire [INDEX-1:0] write_at = writes_out[INDEX-1:0];
  wire [INDEX-1:0] answer_at = answers_out[INDEX-1:0];
  wire [63:0] address_now = write_address[write_at];
  wire [63:0] read_now = read_address[read_at];
  wire after_data = pause != 0 && now[10];
  assign wready = data_open && writes_waiting != 0;
  assign in_burst = wvalid && !wlast;
  assign pending = arvalid || awvalid || wvalid || rvalid || bvalid
                   || reads_waiting != 0 || writes_waiting != 0 || answers_waiting != 0;

  function exceeds(input [15:0] count, input [15:0] most);
    exceeds = most != 0 && count > most;
  endfunction

  function [63:0] place(input [63:0] address);
    place = (address - start) >> SIZE;
  endfunction

  function is_wrong(input [63:0] address);
    is_wrong = (address >= errors_from && address < errors_to) || place(address) >= BEATS;
  endfunction

  function crosses(input [63:0] address, input [7:0] length);
    crosses = {20'd0, address[11:0]} + (({24'd0, length} + 1) << SIZE) > 4096;
  endfunction

  function is_odd(input [63:0] address, input [2:0] size, input [1:0] burst);
    is_odd = size != SIZE || burst != 1 || address % BYTES != 0;
  endfunction

  function pauses(input [7:0] number);
    pauses = number < pause;
  endfunction

  wire [31:0] waits = {16'd0, latency} + {8'd0, more_random[31:8]} % ({16'd0, spread} + 1);

  initial begin
    broken = 0;
    outside = 0;
    was_reset = 0;
    started = 0;
  end

  integer byte_number;
  always @(posedge clk) begin
    if (load) $readmemh("memory_in.hex", beats);
    if (dump) $writememh("memory_out.hex", beats);
    now <= now + 1;
    random = random ^ (random << 13);
    random = random ^ (random >> 17);
    random = random ^ (random << 5);
    more_random = more_random ^ (more_random << 13);
    more_random = more_random ^ (more_random >> 17);
    more_random = more_random ^ (more_random << 5);
    was_reset <= rst;
    if (rst && was_reset && {arvalid, awvalid, wvalid} !== 0) broken[10] <= 1;
    if (rst) begin
      started <= 1;
      random = seed | 1;
      more_random = ~seed | 2;
      now <= 0;
      {reads_in, reads_out, writes_in, writes_out, answers_in, answers_out} <= 0;
      {arready, rvalid, awready, bvalid, data_open, write_error} <= 0;
      {read_waits, write_waits, data_waits} <= 0;
      {reads_under_way, beats_under_way, writes_under_way} <= 0;
    end else if (started) begin // a simulator may see an edge before all, with pins at random
      // The rules: what is offered stays; bursts go up, are of whole beats and within 4 KiB.
      read_waits <= arvalid && !arready;
      write_waits <= awvalid && !awready;
      data_waits <= wvalid && !wready;
      offered_read <= read_request;
      offered_write <= write_request;
      offered_data <= data_request;
      if (read_waits && (!arvalid || offered_read !== read_request)) broken[0] <= 1;
      if (write_waits && (!awvalid || offered_write !== write_request)) broken[1] <= 1;
      if (data_waits && (!wvalid || offered_data !== data_request)) broken[2] <= 1;
      if (^{arvalid, awvalid, wvalid, rready, bready} === 1'bx) broken[3] <= 1;
      if ((arvalid && ^read_request === 1'bx) || (awvalid && ^write_request === 1'bx)
          || (wvalid && ^{wstrb, wlast} === 1'bx)) broken[4] <= 1;
      if (arvalid && is_odd(araddr, arsize, arburst)) broken[5] <= 1;
      if (awvalid && is_odd(awaddr, awsize, awburst)) broken[6] <= 1;
      if (arvalid && crosses(araddr, arlen)) broken[7] <= 1;
      if (awvalid && crosses(awaddr, awlen)) broken[8] <= 1;
      if (wvalid && wready && wlast != (write_left[write_at] == 0)) broken[9] <= 1;
      if (wvalid && |wstrb && !(&wstrb)) broken[11] <= 1;
      reads_under_way <= reads_under_way + (arvalid && arready) - (rvalid && rready && rlast);
      beats_under_way <= beats_under_way + (arvalid && arready ? arlen + 16'd1 : 16'd0)
                         - (rvalid && rready);
      writes_under_way <= writes_under_way + (awvalid && awready) - (bvalid && bready);
      if (exceeds(reads_under_way, most_reads)
          || exceeds(beats_under_way, most_read_beats)) broken[12] <= 1;
      if (exceeds(writes_under_way, most_writes)) broken[13] <= 1;

      // Reads.
      arready <= reads_waiting < QUEUE - 2 && !pauses(random[7:0]);
      if (arvalid && arready) begin
        read_address[reads_in[INDEX-1:0]] <= araddr;
        read_left[reads_in[INDEX-1:0]] <= arlen;
        read_due[reads_in[INDEX-1:0]] <= now + waits;
        reads_in <= reads_in + 1;
      end
      if (!rvalid || rready) begin
        rvalid <= 0;
        // Nobody may look at what is not valid.
        rdata <= {DATA_BITS/32{random}};
        {rresp, rlast} <= random[2:0];
        if (reads_waiting != 0 && now >= read_due[read_at] && !pauses(random[15:8])) begin
          rvalid <= 1;
          rdata <= is_wrong(read_now) ? {DATA_BITS{1'b0}} : beats[place(read_now)];
          rresp <= is_wrong(read_now) ? 2'b10 : 2'b00;
          rlast <= read_left[read_at] == 0;
          read_address[read_at] <= read_now + BYTES;
          read_left[read_at] <= read_left[read_at] - 1;
          if (read_left[read_at] == 0) reads_out <= reads_out + 1;
        end
      end

      // Writes.
      awready <= writes_waiting < QUEUE - 2 && answers_waiting < QUEUE - 2
                 && !pauses(random[23:16]) && (wvalid || !after_data);
      data_open <= !pauses(random[31:24]);
      if (awvalid && awready) begin
        write_address[writes_in[INDEX-1:0]] <= awaddr;
        write_left[writes_in[INDEX-1:0]] <= awlen;
        writes_in <= writes_in + 1;
      end
      if (wvalid && wready) begin
        if (is_wrong(address_now)) begin
          if (wstrb != 0 && place(address_now) >= BEATS) outside <= outside + 1;
        end else
          for (byte_number = 0; byte_number < BYTES; byte_number = byte_number + 1)
            if (wstrb[byte_number])
              beats[place(address_now)][8*byte_number +: 8] <= wdata[8*byte_number +: 8];
        write_address[write_at] <= address_now + BYTES;
        write_left[write_at] <= write_left[write_at] - 1;
        write_error <= write_error || is_wrong(address_now);
        if (wlast) begin
          writes_out <= writes_out + 1;
          write_error <= 0;
          answer_due[answers_in[INDEX-1:0]] <= now + waits;
          answer_error[answers_in[INDEX-1:0]] <= write_error || is_wrong(address_now);
          answers_in <= answers_in + 1;
        end
      end
      if (!bvalid || bready) begin
        bvalid <= 0;
        bresp <= random[1:0];
        if (answers_waiting != 0 && now >= answer_due[answer_at]
            && !pauses(more_random[7:0])) begin
          bvalid <= 1;
          bresp <= answer_error[answer_at] ? 2'b10 : 2'b00;
          answers_out <= answers_out + 1;
        end
      end
    end
  end
endmodule
