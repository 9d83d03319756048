"""``python -m studies.bad_input [--examples N]``: how many bad inputs were tried, and the answers.

Every parameter of every public function and constructor, and of methods, gets every known value of
`verif.bad_input.values`, calls drawn at random follow, every argument of the command gets
every wrong word, and every reader of files gets damaged ones. Prints a table, and with at least as
many calls as by default writes the numbers to ``docs/trust.json``, from which the page `trust`
makes the page.
"""

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import chdir
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import mxsafe as mx
from studies import pages
from studies.pages.trust import COMMAND_LINES, DATA, answers
from verif.bad_input import command_lines
from verif.bad_input.files import READERS, damaged, read
from verif.bad_input.interface import Target, targets
from verif.bad_input.methods import methods
from verif.bad_input.trial import ANSWERS, answer
from verif.bad_input.values import KNOWN, values

_EXAMPLES = 500
_FILES = 300
_GROUPS = {
    "codec": "codec",
    "model": "models",
    "formats": "formats and products",
    "products": "formats and products",
}


def _group(target: Target) -> str:
    if target.is_hardware:
        return "constructors of hardware"
    return _GROUPS.get(target.name.split(".")[1], "everything else")


def _tried_command_lines() -> Counter[str]:
    """Answers to every word for every argument of every command."""
    found: Counter[str] = Counter()
    for command in command_lines.commands():
        for action in command_lines.arguments(command):
            for word in command_lines.words_for(action):
                words = command_lines.line(command, [(action, word)])
                with (
                    tempfile.TemporaryDirectory() as folder,
                    command_lines.unharmed(Path(folder)) as changed,
                ):
                    given_answer = command_lines.put(words, changed)
                found[given_answer.kind] += 1
                if given_answer.kind == "fault":
                    print(f"{words}: {given_answer.words}")
    return found


def _tried(examples: int) -> dict[str, Counter[str]]:
    """Answers by group."""
    found: dict[str, Counter[str]] = {}
    groups = [(_group(target), target) for target in targets() if target.parameters]
    groups += [("methods", target) for target in methods()]
    group_of = {target.name: group for group, target in groups}
    everything = [target for _, target in groups]

    def put(target: Target, bad: dict[str, object]) -> None:
        given_answer = answer(target, bad)
        found.setdefault(group_of[target.name], Counter())[given_answer.kind] += 1
        if given_answer.kind == "fault":
            print(f"{target.name} {list(bad)}: {given_answer.words}")

    for number, target in enumerate(everything, start=1):
        print(f"{number}/{len(everything)} {target.name}", flush=True)
        for name in target.parameters:
            for _, value in KNOWN:
                put(target, {name: value})

    @settings(
        max_examples=examples,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def drawn(data: st.DataObject) -> None:
        target = data.draw(st.sampled_from(everything))
        names = data.draw(
            st.lists(st.sampled_from(list(target.parameters)), min_size=1, max_size=3)
        )
        put(target, {name: data.draw(values()) for name in names})

    print(f"{examples} calls drawn at random", flush=True)
    drawn()
    print("command lines", flush=True)
    found[COMMAND_LINES] = _tried_command_lines()
    random = np.random.default_rng(1)
    files = found["damaged files"] = Counter()
    for kind, reader in READERS.items():
        print(f"damaged files: {kind}", flush=True)
        good = reader.content(Path())
        for content in (*reader.special, *damaged(good, random, _FILES)):
            found_answer = read(reader, Path(), content)
            files[found_answer.kind] += 1
            if found_answer.kind == "fault":
                print(f"{kind}: {found_answer.words}")
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Try and print, and write what was tried with all examples."""
    parser = argparse.ArgumentParser(
        prog="python -m studies.bad_input",
        description="Tries bad inputs, prints the kinds of answers, and writes docs/trust.*.",
    )
    parser.add_argument(
        "--examples",
        type=int,
        default=_EXAMPLES,
        help=f"calls drawn at random ({_EXAMPLES}); with fewer nothing is written",
    )
    examples = parser.parse_args(arguments).examples
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        mx.save("tensor.npz", mx.quantize(np.zeros((4, 8), np.float32)))
        found = _tried(examples)
        count, methods_count = sum(1 for _ in targets()), sum(1 for _ in methods())
    kinds = {group: {kind: counts[kind] for kind in ANSWERS} for group, counts in found.items()}
    numbers = json.loads(DATA.read_text()) if DATA.exists() else {}
    numbers["bad_input"] = {
        "interfaces": count,
        "methods": methods_count,
        "examples": examples,
        "answers": kinds,
    }
    for group, counts in answers(numbers["bad_input"]).items():
        print(group, *(f"{count:,} {kind}" for kind, count in counts.items()), sep="  ")
    if examples >= _EXAMPLES:
        pages.keep(DATA, numbers, indent=2)
        pages.write("trust")


if __name__ == "__main__":
    main()
