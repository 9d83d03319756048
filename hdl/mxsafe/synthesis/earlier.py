"""Results of an earlier run beside those of some configurations that were done again."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mxsafe.synthesis.cases import (
    BF16,
    CARRY_SAVE,
    FPGA,
    MACHINE,
    MORE_LANES,
    SECOND,
    STANDARD,
    Case,
)

Synthesis = Mapping[str, Any]


def read_synthesis(path: Path) -> dict[str, Any]:
    """Return the content of ``synthesis.json``.

    Raises
    ------
    ValueError
        If the file cannot be read, or holds something else.
    """
    try:
        found = json.loads(path.read_text())
        for result in found["results"]:
            _place(result)
        _ = found["tools"].items(), found["clock_ns"]
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError(
            f'{path} must be a synthesis.json: an object with "results", "tools" and "clock_ns"'
        ) from None
    return dict(found)


def _place(result: Mapping[str, Any]) -> tuple[str, str, str]:
    return result["configuration"], result["format"], result["technology"]


def completed(
    found: Synthesis, earlier: Synthesis, cases: Iterable[Case] | None = None
) -> dict[str, Any]:
    """New results, and earlier ones of the configurations that they leave out.

    Whether an earlier result is still that of its unit's Verilog is not known here.

    Parameters
    ----------
    found, earlier : Mapping
        What `mxsafe.synthesis.run.synthesise` returned.
    cases : iterable of Case, optional
        All configurations that results should be there for, in their order: by default those of
        `FPGA` where new results are of them alone, and otherwise those of `STANDARD`. Behind them
        stand those of `MACHINE`, `MORE_LANES`, `CARRY_SAVE`, `BF16` and `SECOND` that there are.

    Raises
    ------
    ValueError
        If a result is in neither, or tools or the wanted period differ.
    """
    if found["clock_ns"] != earlier["clock_ns"]:
        raise ValueError(
            f"earlier results must be for a clock of {found['clock_ns']}, not {earlier['clock_ns']}"
        )
    for tool, version in found["tools"].items():
        other = earlier["tools"].get(tool, version)
        if other != version:
            raise ValueError(f"earlier results must be by {tool} {version}, not {other}")
    if cases is None:
        names = {case.name for case in FPGA}
        of_fpgas = all(result["configuration"] in names for result in found["results"])
        cases = FPGA if of_fpgas else STANDARD
    by_place = {_place(result): result for result in (*earlier["results"], *found["results"])}
    places, more = (
        [(case.name, case.formats, technology) for case in some for technology in case.technologies]
        for some in (cases, (*MACHINE, *MORE_LANES, *CARRY_SAVE, *BF16, *SECOND))
    )
    missing = [place for place in places if place not in by_place]
    if missing:
        name, format, technology = missing[0]
        raise ValueError(
            f"earlier results must have {name} for {format} on {technology}, or it must be "
            "synthesised"
        )
    return {
        **found,
        "tools": dict(sorted({**earlier["tools"], **found["tools"]}.items())),
        "results": [
            *(by_place[place] for place in places),
            *(by_place[place] for place in more if place in by_place),
        ],
    }
