"""Proofs of equivalence: they succeed where nobody can see a difference, and only there."""

from dataclasses import replace
from pathlib import Path

import pytest

from studies.mutants.equivalence import is_equivalent
from studies.mutants.mutation import Mutants
from verif.support.counting_stream import counting_stream

CASES = {
    "nobody sees a result that is not valid": (
        "if (moves) m_axis_tdata <=",
        "if (moves & s_axis_tvalid) m_axis_tdata <=",
        True,
    ),
    "the same in other words": ("~ m_axis_tvalid |", "~ (m_axis_tvalid & ~ m_axis_tready) |", True),
    "a beat is counted twice after 200": ("beats + 1'h1", "beats + 1'h1 + (beats == 200)", False),
    "the data are lost": ("{ beats, s_axis_tdata }", "{ beats, s_axis_tdata & 8'h7f }", False),
    "a result goes away": ("assign moves = ~", "assign moves = rst | ~", True),
    "it is ready in reset": ("moves & ~ rst", "moves", False),
}


@pytest.mark.parametrize("case", CASES)
def test_equivalence(case: str, tmp_path: Path) -> None:
    right, wrong, is_same = CASES[case]
    module = counting_stream(tmp_path)
    text = module.sources[0].read_text()
    assert text.count(right) == 1
    both = {0: text, 1: text.replace(right, wrong)}

    class Two(Mutants):
        def alone(self, number: int) -> str:
            return both[number]

    two = Two(module.name, (), text)
    proved = is_equivalent(
        replace(module), two, 1, tmp_path / "proof", seconds=30.0, size=len(text)
    )
    assert proved is is_same
