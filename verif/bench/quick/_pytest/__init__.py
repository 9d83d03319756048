"""What cocotb imports from the inside of pytest to rewrite assertions, which it is told not to."""
