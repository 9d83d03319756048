"""Mutants: drawn the same each time, each alone or all in one text."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from studies.mutants.designs import module_without_parameters
from studies.mutants.mutation import mutate
from verif.studies.counting_stream import counting_stream
from verif.support import recording
from verif.support.farm import beside
from verif.support.manifest import GEN, Module, load
from verif.support.proof import run_yosys

pytestmark = pytest.mark.yosys


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
    chosen = first.chosen_at_start(7)
    assert "initial mutant = selected_mutant(7);" in chosen
    (watched,) = re.findall(r"always @\* if \(&mutant\) see_mutants\(\{(.*), 1'b0\}\);", chosen)
    changes = [re.fullmatch(r"\((.+)\) != \((.+)\)", one) for one in watched.split(", ")]
    for number, change in enumerate(reversed(changes), start=1):
        assert change is not None
        (net,) = re.findall(rf"assign (\S+) = mutant == 4'h{number:x};", chosen)
        assert f"= {net} ? {change[1]} : {change[2]};" in chosen
    assert len(changes) == 12


def test_mutants_of_a_module_with_parameters(
    modules: dict[str, Module], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They stand in the place of those instances alone that have its parameters."""
    kept = module_without_parameters(modules["register_slice_bits2_halved"], tmp_path)
    assert kept.name == "mxsafe_register_slice_bits2_halved1"
    drawn = mutate(kept, tmp_path / "draw", count=12, seed=1)
    assert len(drawn.mutants) == 12
    assert "input [1:0] source_payload;" in drawn.text
    (tmp_path / "chosen").mkdir()
    chosen = tmp_path / "chosen" / f"{kept.name}.v"
    chosen.write_text(drawn.alone(3))
    monkeypatch.setenv("MXSAFE_MUTANT", str(chosen.parent))
    pair = {name: modules[f"register_slice_{name}"] for name in ("bits2_halved", "bits32")}
    files = recording.replaced(beside(tmp_path, "pair", pair).sources)
    assert [file.stem for file in files] == [
        "pair",
        "mxsafe_register_slice_bits2_halved1",
        ("mxsafe_register_slice_bits32_halved0"),
    ]
    assert chosen in files
    run_yosys(
        tmp_path,
        "read_verilog "
        + " ".join(str(file.relative_to(tmp_path)) for file in files)
        + "; hierarchy -check -top pair",
    )
    monkeypatch.setenv("MXSAFE_PROVED", str(chosen.parent))
    assert load(GEN)["register_slice_bits2_halved"].sources == (chosen,)
    assert load(GEN)["register_slice_bits32"] == modules["register_slice_bits32"]


def test_there_are_not_more_than_there_are(tmp_path: Path) -> None:
    module = counting_stream(tmp_path)
    text = module.sources[0].read_text()
    module.sources[0].write_text(text[: text.index("  reg [7:0] beats")] + "endmodule\n")
    assert len(mutate(module, tmp_path / "none", count=9, seed=1).mutants) == 0


_OPEN = """\
module open_bits(clk, takes, data, held, sum);
  input clk;
  input takes;
  input [2:0] data;
  output [2:0] held;
  reg [2:0] held;
  output [2:0] sum;
  wire nobody;
  always @(posedge clk)
    held <= takes ? data : 3'hx;
  assign sum = { nobody, 2'h1 } + data;
endmodule
"""


def test_idle_mutants(tmp_path: Path) -> None:
    """Of open bits, and of constants that become what they are already; no others."""
    source = tmp_path / "open_bits.v"
    source.write_text(_OPEN)
    module = replace(counting_stream(tmp_path), name="open_bits", sources=(source,))
    drawn = mutate(module, tmp_path / "drawn", count=1000, seed=1).mutants
    (held,) = {m.place[:-3] for m in drawn if re.match(r"\$ternary\$.*\.A\[0]$", m.place)}
    (one,) = {m.place[:-3] for m in drawn if re.match(r"\$add\$.*\.A\[0]$", m.place)}
    expected = {
        (m.mode, m.place)
        for m in drawn
        if m.place.startswith((f"{held}[", f"{one}[2]", "nobody"))
        or (m.mode, m.place) in (("const1", f"{one}[0]"), ("const0", f"{one}[1]"))
    }
    assert {mode for mode, _ in expected} == {"inv", "const0", "const1"}
    assert {(m.mode, m.place) for m in drawn if m.is_idle} == expected
