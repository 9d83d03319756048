"""Modules with DSP blocks of ECP5 in them do what those do whose place they take."""

from pathlib import Path

import numpy as np
import pytest

from mxsafe.rtl.arithmetic.dsp_multiplier import DspMultiplier
from mxsafe.synthesis.ecp5 import dsp_sources, dsp_units
from verif.support.checkers import assert_equal
from verif.support.generated import generated
from verif.support.simulators import run_lockstep
from verif.support.tests import available, some

BLOCKS = Path(__file__).parents[1] / "support" / "ecp5_blocks.v"


@pytest.mark.parametrize("unit", some(reversed(dsp_units()), every=2))
def test_block_is_the_multiplier(unit: DspMultiplier, tmp_path: Path) -> None:
    """With stalls, and resets where there are some, in every clock."""
    module = generated(unit, tmp_path)
    ((name, text),) = dsp_sources([source.name for source in module.sources]).items()
    block = tmp_path / "ecp5" / name
    block.parent.mkdir()
    block.write_text(text)
    rng = np.random.default_rng(4)
    count = 600
    given = {
        "a": rng.integers(0, 1 << 18, count),
        "b": rng.integers(0, 1 << 18, count),
        "en": (rng.random(count) < 0.8).astype(np.int64),
        "rst": (rng.random(count) < 0.05).astype(np.int64),
    }
    given["rst"][0] = 1
    words = {
        port: values.astype(np.uint32).view(np.uint8).reshape(-1, 4)[:, : 3 if port in "ab" else 1]
        for port, values in given.items()
    }
    simulator = available("icarus")
    products = [
        run_lockstep(simulator, module, words, sources=sources, unsettled=4)["product"][4:]
        for sources in (None, [block, BLOCKS])
    ]
    assert len(np.unique(products[0], axis=0)) > count // 4
    assert assert_equal(unit.module_name, products[1], products[0]) == products[0].size


def test_other_modules_stay() -> None:
    assert dsp_sources(["safe_mac.v", "multiplier_18x18.v"]).keys() == {"multiplier_18x18.v"}
