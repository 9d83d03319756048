"""Tests of the host of a machine, a file for each module."""
