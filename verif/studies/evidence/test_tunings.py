"""Fine-tunings compared, from numbers made up here."""

from typing import Any

from studies import pages
from studies.evidence.trainings import FORMATS
from studies.pages import evidence

ABOVE = {"float32": 0.0, "mxint8": 0.02, "mxfp8_e4m3": 0.03, "mxfp8_e2m5": 0.01, "mxsf": 0.01}
SEEDS = 2


def results() -> list[dict[str, Any]]:
    made = []
    for fmt in FORMATS:
        for seed in range(SEEDS):
            own = ABOVE[fmt]
            numbers: dict[str, Any] = {
                "loss": [3.0 + own, 2.9 + own],
                "before": [3.0 + own, 4.0 + own],
                # MXINT8 is worse than MXSF in one document, and better in the other.
                "after": [2.8 + own + 0.002 * seed, 3.7 + (-own if fmt == "mxint8" else own)],
            }
            if fmt == "float32":
                shares = {name: [0.1 * place, 0.01] for place, name in enumerate(FORMATS[1:])}
                numbers |= {"layers": shares, "weights": shares}
            parameters = {"format": fmt, "seed": seed, "steps": 2, "tokens": 128, "documents": 2}
            made.append(
                {"name": f"tuning/{fmt}/{seed}", "parameters": parameters, "numbers": numbers}
            )
    return made


def test_section() -> None:
    others = [{"name": "training/deit/mxsf/0", "parameters": {}, "numbers": {}}]
    text = " ".join(pages.text("evidence", evidence.values(others + results())).split())
    assert "| float32 | 2 | 3.5000 | | 3.2505 | |" in text
    assert (
        "| MXFP8 E4M3 | 2 | 3.5300 | +0.0300 [+0.0300, +0.0300] "
        "| 3.2805 | +0.0300 [+0.0300, +0.0300] |"
    ) in text
    # Differences of two documents, +0.01 and -0.03: their standard deviation is 0.0283, and
    # 12.706 of that over the root of 2 is 0.2541.
    assert "MXINT8 -0.0100 [-0.2641, +0.2441] (open)" in text
    assert "MXFP8 E4M3 +0.0200 [+0.0200, +0.0200] (confirmed)" in text
    assert "MXINT8 0.00 %, MXFP8 E4M3 10.00 %, E2M5 (BOOST) 20.00 %, MXSF 30.00 %" in text


def test_seeds_without_float32_are_left_out() -> None:
    few = [
        result
        for result in results()
        if (result["parameters"]["format"], result["parameters"]["seed"]) != ("float32", 1)
    ]
    assert "| MXSF | 1 | 3.5100 |" in pages.text("evidence", evidence.values(few))
