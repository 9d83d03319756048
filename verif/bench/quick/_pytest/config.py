"""See the package."""

Config = None
