"""The page of the machine: fresh, its links lead somewhere, and its driver compiles."""

import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from mxsafe.synthesis.cases import MACHINE
from mxsafe.synthesis.machine import PARTS
from studies import machine_page
from studies.machine_page import DOCS, DRIVER
from verif.support.manifest import GEN


def current_page() -> str:
    return machine_page.page(json.loads((DOCS / "synthesis.json").read_text()))


def test_the_committed_page_is_fresh() -> None:
    committed = (DOCS / "accelerator.md").read_text()
    assert committed == current_page(), "run `python -m studies.machine_page`"
    assert (DOCS / "accelerator.svg").read_text() == machine_page.draw()
    links = re.findall(r"\]\(([^)#:]+)\)", committed)
    assert len(links) > 3
    for link in links:
        assert (DOCS / link).exists(), link


def test_what_the_example_shows() -> None:
    assert (DOCS / "accelerator.md").read_text().count("\nnone 153 40\nTrue\n") == 1


def test_the_picture_is_well_formed_and_within_its_frame() -> None:
    root = ET.fromstring(machine_page.draw())
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    boxes = [e.attrib for e in root.iter() if e.tag.endswith("rect")]
    assert len(boxes) > 10
    for box in boxes:
        left, top = float(box.get("x", 0)), float(box.get("y", 0))
        assert 0 <= left < left + float(box["width"]) <= width
        assert 0 <= top < top + float(box["height"]) <= height


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_the_driver_compiles(tmp_path: Path) -> None:
    source = tmp_path / "driver.c"
    source.write_text(
        f"{DRIVER}\nint main(void)\n{{\n    (void)run;\n    (void)load_a;\n    return 0;\n}}\n"
    )
    options = ["-std=c99", "-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror"]
    subprocess.run(["cc", *options, f"-I{GEN}", source, "-o", tmp_path / "driver"], check=True)


def test_code_begins_and_ends_on_lines_of_its_own() -> None:
    fences = [line for line in current_page().splitlines() if "```" in line]
    assert len(fences) > 10
    assert len(fences) % 2 == 0
    for opening, closing in zip(fences[::2], fences[1::2], strict=True):
        assert re.fullmatch("```[a-z]+", opening)
        assert closing == "```"


def test_gates_add_up_beside_the_paper() -> None:
    names = ["sta_exact 4x4x4x4, 8 accumulators", *(case.name for case in MACHINE)]
    results = [
        {
            "configuration": name,
            "technology": "nangate45",
            "format": "mxsf",
            "numbers": {"area": {"ge": 1000.0 + place, "delay_ns": 1 + place / 10}},
        }
        for place, name in enumerate(names)
    ]
    rows = machine_page.gate_rows({"results": results})
    assert [row[0] for row in rows[1:]] == ["array", *PARTS, "whole machine"]
    assert rows[1][2:] == ("core", "1,000", "1.00", "1,239,288")
    total = sum(1000 + place for place in range(len(names)))
    assert rows[-1][2:] == ("total", f"{total:,}", f"{1 + len(PARTS) / 10:.2f}", "1,409,962")
    with pytest.raises(LookupError):
        machine_page.gate_rows({"results": results[:-1]})
    assert "## Gates and clock" in machine_page.page({"results": results})
    assert "## Gates and clock" not in machine_page.page({"results": []})
