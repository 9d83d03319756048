"""Tests of programs that the compiler makes."""
