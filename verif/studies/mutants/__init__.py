"""Tests of the mutation score."""
