"""Area, timing and energy of the generated Verilog with free tools."""
