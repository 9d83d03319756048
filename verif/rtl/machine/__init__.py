"""Tests of mxsafe.rtl.machine."""
