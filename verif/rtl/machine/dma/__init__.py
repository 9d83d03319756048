"""Tests of `mxsafe.rtl.machine.dma`."""
