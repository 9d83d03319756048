"""Prose of generated pages: lines of the same length, whatever numbers are put in."""

import textwrap

__all__ = ["wrapped"]

_AS_IS = ("|", "#", "!", "-", "```")


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
