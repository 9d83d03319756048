"""Prose of `--help`."""


def as_help(docstring: str | None) -> str:
    """A module's docstring for a terminal, without the marks of literals.

    Python leaves docstrings out with ``-OO``; then it is empty.
    """
    return (docstring or "").replace("``", "")
