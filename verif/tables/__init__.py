"""Tests of the tables of functions."""
