"""Tests of mxsafe.rtl.board."""
