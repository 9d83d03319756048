float32_adder.v
