"""Tests of mxsafe.rtl.array."""
