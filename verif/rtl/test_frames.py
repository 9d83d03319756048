"""Lanes give what they give without registers, some cycles later; wrong ones do not."""

from pathlib import Path

import pytest

from verif.rtl.frames import prove_frame
from verif.support.manifest import Module
from verif.support.tests import some

_LANE = "relu_gelu_silu_tanh_lane_pipeline3"
WRONG = [
    # An operand of another cycle.
    ("if (en) sum_or_root <= upper_sum;", "if (en) sum_or_root <= upper_sum ^ {14'd0, value[5]};"),
    # A register that not every cycle loads.
    ("if (en) rest_sloped <= rest;", "if (en & ~rest_sloped[0]) rest_sloped <= rest;"),
    # A register that changes while the enable is low.
    ("if (en) rest_sloped <= rest;", "rest_sloped <= rest;"),
    # A register too few.
    ("if (en) start_sloped <= upper_start;", "start_sloped = upper_start;"),
]


@pytest.mark.yosys
@pytest.mark.parametrize("change", some(WRONG, every=len(WRONG)))
def test_wrong_frames_are_not_proved(
    change: tuple[str, str], modules: dict[str, Module], tmp_path: Path
) -> None:
    with pytest.raises(AssertionError, match="proof did fail"):
        prove_frame(modules[_LANE], tmp_path, change=change)
