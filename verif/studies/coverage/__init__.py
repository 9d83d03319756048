"""Tests of studies.coverage."""
