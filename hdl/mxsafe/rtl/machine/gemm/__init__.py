"""The GEMM engine: products from operand buffers to the vector buffer."""
