"""Lanes of functions beside their models: no wrong bit passes."""

from pathlib import Path

import numpy as np
import pytest

from studies.function_errors import sweep
from studies.function_errors.errors import Worst
from studies.function_errors.lanes import compiled, lanes_of
from studies.function_errors.models import MODELS, function_of
from studies.function_errors.promises import BrokenPromiseError
from studies.function_errors.sweep import examine, examine_chunk
from verif.rtl.frames import is_lane, lane_of
from verif.support.manifest import Module
from verif.support.tests import some
from verif.support.units import mutated

_LANE = "relu_gelu_silu_tanh_lane_pipeline3"
_FIRST = 0x3F900000
_LARGEST = Worst(1.0, 0)


def test_every_lane_has_models(modules: dict[str, Module]) -> None:
    lanes = {name: lane_of(module).names for name, module in modules.items() if is_lane(module)}
    assert lanes
    for unit, names in lanes.items():
        for name in names:
            grade = "_fine" * (lane_of(modules[unit]).grade == "fine")
            assert unit in [lane.unit for lane in lanes_of(f"{name}{grade}")]


@pytest.mark.yosys
@pytest.mark.parametrize("name", some([name for name in MODELS if lanes_of(name)], every=6))
def test_lanes_give_what_models_give(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk of each exponent."""
    lanes = [compiled(lane, function_of(name)) for lane in lanes_of(name)]
    monkeypatch.setattr(sweep, "_chunks", lambda field: [(field << 23) + (field * 77 % 256 << 15)])
    found = sum(examine(name, field, _LARGEST, lanes).arguments for field in range(sweep.FIELDS))
    assert found == 2 * sweep.FIELDS << 15


@pytest.mark.yosys
def test_one_wrong_bit_is_found(modules: dict[str, Module]) -> None:
    lane = compiled(modules[_LANE], "gelu")
    words = np.arange(_FIRST, _FIRST + (1 << 15), dtype=np.uint32)
    right = MODELS["gelu"](words.view(np.float32)).view(np.uint32)
    assert lane.first_wrong(_FIRST, right) is None
    for place in (0, 1, 8, 255, 256, 12_345, 32_767):
        for bit in (0, 22, 31):
            wrong = right.copy()
            wrong[place] ^= np.uint32(1 << bit)
            wrong[place + 1 :] = 0
            assert lane.first_wrong(_FIRST, wrong) == (_FIRST + place, right[place])
    assert compiled(modules[_LANE], "silu").first_wrong(_FIRST, right) is not None


@pytest.mark.yosys
def test_a_wrong_lane_is_found(modules: dict[str, Module], tmp_path: Path) -> None:
    wrong = mutated(
        modules[_LANE], "sum_or_root <= upper_sum;", "sum_or_root <= upper_sum & 15'h7ffd;"
    )
    lane = compiled(wrong, "gelu", tmp_path)
    with pytest.raises(BrokenPromiseError, match=f"{_LANE} gives 0x.* and the model 0x.* at 0x"):
        examine_chunk("gelu", _FIRST, _LARGEST, [lane])
