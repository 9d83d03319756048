"""Prose of `--help`."""

import argparse


def as_help(docstring: str | None) -> str:
    """A module's docstring for a terminal, without the marks of literals.

    Python leaves docstrings out with ``-OO``; then it is empty.
    """
    return (docstring or "").replace("``", "")


def parser_of(name: str, docstring: str | None) -> argparse.ArgumentParser:
    """The parser of ``python -m studies.NAME``, with the docstring of that module as its help."""
    return argparse.ArgumentParser(prog=f"python -m studies.{name}", description=as_help(docstring))
