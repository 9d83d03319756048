"""What became of mutants, in ``docs/mutation.json``, and the page ``docs/mutation.md``."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mxsafe.analysis.report import markdown
from mxsafe.atomic import write_together
from studies.mutants.reasons import reason
from studies.mutants.trial import LARGEST, SECONDS

__all__ = [
    "COUNT",
    "PAGE",
    "RESULTS",
    "SEED",
    "lowest",
    "page",
    "read",
    "score",
    "total",
    "write",
]

_DOCS = Path(__file__).parents[2] / "docs"
RESULTS = _DOCS / "mutation.json"
PAGE = _DOCS / "mutation.md"
COUNT, SEED = 30, 1
"""Mutants of a module, and the seed that they are drawn with."""
_WANTED = 0.97
"""The score that every module should have."""
_PAGE = """\
# Mutation score

`make mutate` breaks modules of `gen/` at random, up to {count} times each, and asks whether a test
notices. It wrote this page; [how it is verified](verification.md) says what the tests look at.

{total}

- **Mutants** are those of Yosys' pass `mutate` with seed {seed}: one bit of one port of a cell is
  inverted, 0, 1, or inverted while another bit is 0 or 1. Modules inside a module have their own.
- **Designs** are those that the tests simulate with the module inside, as it is in `gen/`: the
  module itself, a larger unit, or a smaller one of its kind. What drives their pins is recorded
  while the tests run, and replayed on each mutant. They are those of `make test`, with the
  [variants](verification.md) that it leaves out, and some that only the full run has: random
  programs, errors and resets of the machines, and many rows and descriptors through their parts,
  arrays, layers and units of the vector chain as they are in `gen/`. A design is built once for the
  mutants of all its modules, and a module with many instances in it is compiled once. The column
  *in* has those that a module was tried in, by the names of their tops: a module of `gen/`, a unit
  with other sizes, `machine_..._with_memory_...` for a whole machine with a memory beside it, and
  names of what tests put side by side for more cases in a clock, such as `adders`.
- **Killed** is a mutant with a wrong result: any difference where a bench compares all outputs in
  every clock, else one beside a `valid` that is set, before any handshake differs. Where handshakes
  or control pins differ first and the bench drives nothing but AXI4-Streams, beats are offered
  until they are taken, as the bench does it, and those that come out have to be the recorded ones,
  neither fewer nor more, and stay while they wait. All others are put to the tests themselves,
  which run again with the mutant in the place of the module, and one of them has to fail: those of
  large designs on Verilator first, where one long build serves all mutants, then on the simulator
  that they choose. Machines run the programs of their tests, and have to give the same memory,
  words and errors. What is left and is not proved to be equivalent is put to what the tests of the
  unit prove of its Verilog, for bits that no simulation reaches, such as the upper ones of a
  counter: one of these proofs has to fail, by a counterexample or because its induction does not
  close any more. A simulation that does not end in {seconds:.0f} seconds of a processor has failed
  too. Where mutants give wrong results, the design is replayed once more without one, and must give
  what it gave before: after each run, of a machine after the first program that kills one.
- **Equivalent** are those for which a proof succeeds: no user of the module sees a difference, for
  all inputs in all clocks after registers were 0. ABC finds registers and nets that are always
  equal, a SAT solver has the rest by induction, and ABC by property-directed reachability. Mutants
  of clocks are not put to it. Bits that nothing drives or reads, or that are the constant already,
  need no proof.
- **Alive** are the others: listed below, with the line of the Verilog, and the reason where one is
  known. Mutants with a reason are put to the first rows of their first design, and with
  `--reasons` to all the rest and to a proof too.
- The **score** is the share of killed ones among those that are not equivalent.
- **Limits** of proofs and simulations are of time that a processor works on them, so that results
  do not depend on what else it does.
{took}{unfinished}
## Modules

{modules}
{alive}"""


def read(path: Path = RESULTS) -> dict[str, Any]:
    """Results so far."""
    results: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"modules": {}}
    return {"count": COUNT, "seed": SEED, "of": 0, "unseen": []} | results


def write(results: Mapping[str, Any], folder: Path = _DOCS) -> None:
    """Results and the page that is made of them."""
    text = json.dumps(results, indent=1, sort_keys=True) + "\n"
    files = {RESULTS.name: text.encode(), PAGE.name: page(results).encode()}
    write_together(folder, files)


def score(killed: int, mutants: int, equivalent: int) -> str:
    """Killed ones among those that are not equivalent."""
    meant = mutants - equivalent
    return f"{100 * killed / meant:.1f} %" if meant else "-"


def _numbers(found: Mapping[str, Any]) -> tuple[int, int, int, int]:
    """Mutants of a module that were tried, those killed, equivalent ones, and those alive."""
    tried = found["mutants"] - len(found["later"])
    return tried, found["killed"], len(found["equivalent"]), len(found["alive"])


def total(results: Mapping[str, Any]) -> str:
    """The score over all modules, with the numbers that it is made of."""
    modules = results["modules"]
    each = [_numbers(found) for found in modules.values()]
    mutants, killed, equivalent, alive = (sum(numbers[at] for numbers in each) for at in range(4))
    text = (
        f"**{score(killed, mutants, equivalent)}** of {len(modules)} modules' mutants: "
        f"{mutants:,} mutants, {killed:,} killed, {equivalent:,} equivalent, {alive:,} alive."
    )
    reasoned = sum(
        bool(reason(name, mutant)) for name, found in modules.items() for mutant in found["alive"]
    )
    if reasoned:
        without = score(killed, mutants, equivalent + reasoned)
        which = "All" if reasoned == alive else f"{reasoned:,}"
        text += (
            f"\n\n{which} of those alive make no difference that anybody could see, or none "
            "within what is simulated, for reasons that stand in `studies/mutants/reasons.py` but "
            f"are not proved: without them the score is {without}, and the lowest of a module "
            f"{100 * lowest(results):.1f} %."
        )
    raw = {
        name: killed / (tried - equivalent)
        for name, (tried, killed, equivalent, _) in zip(modules, each, strict=True)
        if tried > equivalent
    }
    if below := [name for name in raw if raw[name] < _WANTED]:
        worst = min(below, key=raw.__getitem__)
        text += (
            f" If they count as not killed, {len(below)} modules are below the "
            f"{100 * _WANTED:.0f} % that each should have; the lowest is `{worst}` with "
            f"{100 * raw[worst]:.1f} %."
        )
    return text


def lowest(results: Mapping[str, Any]) -> float:
    """The lowest share of killed mutants of a module, of those without a proof or a reason."""
    shares = [1.0]
    for name, found in results["modules"].items():
        tried, killed, equivalent, _ = _numbers(found)
        reasoned = sum(bool(reason(name, mutant)) for mutant in found["alive"])
        if meant := tried - equivalent - reasoned:
            shares.append(killed / meant)
    return min(shares)


def page(results: Mapping[str, Any]) -> str:
    """The page that shows results."""
    modules = results["modules"]
    rows = [("module", "mutants", "killed", "equivalent", "alive", "score", "in")]
    alive = [("module", "mutant", "place", "line", "why")]
    later = 0
    for name, found in sorted(modules.items()):
        mutants, killed, equivalent, _ = numbers = _numbers(found)
        later += len(found["later"])
        designs = ", ".join(f"`{design}`" for design in found["designs"])
        rows.append((f"`{name}`", *map(str, numbers), score(killed, mutants, equivalent), designs))
        for mutant in found["alive"]:
            why = reason(name, mutant)
            place = f"`{mutant['place']}`"
            alive.append((f"`{name}`", mutant["mode"], place, str(mutant["line"]), why))
    seconds = [found["seconds"] for found in modules.values() if "seconds" in found]
    took = ""
    if seconds:
        took = (
            f"- **Time**: {sum(seconds) / len(seconds):.0f} seconds of a processor a module, the "
            f"mean of {len(seconds)}, after their tests were recorded. `--anew` does not prove "
            "once more that mutants are equivalent, so the time of a run with it leaves these "
            "proofs out; without `docs/mutation.json` everything is tried.\n"
        )
    unfinished = ""
    unseen = [name for name in results["unseen"] if name not in modules]
    if unseen:
        names = ", ".join(f"`{name}`" for name in unseen)
        unfinished += (
            f"\nNo test simulates these as they are in `gen/`, in designs of at most "
            f"{LARGEST // 10**6} million characters of Verilog that are compiled, {len(unseen)} in "
            f"all: {names}.\n"
        )
    if left := results["of"] - len(modules) - len(unseen):
        unfinished += (
            f"\nOf the {results['of']} modules {left} still have to be tried, the larger ones "
            "among them: `make mutate` goes on where it was.\n"
        )
    if later:
        unfinished += (
            f"\n{later} mutants differ in handshakes first and still have to be put to the tests; "
            "they are not counted.\n"
        )
    return _PAGE.format(
        count=results["count"],
        seconds=SECONDS,
        seed=results["seed"],
        total=total(results),
        took=took,
        unfinished=unfinished,
        modules=markdown(rows),
        alive=f"\n## Alive\n\n{markdown(alive)}\n" if len(alive) > 1 else "",
    )
