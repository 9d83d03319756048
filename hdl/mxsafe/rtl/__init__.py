"""Amaranth components, one hardware unit a file."""
