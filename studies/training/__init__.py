"""A network that learns with every matrix product in microscaling arithmetic."""
