"""What tests have in common: simulators that are there, and the count of compared items."""

import os
from collections.abc import Callable, Iterable

import pytest

from verif.support.simulators import missing_tools

__all__ = ["Tally", "Volume", "available", "some"]

Tally = Callable[[str, str, int], None]
"""Count compared items: ``tally(simulator, unit, items)``; the sums end the test report."""
Volume = Callable[[int, int], int]
"""How many random cases: ``volume(usual, full)``, the second number in the full run."""


def available(name: str) -> str:
    """The name of a simulator, if its programs are there."""
    if missing := missing_tools(name):
        message = f"{name} needs {', '.join(missing)}: see `python -m verif.support.tools`"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return name


def some(cases: Iterable[object], every: int = 2) -> list[object]:
    """The first of every so many cases of a test; all of them in the full run."""
    return [
        pytest.param(case, marks=pytest.mark.full) if index % every else case
        for index, case in enumerate(cases)
    ]
