"""Buffers of operands and of vectors."""
