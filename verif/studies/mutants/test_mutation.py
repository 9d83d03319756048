"""Mutants: drawn the same each time, each alone or all in one text."""

from pathlib import Path

from studies.mutants.mutation import mutate
from verif.support.counting_stream import counting_stream


def test_mutants_of_a_module(tmp_path: Path) -> None:
    module = counting_stream(tmp_path)
    first, again, other = (
        mutate(module, tmp_path / f"draw{number}", count=12, seed=seed)
        for number, seed in enumerate((1, 1, 2))
    )
    assert first == again
    assert first.mutants != other.mutants
    assert [mutant.number for mutant in first.mutants] == list(range(1, 13))
    assert {mutant.mode for mutant in first.mutants} <= {
        "inv",
        "const0",
        "const1",
        "cnot0",
        "cnot1",
    }
    lines = module.sources[0].read_text().splitlines()
    assert all(0 < mutant.line <= len(lines) for mutant in first.mutants)
    assert "wire [3:0] mutant = 7;" in first.alone(7)
    assert "initial mutant = selected_mutant(7);" in first.chosen_at_start(7)


def test_there_are_not_more_than_there_are(tmp_path: Path) -> None:
    module = counting_stream(tmp_path)
    text = module.sources[0].read_text()
    module.sources[0].write_text(text[: text.index("  reg [7:0] beats")] + "endmodule\n")
    assert len(mutate(module, tmp_path / "none", count=9, seed=1).mutants) == 0
