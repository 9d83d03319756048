"""The operands that netlists are simulated with are those of the layer, without a pause."""

from pathlib import Path

import numpy as np

from mxsafe.synthesis.cases import Case
from mxsafe.synthesis.power import RESET, read_stimuli
from studies import activity

SIZE = {"rows": 2, "columns": 2, "lanes": 4}


def test_a_mac_gets_outputs_one_after_the_other() -> None:
    configuration = Case(name="mac", unit="safe_mac_exact", format="mxfp6_e3m2")
    found = activity.stimulus(configuration)
    assert found is not None
    a, w = activity.operands("mxfp6_e3m2", 64)
    bits = np.unpackbits(found.rows["w"], axis=1, count=24, bitorder="little")
    codes = bits.reshape(-1, 4, 6) @ (1 << np.arange(6))
    assert codes[found.skipped :].reshape(4, 384).tolist() == w.codes[:, :4].T.tolist()
    assert found.rows["a"].shape == (4 * 96 + found.skipped, 3)
    assert a.shape == (64, 384)
    assert (found.rows["en"] == 1).all()


def test_a_unit_gets_a_beat_every_clock() -> None:
    configuration = Case(
        name="unit",
        unit="pu_exact",
        options={**SIZE, "accumulators": 1},
        technologies=("nangate45",),
    )
    found = activity.stimulus(configuration)
    assert found is not None
    tokens = found.rows["token"][RESET:, 0]
    assert (tokens & 1 == 1).all()
    # A tile of one block, then tiles of six: 16 beats, then 96.
    ends = np.flatnonzero(tokens >> 3 & 1) + 1
    assert ends[:2].tolist() == [16, 112]
    assert len(tokens) == 96 + found.skipped - RESET
    assert (np.diff(np.flatnonzero(tokens >> 2 & 1)) == 16).all()


def test_other_units_have_none() -> None:
    for unit in ("decoder", "accumulator", "float32_adder"):
        assert activity.stimulus(Case(name=unit, unit=unit)) is None


def test_files_are_stimuli(tmp_path: Path) -> None:
    chosen = [
        Case(name="one", unit="safe_mac_exact"),
        Case(name="the same", unit="safe_mac_exact"),
        Case(name="elsewhere", unit="safe_mac", technologies=("ice40",)),
        Case(name="decoder", unit="decoder"),
    ]
    assert activity.write(tmp_path, chosen) == ["safe_mac_exact.npz"]
    assert list(read_stimuli(tmp_path)) == ["safe_mac_exact"]
