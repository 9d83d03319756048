"""Tests of `mxsafe.rtl.machine.gemm`."""
