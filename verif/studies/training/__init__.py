"""Tests of studies.training."""
