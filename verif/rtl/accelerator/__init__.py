"""Tests of mxsafe.rtl.accelerator."""
