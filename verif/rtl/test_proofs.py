"""Streams keep their rules and lose no beat, and datapaths compute what they should: proved.

Here are all that `python -m studies.proofs` writes to the page, and wrong ones that are not.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from studies.pages.trust import DATA
from studies.proofs import all_proofs
from verif.rtl.pipelines import PIPELINES, prove_pipeline
from verif.rtl.stream_claims import claims_for
from verif.rtl.stream_rules import (
    Claims,
    clocks_until_taken,
    enable_lemma,
    prove_rules,
    streams,
)
from verif.support import proof
from verif.support.manifest import Module, generated
from verif.support.tests import raises, some
from verif.support.units import mutated

Modules = dict[str, Module]

ALL = all_proofs(generated())
LONGEST = 4
"""Seconds that a proof of `make test-yosys` took when it was written down, at most."""
WRONG = {
    "payload moves while it waits": (
        "mxsf_operand_packer_width8",
        "if (step) beat_0 <= beat_1;",
        "beat_0 <= beat_1;",
        "m_axis_tmoves_while_it_waits",
    ),
    "valid waits for ready": (
        "activation_stream_width8",
        "assign lanes_en = \\$lanes_en$not  | m_axis_tready;",
        "assign lanes_en = m_axis_tready;",
        "at_another_time|waits_for_ready",
    ),
    "a beat is lost": (
        "register_slice_bits32",
        "assign fills = sink_valid & ~sink_ready & (is_full | arrives);",
        "assign fills = sink_valid & ~sink_ready & arrives;",
        "another_beat|waits_for_ready|beat_made|more_than_two",
    ),
    "a beat is made": (
        "mxsf_operand_packer_width8",
        "assign m_axis_tvalid = s_axis_tvalid & is_full;",
        "assign m_axis_tvalid = s_axis_tvalid;",
        "beat_made",
    ),
    "valid after a reset": (
        "register_slice_bits2_halved",
        "if (rst) sink_valid <= 1'b0;\n        else sink_valid <= fills;",
        "if (rst & source_valid) sink_valid <= 1'b0;\n        else sink_valid <= fills;",
        "sink_valid_after_reset|beat_made",
    ),
    "a row's end with another beat": (
        "activation_stream_width8",
        "if (lanes_en) flags_2 <= flags_1;",
        "flags_2 <= flags_1;",
        "another_last",
    ),
    "a column too few": (
        "transposer",
        "assign round_last = steps_done == 3'h7;",
        "assign round_last = steps_done == 3'h6;",
        "tile_lost|another_last|column_made|waits_for_ready",
    ),
    "two answers": (
        "registers_small",
        "assign read_taken = s_axi_arvalid & s_axi_arready;",
        "assign read_taken = s_axi_arvalid;",
        "read_",
    ),
}


def test_units_and_what_is_changed_are_there(modules: Modules) -> None:
    """Of those, too, that only the full run proves."""
    for name, right, *_ in WRONG.values():
        texts = [source.read_text() for source in modules[name].sources]
        assert sum(text.count(right) for text in texts) == 1, f"{name}: {right}"


def _by_time() -> list[Any]:
    """Kinds and names; those that took longer than `LONGEST` are of the full run."""
    kept = json.loads(DATA.read_text())["proofs"]
    seconds = {key: kept.get(key[0], {}).get(key[1], {}).get("seconds", 0) for key in ALL}
    return [
        pytest.param(*key, marks=[pytest.mark.full] if seconds[key] > LONGEST else [])
        for key in ALL
    ]


@pytest.mark.yosys
@pytest.mark.parametrize(("kind", "name"), _by_time())
def test_all_of_the_page_is_proved(kind: str, name: str, tmp_path: Path) -> None:
    """For all time, and that each result of a stream may wait and be taken."""
    _, proof = ALL[kind, name]
    found = proof(tmp_path) or {}
    reached = {part: clocks for part, clocks in found.items() if part in ("rules", "beats")}
    assert bool(reached) == (kind == "streams")
    assert not any(reached.values()), f"{name} is proved for some cycles alone: {reached}"


def test_the_page_counts_what_is_proved() -> None:
    counted = json.loads(DATA.read_text())["proofs"]
    names = [(kind, name) for kind, found in counted.items() for name in found]
    assert sorted(names) == sorted(ALL)
    for found in counted.values():
        for name, one in found.items():
            assert one["proved"], name
            assert not one.get("rules"), f"{name} is proved for some cycles alone"


@pytest.mark.yosys
@pytest.mark.parametrize("mutation", some(WRONG, every=len(WRONG)))
def test_wrong_units_are_not_proved(mutation: str, modules: Modules, tmp_path: Path) -> None:
    name, right, wrong, what = WRONG[mutation]
    module = modules[name]
    with pytest.raises(AssertionError, match=f"proof did fail: .*({what})"):
        prove_rules(module, modules, tmp_path, claims_for(module), change=(right, wrong))


@pytest.mark.yosys
def test_a_method_without_an_answer_is_no_proof(
    modules: Modules, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is as if it came to no end."""
    monkeypatch.setattr(proof, "_METHODS", ("no_such_method",))
    module = modules["register_slice_bits2_halved"]
    found = prove_rules(module, modules, tmp_path / "clocks", claims_for(module), clocks=4)
    assert found[0] == 4
    with pytest.raises(AssertionError, match="no proof did end within"):
        prove_rules(module, modules, tmp_path / "ever", claims_for(module))


@pytest.mark.yosys
@pytest.mark.parametrize("load", ["q <= q", "if (d & ~d) q <= d", "if (1'b0) q <= d"])
def test_a_register_that_is_never_loaded_may_hold_anything(load: str, tmp_path: Path) -> None:
    text = f"module top(input clk, d, output y); reg q; always @(posedge clk) {load};"
    with pytest.raises(AssertionError, match="proof did fail: y"):
        proof.never(tmp_path, f"{text} assign y = q & d; endmodule", "top", seconds=10)


@pytest.mark.yosys
def test_a_proof_about_nothing_is_found(modules: Modules, tmp_path: Path) -> None:
    claims = Claims(summary="", never={}, assumed=["~(sink_valid & sink_ready)"])
    module = modules["register_slice_bits2_halved"]
    prove_rules(module, modules, tmp_path / "proved", claims)
    with pytest.raises(AssertionError, match="was not found to be 1"):
        clocks_until_taken(module, modules, tmp_path / "empty", claims)


_COUNTER = """
module counter(input clk, rst, step, output reg [3:0] count);
  always @(posedge clk) if (rst) count <= 0; else count <= count + step;
  always @* begin
    assume (step || !step);
    assert (count <= 15);
    if (!rst) assert (count <= 1);
  end
endmodule
"""


@pytest.mark.yosys
def test_a_broken_claim_is_named_with_what_it_is_about(tmp_path: Path) -> None:
    with raises(
        AssertionError,
        "proof did fail: counter: assert (count <= 1) is broken in cycle 3 from the start, where "
        "count = 0x2",
    ):
        proof.prove_text(tmp_path, _COUNTER, "counter", after_reset={"count": 0})
    right = _COUNTER.replace("count + step", "step")
    proof.prove_text(tmp_path, right, "counter", after_reset={"count": 0})


def test_handshakes_are_found(modules: Modules) -> None:
    found = {stream.name: stream for stream in streams(modules["registers"])}
    assert list(found) == ["s_axi_aw", "s_axi_w", "s_axi_b", "s_axi_ar", "s_axi_r"]
    assert [port.name for port in found["s_axi_r"].payload] == ["s_axi_rdata", "s_axi_rresp"]
    assert [found[name].direction for name in ("s_axi_w", "s_axi_b")] == ["input", "output"]
    with_two = streams(modules["softmax_entry"])
    assert [stream.name for stream in with_two] == ["s_axis_t", "m_axis_t", "m_axis_summary_t"]


@pytest.mark.yosys
def test_an_enable_holds_what_leaves(modules: Modules, tmp_path: Path) -> None:
    module = modules["beat_memory_beat_bits64_depth16"]
    enable_lemma(module, modules, tmp_path / "right")
    broken = mutated(module, "if (read_en)", "if (write_en)")
    with pytest.raises(AssertionError, match="proof did fail: changes"):
        enable_lemma(broken, modules, tmp_path / "wrong")


WRONG_PIPELINES = {
    "another value": "if (en_last) subtract_added <= 0;",
    "no enable": "subtract_added <= subtract;",
}


@pytest.mark.yosys
@pytest.mark.parametrize("mutation", some(WRONG_PIPELINES))
def test_wrong_pipelines_are_not_proved(mutation: str, modules: Modules, tmp_path: Path) -> None:
    name = "float32_adder_pipeline1"
    change = "if (en_last) subtract_added <= subtract;", WRONG_PIPELINES[mutation]
    with pytest.raises(AssertionError, match="proof did fail"):
        prove_pipeline(modules[name], modules[PIPELINES[name]], tmp_path, change=change)
