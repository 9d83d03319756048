"""DMA: words between memory and buffers, by LOAD and STORE."""
