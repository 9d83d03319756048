"""Tests of Verilog generation."""
