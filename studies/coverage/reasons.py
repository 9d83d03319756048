"""Why places in the Verilog are not reached, as far as that is known."""

import fnmatch

__all__ = ["REASONS", "UNKNOWN", "reason"]

REASONS: tuple[tuple[str, str, str], ...] = ()
"""Patterns for modules and for what is left in them, and the reason; the first that fits counts."""
UNKNOWN = "not known"


def reason(module: str, what: str) -> str:
    """Why a place of a module was not reached."""
    for modules, places, why in REASONS:
        if fnmatch.fnmatchcase(module, modules) and fnmatch.fnmatchcase(what, places):
            return why
    return UNKNOWN
