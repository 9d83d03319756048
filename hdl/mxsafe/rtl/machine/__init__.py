"""The machine, in rooms: DMA, control, buffers, GEMM and VECTOR; and the layer."""
