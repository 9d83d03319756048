"""What the tests reach, of the library and of the generated Verilog."""
