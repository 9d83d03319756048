"""Why places in the Verilog are not reached, as far as that is known."""

import fnmatch

__all__ = ["REASONS", "UNKNOWN", "reason", "rule"]

REASONS: tuple[tuple[str, str, str], ...] = ()
"""Patterns for modules and for what is left in them, without its line, and the reason.

The first that fits counts. ``|`` stands between patterns, one of which has to fit.
"""
UNKNOWN = "not known"


def rule(module: str, what: str) -> int | None:
    """Number of the reason why a place of a module was not reached."""
    _, _, place = what.partition(": ")
    for number, (modules, places, _) in enumerate(REASONS):
        if _fits(module, modules) and _fits(place, places):
            return number
    return None


def reason(module: str, what: str) -> str:
    """Why a place of a module was not reached."""
    number = rule(module, what)
    return UNKNOWN if number is None else REASONS[number][2]


def _fits(text: str, patterns: str) -> bool:
    return any(fnmatch.fnmatchcase(text, pattern) for pattern in patterns.split("|"))
