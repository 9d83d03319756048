"""A unit of every kind that is proved is also broken, by a rule or by hand: then no proof."""

import re
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

import pytest

from studies.proofs import stream_units
from verif.rtl.stream_claims import claims_for
from verif.rtl.stream_rules import cut, prove_rules
from verif.support.manifest import Module, generated

_AND = re.compile(r"^(  assign \S+ += \S+) +& \S+ *;$", re.MULTILINE)
_ENABLED = re.compile(r"^    ((?:else )?)if \((?!rst\)).+\) (\S+ <= .+;)$", re.MULTILINE)
_MOST = 24
"""Changes of a unit that are tried: not each of them makes a stream wrong."""
KINDS = sorted(stream_units(generated()))


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
    module: Module, modules: dict[str, Module], folder: Path, change: tuple[str, str]
) -> bool:
    claims = claims_for(module)
    try:
        prove_rules(module, modules, folder, claims, change=change, seconds=20, clocks=20)
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
