"""A unit of every kind that is proved is also broken, by a rule or by hand: then no proof."""

import re
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

import pytest

from studies.pages import DOCS
from studies.proofs import stream_units
from verif.rtl.stream_claims import claims_for
from verif.rtl.stream_rules import cut, prove_rules
from verif.support.manifest import Module, generated

_AND = re.compile(r"^(  assign \S+ += \S+) +& \S+ *;$", re.MULTILINE)
_ENABLED = re.compile(r"^    ((?:else )?)if \((?!rst\)).+\) (\S+ <= .+;)$", re.MULTILINE)
_MOST = 24
"""Changes of a unit that are tried: not each of them makes a stream wrong."""
_NORMALISE = (
    r"assign en = \$en$not  | m_axis_tready;",
    "assign en = 1'h1;",
)
BY_HAND = {
    "vector/normalise": (*_NORMALISE, 60),
    "vector/normalise_core": (*_NORMALISE, 24),
}
"""Kinds that the rule's changes do not break, with one that does, and cycles until it is seen."""
KINDS = sorted(stream_units(generated()).keys() - set(BY_HAND))


def _changes(text: str) -> Iterator[tuple[str, str]]:
    """Texts and what takes their places: an AND loses an input, a register its enable."""
    ands = [(found[0], f"{found[1]} ;") for found in _AND.finditer(text)]
    of_handshakes = [pair for pair in ands if re.search("valid|ready", pair[0])]
    enabled = [(found[0], f"    {found[1]}{found[2]}") for found in _ENABLED.finditer(text)]
    others = [pair for pair in ands if pair not in of_handshakes]
    for right, wrong in chain(of_handshakes[:8], enabled[:8], others):
        if text.count(right) == 1:
            yield right, wrong


def _is_refuted(
    module: Module,
    modules: dict[str, Module],
    folder: Path,
    change: tuple[str, str],
    *,
    seconds: int = 20,
    clocks: int = 20,
) -> bool:
    claims = claims_for(module)
    try:
        prove_rules(module, modules, folder, claims, change=change, seconds=seconds, clocks=clocks)
    except AssertionError as error:
        return "proof did fail" in str(error)
    return False


@pytest.mark.full
@pytest.mark.yosys
@pytest.mark.parametrize("kind", KINDS)
def test_broken_units_are_not_proved(kind: str, modules: dict[str, Module], tmp_path: Path) -> None:
    module = stream_units(modules)[kind][0]
    text, _ = cut(module, modules)
    changes = islice(_changes(text), _MOST)
    tried = (_is_refuted(module, modules, tmp_path / str(n), c) for n, c in enumerate(changes))
    assert any(tried), f"no proof about {module.name} notices that it is broken"


@pytest.mark.full
@pytest.mark.yosys
@pytest.mark.parametrize("kind", BY_HAND)
def test_units_broken_by_hand_are_not_proved(
    kind: str, modules: dict[str, Module], tmp_path: Path
) -> None:
    right, wrong, clocks = BY_HAND[kind]
    module = stream_units(modules)[kind][0]
    assert _is_refuted(module, modules, tmp_path, (right, wrong), seconds=240, clocks=clocks)


@pytest.mark.parametrize("kind", BY_HAND)
def test_what_is_broken_by_hand_is_there(kind: str, modules: dict[str, Module]) -> None:
    right, *_ = BY_HAND[kind]
    assert cut(stream_units(modules)[kind][0], modules)[0].count(right) == 1


def test_the_page_names_what_is_broken_by_hand() -> None:
    text = " ".join((DOCS / "trust.md").read_text().split())
    (sentence,) = re.findall(r"breaks a unit of every kind,.*? by hand", text)
    assert set(re.findall(r"`(\w+/\w+)`", sentence)) == set(BY_HAND)
    assert set(BY_HAND) < stream_units(generated()).keys()


def test_changes_are_of_handshakes_and_of_registers() -> None:
    text = (
        "  assign moves = a & b;\n  assign \\$3  = m_valid & \\$2 ;\n"
        "    if (rst) held <= 1'h0;\n    else if (moves) held <= \\$3 ;\n"
        "    if (\\$3 ) row <= next;\n"
    )
    assert [wrong for _, wrong in _changes(text)] == [
        "  assign \\$3  = m_valid ;",
        "    else held <= \\$3 ;",
        "    row <= next;",
        "  assign moves = a ;",
    ]
