"""Direct casts: verdicts and numbers of results that are made up."""

from typing import Any

import numpy as np
import pytest

from studies import pages
from studies.evidence import casts
from studies.evidence.casts import PAPER, Casts, order_rows, summary_rows, task_rows
from studies.evidence.direct_cast import MODELS
from studies.evidence.formats import configurations
from studies.pages import evidence

ERRORS = {
    "float32": 0.0,
    "bf16": 0.1,
    "mxfp8_e2m5": 1.0,
    "mxsf": 2.0,
    "mxint8": 2.001,
    "mxfp8_e4m3": 8.0,
}


def results() -> list[dict[str, Any]]:
    """SmolLM2 and ResNet-18 in all formats: errors that are clear, and one pair that is not."""
    random = np.random.default_rng(0)
    own = random.normal(0, 0.02, (2, 24))
    found = []
    for one in configurations():
        error = ERRORS.get(one.format, 20.0)
        given = {"format": one.format, "block": one.block}
        noisy = own[0] if one.format == "mxsf" else own[1] if one.format == "mxint8" else 0 * own[0]
        rows = [[100, 330 + error * (1 + x), error * (1 + x), 90] for x in noisy]
        columns = ["tokens", "loss", "divergence", "same"]
        found.append((f"smollm2/{one.path}", given, {"columns": columns, "rows": rows}))
        right = 200 - round(8 * error)
        rows = [[200, right, 190, error, 100.0] for _ in range(12)]
        columns = ["images", "right", "same", "noise", "signal"]
        found.append((f"resnet18/{one.path}", given, {"columns": columns, "rows": rows}))
    return [
        {"name": f"direct-cast/{name}", "parameters": dict(given), "numbers": numbers}
        for name, given, numbers in found
    ]


def test_every_model_has_a_kind() -> None:
    assert list(casts.KINDS) == list(MODELS)


def test_verdicts() -> None:
    head, *rows = order_rows(Casts(results()), "1x64")
    assert head[1:3] == ("MXSF before MXFP8 E4M3", "E2M5 (BOOST) before MXFP8 E4M3")
    assert [row[0] for row in rows] == ["SmolLM2-135M", "ResNet-18"]
    assert rows[0][1:] == ("yes, yes",) * 4 + ("open, open",)
    # Sixteen errors of 200 for both formats of the last pair, whose noise differs a little.
    assert rows[1][1:] == ("yes, yes",) * 4 + ("open, yes",)


def test_verdicts_turn_with_the_numbers() -> None:
    turned = results()
    for result in turned:
        given = result["parameters"]
        swap = {"mxsf": "mxfp8_e4m3", "mxfp8_e4m3": "mxsf"}
        given["format"] = swap.get(given["format"], given["format"])
    rows = order_rows(Casts(turned), "8x8")
    assert rows[1][1] == "no, no"
    assert rows[2][1] == "no, no"


def test_counts_of_verdicts_and_of_the_paper() -> None:
    yes = "confirmed: yes 6, no 0, open 0"
    head, *rows = summary_rows(Casts(results()))
    assert head[1] == "rows of the paper"
    cells = {row[0]: row[1:] for row in rows}
    assert cells["MXSF before MXFP8 E4M3"] == ("11 of 11", yes, yes)
    assert cells["E2M5 (BOOST) before MXSF"][0] == "7 of 11, against it 3"
    assert cells["MXSF before MXINT8"] == (
        "7 of 11, against it 4",
        "open: yes 0, no 0, open 6",
        "confirmed: yes 3, no 0, open 3",
    )
    assert casts.paper_gain("mxfp8_e2m5") == pytest.approx(-0.035)
    assert casts.paper_gain("mxfp8_e4m3") == pytest.approx(7.109)
    assert all(len(row) == len(casts.PAPER_FORMATS) for row in PAPER.values())


def test_verdicts_of_all_models() -> None:
    words = {(0, 0, 2): "open", (1, 0, 2): "confirmed", (0, 1, 2): "refuted", (1, 1, 0): "by model"}
    for counts, word in words.items():
        assert str(casts.Tally(*counts)).startswith(f"{word}: yes {counts[0]}, ")
    assert str(casts.Tally(0, 0, 0)) == "not measured"


def test_numbers_of_tasks() -> None:
    rows = task_rows(Casts(results()), "8x8")
    cells = dict(zip(rows[0], rows[2], strict=True))
    assert cells["float32"] == "100.00"
    assert cells["MXSF"] == f"{100 * 184 / 200:.2f}"
    perplexity = dict(zip(rows[0], rows[1], strict=True))["float32"]
    assert perplexity == f"{np.exp(3.3):.3f}"


def test_what_is_missing_stays_empty() -> None:
    """A sweep that is not done makes a page all the same; a model without float32 is left out."""
    some = [
        result
        for result in results()
        if result["parameters"]["block"] != "1x32"
        and not (result["name"].startswith("direct-cast/resnet18/float32"))
        and result["parameters"]["format"] != "mxint8"
    ]
    text = pages.text("evidence", evidence.values(some))
    assert "Of 184 runs 157 have not been made" in text
    assert "Blocks of 8x8" in text
    assert "Blocks of 1x32" not in text
    assert "not measured" in text
    assert "kinds of blocks (1 and 2)" in text
    assert "ResNet-18 |" not in text.split("### What the paper has")[0]
