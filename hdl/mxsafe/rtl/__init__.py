"""Hardware units in Amaranth, one a file, in rooms; see each room for what it holds."""
