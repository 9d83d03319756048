"""Tests of `mxsafe.rtl.machine.control`."""
