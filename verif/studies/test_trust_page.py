"""The page of trust is what its numbers give, and they say that nothing went wrong."""

import json

from studies.trust_page import DATA, PAGE, page


def test_the_page_is_fresh() -> None:
    numbers = json.loads(DATA.read_text())
    assert PAGE.read_text() == page(numbers), "run `python -m studies.trust_page`"


def test_no_bad_input_is_unanswered() -> None:
    found = json.loads(DATA.read_text())["bad_input"]
    assert found["interfaces"] > 300
    for group, answers in found["answers"].items():
        assert answers["fault"] == 0, group
        assert sum(answers.values()) > 1000, group
