"""From hardware units to files: presets, module library, Verilog and manifest."""
