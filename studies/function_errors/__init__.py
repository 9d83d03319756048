"""How far functions of binary32 numbers are off, over all of their 2^32 arguments."""
