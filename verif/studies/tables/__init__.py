"""Tests of the programs that make tables."""
