"""AXI4-Stream, and the units between streams: converter, packer, transposer."""
