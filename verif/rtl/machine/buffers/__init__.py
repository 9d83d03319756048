"""Tests of `mxsafe.rtl.machine.buffers`."""
