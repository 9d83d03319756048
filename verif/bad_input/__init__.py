"""Bad input: its kinds, its receivers, and the answers that are allowed."""
