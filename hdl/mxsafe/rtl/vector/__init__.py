"""Functions of binary32 numbers, between the array and the converter."""
