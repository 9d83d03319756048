"""Why mutants that are neither killed nor proved equivalent may live."""

__all__ = ["REASONS"]

REASONS: dict[tuple[str, str, str], str] = {}
"""By module, mode and place."""
