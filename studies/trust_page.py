"""``python -m studies.trust_page``: writes ``docs/trust.md`` from ``docs/trust.json``."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mxsafe.analysis.report import markdown
from mxsafe.atomic import write_atomically
from studies.prose import wrapped

__all__ = ["DATA", "PAGE", "bad_input_rows", "main", "page"]

DOCS = Path(__file__).parents[1] / "docs"
DATA, PAGE = DOCS / "trust.json", DOCS / "trust.md"

_COLUMNS = {
    "result": "a result",
    "TypeError": "TypeError",
    "ValueError": "ValueError",
    "documented": "another documented error",
    "fault": "anything else",
}


def bad_input_rows(numbers: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """A table of what was tried, head first."""
    rows: list[tuple[str, ...]] = [("given to", "tried", *_COLUMNS.values())]
    answers = numbers["answers"]
    total = {kind: sum(counts[kind] for counts in answers.values()) for kind in _COLUMNS}
    for group, counts in {**answers, "all": total}.items():
        cells = [counts[kind] for kind in _COLUMNS]
        rows.append((group, f"{sum(cells):,}", *(f"{cell:,}" for cell in cells)))
    return rows


def page(numbers: Mapping[str, Any]) -> str:
    """The page."""
    bad = numbers["bad_input"]
    opening = (
        "The numbers on this page are made by commands that stand beside them. How the hardware is "
        "compared with the models is told in [how it is verified](verification.md), and what those "
        "tests find of hardware that is broken at random in the [mutation score](mutation.md)."
    )
    rule = (
        f"`python -m studies.bad_input` puts wrong types, extremes, NaN, texts, odd arrays and "
        f"other people's objects to each parameter of {bad['interfaces']} public functions and "
        f"constructors, which it finds by walking the modules, then {bad['examples']:,} calls "
        "drawn at random, then damaged files to every reader of files. What is left out, and why, "
        "stands in `verif/support/bad_input/interface.py`. The answer must be a documented result, "
        "or a TypeError or ValueError that begins with the parameter's name and says the "
        "requirement and the value. Of hardware a result counts only if the unit can then be made "
        "and elaborated. A call may take ten seconds and three gigabytes."
    )
    decisions = (
        "Decided so: masked arrays are refused, because the mask would be lost; flags must be True "
        "or False; `dtype=None` is refused; packed codes must have zeros behind the last one; "
        "`random` may be given to a rounding that does not use it, so that a loop over roundings "
        "can, but must be a source of random numbers then too."
    )
    command_line = (
        "The command answers in one line, also where standard output is closed or full, a name "
        "cannot be shown, or sizes are beyond its limits (`verif/cli/test_surroundings.py`). It "
        "ends with 130 after Ctrl-C and 141 when nobody reads its output any more."
    )
    security = (
        "No pickle is loaded, nothing that a file holds is run, and no network is used: what is "
        "parsed, and how, is in [the security note](../SECURITY.md). `python -m studies.sbom` "
        "lists what the wheel needs, as CycloneDX; `verif/test_release.py` builds wheel and "
        "archive of sources, checks what they hold, and runs the wheel."
    )
    parts = [
        "# Trust",
        wrapped(opening),
        "## Bad input",
        wrapped(rule),
        markdown(bad_input_rows(bad)),
        wrapped(decisions),
        wrapped(command_line),
        "## Security and release",
        wrapped(security),
    ]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def main() -> None:
    """Write the page."""
    text = page(json.loads(DATA.read_text()))
    write_atomically(PAGE, lambda file: file.write(text.encode()))


if __name__ == "__main__":
    main()
