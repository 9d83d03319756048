"""Functional coverage in ``docs/coverage.json``: bins that tests reach, and why others are left."""

import fnmatch
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from studies.coverage.reasons import UNKNOWN
from verif.rtl.functional import crosses, reached

REASONS: tuple[tuple[str, str, str], ...] = ()
"""Crosses, patterns for their bins, and the reason why tests do not reach these."""


def summary(folder: Path) -> dict[str, Any]:
    """Bins of each cross, and those that no file under a folder has."""
    found = reached(folder)
    for name, bins in crosses().items():
        unknown = found[name] - bins
        assert not unknown, f"{name} has no bins {sorted(unknown)}"
    return {
        name: {"bins": len(bins), "left": sorted(", ".join(one) for one in bins - found[name])}
        for name, bins in crosses().items()
    }


def reason(cross: str, left: str) -> str:
    """Why a bin was not reached."""
    fitting = (why for name, bins, why in REASONS if name == cross and fnmatch.fnmatch(left, bins))
    return next(fitting, UNKNOWN)


def rows(found: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """A table of crosses, head first."""
    result: list[tuple[str, ...]] = [
        ("cross", "bins", "reached", "left for a reason", "left without")
    ]
    for name, one in found.items():
        counts = Counter(reason(name, left) == UNKNOWN for left in one["left"])
        numbers = one["bins"], one["bins"] - len(one["left"]), counts[False], counts[True]
        result.append((name, *(f"{number:,}" for number in numbers)))
    return result


def left_without(found: Mapping[str, Any]) -> list[str]:
    """Bins that are left without a reason, behind the names of their crosses."""
    return [
        f"{name}: {left}"
        for name, one in found.items()
        for left in one["left"]
        if reason(name, left) == UNKNOWN
    ]
