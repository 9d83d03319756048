"""Tests of mxsafe.rtl.mac."""
