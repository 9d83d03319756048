"""Prose of pages: paragraphs are broken anew, and all else is left alone; prose of `--help`."""

from studies.prose import as_help, wrapped

WORDS = "word " * 30
TABLE = "| " + "cell " * 30 + "|\n|---|"
LIST = "- item " + "word " * 30 + "\n- item"


def test_paragraphs_have_lines_of_up_to_100_characters() -> None:
    page = wrapped(f"\n{WORDS}\nword\n\n{WORDS}\n\n")
    first, second = page.split("\n\n")
    assert first.split() == ["word"] * 31
    assert second.split() == ["word"] * 30
    assert max(map(len, page.splitlines())) == 99
    assert page.endswith("word\n")


def test_tables_headings_pictures_lists_and_code_stay() -> None:
    picture, code = f"![{WORDS}](a.svg)", f"```\n{WORDS}\n```"
    page = "\n\n".join([f"# {WORDS}", TABLE, LIST, picture, code]) + "\n"
    assert wrapped(page) == page


def test_help_has_no_marks_of_literals() -> None:
    assert as_help("``python -m a``: of ``gen/``") == "python -m a: of gen/"
    assert as_help(None) == ""
