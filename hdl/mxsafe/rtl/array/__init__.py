"""Accumulators, the sub-matrix unit and the systolic tensor array."""
