"""Coverage of the library and of the generated Verilog by the tests."""
