"""A small unit between streams, for tests of what breaks units and looks at them."""

from pathlib import Path

from verif.support.manifest import Module, Port

_TEXT = """\
// Numbers beats: a register of results that are held until they are taken.
module counting_stream(
  clk, rst, s_axis_tdata, s_axis_tvalid, s_axis_tready, m_axis_tdata, m_axis_tvalid, m_axis_tready
);
  input clk;
  input rst;
  input [7:0] s_axis_tdata;
  input s_axis_tvalid;
  output s_axis_tready;
  wire s_axis_tready;
  output [15:0] m_axis_tdata;
  reg [15:0] m_axis_tdata;
  output m_axis_tvalid;
  reg m_axis_tvalid;
  input m_axis_tready;
  reg [7:0] beats;
  wire moves;
  assign moves = ~ m_axis_tvalid | m_axis_tready;
  assign s_axis_tready = moves & ~ rst;
  always @(posedge clk)
    if (moves) m_axis_tdata <= { beats, s_axis_tdata };
  always @(posedge clk)
    if (rst) m_axis_tvalid <= 1'h0;
    else if (moves) m_axis_tvalid <= s_axis_tvalid;
  always @(posedge clk)
    if (rst) beats <= 8'h00;
    else if (s_axis_tvalid & s_axis_tready) beats <= beats + 1'h1;
endmodule
"""
_PORTS = (
    ("clk", "input", 1),
    ("rst", "input", 1),
    ("s_axis_tdata", "input", 8),
    ("s_axis_tvalid", "input", 1),
    ("s_axis_tready", "output", 1),
    ("m_axis_tdata", "output", 16),
    ("m_axis_tvalid", "output", 1),
    ("m_axis_tready", "input", 1),
)


def counting_stream(folder: Path) -> Module:
    """The unit, written to a folder."""
    name = "counting_stream"
    source = folder / f"{name}.v"
    source.write_text(_TEXT)
    ports = {
        port: Port(port, way, width, False, ((port, 0, width),)) for port, way, width in _PORTS
    }
    return Module(name, folder, (source,), {}, 1, ports)
