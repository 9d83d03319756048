"""Programs for the machine: products, layers and networks lowered to descriptors."""
