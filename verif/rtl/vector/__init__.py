"""Tests of mxsafe.rtl.vector."""
