"""Tests of mxsafe.verilog."""
