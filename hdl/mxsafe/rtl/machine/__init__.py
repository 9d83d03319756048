"""Units assembled to machines: the layer."""
