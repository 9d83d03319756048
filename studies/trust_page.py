"""``python -m studies.trust_page``: writes ``docs/trust.md`` from ``docs/trust.json``."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mxsafe.analysis.report import markdown
from mxsafe.atomic import write_atomically
from studies.coverage import record
from studies.mutants import record as mutants
from studies.prose import wrapped
from verif.support.stream_claims import LEFT_OUT

__all__ = [
    "COMMAND_LINES",
    "DATA",
    "PAGE",
    "PROVED_BY_TESTS",
    "bad_input_rows",
    "main",
    "page",
    "proof_rows",
]

DOCS = Path(__file__).parents[1] / "docs"
DATA, PAGE = DOCS / "trust.json", DOCS / "trust.md"

PROVED_BY_TESTS = {
    "no counter of tokens leaves its range; no descriptor is lost; those that run side by side "
    "find room for their signals": "accelerator/test_queues.py::test_tokens_and_places_are_proved",
    "of several errors in a clock the first counts, with its descriptor": (
        "accelerator/test_queues.py::test_the_first_error_is_proved"
    ),
    "a FIFO of tags keeps their order": (
        "accelerator/test_tag_queue.py::test_every_order_is_proved"
    ),
    "bursts of every run follow one another and do not cross 4 KiB": (
        "accelerator/test_burst_splitter.py::test_every_run_is_proved"
    ),
    "bursts of the writer have the beats that they announce": (
        "accelerator/test_axi_writer.py::test_bursts_are_proved"
    ),
    "what the reader has under way does not exceed its window": (
        "accelerator/test_axi_reader.py::test_the_window_is_proved"
    ),
    "fetch has room for every word that it asks for": (
        "accelerator/test_fetch.py::test_room_is_proved"
    ),
    "registers read what the description says": (
        "accelerator/test_registers.py::test_values_are_proved"
    ),
    "rows are walked as the model walks them": (
        "accelerator/test_row_walk.py::test_walks_are_proved"
    ),
    "the decoder equals a table that was written independently": (
        "mac/test_decoder.py::test_equivalence_is_proved"
    ),
}
"""What tests of units prove, and which do, in ``verif/rtl``."""

COMMAND_LINES = "command lines"
"""The group of answers of the command."""
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


def _all_time(found: Sequence[Mapping[str, Any]], what: str) -> str:
    """How many of how many are proved for all time, and for how long others are."""
    if not any(what in entry for entry in found):
        return "-"
    always = sum(what in entry and entry[what] is None for entry in found)
    clocks = sorted({entry[what] for entry in found if entry.get(what)})
    some = f", {clocks[0]} clocks" if clocks else ""
    return f"{always} of {len(found)}{some}"


def _clocks(numbers: Sequence[int]) -> str:
    if not numbers:
        return "-"
    low, high = min(numbers), max(numbers)
    return f"{low}" if low == high else f"{low} to {high}"


def proof_rows(proofs: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """A table of what is proved of streams, head first."""
    kinds: dict[str, list[Mapping[str, Any]]] = {}
    for found in proofs["streams"].values():
        kinds.setdefault(found["kind"], []).append(found)
    rows: list[tuple[str, ...]] = [
        ("units of", "no beat lost or made", "rules", "beats", "taken after", "CPU seconds")
    ]
    for kind, found in sorted(kinds.items()):
        claims = dict.fromkeys(entry["claim"] for entry in found if entry.get("claim"))
        seconds = sum(entry["seconds"] for entry in found)
        rows.append(
            (
                f"`{kind}`",
                "; ".join(claims) or "-",
                _all_time(found, "rules"),
                _all_time(found, "beats"),
                _clocks([entry["taken"] for entry in found if "taken" in entry]),
                f"{seconds:,.0f}",
            )
        )
    return rows


def _proved(found: Mapping[str, Any]) -> str:
    """How many are proved of how many, and in how many seconds."""
    proved = sum(entry["proved"] for entry in found.values())
    seconds = sum(entry["seconds"] for entry in found.values())
    return f"{proved} of {len(found)} are proved, in {seconds:,.0f} CPU seconds"


def _proofs(proofs: Mapping[str, Any]) -> list[str]:
    """The section about proofs."""
    left = [
        f"- `{name}`: {found['why']}."
        for kind in proofs.values()
        for name, found in kind.items()
        if not found["proved"]
    ]
    reasons = [f"- `{name}`: {reason}." for name, reason in LEFT_OUT.items()]
    rule = (
        "`make test-yosys` proves all that this section counts, and `python -m studies.proofs` "
        "writes down how long it takes. First the rules of AXI4-Stream of modules in `gen/` that "
        "have results which wait until they are taken, of each kind the smallest at least. They "
        "hold "
        "for all inputs and all times, whatever registers hold before the first reset: what waits "
        "stays as it is, and after a reset "
        "nothing is valid. What a module gets is assumed to keep the same rules, and its other "
        "inputs to stay while a result waits; the few units that may expect more, as that they are "
        "not started before all was taken, stand in `verif/support/stream_claims.py`. Of many "
        "kinds it is also proved that no beat is lost or made, and that a result does not wait for "
        "`tready`, by a count of clocks. Modules "
        "without registers inside a unit may compute anything, as long as equal inputs give equal "
        "results, and pipelines and memories with an enable may give anything, as long as it stays "
        "while the enable is low; the latter is proved of each of them. Yosys makes the netlist, "
        "and ABC within it joins equal registers by induction and proves the rest by "
        "property-directed reachability or interpolation, or Yosys proves all of it by temporal "
        "induction. A proof that fails names the claim, and the inputs in the clock in which it is "
        "broken."
    )
    kinds = len({found["kind"] for found in proofs["streams"].values()})
    reading = (
        f"These are {len(proofs['streams'])} modules of {kinds} kinds; others of a kind are "
        "larger. "
        "`rules` and `beats` count the modules of a kind of which this is proved for all time; "
        "where no proof came to an end in the time that it was given (`--seconds`), it is proved "
        "for so many clocks from the first reset on. `taken after` is a number of clocks, reset "
        "included, in which each result may have become valid, waited, and been taken, while "
        "everything is as the proof expects: a solver finds the inputs, so no proof holds because "
        "nothing can happen."
    )
    enables = (
        "What leaves a pipeline or a memory inside these units stays while its enable is low: "
        f"{_proved(proofs['enables'])}."
    )
    pipelines = (
        "Pipelined arithmetic equals its combinational form for all operands: a latency after them "
        "the results are the same, whatever registers held before, and no register changes while "
        f"the enable is low. {_proved(proofs['pipelines'])}: {_names(proofs['pipelines'])}. "
        "Units with multipliers are held to their models by simulation alone."
    )
    broken = (
        "`make test-full` breaks a unit of every kind, and its proof has to fail "
        "(`verif/studies/test_proofs.py`): most by a rule that takes an enable from a register or "
        "an input from an AND, `vector/normalise`, `vector/normalise_core` and "
        "`vector/softmax_backward` by hand. More are broken by hand in `verif/rtl/test_proofs.py`."
    )
    of_units = (
        "`make test-yosys` proves more of single units: by induction, or by SAT where there are no "
        "registers. Most of that is tried once more of a unit that is broken, where it has to "
        "fail. The tests stand in `verif/rtl`:"
    )
    table = [("proved", "by"), *((claim, f"`{test}`") for claim, test in PROVED_BY_TESTS.items())]
    parts = ["## Proofs of control", wrapped(rule), markdown(proof_rows(proofs), labels=2)]
    parts += [wrapped(reading), wrapped(enables), wrapped(pipelines), wrapped(broken)]
    parts += [wrapped(of_units), markdown(table, labels=2)]
    parts += ["Left out:", "\n".join(reasons)]
    if left:
        parts += ["Not proved:", "\n".join(left)]
    return parts


def _names(found: Mapping[str, Any]) -> str:
    return ", ".join(f"`{name}`" for name, entry in found.items() if entry["proved"])


def page(
    numbers: Mapping[str, Any], coverage: Mapping[str, Any], mutation: Mapping[str, Any]
) -> str:
    """The page.

    Parameters
    ----------
    numbers : Mapping
        What ``docs/trust.json`` holds.
    coverage, mutation : Mapping
        What `studies.coverage.record` and `studies.mutants.record` read.
    """
    bad = numbers["bad_input"]
    opening = (
        "The numbers on this page are made by commands that stand beside them. How the hardware is "
        "compared with the models is told in [how it is verified](verification.md)."
    )
    score = (
        "`make mutate` breaks modules of `gen/` at random, up to "
        f"{mutation['count']} times each, and asks whether a test notices. "
        f"{mutants.total(mutation)}\n\n[Mutation score](mutation.md) says what counts as killed, "
        "and lists all modules and what is alive of them."
    )
    rule = (
        "`python -m studies.bad_input` puts wrong types, extremes, NaN, texts, odd arrays and "
        f"other people's objects to each parameter of {bad['interfaces']} public functions and "
        f"constructors, which it finds by walking the modules, and of {bad['methods']} methods, "
        f"then {bad['examples']:,} calls drawn at random, then damaged files to every reader of "
        "files. What is left out, and why, stands in `interface.py` and `methods.py` of "
        "`verif/support/bad_input`. The answer must be a documented result, or a TypeError or "
        "ValueError that begins with the parameter's name; that it says the requirement and the "
        "value too is for the tests of each function and class. Of hardware a result counts only "
        "if the unit can then be made and elaborated. A call may take ten seconds and three "
        "gigabytes. The command needs the extra `synth`, without which some end earlier."
    )
    command_lines = (
        "Each argument of every command, as its parser names it, gets wrong words. The answer must "
        "be a result, or one line, after the usage where that is wrong, with nothing written: "
        "exit code 2 stands under ValueError, 1 under another documented error."
    )
    decisions = (
        "Decided so: masked arrays are refused, because the mask would be lost; flags must be True "
        "or False; `dtype=None` is refused; packed codes must have zeros behind the last one; "
        "`random` may be given to a rounding that does not use it, so that a loop over roundings "
        "can, but must be a source of random numbers then too."
    )
    command_line = (
        "The command answers in one line, also where standard output is closed or full, a name "
        "cannot be shown, or sizes are beyond its limits (`verif/cli/test_surroundings.py`), "
        "and whatever the words are (`verif/cli/test_command_lines.py`). It ends with 130 after "
        "Ctrl-C, from its first imports on, and 141 when nobody reads its output any more."
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
        "## Mutation score",
        wrapped(score),
        "## Bad input",
        wrapped(rule),
        *([wrapped(command_lines)] if COMMAND_LINES in bad["answers"] else []),
        markdown(bad_input_rows(bad)),
        wrapped(decisions),
        wrapped(command_line),
        *(_proofs(numbers["proofs"]) if "proofs" in numbers else ()),
        "## Coverage",
        record.section(coverage),
        "## Security and release",
        wrapped(security),
    ]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def main() -> None:
    """Write the page."""
    text = page(json.loads(DATA.read_text()), record.read(), mutants.read())
    write_atomically(PAGE, lambda file: file.write(text.encode()))


if __name__ == "__main__":
    main()
