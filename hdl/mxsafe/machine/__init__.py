"""The machine as data: sizes, registers, descriptors, and the tools that speak its bytes."""
