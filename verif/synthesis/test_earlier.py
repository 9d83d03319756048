"""Results of an earlier run stand beside new ones in the order of the configurations."""

import json
from pathlib import Path
from typing import Any

import pytest

from mxsafe.synthesis.cases import FPGA, Case
from mxsafe.synthesis.earlier import completed, read_synthesis
from verif.support.tests import raises

CASES = [
    Case(name="first", unit="decoder", technologies=("nangate45", "xilinx")),
    Case(name="second", unit="transposer", technologies=("xilinx",)),
]


def synthesis(*places: tuple[str, str], number: int, **tools: str) -> dict[str, Any]:
    results = [
        {"configuration": name, "format": "mxsf", "technology": technology, "numbers": number}
        for name, technology in places
    ]
    return {"generator": number, "tools": tools, "clock_ns": None, "results": results}


EARLIER = synthesis(
    ("second", "xilinx"), ("first", "xilinx"), ("first", "nangate45"), number=1, sta="2", yosys="3"
)


def test_what_was_done_again_takes_the_place_of_what_was_there() -> None:
    found = completed(synthesis(("first", "xilinx"), number=5, yosys="3"), EARLIER, CASES)
    assert found["generator"] == 5
    assert found["tools"] == {"sta": "2", "yosys": "3"}
    assert [(r["configuration"], r["technology"], r["numbers"]) for r in found["results"]] == [
        ("first", "nangate45", 1),
        ("first", "xilinx", 5),
        ("second", "xilinx", 1),
    ]


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (
            synthesis(("first", "xilinx"), number=5, yosys="4"),
            "earlier results must be by yosys 4, not 3",
        ),
        (
            {**EARLIER, "clock_ns": 2.0},
            "earlier results must be for a clock of 2.0, not None",
        ),
    ],
)
def test_other_tools_and_clocks_are_refused(found: dict[str, Any], message: str) -> None:
    with raises(ValueError, message):
        completed(found, EARLIER, CASES)


def test_what_is_nowhere_is_named() -> None:
    more = [*CASES, Case(name="third", unit="decoder", format="mxint8", technologies=("ice40",))]
    with raises(
        ValueError, "earlier results must have third for mxint8 on ice40, or it must be synthesised"
    ):
        completed(EARLIER, EARLIER, more)


def test_results_for_fpgas_stand_beside_their_own() -> None:
    places = [(case.name, technology) for case in FPGA for technology in case.technologies]
    earlier = synthesis(*places, number=1)
    found = completed(synthesis(places[1], number=5), earlier)
    assert [r["numbers"] for r in found["results"]] == [1, 5, *[1] * (len(places) - 2)]


def test_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "synthesis.json"
    path.write_text(json.dumps(EARLIER))
    assert read_synthesis(path) == EARLIER
    for text in ("no JSON", "[]", "{}", '{"results": [{}], "tools": {}, "clock_ns": null}'):
        path.write_text(text)
        with pytest.raises(ValueError, match=r"^.*synthesis\.json must be a synthesis\.json: "):
            read_synthesis(path)
