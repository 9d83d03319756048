"""Mutants of the generated Verilog, put to the benches."""
