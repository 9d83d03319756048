"""Tests of the machine as data, a file for each module."""
