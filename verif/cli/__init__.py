"""Tests of mxsafe.cli."""
