"""Area, timing and energy of the generated Verilog with free tools."""

TECHNOLOGY_NAMES = ("nangate45", "osu018", "ecp5", "ice40", "gowin", "xilinx")
"""Names of `mxsafe.synthesis.technologies.TECHNOLOGIES`, for those who need no more of them."""
