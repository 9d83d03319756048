"""Tests of `studies.function_errors`."""
