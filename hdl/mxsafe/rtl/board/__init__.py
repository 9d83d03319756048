"""The machine on a board: serial line, memory, clock, and the pins of one board."""
