"""Decoders, multipliers and multiply-accumulate units."""
