"""The host of a machine: it runs programs on an interpreter or on simulated Verilog, alike."""
