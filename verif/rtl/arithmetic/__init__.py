"""Tests of mxsafe.rtl.arithmetic."""
