"""Tests of mxsafe.vectors."""
