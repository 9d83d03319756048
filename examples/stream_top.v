// AXI4-Stream: a product of MXSF operands whose 16 x 16 results are MXSF operands again.
//
// The array's rows of binary32 results are the converter's beats as they are. Ports of this module
// are in the bit order of docs/array.md and docs/converter.md.
`default_nettype none

module stream_top (
  input  wire         aclk,
  input  wire         aresetn,            // active low, as AXI has it; the units' is active high

  input  wire [639:0] s_axis_a_tdata,     // 16 rows of 4 codes, then 16 scales
  input  wire         s_axis_a_tvalid,
  output wire         s_axis_a_tready,
  input  wire         s_axis_a_tlast,     // the beat ends a tile
  input  wire [1:0]   s_axis_a_tuser,     // block_last, first

  input  wire [639:0] s_axis_w_tdata,
  input  wire         s_axis_w_tvalid,
  output wire         s_axis_w_tready,
  input  wire         s_axis_w_tlast,

  output wire [143:0] m_axis_tdata,       // 16 codes, then the scales of two 8 x 8 tiles
  output wire         m_axis_tvalid,
  input  wire         m_axis_tready,
  output wire         m_axis_tlast,       // last row of the 16
  output wire         m_axis_tuser,       // last row of the 8 x 8 tiles

  output reg          out_of_step,        // stay high until the next reset
  output reg          overlong
);
  // Resets are synchronous: aresetn must come out of a register of aclk.
  wire rst = ~aresetn;

  wire [511:0] c_tdata;
  wire         c_tvalid, c_tready, c_tlast;
  wire [1:0]   c_tuser;

  mxsf_sta_exact array (
    .clk(aclk), .rst(rst),
    .s_axis_a_tdata(s_axis_a_tdata), .s_axis_a_tvalid(s_axis_a_tvalid),
    .s_axis_a_tready(s_axis_a_tready), .s_axis_a_tlast(s_axis_a_tlast),
    .s_axis_a_tuser(s_axis_a_tuser),
    .s_axis_w_tdata(s_axis_w_tdata), .s_axis_w_tvalid(s_axis_w_tvalid),
    .s_axis_w_tready(s_axis_w_tready), .s_axis_w_tlast(s_axis_w_tlast),
    .m_axis_c_tdata(c_tdata), .m_axis_c_tvalid(c_tvalid), .m_axis_c_tready(c_tready),
    .m_axis_c_tlast(c_tlast), .m_axis_c_tuser(c_tuser)
  );

  mxsf_converter_8x8 converter (
    .clk(aclk), .rst(rst),
    .s_axis_tdata(c_tdata), .s_axis_tvalid(c_tvalid), .s_axis_tready(c_tready),
    .s_axis_tlast(c_tlast),
    .m_axis_tdata(m_axis_tdata), .m_axis_tvalid(m_axis_tvalid), .m_axis_tready(m_axis_tready),
    .m_axis_tlast(m_axis_tlast), .m_axis_tuser(m_axis_tuser)
  );

  // The flags come with every row; software reads them here.
  always @(posedge aclk)
    if (rst) {overlong, out_of_step} <= 2'b00;
    else if (c_tvalid & c_tready) {overlong, out_of_step} <= {overlong, out_of_step} | c_tuser;
endmodule

`default_nettype wire
