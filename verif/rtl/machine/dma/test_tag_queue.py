"""The queue of tags: random pushes and pops, against a list."""

from pathlib import Path

import numpy as np
import pytest

from mxsafe.rtl.machine.dma.tag_queue import TagQueue
from verif.support.checkers import assert_equal
from verif.support.manifest import Module
from verif.support.proof import prove_text
from verif.support.simulators import run_lockstep
from verif.support.tests import refused, some
from verif.support.units import generated

_CLAIMS = """
  // A tag is followed from when it enters, whichever it is, with the number of those before it.
  wire pick;
  reg follows;
  reg [{tag_top}:0] value;
  reg [{count_top}:0] before;
  always @(posedge clk) begin
    if (rst) follows <= 0;
    else if (!follows) begin
      follows <= push & pick;
      value <= tag;
      before <= tags_held - pop;
    end else if (pop) begin
      follows <= before != 0;
      before <= before - 1;
    end
  end
  always @* begin
    assume (!(push && full));
    assume (!(pop && empty));
    assert (tags_held <= {depth});
    assert (empty == (tags_held == 0));
    assert (full == (tags_held == {depth}));
    if (follows) begin
      assert (before < tags_held);
      if (before == 0) assert (oldest == value);
{places}    end
  end
endmodule
"""
WRONG = {
    "tags in another order": ("if (push) tag_2 <= tag_1", "if (push) tag_2 <= tag_0"),
    "half of the tags": ("oldest_at[1] ? oldest_tag_high : oldest_tag_low", "oldest_tag_low"),
    "both at once": ("- { 2'h0, pop }", "- { 2'h0, pop & ~push }"),
    "full too early": ("assign full = tags_held[2]", "assign full = &tags_held[1:0]"),
}


def _claims(module: Module) -> str:
    """The unit's text with what is claimed of it: what enters leaves, in its turn."""
    depth, bits = module.parameters["depth"], module.parameters["tag_bits"]
    places = "".join(
        f"      if (tags_held - 1 - before == {age}) assert (tag_{age} == value);\n"
        for age in range(depth)
    )
    claims = _CLAIMS.format(
        tag_top=bits - 1, count_top=depth.bit_length() - 1, depth=depth, places=places
    )
    return module.sources[0].read_text().replace("endmodule\n", claims)


@pytest.mark.yosys
@pytest.mark.parametrize(("tag_bits", "depth"), [(1, 32), (2, 4)])
def test_every_order_is_proved(tag_bits: int, depth: int, tmp_path: Path) -> None:
    module = generated(TagQueue(tag_bits=tag_bits, depth=depth))
    start = {"tags_held": 0, "follows": 0}
    prove_text(tmp_path, _claims(module), module.name, after_reset=start)


@pytest.mark.yosys
@pytest.mark.parametrize("mutation", some(WRONG, every=len(WRONG)))
def test_a_wrong_one_is_not_proved(mutation: str, tmp_path: Path) -> None:
    right, wrong = WRONG[mutation]
    module = generated(TagQueue(tag_bits=2, depth=4))
    text = _claims(module)
    assert text.count(right) == 1, f"tag_queue no longer holds {right!r} once"
    start = {"tags_held": 0, "follows": 0}
    with pytest.raises(AssertionError, match="proof did fail"):
        prove_text(tmp_path, text.replace(right, wrong), module.name, after_reset=start)


@pytest.mark.parametrize(("tag_bits", "depth"), [(1, 2), (3, 8), (1, 32)])
def test_random_tags(simulator: str, tag_bits: int, depth: int) -> None:
    module = generated(TagQueue(tag_bits=tag_bits, depth=depth))
    rng = np.random.default_rng(depth)
    held: list[int] = []
    inputs, expected = [], []
    for clock in range(1000):
        rate = 0.8 if clock // (5 * depth) % 2 else 0.3  # it fills up, and runs empty
        pop = int(bool(held) and rng.random() > rate)
        push = int(len(held) < depth and rng.random() < rate)
        tag = int(rng.integers(0, 1 << tag_bits))
        inputs.append((push, tag, pop))
        expected.append((held[0] if held else -1, not held, len(held) == depth))
        held = held[pop:] + [tag] * push
    columns = zip(("push", "tag", "pop"), np.array(inputs).T, strict=True)
    log = run_lockstep(simulator, module, {"rst": 0, **dict(columns)}, unsettled=len(inputs))
    right = np.array(expected, np.int64)
    got = np.stack(
        [module.ports[name].numbers(log[name]) for name in ("oldest", "empty", "full")], axis=1
    )
    got[right[:, 0] < 0, 0] = -1
    assert right[:, 1].any()
    assert right[:, 2].any()
    assert_equal("queue", got, right, clock=np.arange(len(right)))


test_configurations_that_cannot_work = refused(
    TagQueue,
    [
        ({"tag_bits": 0}, "tag_bits must be a positive integer, not 0"),
        ({"depth": 6}, "depth must be a power of two, not 6"),
        ({"depth": 1}, "depth must be 2 or more, not 1"),
    ],
)
