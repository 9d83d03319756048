relu.v
