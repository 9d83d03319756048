"""Addresses of rows: each is the one before plus 1, or a stride from where its row began.

Address generators are proved for any length: no simulation is long enough to come to the end of all
addresses.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from mxsafe.rtl.machine.dma.row_address_generator import RowAddressGenerator
from verif.support.checkers import assert_equal
from verif.support.farm import Farm, beside, run_farm
from verif.support.manifest import Module
from verif.support.proof import prove
from verif.support.simulators import lint
from verif.support.tests import refused, typical
from verif.support.units import generated, mutated, published

# An iterator of its own, which says of an address apart from it that the range of its bits was
# left.
_WALK = """
  reg [{top}:0] at, row_at;
  reg beyond, row_beyond, was_outside;
  wire [{top} + 2:0] next_at = ends_row ? row_at + {{2'd0, stride}} : at + 1'd1;
  wire next_beyond = (ends_row ? row_beyond : beyond) | (next_at > {most});
  wire is_outside = beyond | (at >= {depth});
  always @(posedge clk) begin
    was_outside <= is_outside & ~rst;
    if (start) begin
      at <= origin;
      row_at <= origin;
      {{beyond, row_beyond}} <= 0;
    end else if (step) begin
      at <= next_at;
      beyond <= next_beyond;
      if (ends_row) begin
        row_at <= next_at;
        row_beyond <= next_beyond;
      end
    end
  end
"""


@pytest.mark.parametrize("later", [False, True])
def test_addresses(simulator: str, later: bool, tmp_path: Path) -> None:
    """Random rows, most of which leave the buffer, some of them all bits of an address."""
    module = generated(RowAddressGenerator(depth=200, address_bits=9, stride_bits=8, later=later))
    assert lint(module) == ""
    _check({"walk": module}, tmp_path, simulator)


def test_published_ones(tmp_path: Path) -> None:
    _check(published(RowAddressGenerator), tmp_path, "icarus")


def _prove_walk(module: Module, folder: Path) -> None:
    """Addresses are those of strided loops, and stay outside once out of the range of bits."""
    p = module.parameters
    bits, depth = p["address_bits"], p["depth"]
    outside = "was_outside" if p.get("later", False) else "is_outside"
    claims = [
        f"assert (here[{bits}] == beyond);",
        f"assert (row[{bits}] == row_beyond);",
        f"assert (beyond || here[{bits - 1}:0] == at);",
        f"assert (row_beyond || row[{bits - 1}:0] == row_at);",
        "assert (is_outside || address == at);",
        f"assert (outside == {outside});",
    ]
    walk = _WALK.format(top=bits - 1, most=(1 << bits) - 1, depth=depth)
    prove(module, folder, claims, free="beat_memory", declarations=walk)


@pytest.mark.yosys
@pytest.mark.parametrize("name", typical(published(RowAddressGenerator), every=4))
def test_walks_are_proved(name: str, modules: dict[str, Module], tmp_path: Path) -> None:
    _prove_walk(modules[name], tmp_path / "proof")


@pytest.mark.yosys
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("following[15] = | total[16:15]", "following[15] = total[15]"),
        ("row[15] <= following[15]", "row[15] <= following[15] & ~ address[3]"),
    ],
)
def test_a_wrong_walk_is_not_proved(
    right: str, wrong: str, modules: dict[str, Module], tmp_path: Path
) -> None:
    name = "row_address_generator_depth4096_address_bits15"
    module = mutated(modules[name], right, wrong)
    with pytest.raises(AssertionError, match="proof did fail"):
        _prove_walk(module, tmp_path / "proof")


def _check(modules: Mapping[str, Module], folder: Path, simulator: str) -> None:
    """Address generators side by side."""
    count = 6000
    farm = Farm(beside(folder, "row_address_generators", modules), dict(modules))
    given, words = {}, {}
    for seed, (key, module) in enumerate(modules.items()):
        rng = np.random.default_rng(seed)
        p = module.parameters
        bits, depth = p["address_bits"], p["depth"]
        # Inside, at the end of all addresses, or a little above each power of two.
        place = rng.random(count)
        above = (1 << rng.integers(0, bits, count)) + rng.integers(0, depth, count)
        origin = np.where(place < 0.4, rng.integers(0, depth, count), above % (1 << bits))
        # Small ones, which do not leave at once, and the largest one.
        stride = rng.integers(0, 1 << p["stride_bits"], count)
        stride >>= rng.integers(0, p["stride_bits"], count)
        stride[rng.random(count) < 0.1] = (1 << p["stride_bits"]) - 1
        # Row after row in some cycles, and many entries of a row in others.
        short = np.repeat(rng.random(count // 50) < 0.5, 50)
        inputs = {
            "start": (rng.random(count) < 0.1) | (np.arange(count) == 0),
            "origin": np.where(place > 0.8, (1 << bits) - 1, origin),
            "stride": stride,
            "step": rng.random(count) < 0.8,
            "ends_row": rng.random(count) < np.where(short, 0.8, 0.2),
        }
        given[key] = inputs
        for name, values in inputs.items():
            words[f"{key}.{name}"] = module.ports[name].words(values.astype(np.int64))
    no_reset = np.zeros(count, np.int64)
    logs = run_farm(simulator, farm, words, no_reset + 1, no_reset, unsettled=1)
    for key, module in modules.items():
        inputs, depth = given[key], module.parameters["depth"]
        row = here = 0
        expected = []
        for number in range(count):
            expected.append(here)
            if inputs["start"][number]:
                row = here = int(inputs["origin"][number])
            elif inputs["step"][number]:
                ends = inputs["ends_row"][number]
                here = row + int(inputs["stride"][number]) if ends else here + 1
                row = here if ends else row
        address = np.array(expected[1:])
        outside = module.ports["outside"].numbers(logs[key]["outside"])
        outside = outside[1 + module.parameters.get("later", False) :]
        assert_equal("outside", outside, (address >= depth).astype(np.int64)[: len(outside)])
        inside = address < depth
        assert 0 < inside.sum() < len(inside)
        got = module.ports["address"].numbers(logs[key]["address"])[1:]
        assert_equal("address", got[inside], address[inside])


test_configurations_that_cannot_work = refused(
    RowAddressGenerator,
    [
        ({"depth": 0}, "depth must be a positive integer, not 0"),
        ({"stride_bits": 15}, "stride_bits must be at most address_bits 14, not 15"),
        ({"depth": 20_000}, "depth must be at most 16384 with addresses of 14 bits, not 20000"),
    ],
)
