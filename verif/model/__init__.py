"""Tests of the hardware models."""
