"""From a configuration to files: Verilog and its manifest."""
