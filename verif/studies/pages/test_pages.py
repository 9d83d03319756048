"""Pages: fresh, with links that lead somewhere, and none with a name that has no value."""

import re

import jinja2
import pytest

from studies import pages
from studies.pages import DOCS, NAMES, kept, rendered
from studies.pages.__main__ import main
from verif.support.tests import raises

WORDS = "word " * 30
TABLE = "| " + "cell " * 30 + "|\n|---|"


@pytest.mark.parametrize("name", NAMES)
def test_the_committed_page_is_fresh(name: str) -> None:
    """Of its pictures every text, whatever matplotlib makes of the shapes."""
    for file, content in pages.files(name).items():
        committed, now = (DOCS / file).read_text(), content.decode()
        if file.endswith(".svg") and now.count("<!-- ") > 10:
            committed, now = (
                "\n".join(re.findall(r"<!-- (.*?) -->", svg)) for svg in (committed, now)
            )
        assert committed == now, f"run `python -m studies.pages {name}`"
    committed = (DOCS / f"{name}.md").read_text()
    for link in re.findall(r"\]\(([^)#:]+)\)", committed):
        assert (DOCS / link).exists(), link


@pytest.mark.parametrize("shown", ["nothing", "nothing | fixed(1)", "nothing | thousands"])
def test_a_name_without_a_value_is_an_error(shown: str) -> None:
    with raises(jinja2.UndefinedError, "'nothing' is undefined"):
        rendered("{{ " + shown + " }}", {})


def test_paragraphs_have_lines_of_up_to_100_characters() -> None:
    page = rendered(f"\n{WORDS}\nword\n\n\n{WORDS}\n\n", {})
    first, second = page.split("\n\n")
    assert first.split() == ["word"] * 31
    assert second.split() == ["word"] * 30
    assert max(map(len, page.splitlines())) == 99
    assert page.endswith("word\n")


def test_tables_headings_pictures_and_code_stay() -> None:
    picture, code = f"![{WORDS}](a.svg)", f"```\n{WORDS}\n\n{WORDS}\n```"
    page = "\n\n".join([f"# {WORDS}", TABLE, picture, code]) + "\n"
    assert rendered(page, {}) == page


@pytest.mark.parametrize(("first", "second", "indent"), [("- ", "- ", "  "), ("1. ", "2. ", "   ")])
def test_lines_of_an_item_stand_beneath_each_other(first: str, second: str, indent: str) -> None:
    lines = rendered(f"{first}{WORDS}\nword\n{second}word\n   word\n", {}).splitlines()
    assert lines[0].startswith(f"{first}word")
    assert lines[1].startswith(f"{indent}word")
    assert lines[2:] == [f"{second}word word"]
    assert max(map(len, lines)) <= 100


def test_a_number_at_the_beginning_of_a_line_is_no_item() -> None:
    assert rendered("It takes\n96. Then it ends.\n", {}) == "It takes 96. Then it ends.\n"


@pytest.mark.parametrize(
    ("expression", "shown"),
    [
        ("1234567 | thousands", "1,234,567"),
        ("1234.565 | fixed(1)", "1,234.6"),
        ("0.1234 | percent(2)", "12.34%"),
        ("0.000123 | form('.1e')", "1.2e-04"),
        ("[('a', 'b', 'c')] | table(2)", "| a | b | c |\n|---|---|--:|"),
        ("'print(2)\nprint()\nprint(3)' | printed", "2\n\n3"),
    ],
)
def test_filters(expression: str, shown: str) -> None:
    assert rendered("```\n{{ " + expression + " }}\n```", {}) == f"```\n{shown}\n```\n"


def test_numbers_have_lines_down_to_a_depth() -> None:
    numbers = {"a": 1, "b": [[1, 2], [3]], "c": {"d": {}, "e": [4]}, "f": []}
    assert pages.as_text(numbers, 1) == (
        '{\n "a": 1,\n "b": [[1, 2], [3]],\n "c": {"d": {}, "e": [4]},\n "f": []\n}\n'
    )
    assert pages.as_text(numbers) == (
        '{\n "a": 1,\n "b": [\n  [1, 2],\n  [3]\n ],\n'
        ' "c": {\n  "d": {},\n  "e": [4]\n },\n "f": []\n}\n'
    )
    assert pages.as_text([1, "x"]) == '[\n 1,\n "x"\n]\n'


@pytest.mark.parametrize(
    ("name", "depth"), [("encode", 2), ("utilisation", 2), ("learning", 2), ("function_errors", 1)]
)
def test_kept_numbers_have_their_layout(name: str, depth: int) -> None:
    assert (DOCS / f"{name}.json").read_text() == pages.as_text(kept(name), depth)


def test_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages are written or checked, each in a line; a stale one fails a check."""
    written: list[str] = []
    monkeypatch.setattr(pages, "write", written.append)
    assert main(["accelerator"]) == 0
    assert written == ["accelerator"]
    assert main(["--check", "accelerator"]) == 0
    monkeypatch.setattr(pages, "text", lambda name: "")
    assert main(["--check", "accelerator"]) == 1
    assert written == ["accelerator"]
    assert capsys.readouterr().out.splitlines() == [
        "1/1 accelerator.md written",
        "1/1 accelerator.md as it is",
        "1/1 accelerator.md differs",
    ]
    with pytest.raises(SystemExit):
        main(["nothing"])
    assert "name must be one of accelerator" in capsys.readouterr().err
