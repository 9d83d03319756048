"""Area, timing and energy of the generated Verilog with free tools."""

__all__ = ["TARGET_NAMES"]

TARGET_NAMES = ("nangate45", "ecp5", "ice40", "xilinx")
"""Names of `mxsafe.synthesis.targets.TARGETS`, for those who do not need the targets themselves."""
