"""Real data that tests run on."""
