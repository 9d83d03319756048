"""Prose of generated pages and of `--help`."""

import textwrap

__all__ = ["as_help", "wrapped"]

_AS_IS = ("|", "#", "!", "-", "```")


def as_help(docstring: str | None) -> str:
    """A module's docstring for a terminal, without the marks of literals.

    Python leaves docstrings out with ``-OO``; then it is empty.
    """
    return (docstring or "").replace("``", "")


def wrapped(page: str) -> str:
    """Break the prose of a Markdown page into lines of up to 100 characters.

    Tables, headings, pictures, lists and code stay as they are.

    Parameters
    ----------
    page : str
        Paragraphs with an empty line between them.
    """
    return "\n\n".join(map(_paragraph, page.strip("\n").split("\n\n"))) + "\n"


def _paragraph(text: str) -> str:
    if text.startswith(_AS_IS):
        return text
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)
