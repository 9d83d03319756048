"""Errors of functions of binary32 numbers, over all of their 2^32 arguments."""
