"""Tests of the part in PyTorch, skipped where it is not installed."""
