"""Tests of mxsafe.analysis."""
