"""Tests of mxsafe.synthesis."""
