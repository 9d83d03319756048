"""Tests of mxsafe.rtl.stream."""
