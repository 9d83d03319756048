"""Words of the drawn pictures stay in their boxes, in a font wider than the one meant, too."""

from pathlib import Path

import pytest

from verif.pictures import crossing, outside

DOCS = Path(__file__).parents[1] / "docs"
DRAWN = [path for path in sorted(DOCS.glob("*.svg")) if "<text" in path.read_text()]
"""Others have their letters as outlines."""


@pytest.mark.parametrize("path", DRAWN, ids=lambda path: path.stem)
def test_words_stay_in_their_boxes(path: Path) -> None:
    text = path.read_text()
    assert "<rect" in text
    assert crossing(text) == []
    assert outside(text) == 0


def test_words_that_do_not_fit_are_found() -> None:
    text = (DOCS / "accelerator.svg").read_text()
    assert crossing(text.replace("systolic array", "systolic array of MACs")) == [
        "systolic array of MACs"
    ]
    assert outside(text.replace('x="640"', 'x="880"')) == 2
