"""Models of packages as programs, of ``docs/compiled_models.json``."""

from collections.abc import Mapping
from typing import Any

from studies.pages import kept

Numbers = Mapping[str, Any]
"""Content of ``docs/compiled_models.json``: results by model."""


def rows(numbers: Numbers) -> list[tuple[str, ...]]:
    """Models, head first."""
    head = ("", "package", "nodes", "descriptors", "cycles", "array busy", "s", "error", "to 32")
    return [head, *(_row(name, one) for name, one in numbers.items())]


def _row(name: str, one: Numbers) -> tuple[str, ...]:
    package = f"{one['package']} {one['version']}"
    if "refused" in one:
        return name, package, f"{one['nodes']:,}", "refused", *("-",) * 5
    return (
        name,
        package,
        f"{one['nodes']:,}",
        f"{one['descriptors']:,}",
        f"{one['cycles']:,}",
        f"{one['busy']:.1%}",
        f"{one['seconds']:.1f}",
        f"{one['error_64']:.2%}",
        f"{one['error_32']:.2%}",
    )


def taken(numbers: Numbers) -> list[Numbers]:
    """Results of models that were compiled."""
    return [one for one in numbers.values() if "refused" not in one]


def refused(numbers: Numbers) -> dict[str, str]:
    """Reasons why others were not, by their names."""
    return {name: one["refused"] for name, one in numbers.items() if "refused" in one}


def values() -> dict[str, Any]:
    """Return the values of the page's template."""
    numbers = kept("compiled_models")
    return {
        "numbers": numbers,
        "rows": rows,
        "taken": taken(numbers),
        "refused": refused(numbers),
    }
