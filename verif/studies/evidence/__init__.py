"""Tests of studies.evidence."""
