"""Tests of `mxsafe.rtl.machine.vector`."""
