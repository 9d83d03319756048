"""The VECTOR engine: rows of vectors, buffer to buffer."""
