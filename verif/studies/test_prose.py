"""Prose of `--help`."""

from studies.prose import as_help


def test_help_has_no_marks_of_literals() -> None:
    assert as_help("``python -m a``: of ``gen/``") == "python -m a: of gen/"
    assert as_help(None) == ""
