transposer.v
